"""With the callback a program computes what it computes without: losses, weights and random numbers, bit for bit."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import numpy as np
import tensorflow as tf

import hroof
import hroof_keras
from hroof.regions import Status
from hroof_keras import executions

MODES: dict[str, dict[str, Any]] = {
    "graph": {"jit_compile": False},
    "compiled": {"jit_compile": True},
    "eager": {"run_eagerly": True},
    "several at once": {"jit_compile": False, "steps_per_execution": 2},
}


class Losses(keras.callbacks.Callback):
    """Every loss, as bits."""

    def __init__(self) -> None:
        super().__init__()
        self.bits: list[str] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.bits.append(float(logs["loss"]).hex())


def model(**options: Any) -> Any:
    """Dropout, noise and batch statistics: whatever draws numbers or keeps a state."""
    keras.utils.set_random_seed(7)
    layers = keras.layers
    made = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.GaussianNoise(0.1),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.4),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss, **options)
    return made


def data() -> tuple[Any, Any]:
    random = np.random.default_rng(1)
    return random.standard_normal((40, 8, 8, 1), dtype="float32"), random.integers(0, 3, 40)


def trained(callbacks: list[Any], **options: Any) -> tuple[list[str], list[Any], Any]:
    """Losses, weights and the next random numbers after two epochs with a ragged last batch."""
    made, losses = model(**options), Losses()
    made.fit(*data(), batch_size=6, epochs=2, verbose=0, callbacks=[*callbacks, losses])
    drawn = keras.random.normal((4,))
    return losses.bits, [weight.tobytes() for weight in made.get_weights()], np.asarray(drawn)


@functools.cache
def plain(mode: str) -> tuple[list[str], list[Any], Any]:
    """The same without hroof."""
    return trained([], **MODES[mode])


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Results go to a folder that nobody keeps; nothing stays attached."""
    monkeypatch.delenv("HROOF", raising=False)
    monkeypatch.delenv("HROOF_OUT", raising=False)
    monkeypatch.chdir(tmp_path)
    call = keras.Operation.__call__
    yield
    assert executions._listeners == ()
    assert keras.Operation.__call__ is call


def roofline(skip: int = 3, steps: int = 2) -> Any:
    return hroof_keras.RooflineCallback(skip, steps, show=False)


@pytest.mark.parametrize("mode", MODES)
def test_the_callback_changes_nothing(mode: str) -> None:
    alone, measured = plain(mode), roofline()
    beside = trained([measured], **MODES[mode])
    assert measured.run.outcome.status is Status.COMPLETE
    assert measured.profile.launches["duration"].sum() > 0
    assert beside[0] == alone[0]
    assert beside[1] == alone[1]
    assert (beside[2] == alone[2]).all()


def test_nor_do_marks_for_a_tool_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = plain("graph")
    monkeypatch.setenv("HROOF", "marks")
    beside = trained([roofline()], **MODES["graph"])
    assert beside[:2] == alone[:2]


def test_nor_does_a_region_that_begins_late() -> None:
    """The functions exist already: nothing is traced again, which would draw other numbers."""

    def run(measure: bool) -> list[str]:
        made, losses = model(jit_compile=False), Losses()
        made.fit(*data(), batch_size=6, epochs=1, verbose=0, callbacks=[losses])
        more = [roofline()] if measure else []
        made.fit(*data(), batch_size=6, epochs=2, verbose=0, callbacks=[*more, losses])
        return losses.bits

    assert run(measure=True) == run(measure=False)


@pytest.mark.parametrize("traced", [False, True])
def test_nor_does_a_region_around_a_loop_of_the_users_own(traced: bool) -> None:
    def run(measure: bool) -> list[str]:
        made, (x, y) = model(jit_compile=False), map(tf.constant, data())
        optimizer = keras.optimizers.SGD(0.1)

        def train(begin: Any) -> Any:
            some = slice(begin, begin + 8)
            with tf.GradientTape() as tape:
                scores = made(x[some], training=True)
                loss = made.compute_loss(y=y[some], y_pred=scores)
            weights = made.trainable_variables
            optimizer.apply(tape.gradient(loss, weights), weights)
            return loss

        optimizer.build(made.trainable_variables)
        step = tf.function(train) if traced else train
        bits: list[str] = []
        region = hroof.region("own", skip=1, steps=2, show=False, framework="keras")
        with region if measure else contextlib.nullcontext():
            for begin in range(6):
                bits.append(float(step(tf.constant(begin) if traced else begin)).hex())
                if traced:
                    hroof.step()
        assert region.outcome.status is (Status.COMPLETE if measure else Status.WAITING)
        return bits

    assert run(measure=True) == run(measure=False)


# --- somebody else's profiler ---------------------------------------------------------------------


class Theirs(keras.callbacks.Callback):
    """Profiles some batches for the user, as the callback of TensorBoard does."""

    def __init__(self, folder: Path, first: int, last: int) -> None:
        super().__init__()
        self.folder, self.first, self.last = folder, first, last

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch == self.first:
            tf.profiler.experimental.start(str(self.folder))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self.last:
            tf.profiler.experimental.stop()


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 9), (4, 9), (4, 5)])
def test_a_profiler_of_the_users_and_hroof_leave_each_other_alone(
    tmp_path: Path, first: int, last: int
) -> None:
    """Case 62 in its Keras form: neither breaks, and no op is counted or timed twice."""
    measured, made = roofline(skip=3, steps=2), model(jit_compile=False)
    x, y = (np.concatenate([part] * 2) for part in data())
    theirs = Theirs(tmp_path / "theirs", first, last)
    made.fit(x, y, batch_size=8, verbose=0, callbacks=[theirs, measured])
    launches = measured.profile.launches
    steps = launches[launches["step"] >= 0]
    products = steps[steps["op"].astype(str).str.contains("MatMul")]
    apart = first > 6 or last < 3
    if apart:
        # One dense layer: forward, and the gradients of its weights and of its input.
        assert (products.groupby("step").size() == 3).all()
        assert list((tmp_path / "theirs").rglob("*.xplane.pb"))
    else:
        assert len(products) in (0, 3, 6)
        said = " ".join(measured.profile.run["warnings"])
        assert "only one profiler can run at a time" in said
