"""What is heard of Keras' loops, and that nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras

from hroof_keras import executions
from hroof_keras.executions import Execution, Kind
from tests.integrations.hroof_keras import tiny


class Heard:
    """Writes down what it hears: ``train 0+4`` begins four batches at the first, ``=4`` ends them, ``!`` fails."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def loop_begins(self, kind: Kind, source: Any) -> None:
        self.log.append(f"[{kind}")

    def loop_ends(self, kind: Kind, source: Any) -> None:
        self.log.append(f"{kind}]")

    def begins(self, execution: Execution) -> None:
        own = "own " if execution.own_loop else ""
        self.log.append(f"{own}{execution.kind} {execution.first}+{execution.planned}")

    def ends(self, execution: Execution, steps: int) -> None:
        self.log.append(f"={steps}")

    def fails(self, execution: Execution) -> None:
        self.log.append("!")

    @property
    def steps(self) -> int:
        return sum(int(word[1:]) for word in self.log if word[0] == "=")

    def balanced(self) -> bool:
        begun = [word for word in self.log if "+" in word]
        ended = [word for word in self.log if word[0] in "=!"]
        return len(begun) == len(ended)


@pytest.fixture
def heard() -> Iterator[Heard]:
    listener = Heard()
    executions.listen(listener)
    yield listener
    executions.unlisten(listener)
    assert not executions._thread.open


def methods() -> dict[str, Any]:
    """Everything that is wrapped while somebody listens."""
    kinds = [
        keras.callbacks.CallbackList,
        *keras.Model.__mro__,
        *keras.optimizers.Optimizer.__mro__,
    ]
    kinds.append(keras.optimizers.LossScaleOptimizer)
    names = ("on_", "apply", "train_on", "test_on", "predict_on")
    return {
        f"{kind.__module__}.{kind.__qualname__}.{name}": value
        for kind in kinds
        for name, value in vars(kind).items()
        if name.startswith(names)
    }


def test_the_classes_are_as_before_when_nobody_listens() -> None:
    before, one, other = methods(), Heard(), Heard()
    executions.listen(one)
    executions.listen(one)
    executions.listen(other)
    assert methods() != before
    executions.unlisten(one)
    assert methods() != before
    executions.unlisten(other)
    executions.unlisten(other)
    assert methods() == before


def test_a_wrapper_of_somebody_elses_stays(heard: Heard) -> None:
    kind, original = keras.callbacks.CallbackList, keras.callbacks.CallbackList.on_train_begin

    def theirs(self: Any, logs: Any = None) -> None:
        original(self, logs)

    try:
        kind.on_train_begin = theirs
        executions.unlisten(heard)
        assert kind.on_train_begin is theirs
        tiny.fit(tiny.model(), 1)  # what lies beneath passes calls on, unheard
        assert heard.log == []
    finally:
        kind.on_train_begin = original.__wrapped__


def test_fit(heard: Heard) -> None:
    tiny.fit(tiny.model(), 2)
    assert heard.log == ["[train", "train 0+1", "=1", "train 1+1", "=1", "train]"]


def test_validation_lies_within_fit(heard: Heard) -> None:
    tiny.fit(tiny.model(), 1, validation_data=tiny.data(1))
    inner = ["[test", "test 0+1", "=1", "test]"]
    assert heard.log == ["[train", "train 0+1", "=1", *inner, "train]"]


def test_evaluate_and_predict(heard: Heard) -> None:
    made, (x, y) = tiny.model(), tiny.data(2)
    made.evaluate(x, y, batch_size=tiny.BATCH, verbose=0)
    made.predict(x, batch_size=tiny.BATCH, verbose=0)
    assert heard.steps == 4
    assert [word for word in heard.log if "+" in word] == [
        "test 0+1", "test 1+1", "predict 0+1", "predict 1+1",
    ]  # fmt: skip


@pytest.mark.parametrize(("batches", "ran"), [(8, [3, 3, 2]), (6, [3, 3]), (2, [2])])
def test_several_at_once_are_as_many_as_there_were(
    heard: Heard, batches: int, ran: list[int]
) -> None:
    tiny.fit(tiny.model(steps_per_execution=3), batches)
    assert [word for word in heard.log if word[0] == "="] == [f"={steps}" for steps in ran]
    assert heard.balanced()


ENDS = pytest.mark.filterwarnings("ignore:Your input ran out of data")


@ENDS
def test_of_a_generator_the_optimizer_tells_how_many(heard: Heard) -> None:
    made = tiny.model(steps_per_execution=3)
    made.fit(tiny.generator(7), shuffle=False, verbose=0)
    assert heard.steps == 7
    assert heard.log[-2:] == ["!", "train]"]  # a begin after the last batch
    assert heard.balanced()


@ENDS
def test_each_epoch_ends_whatever_is_open(heard: Heard) -> None:
    tf = pytest.importorskip("tensorflow")
    signature = tuple(tf.TensorSpec(part.shape, part.dtype) for part in tiny.data(1))
    dataset = tf.data.Dataset.from_generator(lambda: tiny.generator(4), output_signature=signature)
    tiny.model(steps_per_execution=3).fit(dataset, epochs=2, shuffle=False, verbose=0)
    assert heard.steps == 8
    assert heard.balanced()


def test_inference_several_at_once(heard: Heard) -> None:
    made, (x, y) = tiny.model(steps_per_execution=3), tiny.data(4)
    made.evaluate(x, y, batch_size=tiny.BATCH, verbose=0)
    made.predict(x, batch_size=tiny.BATCH, verbose=0)
    assert [word for word in heard.log if word[0] == "="] == ["=3", "=1", "=3", "=1"]


def test_loops_of_the_users_own(heard: Heard) -> None:
    made, (x, y) = tiny.model(), tiny.data(1)
    made.train_on_batch(x, y)
    made.test_on_batch(x, y)
    made.predict_on_batch(x)
    assert heard.log == [
        "own train 0+1", "=1", "own test 0+1", "=1", "own predict 0+1", "=1",
    ]  # fmt: skip


def test_an_eager_optimizer_step_is_heard_and_a_traced_one_is_not(heard: Heard) -> None:
    tf = pytest.importorskip("tensorflow")
    made, (x, y) = tiny.model(), tiny.data(1)
    optimizer = keras.optimizers.Adam()

    def train() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((made(x) - y) ** 2)
        weights = made.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)

    train()
    assert heard.log == ["own train 0+1", "=1"]
    tf.function(train)()
    assert heard.steps == 1


def test_an_optimizer_that_scales_the_loss_steps_once(heard: Heard) -> None:
    tf = pytest.importorskip("tensorflow")
    made, (x, y) = tiny.model(), tiny.data(1)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
    with tf.GradientTape() as tape:
        loss = optimizer.scale_loss(tf.reduce_mean((made(x) - y) ** 2))
    weights = made.trainable_variables
    optimizer.apply(tape.gradient(loss, weights), weights)
    assert heard.log == ["own train 0+1", "=1"]


def test_optimizer_steps_within_an_eager_fit_are_part_of_it(heard: Heard) -> None:
    tiny.fit(tiny.model(run_eagerly=True), 2)
    assert heard.log == ["[train", "train 0+1", "=1", "train 1+1", "=1", "train]"]


def test_what_runs_within_an_execution_is_part_of_it(heard: Heard) -> None:
    made, inner, (x, y) = tiny.model(), tiny.model(), tiny.data(1)

    def both() -> None:
        inner.train_on_batch(x, y)
        tiny.fit(inner, 2)

    executions.call_in_own_loop(Kind.TRAIN, made, both)
    assert [word for word in heard.log if "+" in word or "=" in word] == ["own train 0+1", "=1"]


def test_what_a_callback_runs_between_two_executions_is_not(heard: Heard) -> None:
    inner = tiny.model()

    class Nested(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            tiny.fit(inner, 1)

    tiny.fit(tiny.model(), 2, callbacks=[Nested()])
    assert heard.steps == 4
    assert heard.balanced()


def test_a_failing_step_is_none_and_the_error_is_the_users(heard: Heard) -> None:
    made, (x, y) = tiny.model(), tiny.data(1)
    with pytest.raises(ValueError):
        made.train_on_batch(x[:, :2], y)
    assert heard.log == ["own train 0+1", "!"]
    made.train_on_batch(x, y)
    assert heard.steps == 1


class Boom(Exception):
    """What goes wrong in these tests."""


def test_after_a_broken_fit_other_loops_are_heard(heard: Heard) -> None:
    class Breaks(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 1:
                raise Boom

    made, (x, y) = tiny.model(), tiny.data(1)
    with pytest.raises(Boom):
        tiny.fit(made, 3, callbacks=[Breaks()])
    broken = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    broken.compile(loss=lambda true, predicted: 1 / 0, optimizer="sgd")
    with pytest.raises(ZeroDivisionError) as kept:  # and with it the frame of fit
        tiny.fit(broken, 1)
    assert heard.log[-1] == "train 0+1"
    made.train_on_batch(x, y)
    assert heard.log[-3:] == ["!", "own train 0+1", "=1"]
    assert kept.value is not None


def test_the_callbacks_hooks_lie_outside_the_step(heard: Heard) -> None:
    class Notes(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            heard.log.append(f"hook {executions.called_by_list()}")

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            heard.log.append("hook after")

    tiny.fit(tiny.model(), 1, callbacks=[Notes()])
    assert heard.log[1:5] == ["hook True", "train 0+1", "=1", "hook after"]
    assert not executions.called_by_list()
