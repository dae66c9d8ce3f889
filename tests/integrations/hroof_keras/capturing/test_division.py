"""Steps that were executed at once, told apart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from hroof_keras.capturing.division import Step, divided
from hroof_keras.profiling.events import Event


def op(name: str, start: int, kind: str = "op") -> Event:
    return Event(name, "Mul", start, start + 1, kind="hlo" if kind == "hlo" else "op")


def in_layer(event: Event) -> bool:
    return event.name.startswith("layer")


def execution(count: int, *events: Event) -> Step:
    return Step(0, 100, sorted(events, key=lambda event: event.start), count)


def names(steps: Sequence[Step]) -> list[list[str]]:
    return [[event.name for event in step.events] for step in steps]


def test_one_step_stays_as_it_is() -> None:
    whole = execution(1, op("layer", 1), op("layer", 2))
    assert divided(whole, in_layer) == [whole]


def test_steps_begin_where_a_layer_works_again() -> None:
    steps = divided(
        execution(2, op("before", 1), op("layer/a", 5), op("layer/b", 9), op("layer/a", 20),
                  op("layer/b", 25), op("after", 30)),
        in_layer,
    )  # fmt: skip
    assert names(steps) == [["before", "layer/a", "layer/b"], ["layer/a", "layer/b", "after"]]
    assert [(step.start, step.end, step.count) for step in steps] == [(0, 20, 1), (20, 100, 1)]


def test_a_loop_in_a_layer_is_divided_with_it() -> None:
    turns = [op("layer/loop", time) for time in (6, 7, 21, 22)]
    steps = divided(execution(2, op("layer/a", 5), op("layer/a", 20), *turns), in_layer)
    assert names(steps) == [["layer/a", "layer/loop", "layer/loop"]] * 2


def test_what_counts_steps_may_run_ahead() -> None:
    """The counter of the next step, and its batch, are ready before this one ends."""
    counter = [op("counter", time) for time in (1, 6, 7)]
    steps = divided(
        execution(3, *counter, *(op("layer/a", time) for time in (5, 20, 40))), in_layer
    )
    assert names(steps) == [["counter", "layer/a"]] * 3


def test_steps_that_overlap_stay_together() -> None:
    """The second step's first op runs before the first one has begun its last."""
    whole = execution(2, op("layer/a", 1), op("layer/a", 3), op("layer/b", 5), op("layer/b", 9))
    assert divided(whole, in_layer) == [whole]


def test_without_anything_that_runs_once_per_step_they_stay_together() -> None:
    whole = execution(3, op("layer/a", 1), op("layer/a", 5), op("other", 6))
    assert divided(whole, in_layer) == [whole]
    assert divided(whole, in_layer)[0].count == 3


def test_instructions_tell_steps_as_nodes_do() -> None:
    steps = divided(execution(2, op("layer/a", 5, "hlo"), op("layer/a", 20, "hlo")), in_layer)
    assert [step.count for step in steps] == [1, 1]
