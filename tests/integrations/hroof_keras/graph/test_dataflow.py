"""Edges of small graphs written by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("keras")

from hroof_keras.graph.dataflow import Dataflow, takes_variable
from hroof_keras.graph.nodes import Node


def graph(*nodes: tuple[str, str, str]) -> Dataflow:
    """Nodes as (name, op, inputs)."""
    return Dataflow({name: Node(name, op, tuple(inputs.split())) for name, op, inputs in nodes})


def test_producers_and_consumers() -> None:
    flow = graph(("a", "Const", ""), ("b", "Neg", "a:0"), ("c", "Add", "a:0 b:0"))
    assert flow.inputs("c") == ("a", "b")
    assert flow.consumers("a") == ("b", "c")
    assert flow.consumers("c") == ()
    assert flow.inputs("elsewhere") == ()


def test_inputs_outside_the_graph_are_passed_over() -> None:
    assert graph(("b", "Neg", "gone:0")).inputs("b") == ()


def test_above_and_below() -> None:
    flow = graph(("a", "Const", ""), ("b", "Neg", "a:0"), ("c", "Neg", "b:0"), ("d", "Neg", "a:0"))
    assert flow.below(["b"]) == {"c"}
    assert flow.above(["c"]) == {"a", "b"}
    assert flow.below(["a"]) == {"b", "c", "d"}


def test_a_loop_comes_to_an_end() -> None:
    flow = graph(("m", "Merge", "e:0 n:0"), ("e", "Enter", ""), ("n", "NextIteration", "m:0"))
    assert flow.below(["e"]) == {"m", "n"}
    assert flow.below(["m"]) == {"m", "n"}


def test_levels_end_where_nothing_follows() -> None:
    flow = graph(("a", "Const", ""), ("b", "Neg", "a:0"), ("c", "Neg", "b:0"), ("d", "Neg", "b:0"))
    assert list(flow.levels("a", flow.consumers, 9)) == [["b"], ["c", "d"]]
    assert list(flow.levels("a", flow.consumers, 1)) == [["b"]]


def test_the_shape_of_a_value_is_not_its_value() -> None:
    flow = graph(("x", "Neg", ""), ("s", "Shape", "x:0"), ("r", "Reshape", "y:0 s:0"))
    assert flow.inputs("s") == ()
    assert flow.above(["r"]) == {"s"}


def test_what_decides_on_a_branch_does_not_flow() -> None:
    flow = graph(("x", "Neg", ""), ("p", "Less", ""), ("w", "Switch", "x:0 p:0"))
    assert flow.inputs("w") == ("x",)


def test_bundles_are_seen_through() -> None:
    flow = graph(
        ("x", "Neg", ""),
        ("y", "Neg", ""),
        ("n", "IdentityN", "x:0 y:0"),
        ("m", "IdentityN", "n:1 n:0"),
        ("z", "Neg", "m:0"),
    )
    assert flow.inputs("z") == ("y",)


def test_nodes_of_shapes_and_constants_alone() -> None:
    flow = graph(
        ("x", "Neg", ""),
        ("s", "Shape", "x:0"),
        ("k", "Const", ""),
        ("p", "StridedSlice", "s:0 k:0"),
        ("q", "Mul", "p:0 x:0"),
    )
    assert flow.of_shapes == {"s", "k", "p"}


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("ReadVariableOp", True),
        ("AssignSubVariableOp", True),
        ("ResourceApplyAdam", True),
        ("ResourceGather", True),
        ("ResourceScatterAdd", True),
        ("Mul", False),
        ("Assign", False),
    ],
)
def test_ops_on_variables(op: str, expected: bool) -> None:
    assert takes_variable(Node("n", op, ("h:0",))) == expected
    assert not takes_variable(Node("n", op, ()))


def test_a_handle_is_followed_into_loops_and_branches() -> None:
    flow = graph(
        ("arg", "_Arg", ""),
        ("enter", "Enter", "arg:0"),
        ("switch", "Switch", "enter:0 p:0"),
        ("read", "ReadVariableOp", "switch:1"),
        ("x", "Mul", "read:0 read:0"),
    )
    assert flow.variable("read") == "arg"
    assert flow.variable("x") is None


def test_a_weight_is_found_behind_casts_and_shapes() -> None:
    flow = graph(
        ("arg", "_Arg", ""),
        ("read", "ReadVariableOp", "arg:0"),
        ("half", "Cast", "read:0"),
        ("flat", "Reshape", "half:0 shape:0"),
        ("computed", "Mul", "flat:0 x:0"),
    )
    assert flow.weight_read("flat:0") == "read"
    assert flow.weight_read("computed:0") is None
    assert flow.weight_read("nowhere:0") is None
