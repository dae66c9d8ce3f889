"""Nodes of executed graphs: places, work by the shapes that were noted, and what is missing where none were."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from tensorflow.core.framework.attr_value_pb2 import AttrValue

from hroof.units import Phase, Source
from hroof_keras.capturing.graph_step import GraphOps, signature
from hroof_keras.graph.nodes import Node, TensorSpec
from hroof_keras.graph.places import Places
from hroof_keras.profiling.events import Event
from hroof_keras.scopes.layers import LayerMap, Mark


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, "float32")


FLOAT = {"T": AttrValue(type=1)}
NODES = {
    node.name: node
    for node in (
        Node("net/dense/MatMul", "_MklMatMul", ("x:0", "w:0"), FLOAT),
        Node("net/dense/Relu", "Relu", ("net/dense/MatMul:0",), FLOAT),
        Node("IteratorGetNext", "IteratorGetNext"),
        Node("GatherV2", "GatherV2", ("a:0", "b:0", "c:0")),
    )
}


def graph(nodes: dict[str, Node] = NODES) -> GraphOps:
    layers = LayerMap()
    number = layers.add_scope_layer("dense", None)
    layers.note("net/dense", Mark("layer", number))
    return GraphOps(nodes, Places(layers, (), nodes))


def op(name: str, kind: str, *shapes: TensorSpec | None, **more: Any) -> Event:
    return Event(name, kind, 0, 1, shapes=shapes or None, **more)


def test_work_follows_from_the_noted_shapes() -> None:
    product = op("net/dense/MatMul", "_MklMatMul", spec(4, 8), spec(8, 2))
    activation = op("net/dense/Relu", "Relu", spec(4, 2))
    found = graph().counted([product, activation])
    assert [one.work.flop() for one in found] == [2 * 4 * 8 * 2, 4 * 2]
    assert {(one.phase, one.layer) for one in found} == {(Phase.FORWARD, 0)}
    assert [one.op for one in found] == ["_MklMatMul", "Relu"]


def test_an_op_without_shapes_takes_what_others_tell() -> None:
    """Where the profiler noted none for an op, another one that takes the same tensor helps."""
    nodes = NODES | {"net/dense/Neg": Node("net/dense/Neg", "Neg", ("net/dense/MatMul:0",), FLOAT)}
    events = [
        op("net/dense/MatMul", "_MklMatMul", spec(4, 8), spec(8, 2)),
        op("net/dense/Relu", "Relu"),
        op("net/dense/Neg", "Neg", spec(4, 2)),
    ]
    assert [one.work.flop() for one in graph(nodes).counted(events)][1] == 8


def test_without_any_shapes_the_work_is_missing() -> None:
    (found,) = graph().counted([op("net/dense/MatMul", "_MklMatMul")])
    assert found.work.nominal is None
    assert found.work.source is Source.MISSING
    assert math.isnan(found.work.bytes_read)


def test_the_variant_of_a_library_is_the_same_op() -> None:
    """A traced graph names the plain op, the executed one oneDNN's."""
    (found,) = graph().counted([op("net/dense/MatMul", "MatMul", spec(4, 8), spec(8, 2))])
    assert found.work.flop() == 128


def test_a_node_of_another_type_is_not_taken_for_it() -> None:
    """Under one name a graph may have a product where the executed one has it fused."""
    event = op("net/dense/Relu", "_MklNativeFusedMatMul", spec(4, 8), spec(8, 2))
    (found,) = graph().counted([event])
    assert found.work.nominal is None
    assert found.layer == 0


@pytest.mark.parametrize("kind", ["Identity", "NoOp", "OptionalHasValue", "_Arg"])
def test_what_computes_nothing_is_known_without_a_node(kind: str) -> None:
    (found,) = graph().counted([op("nowhere", kind)])
    assert found.work.flop() == 0


def test_an_unknown_move_computes_nothing_but_has_bytes() -> None:
    (found,) = graph().counted([op("nowhere", "GatherV2", spec(8), spec(4), None)])
    assert found.work.nominal == {}
    assert math.isnan(found.work.bytes_read)


def test_an_unknown_node_is_missing() -> None:
    (found,) = graph().counted([op("nowhere", "Mul", spec(2), spec(2))])
    assert found.work.nominal is None
    assert (found.phase, found.layer) == (Phase.OTHER, None)


def test_what_other_threads_prepare_is_data() -> None:
    event = op("net/dense/Relu", "Relu", spec(4, 2), pipeline=True)
    (found,) = graph().counted([event])
    assert (found.phase, found.layer) == (Phase.DATA, None)
    assert signature(event) != signature(op("net/dense/Relu", "Relu"))


@pytest.mark.parametrize("kind", ["IteratorGetNext", "OptionalGetValue"])
@pytest.mark.parametrize("how", ["op", "eager"])
def test_what_hands_over_batches_is_data(kind: str, how: Any) -> None:
    place = graph().place(Event(kind, kind, 0, 1, kind=how))
    assert place.phase is Phase.DATA


def test_other_eager_ops_have_no_place() -> None:
    """Their names are types, which may be names of nodes as well."""
    place = graph().place(Event("net/dense/Relu", "Relu", 0, 1, kind="eager"))
    assert (place.phase, place.layer) == (Phase.OTHER, None)


def test_turns_of_a_loop_are_counted_each_by_its_own_shapes() -> None:
    turns = [
        op("net/dense/MatMul", "_MklMatMul", spec(4, 8), spec(8, 2)),
        op("net/dense/MatMul", "_MklMatMul", spec(6, 8), spec(8, 2)),
        op("net/dense/MatMul", "_MklMatMul", spec(4, 8), spec(8, 2)),
    ]
    assert [one.work.flop() for one in graph().counted(turns)] == [128, 192, 128]
