"""Layers of functions that were traced before: the same as had somebody watched."""

from __future__ import annotations

import functools
import gc

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras

from hroof_keras.graph.graphs import GraphCollection
from hroof_keras.graph.inlining import traced_nodes
from hroof_keras.graph.places import Places
from hroof_keras.private import runtime as private
from hroof_keras.scopes.layers import LayerMap
from hroof_keras.scopes.recorder import Recorder
from hroof_keras.scopes.traced import learn_traced
from tests.integrations.hroof_keras import programs
from tests.integrations.hroof_keras.following import follow
from tests.integrations.hroof_keras.programs import L, data, fit


def by_scope(layers: LayerMap) -> dict[str, str]:
    """Names of layers by scope."""
    found = {scope: layers.find(scope.split("/")) for scope in layers.scopes}
    names = layers.names()
    return {
        scope: names[mark.layer]
        for scope, mark in found.items()
        if mark is not None and mark.layer is not None
    }


@pytest.mark.parametrize("name", sorted(programs.ALL))
def test_the_layers_are_those_that_a_recorder_would_have_noted(name: str) -> None:
    keras.utils.clear_session()
    gc.collect()
    program = programs.ALL[name]()
    watched, late = LayerMap(), LayerMap()
    recorder, graphs = Recorder(watched), GraphCollection()
    recorder.start()
    program.run()
    recorder.stop()
    graphs.start()
    assert graphs.late
    assert graphs.renew() == ""
    program.run()
    nodes = graphs.stop()
    assert learn_traced(late, ran=nodes) > 0
    found, expected = by_scope(late), by_scope(watched)
    assert {scope: found[scope] for scope in found if scope in expected} == {
        scope: expected[scope] for scope in found if scope in expected
    }
    # What is not found holds no op of the step, or is reached another way.
    missing = {expected[scope] for scope in expected.keys() - found.keys()}
    assert missing <= set(found.values())
    places = Places(late, (), nodes)
    products = [
        node.name
        for node in nodes.values()
        if "MatMul" in node.op
        # Without a scope a gradient of weights, which reads none, is not known.
        and not (name == "remat_scope" and "gradient_tape/MatMul" in node.name)
    ]
    assert products
    assert all(places.of(product).layer is not None for product in products)


def test_only_the_models_that_are_meant() -> None:
    model = keras.Sequential([keras.Input((5,)), L.Dense(3, name="mine")])
    other = keras.Sequential([keras.Input((5,)), L.Dense(3, name="other")])
    for one in (model, other):
        fit(one, data(5), data(3))()
    layers = LayerMap()
    learn_traced(layers, [model])
    assert layers.names() == [model.name, "mine"]


def test_a_layer_that_two_may_be_is_not_guessed() -> None:
    keras.utils.clear_session()

    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="model")
            self.dense = L.Dense(3, name="dense")
            self.first, self.second = L.ReLU(name="act"), L.ReLU(name="act_1")

        def call(self, x: object) -> object:
            return self.second(self.dense(self.first(x)))

    model = Model()
    fit(model, data(5), data(3))()
    layers = LayerMap()
    learn_traced(layers, [model])
    assert set(layers.names()) <= {"model", "dense", "act", "act_1"}
    # "act_1" is the scope of the first; the name alone fits both.
    assert layers.find(["model_1", "act_1", "Relu"]) == layers.find(["model_1"])


def test_what_was_watched_stays() -> None:
    model = keras.Sequential([keras.Input((5,)), L.Dense(3, name="mine")])
    layers = LayerMap()
    recorder = Recorder(layers)
    recorder.start()
    fit(model, data(5), data(3))()
    recorder.stop()
    before = by_scope(layers)
    assert learn_traced(layers, [model]) == 0
    assert by_scope(layers) == before


def test_without_functions_there_is_nothing_to_learn() -> None:
    assert learn_traced(LayerMap(), [], ["some/node"]) == 0


@functools.cache
def programs_as_traced() -> list[tuple[object, ...]]:
    """(Executed op, its place in the executed graph, its place in the traced one) of a step."""
    keras.utils.clear_session()
    gc.collect()
    program = programs.ALL["functional"]()
    seen = follow(program.run)
    nodes = traced_nodes(private.traced_graphs())
    places = Places(seen.layers, (), nodes)
    return [
        (event.op, event.name in nodes, seen.places.of(event.name), places.of(event.name, event.op))
        for event in seen.step()
        if event.op not in ("_Arg", "_Retval", "Identity")
    ]


def test_the_traced_graph_places_almost_as_the_executed_one_does() -> None:
    ops = programs_as_traced()
    same = [
        (one.phase, one.layer) == (other.phase, other.layer)  # type: ignore[attr-defined]
        for _, _, one, other in ops
    ]
    assert sum(same) >= 0.98 * len(same)
    assert sum(bool(known) for _, known, _, _ in ops) >= 0.98 * len(ops)


def test_fused_ops_are_placed_in_the_traced_graph_too() -> None:
    fused = [op for op in programs_as_traced() if "FusedMatMul" in str(op[0])]
    assert fused
    for _, _, one, other in fused:
        assert (one.phase, one.layer) == (other.phase, other.layer)  # type: ignore[attr-defined]
