"""Layers and phases of what runs eagerly, as marks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import tensorflow as tf

from hroof.regions import Kind, Mark, listen, unlisten
from hroof_keras.capturing.eager_marks import EagerMarks
from hroof_keras.private import runtime as private
from hroof_keras.scopes.layers import LayerMap
from tests.integrations.hroof_keras import tiny


class Listener:
    """Writes down marks: ``(`` and ``)`` for phases, ``<`` and ``>`` for layers."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._open: list[str] = []

    def start(self, mark: Mark) -> str:
        assert mark.kind is Kind.PHASE
        self.log.append(f"({mark.name}")
        return mark.name

    def end(self, handle: str) -> None:
        self.log.append(f"{handle})")

    def push(self, mark: Mark) -> None:
        assert mark.kind is Kind.LAYER
        self._open.append(mark.name)
        self.log.append(f"<{mark.name}:{mark.phase}{' again' * mark.recompute}")

    def pop(self) -> None:
        self.log.append(f"{self._open.pop()}>")


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What is marked; everything is closed in the end."""
    listener = Listener()
    listen(listener)
    yield listener.log
    unlisten(listener)
    assert not listener._open


@pytest.fixture
def eager() -> Iterator[EagerMarks]:
    """Marks, switched on; afterwards the classes are what they were."""
    owners = [(keras.Operation, "__call__"), (keras.losses.Loss, "__call__")]
    owners += [(kind, "apply") for kind in private.optimizer_classes()]
    owners.append((tf.GradientTape, "gradient"))
    before = [vars(owner)[name] for owner, name in owners]
    made = EagerMarks(LayerMap())
    made.start()
    made.on = True
    yield made
    made.stop()
    made.stop()
    assert [vars(owner)[name] for owner, name in owners] == before


STEP = [
    "(forward", "<tiny:forward", "<only:forward", "only>", "tiny>", "forward)",
    "(loss", "loss)", "(backward", "backward)", "(optimizer", "optimizer)",
]  # fmt: skip


def test_a_step_has_its_phases_and_forward_its_layers(eager: EagerMarks, heard: list[str]) -> None:
    tiny.fit(tiny.model(run_eagerly=True), 2)
    assert heard == STEP * 2
    assert eager.seen


def test_a_loop_of_ones_own_is_marked_alike(eager: EagerMarks, heard: list[str]) -> None:
    model = tiny.model()
    x, y = tiny.data(1)
    with tf.GradientTape() as tape:
        loss = keras.losses.MeanSquaredError()(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    model.optimizer.apply(gradients, model.trainable_variables)
    assert heard == STEP


def test_graphs_have_no_marks(eager: EagerMarks, heard: list[str]) -> None:
    tiny.fit(tiny.model(run_eagerly=False), 2)
    assert heard == []
    assert not eager.seen


def test_wiring_a_model_is_no_call(eager: EagerMarks, heard: list[str]) -> None:
    inputs = keras.Input((3,))
    made = keras.Model(inputs, keras.layers.Dense(2, name="fc")(inputs), name="wired")
    assert [text for text in heard if "fc" in text] == []
    made(tf.ones((1, 3)))
    assert heard == ["(forward", "<wired:forward", "<fc:forward", "fc>", "wired>", "forward)"]


def test_until_it_is_switched_on_layers_are_only_learnt(
    eager: EagerMarks, heard: list[str]
) -> None:
    eager.on = False
    tiny.fit(tiny.model(run_eagerly=True), 1)
    assert heard == []
    assert not eager.seen
    assert eager._layers.names() == ["tiny", "only"]


def test_names_are_those_of_all_layers_that_were_learnt(
    eager: EagerMarks, heard: list[str]
) -> None:
    eager.on = False
    one, other = tiny.model(), tiny.model()
    x, _ = tiny.data(1)
    one(x)
    other(x)
    eager.on = True
    one(x)
    other(x)
    pushed = [text.split(":")[0] for text in heard if text.startswith("<")]
    assert pushed == ["<tiny", "<tiny.only", "<tiny#2", "<tiny#2.only"]


def test_forward_work_in_a_backward_pass_is_computed_again(
    eager: EagerMarks, heard: list[str]
) -> None:
    dense = keras.layers.Dense(2, name="fc")
    dense.build((1, 3))
    variables = [variable.value for variable in dense.trainable_variables]

    @tf.custom_gradient
    def checkpointed(x: Any) -> Any:
        def gradient(upstream: Any, variables: Any = None) -> Any:
            with tf.GradientTape() as inner:
                inner.watch(x)
                again = dense(x)
            inputs, *weights = inner.gradient(again, [x, *variables], upstream)
            return inputs, weights

        return dense(x), gradient

    with tf.GradientTape() as tape:
        result = checkpointed(tf.ones((1, 3)))
    tape.gradient(result, variables)
    assert heard == [
        "(forward", "<fc:forward", "fc>", "forward)",
        "(backward", "<fc:forward again", "fc>", "backward)",
    ]  # fmt: skip


def test_an_error_leaves_nothing_open(eager: EagerMarks, heard: list[str]) -> None:
    class Broken(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Broken(name="broken")(tf.ones(1))
    assert heard == ["(forward", "<broken:forward", "broken>", "forward)"]
    heard.clear()
    tiny.fit(tiny.model(run_eagerly=True), 1)
    assert heard == STEP


def test_what_is_under_way_when_it_stops_is_ended(eager: EagerMarks, heard: list[str]) -> None:
    class Stopping(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            eager.stop()
            return keras.layers.Activation("relu", name="inner")(x)

    Stopping(name="stopping")(tf.ones(1))
    assert heard == ["(forward", "<stopping:forward", "stopping>", "forward)"]


@pytest.mark.parametrize("on", [True, False])
def test_nothing_that_is_computed_changes(on: bool) -> None:
    expected = tiny.fit(tiny.model(run_eagerly=True), 3).history["loss"]
    marked = EagerMarks(LayerMap())
    marked.start()
    marked.on = on
    try:
        assert tiny.fit(tiny.model(run_eagerly=True), 3).history["loss"] == expected
    finally:
        marked.stop()
