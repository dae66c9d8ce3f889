"""Shapes of outputs, read where they go in."""

from __future__ import annotations

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from hroof_keras.graph.flow import Flow, inputs_of, split
from hroof_keras.graph.nodes import Node, TensorSpec
from hroof_keras.profiling.events import Event


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, "float32")


def op(name: str, *shapes: TensorSpec | None, known: bool = True) -> Event:
    return Event(name, "Op", 0, 1, shapes=shapes if known else None)


NODES = {
    node.name: node
    for node in (
        Node("source", "Op"),
        Node("user", "Op", ("source:0", "source:1")),
        Node("second", "Op", ("source:0",)),
    )
}


def test_inputs_are_those_that_the_profiler_noted() -> None:
    assert inputs_of(op("second", spec(2)), NODES["second"]) == (spec(2),)


@pytest.mark.parametrize("event", [op("user", known=False), op("user", spec(1))])
def test_inputs_that_do_not_fit_the_node_are_unknown(event: Event) -> None:
    assert inputs_of(event, NODES["user"]) == (None, None)


def test_outputs_are_the_inputs_of_the_consumers() -> None:
    flow = Flow([op("source"), op("user", spec(2), spec(3))], NODES)
    assert flow.outputs(NODES["source"], 0, ()) == (spec(2), spec(3))


def test_what_no_consumer_tells_is_inferred() -> None:
    flow = Flow([op("source"), op("second", spec(2))], NODES)
    inferred = (spec(9), spec(8), spec(7))
    assert flow.outputs(NODES["source"], 0, inferred) == (spec(2), spec(8), spec(7))


def test_each_turn_of_a_loop_has_its_own_shape() -> None:
    turns = [op("source"), op("second", spec(1)), op("source"), op("second", spec(2))]
    flow = Flow(turns, NODES)
    assert flow.spec("source:0", 0) == spec(1)
    assert flow.spec("source:0", 1) == spec(2)


def test_a_consumer_that_runs_less_often_tells_only_what_is_always_so() -> None:
    same = [op("source"), op("source"), op("second", spec(3))]
    assert Flow(same, NODES).spec("source:0", 1) == spec(3)
    changing = [op("source")] * 3 + [op("second", spec(3)), op("second", spec(4))]
    assert Flow(changing, NODES).spec("source:0", 1) is None


def test_handles_tell_nothing() -> None:
    assert Flow([op("source"), op("second", None)], NODES).spec("source:0", 0) is None


@pytest.mark.parametrize(
    ("tensor", "parts"), [("a/b:2", ("a/b", 2)), ("a", ("a", 0)), ("a:b", ("a:b", 0))]
)
def test_split(tensor: str, parts: tuple[str, int]) -> None:
    assert split(tensor) == parts
