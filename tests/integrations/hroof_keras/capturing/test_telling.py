"""What is said of the steps of a report."""

from __future__ import annotations

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from hroof_keras.capturing.division import Step
from hroof_keras.capturing.telling import NO_SHAPES, TOGETHER, about_steps, short_of
from hroof_keras.graph.nodes import TensorSpec
from hroof_keras.profiling.events import Event
from hroof_keras.profiling.reading import Read


def read(*events: Event, counts: tuple[int, ...] = (1,)) -> Read:
    """Steps that each ran these events."""
    return Read(steps=[Step(0, 9, list(events), count) for count in counts])


def test_steps_that_were_executed_at_once_are_told() -> None:
    assert about_steps(read(counts=(1, 4))) == [TOGETHER]
    assert about_steps(read(counts=(1, 1))) == []


def test_ops_of_graphs_without_any_shape_are_told() -> None:
    spec = TensorSpec((2,), "float32")
    bare, shaped = Event("a", "Mul", 1, 2), Event("b", "Mul", 3, 4, shapes=(spec,))
    assert about_steps(read(bare)) == [NO_SHAPES]
    assert about_steps(read(bare, shaped)) == []
    assert about_steps(read(Event("dot", "", 1, 2, kind="hlo"))) == []


@pytest.mark.parametrize(
    ("counts", "timed", "expected"),
    [
        ((1, 1, 1), True, ""),
        ((3,), True, ""),
        ((1, 1), True, "Only 2 of 3 steps were timed."),
        ((1,), False, "Only 0 of 3 steps were timed."),
        ((4,), False, "Only 0 of 3 steps were timed."),
    ],
)
def test_steps_that_were_not_timed_are_counted(
    counts: tuple[int, ...], timed: bool, expected: str
) -> None:
    assert short_of(read(counts=counts), timed, 3, "") == expected


def test_another_profiler_is_the_reason() -> None:
    assert short_of(read(), True, 2, "It ran") == "Only 1 of 2 steps were timed. It ran."
    assert short_of(read(counts=(2,)), True, 2, "It ran") == ""
