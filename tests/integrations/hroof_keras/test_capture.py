"""Captures of all kinds of loops, of odd programs, beside other profilers; and they change nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import tensorflow as tf

import hroof
from hroof.launches import LOSS_NAME
from hroof.regions import Status
from hroof.regions.outcome import HroofWarning
from hroof_keras.capturing.wall_capture import OP
from hroof_keras.private import runtime as private
from hroof_keras.profiling.profiler import RUNNING, STARTED
from tests.integrations.hroof_keras import models
from tests.integrations.hroof_keras.fitted import (
    MODES,
    STEPS,
    fit,
    matrix_flop,
    region,
    run_of,
    table,
)

BATCH = models.BATCH["small"]

# --- Nothing that the program computes changes ---------------------------------------------------


def test_everything_is_put_back() -> None:
    from tensorflow.python.eager import context
    from tensorflow.python.framework import op_callbacks

    before = [
        vars(kind)[name]
        for kind, name in ((keras.Operation, "__call__"), (keras.losses.Loss, "__call__"))
    ]
    options = context.context().function_call_options
    model, x, y = models.small(batches=5, run_eagerly=True)
    with region(skip=1, steps=1):
        fit(model, x, y)
    assert before == [
        vars(kind)[name]
        for kind, name in ((keras.Operation, "__call__"), (keras.losses.Loss, "__call__"))
    ]
    assert not op_callbacks.should_invoke_op_callbacks()
    assert context.context().function_call_options is options
    assert not private.profiler_runs()


def test_a_model_is_not_kept_alive() -> None:
    model, x, y = models.small(batches=6)
    measured = region()
    with measured:
        fit(model, x, y)
    alive = weakref.ref(model)
    del model
    keras.backend.clear_session()
    gc.collect()
    assert measured.outcome.status is Status.COMPLETE
    assert alive() is None


# --- Kinds of loops ------------------------------------------------------------------------------


def test_several_steps_per_execution_are_told_apart() -> None:
    model, x, y = models.small(steps_per_execution=3, batches=12)
    measured = region(skip=3, steps=3)
    with measured:
        fit(model, x, y)
    frame = table(measured)
    assert list(frame.groupby("step")["matrix"].sum()) == [models.MATRIX_FLOP["small"]] * 3
    assert [step["count"] for step in run_of(measured)["steps"]] == [1, 1, 1]
    # Parts of two steps do not run at once, so their spans follow each other.
    spans = frame[frame["layer"].notna()].groupby("step")["start"].agg(["min", "max"])
    assert (spans["max"].shift().dropna() <= spans["min"].iloc[1:]).all()


def test_a_ragged_batch_is_counted_by_its_own_shapes() -> None:
    model, x, y = models.small(batches=4)
    measured = region(skip=1, steps=2)
    with measured:
        fit(model, x[:-6], y[:-6])  # three whole batches and one of 2
    sums = table(measured).groupby("step")["matrix"].sum()
    whole = models.MATRIX_FLOP["small"]
    assert list(sums) == [whole, whole / 4]


def test_validation_inside_fit_belongs_to_no_step() -> None:
    model, x, y = models.small(batches=2)
    measured = region(skip=2, steps=2)
    with measured:
        fit(model, x, y, epochs=4, validation_data=(x, y))
    sums = table(measured).groupby("step")["matrix"].sum()
    assert list(sums) == [models.MATRIX_FLOP["small"]] * 2


@pytest.mark.parametrize("what", ["evaluate", "predict"])
def test_inference_is_measured_as_steps(what: str) -> None:
    model, x, y = models.small(batches=6)
    measured = region()
    with measured:
        if what == "evaluate":
            model.evaluate(x, y, batch_size=BATCH, verbose=0)
        else:
            model.predict(x, batch_size=BATCH, verbose=0)
    forward = {key: flop for key, flop in models.TRUTH["small"].items() if key[1] == "forward"}
    assert matrix_flop(table(measured)) == forward
    assert "backward" not in set(table(measured)["phase"])


def test_a_loop_of_ones_own() -> None:
    model, x, y = models.small(batches=6)
    optimizer, loss = keras.optimizers.Adam(), model.loss

    @tf.function
    def step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(labels, model(images, training=True))
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(value, variables), variables)
        return value

    measured = region()
    with measured:
        for batch in tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH):
            step(*batch)
            hroof.step()
    assert matrix_flop(table(measured)) == models.TRUTH["small"]


def test_train_on_batch() -> None:
    model, x, y = models.small(batches=1)
    measured = region()
    with measured:
        for _ in range(6):
            model.train_on_batch(x, y)
    assert matrix_flop(table(measured)) == models.TRUTH["small"]


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_a_region_that_begins_late(mode: str) -> None:
    """The functions were traced, instantiated and compiled before anybody listened."""
    plain, x, y = models.small(batches=6, **MODES[mode])
    fit(plain, x[: 2 * BATCH], y[: 2 * BATCH])
    expected = fit(plain, x, y)
    model, x, y = models.small(batches=6, **MODES[mode])
    fit(model, x[: 2 * BATCH], y[: 2 * BATCH])
    measured = region()
    with measured:
        losses = fit(model, x, y)
    assert losses == expected
    assert matrix_flop(table(measured)) == pytest.approx(models.TRUTH["small"])
    warnings = run_of(measured)["warnings"]
    assert sum("traced before" in text for text in warnings) == 1, "said once"


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_a_model_that_was_compiled_before_is_no_part_of_another_models_report(
    mode: str, trained: bool
) -> None:
    """XLA's programs of all models lie in every profile."""
    x, y = np.ones((48, 8), "float32"), np.ones((48, 4), "float32")
    other, model = (
        keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, name="out")], name=name)
        for name in ("other", "new")
    )
    other.compile("adam", "mse", jit_compile=True)
    fit(other, x, y)
    model.compile("adam", "mse", **MODES[mode])
    if trained:
        fit(model, x, y)
    measured = region()
    with measured:
        fit(model, x, y)
    run = run_of(measured)
    assert [layer["name"] for layer in run["layers"]] == ["new", "out", LOSS_NAME]
    assert sum("traced before" in text for text in run["warnings"]) == int(trained)


def test_an_eager_step_is_not_mistaken_for_a_function_that_was_traced_before() -> None:
    """Another model of the same layers was traced; names of layers must not be told apart by their models."""
    other, x, y = models.small(batches=6)
    fit(other, x[: 2 * BATCH], y[: 2 * BATCH])
    model, x, y = models.small(batches=6, run_eagerly=True)
    measured = region()
    with measured:
        fit(model, x, y)
    assert ("logits", "backward") in matrix_flop(table(measured))
    assert not any("traced before" in text for text in run_of(measured)["warnings"])


class Noise(keras.layers.Layer):
    """Adds noise from an op that keeps a state, so that a second executable would begin it anew."""

    def call(self, x: Any) -> Any:
        """Add next to nothing."""
        return x + 1e-3 * tf.random.normal(tf.shape(x), seed=3)


def noisy() -> Any:
    keras.utils.set_random_seed(0)
    tf.random.set_seed(0)
    inputs = keras.Input((8,))
    outputs = keras.layers.Dense(4, name="out")(Noise(name="noise")(inputs))
    model = keras.Model(inputs, outputs, name="noisy")
    model.compile("sgd", "mse")
    return model


def test_a_late_region_leaves_ops_with_a_state_alone() -> None:
    x, y = np.ones((48, 8), "float32"), np.ones((48, 4), "float32")
    plain = noisy()
    fit(plain, x, y)
    expected = fit(plain, x, y)
    model = noisy()
    fit(model, x, y)
    measured = region()
    with measured:
        losses = fit(model, x, y)
    assert losses == expected
    assert any("RandomStandardNormal" in text for text in run_of(measured)["warnings"])


def test_a_region_that_ends_before_a_step_was_timed() -> None:
    model, x, y = models.small(batches=4)
    measured = region(skip=2, steps=9)
    with measured:
        fit(model, x[: 3 * BATCH], y[: 3 * BATCH])
    assert measured.outcome.status is Status.PARTIAL
    frame = table(measured)
    assert matrix_flop(frame) == models.TRUTH["small"]
    assert frame["duration"].isna().all()
    assert set(frame["source_time"]) == {"missing"}


def test_an_exception_keeps_what_was_timed() -> None:
    class Boom(Exception):
        pass

    def fail(batch: int, logs: Any) -> None:
        if batch == 4:
            raise Boom

    model, x, y = models.small(batches=6)
    measured = region(skip=1, steps=9)
    with pytest.raises(Boom), measured:
        fit(model, x, y, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=fail)])
    assert measured.outcome.status is Status.PARTIAL
    assert "Boom" in measured.outcome.reason
    sums = table(measured).groupby("step")["matrix"].sum()
    assert set(sums) == {models.MATRIX_FLOP["small"]}
    assert not private.profiler_runs()


# --- Other profilers -----------------------------------------------------------------------------


def test_beside_the_programs_own_profiler_only_whole_steps_are_timed(tmp_path: Any) -> None:
    model, x, y = models.small(batches=6)
    measured = region()
    tf.profiler.experimental.start(str(tmp_path))
    try:
        with measured:
            fit(model, x, y)
    finally:
        tf.profiler.experimental.stop()
    assert list(tmp_path.rglob("*.xplane.pb"))
    frame = table(measured)
    assert list(frame["op"]) == [OP] * STEPS
    assert frame["matrix"].isna().all()
    assert any(text.startswith(RUNNING) for text in run_of(measured)["warnings"])


class Profiled(keras.callbacks.Callback):
    """Profiles some batches, as TensorBoard's callback does."""

    def __init__(self, folder: str, first: int, last: int) -> None:
        super().__init__()
        self.folder, self.first, self.last = folder, first, last

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch == self.first:
            tf.profiler.experimental.start(self.folder)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self.last:
            tf.profiler.experimental.stop()


def test_a_profiler_that_the_program_starts_wins(tmp_path: Any) -> None:
    model, x, y = models.small(batches=8)
    measured = region(skip=1, steps=4)
    with measured:
        fit(model, x, y, callbacks=[Profiled(str(tmp_path), 4, 5)])
    assert list(tmp_path.rglob("*.xplane.pb"))
    warnings = run_of(measured)["warnings"]
    assert any(text.startswith(STARTED) for text in warnings)
    sums = table(measured).groupby("step")["matrix"].sum()
    assert list(sums) == [models.MATRIX_FLOP["small"]] * 2
    assert measured.outcome.status is Status.PARTIAL
    assert measured.outcome.reason == f"Only 2 of 4 steps were timed. {STARTED}."


def test_a_profiler_that_starts_right_after_the_counted_step_leaves_a_partial_run(
    tmp_path: Any,
) -> None:
    model, x, y = models.small(batches=8)
    measured = region(skip=2)
    with measured:
        fit(model, x, y, callbacks=[Profiled(str(tmp_path), 3, 6)])
    run = run_of(measured)
    assert (run["status"], run["steps"]) == ("partial", [])
    assert run["status_reason"] == measured.outcome.reason
    assert measured.outcome.reason.startswith(f"Only 0 of {STEPS} steps were timed. ")
    assert matrix_flop(table(measured)) == models.TRUTH["small"]


@pytest.fixture(autouse=True)
def nothing_goes_on() -> Iterator[None]:
    """Whatever a test does, no profiler runs after it."""
    yield
    assert not private.profiler_runs()


# --- What may be missing -------------------------------------------------------------------------


def test_without_shapes_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "trace_level", lambda: None)
    model, x, y = models.small(batches=5)
    measured = region(skip=1, steps=2)
    with measured:
        fit(model, x, y)
    frame = table(measured)
    assert frame["matrix"].sum() == 0
    assert frame["matrix"][frame["op"].str.contains("MatMul|Conv")].isna().all()
    assert any("no shapes" in text for text in run_of(measured)["warnings"])


def test_steps_that_cannot_be_told_apart_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "hroof_keras.profiling.reading.divided", lambda execution, in_layer: [execution]
    )
    model, x, y = models.small(steps_per_execution=2, batches=6)
    measured = region(skip=2, steps=2)
    with measured:
        fit(model, x, y)
    assert list(table(measured).groupby("step")["matrix"].sum()) == [
        2 * models.MATRIX_FLOP["small"]
    ]
    assert [step["count"] for step in run_of(measured)["steps"]] == [2]
    assert any("one execution" in text for text in run_of(measured)["warnings"])


def test_a_capture_that_cannot_begin_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keras.Operation.__call__

    def broken(on: bool) -> None:
        if on:
            raise RuntimeError("oops")

    monkeypatch.setattr(private, "collect_graphs", broken)
    with pytest.warns(HroofWarning, match="oops"), region() as measured:
        pass
    assert measured.outcome.status is Status.EMPTY
    assert keras.Operation.__call__ is before
