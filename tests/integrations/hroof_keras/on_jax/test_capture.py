"""Keras on JAX, measured: layers and phases against shapes and hand counts, steps, and what is left behind.

Runs with ``KERAS_BACKEND=jax``, and needs no TensorFlow.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("keras")
pytest.importorskip("jax")

import jax
import keras

import hroof
from hroof.profile import Profile
from hroof.regions import Region, Status
from hroof.units import Phase
from hroof_keras import backends, executions
from hroof_keras.capturing.wall_capture import WallCapture
from hroof_keras.on_jax.capture import JaxCapture
from hroof_keras.on_jax.recorder import JaxRecorder, learn_model
from hroof_keras.private import jax as private_jax
from hroof_keras.scopes.layers import LayerMap
from tests.integrations.hroof_keras import models

if keras.backend.backend() != "jax":
    pytest.skip("Keras runs on another backend; set KERAS_BACKEND=jax", allow_module_level=True)

layers = keras.layers
MATRIX = "flop_nominal_matrix_fp32"
BATCH = 8


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HROOF", raising=False)


def compiled(model: Any, **options: Any) -> Any:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, **options)
    return model


def data(*shape: int, batches: int = 8) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    x = random.standard_normal((BATCH * batches, *shape)).astype("float32")
    return x, random.integers(0, 3, BATCH * batches)


def dense(**options: Any) -> Any:
    """Three layers whose products differ: 12·17, 17·19, 19·3."""
    made = [layers.Dense(17, name="a"), layers.Dense(19, name="b"), layers.Dense(3, name="c")]
    return compiled(keras.Sequential([layers.Input((12,)), *made]), **options)


def fit(model: Any, *shape: int, **options: Any) -> None:
    x, y = data(*(shape or (12,)))
    model.fit(x, y, batch_size=BATCH, verbose=0, shuffle=False, **options)


def measured(run: Any, skip: int = 2, steps: int = 2) -> Region:
    with Region("region", skip, steps, framework="keras") as region:
        run()
    assert executions._listeners == ()
    return region


def profile(region: Region) -> Profile:
    assert region.outcome.profile is not None, region.outcome.reason
    return region.outcome.profile


def products(found: Profile) -> dict[tuple[str, str], float]:
    """Matrix FLOP of one step by layer and phase."""
    steps = sum(step["count"] for step in found.run["steps"])
    sums: Counter[tuple[str, str]] = Counter()
    for row in found.launches.to_dict("records"):
        if row[MATRIX]:
            sums[str(row["layer"]), str(row["phase"])] += row[MATRIX]
    return {place: flop / steps for place, flop in sums.items()}


def passes(**sizes: int) -> dict[tuple[str, str], float]:
    """FLOP of products by layer: forward, and twice that backward; the first layer's input has no gradient."""
    found: dict[tuple[str, str], float] = {}
    for number, (layer, size) in enumerate(sizes.items()):
        found[layer, "forward"] = 2.0 * BATCH * size
        found[layer, "backward"] = 2.0 * BATCH * size * (2 if number else 1)
    return found


DENSE = passes(a=12 * 17, b=17 * 19, c=19 * 3)

BUILD = {"cnn": models.cnn, "gpt": models.transformer, "rnn": models.lstm}


@functools.cache
def step_of(name: str) -> Profile:
    model, x, y = BUILD[name]()
    size = models.BATCH[name]
    return profile(measured(lambda: model.fit(x, y, batch_size=size, verbose=0), skip=2, steps=2))


@pytest.mark.parametrize("name", BUILD)
def test_matrix_work_of_the_models_is_the_hand_count_by_layer_and_phase(name: str) -> None:
    sums: Counter[tuple[str, str]] = Counter()
    for (layer, phase), flop in products(step_of(name)).items():
        sums[layer.removesuffix(".lstm_cell"), phase] += flop  # type: ignore[assignment]
    assert sums == pytest.approx(models.TRUTH[name])


@pytest.mark.parametrize("name", BUILD)
def test_time_has_a_layer_or_serves_all(name: str) -> None:
    found = step_of(name)
    rows = found.launches
    placed = rows[rows["layer"].notna() | (rows["phase"] == "optimizer")]["duration"].sum()
    assert placed / rows["duration"].sum() > 0.99
    by = found.run["placed_by"]
    assert by["none"] < 0.01
    assert sum(by.values()) == pytest.approx(1.0)
    assert found.run["ops_without_rule"] == []


@pytest.mark.parametrize("name", BUILD)
def test_every_phase_is_there(name: str) -> None:
    phases = set(step_of(name).launches["phase"])
    assert phases >= {"forward", "loss", "backward", "optimizer"}


class Skipping(keras.Model):
    """A class of the user's own, with layers without names in attributes and in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.first = layers.Dense(20)
        self.blocks = [layers.Dense(20), layers.Dense(20)]
        self.last = layers.Dense(3)

    def call(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


class TestModels:
    def test_a_sequential_one(self) -> None:
        assert products(profile(measured(lambda: fit(dense())))) == pytest.approx(DENSE)

    def test_layers_of_a_class_have_the_names_of_its_attributes(self) -> None:
        found = products(profile(measured(lambda: fit(compiled(Skipping())))))
        expected = passes(first=12 * 20, last=20 * 3)
        expected["last", "backward"] = 2 * expected["last", "forward"]
        for block in ("blocks.0", "blocks.1"):
            expected[block, "forward"] = 2.0 * BATCH * 400
            expected[block, "backward"] = 4.0 * BATCH * 400
        assert found == pytest.approx(expected)

    def test_nested_and_shared_layers(self) -> None:
        """``a`` is a layer of the model and one of the model within; ``sh`` is called twice."""
        inputs = keras.Input((12,))
        shared = layers.Dense(12, name="sh")
        inner = keras.Sequential(
            [layers.Dense(9, name="a"), layers.Dense(15, name="b")], name="inner"
        )
        outputs = layers.Dense(3, name="a")(inner(shared(shared(inputs))))
        model = compiled(keras.Model(inputs, outputs, name="outer"))
        found = products(profile(measured(lambda: fit(model))))
        one = 2.0 * BATCH
        expected = {
            ("sh", "forward"): 2 * one * 144,
            ("sh", "backward"): 3 * one * 144,
            ("inner.a", "forward"): one * 108,
            ("inner.a", "backward"): 2 * one * 108,
            ("inner.b", "forward"): one * 135,
            ("inner.b", "backward"): 2 * one * 135,
            ("a", "forward"): one * 45,
            ("a", "backward"): 2 * one * 45,
        }
        assert found == pytest.approx(expected)

    def test_loops_reach_the_cells(self) -> None:
        made = [
            layers.Bidirectional(layers.LSTM(7, return_sequences=True, name="l"), name="both"),
            layers.TimeDistributed(layers.Dense(5, name="inner"), name="each"),
            layers.GRU(6, name="gru"),
            layers.Dense(3, name="out"),
        ]
        model = compiled(keras.Sequential([layers.Input((10, 12)), *made]))
        found = products(profile(measured(lambda: fit(model, 10, 12))))
        steps = 2.0 * BATCH * 10
        cell = steps * 4 * 7 * (12 + 7)
        assert found["both.forward_l.lstm_cell", "forward"] == pytest.approx(cell)
        assert found["both.backward_l.lstm_cell", "forward"] == pytest.approx(cell)
        assert found["each", "forward"] == pytest.approx(steps * 14 * 5)
        assert found["out", "backward"] == pytest.approx(2 * found["out", "forward"])

    def test_layers_of_one_name_in_one_place_are_told(self) -> None:
        class Twins(keras.Model):
            def __init__(self) -> None:
                super().__init__(name="twins")
                self.one = layers.Dense(20, name="same")
                self.other = layers.Dense(3, name="same")

            def call(self, x: Any) -> Any:
                return self.other(self.one(x))

        found = profile(measured(lambda: fit(compiled(Twins()))))
        assert set(products(found)) == {("twins", "forward"), ("twins", "backward")}
        assert any("same" in warning for warning in found.run["warnings"])


class TestSteps:
    def test_inference_has_one_phase(self) -> None:
        model, (x, y) = dense(), data(12)
        forward = {place: flop for place, flop in DENSE.items() if place[1] == "forward"}
        run = measured(lambda: model.evaluate(x, y, batch_size=BATCH, verbose=0))
        assert products(profile(run)) == pytest.approx(forward)
        run = measured(lambda: model.predict(x, batch_size=BATCH, verbose=0))
        assert products(profile(run)) == pytest.approx(forward)

    def test_several_steps_at_once(self) -> None:
        found = profile(measured(lambda: fit(dense(steps_per_execution=2)), skip=2, steps=4))
        assert [step["count"] for step in found.run["steps"]] == [2, 2]
        assert products(found) == pytest.approx(DENSE)

    def test_train_on_batch(self) -> None:
        model, (x, y) = dense(), data(12)

        def loop() -> None:
            for start in range(0, len(x), BATCH):
                model.train_on_batch(x[start : start + BATCH], y[start : start + BATCH])

        assert products(profile(measured(loop))) == pytest.approx(DENSE)

    def test_a_region_that_begins_after_the_first_steps_learns_the_layers_from_the_model(
        self,
    ) -> None:
        model = dense()
        fit(model)
        found = profile(measured(lambda: fit(model)))
        assert products(found) == pytest.approx(DENSE)
        assert {layer["name"] for layer in found.run["layers"]} >= {"a", "b", "c"}

    def test_a_region_that_ends_early_keeps_the_counted_step(self) -> None:
        region = measured(lambda: fit(dense()), skip=7, steps=3)
        assert region.outcome.status is Status.PARTIAL
        found = profile(region)
        assert found.launches["duration"].isna().all()
        assert found.launches[MATRIX].sum() == pytest.approx(sum(DENSE.values()))

    def test_an_error_in_fit_leaves_nothing_behind(self) -> None:
        class Failing(keras.callbacks.Callback):
            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                if batch == 5:
                    raise KeyboardInterrupt

        before = keras.Operation.__call__, keras.Layer.stateless_call, jax.profiler.start_trace
        with pytest.raises(KeyboardInterrupt), Region("region", 2, 9, framework="keras") as region:
            fit(dense(), callbacks=[Failing()])
        assert region.outcome.profile is not None
        assert before == (
            keras.Operation.__call__,
            keras.Layer.stateless_call,
            jax.profiler.start_trace,
        )


def test_losses_are_the_same_bit_for_bit() -> None:
    def losses(watched: bool) -> list[float]:
        keras.utils.set_random_seed(1)
        made = [layers.Dense(17, activation="relu"), layers.Dropout(0.3), layers.Dense(3)]
        model, (x, y) = compiled(keras.Sequential(made)), data(12)
        with Region("region", 2 if watched else 10**6, 2, framework="keras"):
            history = model.fit(x, y, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
        return list(history.history["loss"])

    assert losses(True) == losses(False)


def test_an_eager_model_says_what_cannot_be_known() -> None:
    found = profile(measured(lambda: fit(dense(run_eagerly=True)), skip=1, steps=1))
    assert any("eagerly" in warning for warning in found.run["warnings"])
    assert found.launches["layer"].isna().all()
    assert found.launches[MATRIX].sum() > 0


class TestProfilers:
    """Only one profile can be taken at a time, and the program's own comes first."""

    def test_beside_a_profile_of_the_program_none_is_taken(self, tmp_path: Any) -> None:
        jax.profiler.start_trace(str(tmp_path))
        try:
            region = measured(lambda: fit(dense()))
        finally:
            jax.profiler.stop_trace()
        assert region.outcome.profile is None
        assert list(tmp_path.rglob("*.xplane.pb"))

    def test_a_profile_that_the_program_starts_ends_the_own_one(self, tmp_path: Any) -> None:
        class Tracing(keras.callbacks.Callback):
            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                if batch == 5:
                    jax.profiler.start_trace(str(tmp_path))

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                if batch == 6:
                    jax.profiler.stop_trace()

        region = measured(lambda: fit(dense(), callbacks=[Tracing()]), skip=2, steps=5)
        assert list(tmp_path.rglob("*.xplane.pb"))
        found = profile(region)
        assert any("its own profiler" in warning for warning in found.run["warnings"])
        assert products(found) == pytest.approx(DENSE)


class TestParts:
    def test_scopes_are_noted_only_while_a_step_is_traced(self) -> None:
        noted = LayerMap()
        recorder = JaxRecorder(noted)
        recorder.start()
        try:
            model = dense()
            model(np.ones((2, 12), "float32"))
            assert list(noted.scopes) == []
            fit(model)
            assert list(noted.scopes) == ["a", "b", "c"]
            assert noted.names()[1:] == ["a", "b", "c"]
            assert noted.optimizers == (model.optimizer.name,)
        finally:
            recorder.stop()

    def test_a_model_tells_the_scopes_that_its_steps_have(self) -> None:
        traced, learnt = LayerMap(), LayerMap()
        recorder = JaxRecorder(traced)
        inner = keras.Sequential(
            [layers.Dense(9, name="a"), layers.Dense(15, name="b")], name="inner"
        )
        model = compiled(keras.Sequential([layers.Input((12,)), inner, layers.Dense(3, name="o")]))
        recorder.start()
        try:
            fit(model)
        finally:
            recorder.stop()
        learn_model(learnt, model)
        assert set(learnt.scopes) == set(traced.scopes) == {"inner", "inner/a", "inner/b", "o"}
        assert set(learnt.names()) == set(traced.names())

    def test_what_hroof_relies_on_is_there(self) -> None:
        """Private parts of JAX and Keras: a version without one of them is found here."""
        assert private_jax.can_be_profiled()
        assert not private_jax.traces()
        assert not private_jax.is_symbolic()
        seen = []

        def inside(x: Any) -> Any:
            with jax.named_scope("outer"):
                seen.append((private_jax.traces(), private_jax.scopes()))
            return x

        jax.jit(inside)(1.0)
        assert seen == [(True, "outer")]
        assert private_jax.profiler_runs() is False

    def test_the_capture_on_jax(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Elsewhere than on a processor, and for a tool that counts, only steps are timed."""

        def made() -> Any:
            with Region("region", 10**6, 1, framework="keras") as region:
                return region._capture

        assert isinstance(made(), JaxCapture)
        monkeypatch.setattr(private_jax, "can_be_profiled", lambda: False)
        assert isinstance(made(), WallCapture)
        assert backends.backend() == "jax"


def test_the_report_stands_without_ceilings(
    capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """They are measured with TensorFlow's kernels."""
    with hroof.region(skip=2, steps=2, out=tmp_path / "run") as run:
        fit(dense())
    err = capsys.readouterr().err
    assert "Verdict" in err
    assert "Traceback" not in err
    assert {str(phase) for phase in run.profile.launches["phase"]} >= {str(Phase.BACKWARD)}
