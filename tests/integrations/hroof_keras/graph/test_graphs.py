"""Collected graphs: nodes over devices, constants; functions that were called before."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import tensorflow as tf

from hroof_keras.graph.graphs import GraphCollection, keeps_state, nodes_of
from hroof_keras.private import runtime as private
from tests.integrations.hroof_keras.programs import BATCH, L, data, fit


def collect(run: Callable[[], object], *, renew: bool = False) -> tuple[dict[str, Any], str]:
    collection = GraphCollection()
    collection.start()
    try:
        refused = collection.renew() if renew else ""
        run()
    finally:
        nodes = collection.stop()
    return nodes, refused


class TestNodes:
    def graph(self, text: str) -> Any:
        text_format = importlib.import_module("google.protobuf.text_format")
        return text_format.Parse(text, tf.compat.v1.GraphDef())

    def test_data_inputs_have_ports_and_control_inputs_are_left_out(self) -> None:
        graph = self.graph(
            """node { name: "a" op: "Split" device: "/device:CPU:0" }
               node { name: "b" op: "Add" input: "a" input: "a:1" input: "^c" }
               node { name: "c" op: "NoOp" }"""
        )
        nodes = nodes_of([graph])
        assert nodes["b"].inputs == ("a:0", "a:1")
        assert nodes["a"].device == "/device:CPU:0"

    def test_small_constants_are_read_also_behind_ops_that_pass_them_on(self) -> None:
        with tf.Graph().as_default() as graph:
            axes = tf.identity(tf.constant([1, 2], name="axes"))
            tf.reduce_sum(tf.zeros((2, 3, 4)), axes, name="sum")
        node = nodes_of([graph.as_graph_def()])["sum"]
        assert node.constants[1].tolist() == [1, 2]
        assert node.op == "Sum"

    def test_large_constants_are_not_read(self) -> None:
        with tf.Graph().as_default() as graph:
            values = np.random.default_rng(0).random(100_000)
            tf.add(tf.constant(values), 1.0, name="add")
        assert 0 not in nodes_of([graph.as_graph_def()])["add"].constants

    def test_what_a_device_receives_comes_from_another(self) -> None:
        sends = self.graph(
            """node { name: "made" op: "Neg" }
               node { name: "s" op: "_Send" input: "made:1"
                      attr { key: "tensor_name" value { s: "edge_7" } } }"""
        )
        receives = self.graph(
            """node { name: "r" op: "_Recv" attr { key: "tensor_name" value { s: "edge_7" } } }
               node { name: "other" op: "_Recv" attr { key: "tensor_name" value { s: "x" } } }"""
        )
        nodes = nodes_of([sends, receives])
        assert nodes["r"].inputs == ("made:1",)
        assert nodes["other"].inputs == ()


class TestCollection:
    def test_a_function_is_collected_at_its_first_call(self) -> None:
        function = tf.function(lambda x: tf.matmul(x, x, name="product"))
        x = tf.ones((2, 2))
        nodes, _ = collect(lambda: function(x))
        assert "product" in nodes
        assert "MatMul" in nodes["product"].op
        again, _ = collect(lambda: function(x))
        assert "product" not in again

    def test_the_larger_of_two_functions_is_meant_where_names_meet(self) -> None:
        small = tf.function(lambda x: tf.exp(x, name="same"))
        large = tf.function(lambda x: tf.matmul(tf.exp(x) - x, x, name="same"))
        collection = GraphCollection()
        collection.start()
        small(tf.ones((2, 2)))
        large(tf.ones((2, 2)))
        assert "MatMul" in collection.stop()["same"].op
        assert "same" in collection.collisions

    def test_stopping_twice_gives_nothing(self) -> None:
        collection = GraphCollection()
        collection.start()
        collection.stop()
        assert collection.stop() == {}


def trained(*layers: Any, **options: Any) -> Callable[[], object]:
    return fit(keras.Sequential([keras.Input((5,)), *layers]), data(5), data(3), **options)


class TestRenewal:
    def test_functions_that_were_called_before_are_collected_as_they_run(self) -> None:
        run = trained(L.Dense(11, name="a"), L.Dropout(0.5), L.Dense(3))
        first, _ = collect(run)
        nodes, refused = collect(run, renew=True)
        assert refused == ""
        step = {name for name in first if name.startswith("StatefulPartitionedCall/sequential")}
        assert len(step) > 10
        assert step <= nodes.keys()
        assert all(nodes[name].op == first[name].op for name in step)

    def test_nothing_is_traced_again(self) -> None:
        calls = []

        class Counts(keras.layers.Layer):
            def call(self, x: Any) -> Any:
                calls.append(x)
                return x

        run = trained(Counts(), L.Dense(3))
        run()
        before = len(calls)
        collect(run, renew=True)
        assert len(calls) == before

    def test_afterwards_the_first_executables_run(self) -> None:
        function = tf.function(lambda x: tf.add(x, 1.0, name="plus"))
        function(1.0)
        collect(lambda: function(1.0), renew=True)
        nodes, _ = collect(lambda: function(1.0))
        assert "plus" not in nodes

    def test_a_function_that_draws_numbers_is_left_alone(self) -> None:
        function = tf.function(lambda: tf.random.normal((2,), seed=3, name="drawn"))
        function()
        nodes, refused = collect(function, renew=True)
        assert "RandomStandardNormal" in refused
        assert "drawn" not in nodes

    def test_training_goes_on_as_without(self) -> None:
        def losses(renew: bool) -> list[float]:
            keras.utils.set_random_seed(7)
            layers = [keras.Input((5,)), L.Dense(11), L.Dropout(0.5), L.Dense(3)]
            model = keras.Sequential(layers)
            fit(model, data(5), data(3))
            seen: list[float] = []
            x, y = data(5, samples=3 * BATCH), data(3, samples=3 * BATCH)

            def run() -> None:
                seen.extend(model.fit(x, y, batch_size=BATCH, verbose=0).history["loss"])

            run()
            collect(run, renew=renew)
            run()
            return seen

        assert losses(True) == losses(False)

    def test_without_earlier_functions_nothing_changes(self) -> None:
        collection = GraphCollection()
        collection._before = []
        assert collection.renew() == ""
        assert collection._restore is None


class TestState:
    def graph(self, function: Callable[[], Any]) -> Any:
        return tf.function(function).get_concrete_function().graph

    def test_seeded_random_ops_keep_a_state_even_in_loops(self) -> None:
        def loop() -> Any:
            x = tf.zeros((2,))
            for _ in tf.range(3):
                x = x + tf.random.uniform((2,), seed=5)
            return x

        assert keeps_state(self.graph(loop)) == {"RandomUniform"}

    def test_keras_own_random_numbers_do_not(self) -> None:
        generator = keras.random.SeedGenerator(3)
        assert keeps_state(self.graph(lambda: keras.random.normal((2,), seed=generator))) == set()

    def test_without_a_seed_every_run_is_another_anyway(self) -> None:
        assert (
            keeps_state(self.graph(lambda: tf.raw_ops.RandomUniform(shape=[2], dtype=1))) == set()
        )


def test_graphs_of_shapes_and_of_the_pipeline_are_no_functions_of_the_step() -> None:
    trained(L.Dense(3))()
    names = [graph.name for graph in private.traced_graphs()]
    assert "one_step_on_data" in names
    assert not any(name.startswith(("Dataset_", "scratch_graph")) for name in names)
