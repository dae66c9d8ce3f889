"""What hroof takes for granted of Keras' layers and of TensorFlow's graphs; a version that changes it fails here."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import tensorflow as tf

from hroof.errors import MissingError
from hroof_keras.private import runtime as private
from hroof_keras.scopes.layers import operations_within
from tests.integrations.hroof_keras.programs import L, data


def graph_of(function: Any, *args: Any) -> Any:
    return tf.function(function).get_concrete_function(*args).graph


def test_children_and_own_weights() -> None:
    inner = L.Dense(3, name="inner")
    model = keras.Sequential([keras.Input((2,)), inner, L.BatchNormalization()])
    assert inner in private.sublayers(model)
    assert private.own_weights(model) == []
    assert [tuple(weight.shape) for weight in private.own_weights(inner)] == [(2, 3), (3,)]


def test_own_classes_and_made_up_names() -> None:
    class Mine(L.Layer):
        pass

    assert private.is_keras_own(type(keras.Sequential()))
    assert not private.is_keras_own(Mine)
    for layer in (L.Dense(1), L.Dense(1), Mine(), L.BatchNormalization(), L.Conv2D(1, 1)):
        assert private.has_made_up_name(layer), layer.name
    assert not private.has_made_up_name(L.Dense(1, name="mine"))


def test_the_graph_of_shape_inference() -> None:
    seen: list[bool] = []

    class Asks(L.Layer):
        def call(self, x: Any) -> Any:
            seen.append(private.is_scratch(private.default_graph()))
            return x

    layer = Asks()
    layer(keras.Input((3,)))
    assert seen == [True]
    tf.function(layer)(data(3))
    assert seen == [True, False]


def test_graphs_around_graphs() -> None:
    seen = []

    @tf.function
    def inner(x: Any) -> Any:
        seen.append(private.default_graph())
        return x + 1.0

    @tf.function
    def outer(x: Any) -> Any:
        seen.append(private.default_graph())
        return tf.while_loop(lambda _: False, lambda x: (inner(x),), [x])

    outer(tf.constant(1.0))
    function, *insides = seen
    assert insides
    assert all(private.outermost_graph(graph) is function for graph in insides)
    assert private.outermost_graph(function) is function


def test_optimizers() -> None:
    kinds = private.optimizer_classes()
    assert keras.optimizers.LossScaleOptimizer in kinds
    assert any(issubclass(keras.optimizers.Adam, kind) for kind in kinds)
    mine = keras.optimizers.SGD(name="mine")
    assert mine in private.keras_optimizers()


def test_whether_a_gradient_is_being_traced() -> None:
    seen: list[bool] = []

    @tf.custom_gradient
    def square(x: Any) -> Any:
        seen.append(private.inside_gradient(sys._getframe()))

        def gradient(dy: Any) -> Any:
            seen.append(private.inside_gradient(sys._getframe()))
            return 2 * x * dy

        return x * x, gradient

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = square(x)
        return tape.gradient(y, x)

    step(tf.constant(2.0))
    assert seen == [False, True]


def test_handles_of_variables_are_what_functions_capture() -> None:
    layer = L.Dense(3)
    layer.build((None, 5))
    graph = graph_of(layer, tf.constant(data(5)))
    outside = [outer for outer, _ in private.captures(graph)]
    for weight in layer.weights:
        assert any(private.handle(weight) is tensor for tensor in outside)
    assert private.handle(object()) is None


def test_traced_graphs_exist_as_long_as_their_functions() -> None:
    function = tf.function(lambda x: x + 1.0)
    graph = function.get_concrete_function(tf.constant(1.0)).graph
    assert any(known is graph for known in private.traced_graphs())
    layer = L.Dense(1)
    assert any(known is layer for known in private.keras_layers())


def test_ops_of_a_function_and_of_what_it_calls() -> None:
    inner = tf.function(lambda x: tf.exp(x, name="inside"))
    graph = graph_of(lambda x: tf.sqrt(inner(x), name="outside"), tf.constant(1.0))
    assert {"inside", "outside"} <= operations_within(graph)
    assert {"Exp", "Sqrt"} <= {node.op for node in private.node_definitions(graph)}


def test_a_function_as_a_graph() -> None:
    inner = tf.function(lambda x: tf.exp(x, name="inside"))
    graph = graph_of(lambda x: inner(x), tf.constant(1.0))
    (function,) = graph.as_graph_def().library.function
    definition, names = private.graph_of_function(function)
    assert "inside" in {node.name for node in definition.node}
    assert names["inside:y:0"] == "inside:0"


def test_collection_and_options_of_calls() -> None:
    private.collect_graphs(True)
    try:
        tf.function(lambda x: tf.exp(x, name="collected"))(tf.constant(1.0))
        metadata = private.collected()
    finally:
        private.collect_graphs(False)
    names = {
        node.name
        for function in metadata.function_graphs
        for graph in function.partition_graphs
        for node in graph.node
    }
    assert "collected" in names


def test_where_calls_have_no_options_nothing_is_instantiated_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tensorflow.python.eager import context

    class Other:
        """A context of a version that keeps them elsewhere."""

    monkeypatch.setattr(context, "context", Other)
    with pytest.raises(MissingError, match="before the first step"):
        private.instantiate_anew()


def test_options_of_calls_are_as_they_were_afterwards() -> None:
    from tensorflow.python.eager import context

    before = context.context().function_call_options.as_attrs()
    restore = private.instantiate_anew()
    assert context.context().function_call_options.as_attrs() != before
    restore()
    assert context.context().function_call_options.as_attrs() == before
