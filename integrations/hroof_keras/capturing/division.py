"""Several steps that were executed at once, told apart by what runs once in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hroof_keras.profiling.events import Event


@dataclass(frozen=True)
class Step:
    """One step, or several that cannot be told apart.

    Attributes:
        start: Nanoseconds.
        end: Nanoseconds.
        events: What ran, in order of start.
        count: How many steps it is.
    """

    start: int
    end: int
    events: Sequence[Event]
    count: int = 1


def divided(execution: Step, in_layer: Callable[[Event], bool]) -> list[Step]:
    """The steps of one execution.

    The steps of a loop run one after the other, but what only counts them, or fetches the next batch, may run ahead. So
    what works in layers and runs once in each step tells where the next one begins: where the first of these starts
    again. What runs before the loop belongs to the first step, what runs after it to the last one.

    Args:
        execution: The steps as one.
        in_layer: Whether an event works in a layer.

    Returns:
        The execution as it is, where it is one step, where nothing runs exactly once per step, or where these overlap.
    """
    count = execution.count
    runs = _runs(execution.events)
    repeated = [found for found in runs.values() if len(found) == count and in_layer(found[0])]
    borders = [min(found[step].start for found in repeated) for step in range(1, count) if repeated]
    if count == 1 or not repeated or not _apart(repeated, borders):
        return [execution]
    parts: list[list[Event]] = [[] for _ in range(count)]
    order = {id(event): run for found in runs.values() for run, event in enumerate(found)}
    for event in execution.events:
        often = len(runs.get(_key(event), ()))
        at = sum(event.start >= border for border in borders)
        parts[order[id(event)] if often == count else at].append(event)
    edges = pairwise([execution.start, *borders, execution.end])
    return [Step(start, end, events) for (start, end), events in zip(edges, parts, strict=True)]


def _apart(repeated: Sequence[Sequence[Event]], borders: Sequence[int]) -> bool:
    """Whether each step has begun all of its own before the next one begins."""
    return all(
        found[step].start < border for step, border in enumerate(borders) for found in repeated
    )


def _key(event: Event) -> tuple[str, str, int | None]:
    return (event.kind, event.name, event.hlo_program)


def _runs(events: Sequence[Event]) -> dict[tuple[str, str, int | None], list[Event]]:
    """The executions of each node and of each compiled instruction; what other threads prepare is left out."""
    runs: dict[tuple[str, str, int | None], list[Event]] = {}
    for event in events:
        if not event.pipeline and event.kind in ("op", "hlo"):
            runs.setdefault(_key(event), []).append(event)
    return runs
