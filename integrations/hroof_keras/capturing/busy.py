"""Time of executed ops where they run at once: inside one another, and side by side on several threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hroof_keras.profiling.events import Event

OVERLAP = 1.05
"""Sum of the times of ops over the time in which any ran, above which a report has to say so."""

_LAUNCHES = ("StatefulPartitionedCall", "PartitionedCall", "XlaLaunch", "_XlaRun", "XlaLocalLaunch")
"""Ops that run a compiled program, whose instructions have events of their own on other threads."""


def without_launches(events: Sequence[Event]) -> list[Event]:
    """The events without those ops that only run a compiled program: its instructions stand for them."""
    starts = sorted(event.start for event in events if event.kind == "hlo")
    return [event for event in events if not _launches(event, starts)]


def _launches(event: Event, starts: Sequence[int]) -> bool:
    if event.kind != "op" or event.op not in _LAUNCHES:
        return False
    return any(event.start <= start < event.end for start in starts)


def own_times(events: Iterable[Event]) -> dict[Event, int]:
    """Nanoseconds of each event without those that run inside it on its thread."""
    own: dict[Event, int] = {}
    stacks: dict[tuple[str, int, int], list[Event]] = {}
    for event in sorted(events, key=lambda one: (one.start, -one.end)):
        stack = stacks.setdefault((event.device, event.stream, event.thread), [])
        while stack and stack[-1].end <= event.start:
            stack.pop()
        if stack:
            inside = min(event.end, stack[-1].end) - event.start
            own[stack[-1]] = max(own[stack[-1]] - inside, 0)
        own[event] = event.duration
        stack.append(event)
    return own


def union(events: Iterable[Event]) -> int:
    """Nanoseconds in which at least one event runs."""
    total, reached = 0, 0
    for event in sorted(events, key=lambda one: one.start):
        total += max(event.end - max(event.start, reached), 0)
        reached = max(reached, event.end)
    return total


@dataclass(frozen=True)
class Overlap:
    """How far ops ran side by side, over the timed steps, in seconds.

    Attributes:
        total: Sum of the times of the ops.
        union: Time in which at least one ran.
        wall: Time of the steps.
    """

    total: float
    union: float
    wall: float

    @property
    def factor(self) -> float:
        """How many ops ran at once while any did; NaN without any."""
        return self.total / self.union if self.union > 0 else float("nan")

    @staticmethod
    def of(steps: Iterable[tuple[int, Sequence[Event]]]) -> Overlap:
        """Over steps of a wall time in nanoseconds and their events."""
        total = covered = wall = 0
        for span, events in steps:
            total += sum(own_times(events).values())
            covered += union(events)
            wall += span
        return Overlap(total / 1e9, covered / 1e9, wall / 1e9)

    def warning(self) -> str | None:
        """A sentence for a report, where ops ran side by side so much that it matters."""
        if not self.factor > OVERLAP:
            return None
        return (
            f"{self.factor:.2f} ops ran at once on average: times per layer are busy times, which add up to more than "
            "the step and contain the wait for shared cores and memory. For times of ops alone call "
            "tf.config.threading.set_inter_op_parallelism_threads(1) before TensorFlow starts."
        )

    def facts(self) -> dict[str, float]:
        """For ``Profile.run``."""
        return {
            "sum": self.total,
            "union": self.union,
            "wall": self.wall,
            "factor": self.factor,
        }
