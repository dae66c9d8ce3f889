"""The recorder: what it notes, what it leaves alone, and that nothing of it stays."""

from __future__ import annotations

import gc
import inspect
import subprocess
import sys
import textwrap
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import tensorflow as tf

from hroof_keras.private import runtime as private
from hroof_keras.scopes.layers import LayerMap
from hroof_keras.scopes.recorder import Recorder
from tests.integrations.hroof_keras.programs import BATCH, L, data, fit

PATCHED = [keras.Operation, keras.losses.Loss, *private.optimizer_classes()]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder(LayerMap())
    recorder.start()
    yield recorder
    recorder.stop()


def small() -> Any:
    return keras.Sequential([keras.Input((5,)), L.Dense(3, name="a"), L.Dense(2, name="b")])


def test_a_layer_with_an_empty_name_has_the_ops_that_it_makes(recorder: Recorder) -> None:
    """Keras opens the root scope for it."""
    layer, other = L.Dense(3), L.Dense(2, name="other")
    layer.name = ""

    @tf.function
    def run(x: Any) -> Any:
        return tf.add(other(layer(x)), 1.0, name="After")

    run(tf.ones((2, 5)))
    layers = recorder.layers
    mark = layers.find(["MatMul"])
    assert mark is not None
    assert layers.labels()[mark.layer or 0].name == "Dense"
    mark = layers.find(["other_1", "MatMul"])
    assert mark is not None
    assert mark.layer == layers.number_of(other)
    assert not layers.has("After")


class TestStartAndStop:
    def test_the_classes_are_as_they_were(self) -> None:
        before = [dict(vars(kind)) for kind in PATCHED]
        recorder = Recorder(LayerMap())
        recorder.start()
        assert [dict(vars(kind)) for kind in PATCHED] != before
        recorder.stop()
        recorder.stop()
        assert [dict(vars(kind)) for kind in PATCHED] == before

    def test_only_one_can_watch(self, recorder: Recorder) -> None:
        recorder.start()
        other = Recorder(LayerMap())
        with pytest.raises(RuntimeError, match="another"):
            other.start()
        other.stop()
        assert Recorder._attached is recorder

    def test_a_wrapper_of_somebody_else_stays(self) -> None:
        recorder = Recorder(LayerMap())
        original = keras.Operation.__call__
        recorder.start()
        ours = keras.Operation.__call__

        def theirs(*args: Any, **kwargs: Any) -> Any:
            return ours(*args, **kwargs)

        keras.Operation.__call__ = theirs
        try:
            recorder.stop()
            assert keras.Operation.__call__ is theirs
            model = small()
            tf.function(model)(data(5))
            assert recorder.layers.scopes == ()
        finally:
            keras.Operation.__call__ = original

    def test_wrappers_look_like_what_they_wrap(self, recorder: Recorder) -> None:
        """AutoGraph decides by the module whether it converts a function, people by its signature."""
        wrapper = keras.Operation.__call__
        assert wrapper.__module__ == "keras.src.ops.operation"
        assert inspect.signature(wrapper) == inspect.signature(wrapper.__wrapped__)


class TestWhatIsNoted:
    def test_scopes_of_layers_while_tracing(self, recorder: Recorder) -> None:
        model = small()
        tf.function(model)(data(5))
        assert recorder.layers.names() == [model.name, "a", "b"]
        assert [scope.count("/") for scope in recorder.layers.scopes] == [0, 1, 1]

    def test_nothing_while_functions_run(self, recorder: Recorder) -> None:
        function = tf.function(small())
        function(data(5))
        before = recorder.layers.scopes
        for _ in range(3):
            function(data(5))
        assert recorder.layers.scopes == before

    def test_nothing_eagerly(self, recorder: Recorder) -> None:
        model = small()
        model(data(5))
        model.compile(optimizer="sgd", loss="mse", run_eagerly=True)
        model.fit(data(5), data(2), verbose=0)
        assert recorder.layers.scopes == ()
        assert recorder.layers.layers == []
        assert recorder.layers.optimizers == ()

    def test_nothing_while_a_model_is_wired(self, recorder: Recorder) -> None:
        inputs = keras.Input((4, 5))
        keras.Model(inputs, L.Dense(3)(L.LSTM(7)(inputs)))
        assert recorder.layers.scopes == ()

    def test_a_traced_layer_inside_an_eager_one_has_its_parent(self, recorder: Recorder) -> None:
        class Half(keras.layers.Layer):
            def __init__(self) -> None:
                super().__init__(name="half")
                self.inner = L.Dense(3, name="inner")
                self.inner.build((None, 5))
                self.traced = tf.function(lambda x: self.inner(x))

            def call(self, x: Any) -> Any:
                return self.traced(x)

        Half()(data(5))
        assert recorder.layers.names() == ["half", "inner"]
        assert recorder.layers.layers[1].parent == 0

    def test_a_function_traced_again_has_the_same_layers(self, recorder: Recorder) -> None:
        function = tf.function(small())
        function(data(5))
        function(data(5, samples=3))
        assert recorder.layers.ambiguous == ()
        assert len(recorder.layers.layers) == 3

    def test_losses_and_optimizers(self, recorder: Recorder) -> None:
        model = small()
        loss_of, optimizer = keras.losses.MeanSquaredError(), keras.optimizers.SGD(name="mine")
        optimizer.build(model.trainable_variables)

        @tf.function
        def step() -> None:
            with tf.name_scope("outer"), tf.GradientTape() as tape:
                loss = loss_of(data(2), model(data(5)))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)

        step()
        find = recorder.layers.find
        graph = step.get_concrete_function().graph
        kinds = {
            (mark.kind if mark else None)
            for op in graph.get_operations()
            if op.type == "SquaredDifference" or op.name.endswith("/Square")
            for mark in [find(op.name.split("/"))]
        }
        assert kinds == {"loss"}
        assert recorder.layers.optimizers == ("mine",)
        updates = [op.name for op in graph.get_operations() if op.type.startswith("Assign")]
        marks = [find(name.split("/")) for name in updates]
        assert len(updates) == 5  # four variables and the number of the step
        assert {mark.kind for mark in marks if mark} == {"optimizer"}
        assert None not in marks

    def test_a_function_that_cannot_be_traced_leaves_no_frame(self, recorder: Recorder) -> None:
        class Fails(keras.layers.Layer):
            def call(self, x: Any) -> Any:
                raise RuntimeError("on purpose")

        with pytest.raises(RuntimeError, match="on purpose"):
            tf.function(Fails())(data(5))
        assert recorder._stack() == []

    def test_user_code_is_still_converted_by_autograph(self, recorder: Recorder) -> None:
        model = small()

        @tf.function
        def until_small(x: Any) -> Any:
            while tf.reduce_sum(tf.abs(x)) > 1e-3:
                x = 0.1 * tf.pad(model(x), [[0, 0], [0, 3]])
            return x

        until_small(data(5))
        assert "a" in recorder.layers.names()


class TestNothingStays:
    def test_models_can_go(self, recorder: Recorder) -> None:
        model = small()
        fit(model, data(5), data(2))()
        seen = weakref.ref(model)
        del model
        keras.utils.clear_session()
        gc.collect()
        assert seen() is None
        assert recorder.layers.names()[1:] == ["a", "b"]

    def test_graphs_can_go(self, recorder: Recorder) -> None:
        function = tf.function(small())
        function(data(5))
        name = next(iter(recorder.layers.scopes))
        operations = {
            op.name for op in function.get_concrete_function(data(5)).graph.get_operations()
        }
        assert any(operation.startswith(name) for operation in operations)
        assert recorder.layers.traces_of(operations) == (0,)
        del function
        gc.collect()
        assert recorder.layers.traces_of(operations) == ()

    def test_an_error_of_the_program_shows_as_few_frames_as_before(self) -> None:
        def depth() -> int:
            try:
                keras.Sequential([L.Dense(3)])(data(5, 2).astype("complex64"))
            except Exception as error:
                return len(traceback.extract_tb(error.__traceback__))
            return 0

        before = depth()
        recorder = Recorder(LayerMap())
        recorder.start()
        try:
            assert depth() <= before + 2
        finally:
            recorder.stop()


def losses(model_of: Any, watch: bool) -> Any:
    keras.utils.set_random_seed(1)
    model, x, y = model_of()
    recorder = Recorder(LayerMap())
    if watch:
        recorder.start()
    try:
        return model.fit(x, y, batch_size=BATCH, epochs=3, verbose=0).history["loss"]
    finally:
        recorder.stop()


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}, {"run_eagerly": True}])
def test_losses_are_the_same_bit_for_bit(options: dict[str, Any]) -> None:
    def model_of() -> Any:
        layers = [keras.Input((5,)), L.Dense(11, activation="relu"), L.Dropout(0.5), L.Dense(3)]
        model = keras.Sequential(layers)
        model.compile(optimizer="adam", loss="mse", **{"jit_compile": False, **options})
        return model, data(5, samples=4 * BATCH), data(3, samples=4 * BATCH)

    assert losses(model_of, watch=True) == losses(model_of, watch=False)


def test_replicas() -> None:
    """Two devices in a process of their own: the layers of both replicas are the same."""
    program = """
        import tensorflow as tf
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
        import keras
        from tests.integrations.hroof_keras.following import follow
        from tests.integrations.hroof_keras.programs import L, data

        with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
            layers = [keras.Input((5,)), L.Dense(11, name="a"), L.Dense(13, name="b")]
            model = keras.Sequential(layers)
            model.compile("adam", "mse", jit_compile=False)
        samples = (data(5, samples=8), data(13, samples=8))
        batch = tf.data.Dataset.from_tensor_slices(samples).batch(8)
        seen = follow(lambda: model.fit(batch, verbose=0))
        found = set()
        for event, phase, layer in seen.products():
            shape = {n for spec in event.shapes[:2] for n in spec.shape} - {4}
            found.add(("replica_1" in event.name, tuple(sorted(shape)), phase, layer))
        print(sorted(found))
        print({place for place in map(seen.at, (e.name for e in seen.step()))
               if place[0] == "optimizer" and place[1]})
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    products, updates = done.stdout.splitlines()[-2:]
    expected = sorted(
        (replica, shape, phase, layer)
        for replica in (False, True)
        for phase in ("forward", "backward")
        for shape, layer in (((5, 11), "a"), ((11, 13), "b"))
    )
    assert eval(products) == expected
    assert eval(updates) == {("optimizer", "a", "variable"), ("optimizer", "b", "variable")}
