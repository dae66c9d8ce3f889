"""Several steps that were executed at once, told apart by what repeats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hroof_keras.events import Event


def divided(events: Sequence[Event], steps: int) -> list[list[Event]] | None:
    """The events of each of the steps of one execution.

    The loop over the steps runs one after the other, so what runs once in each step tells where the next begins: where
    the first of the next executions of any of it starts. What runs before the loop belongs to the first step.

    Args:
        events: Of the execution, in order of their start.
        steps: How many steps it is.

    Returns:
        None where nothing runs exactly once per step, or where the order shows that the steps overlap.
    """
    if steps == 1:
        return [list(events)]
    repeated = [runs for runs in _runs(events) if len(runs) == steps]
    if not repeated:
        return None
    borders = [min(runs[step].start for runs in repeated) for step in range(1, steps)]
    for step, border in enumerate(borders):
        if any(runs[step].start >= border for runs in repeated):
            return None
    parts: list[list[Event]] = [[] for _ in range(steps)]
    for event in events:
        parts[sum(event.start >= border for border in borders)].append(event)
    return parts


def _runs(events: Iterable[Event]) -> list[list[Event]]:
    """The executions of each node and of each compiled instruction; what other threads prepare is left out."""
    runs: dict[tuple[str, str, int | None], list[Event]] = {}
    for event in events:
        if not event.pipeline and event.kind in ("op", "hlo"):
            runs.setdefault((event.kind, event.name, event.hlo_program), []).append(event)
    return list(runs.values())
