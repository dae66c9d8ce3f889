"""When captured steps ran, by the host's clock, with the devices at rest on both sides."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hroof.integration import StepSink


@dataclass(frozen=True, slots=True)
class Span:
    """One captured step, or several that ran at once.

    Attributes:
        first: Number of its first step in the region.
        count: Steps.
        begin: When it began, in ns of ``time.perf_counter_ns``.
        end: When it had ended.
    """

    first: int
    count: int
    begin: int
    end: int

    @property
    def seconds(self) -> float:
        """From begin to end."""
        return (self.end - self.begin) / 1e9

    @property
    def name(self) -> str:
        """As its mark is named: ``4``, or ``4-7``."""
        return str(self.first) if self.count == 1 else f"{self.first}-{self.first + self.count - 1}"


class Spans:
    """Follows the captured steps of a region.

    An execution of Keras' own loops has a begin and an end; a step of the user's loop lasts from one boundary to the
    next.

    Args:
        region: Its number of finished steps is looked at.
        synchronize: Waits for the devices.
    """

    def __init__(self, region: StepSink, synchronize: Callable[[], Any]) -> None:
        self._region = region
        self._synchronize = synchronize
        self._edge = 0
        self._told = False
        self._marked = 0
        self.begun = False
        self.all: list[Span] = []

    def begin(self) -> None:
        """The first captured step begins; or again, where several steps had been taken for one."""
        self.begun = True
        self.all = []
        self._told = False
        self._next()

    def execution_begins(self) -> None:
        """An execution begins."""
        self._edge = self._now()

    def execution_ends(self, steps: int) -> None:
        """It has ended; the region hears of it next."""
        self.all.append(Span(self._finished(), steps, self._edge, self._now()))
        self._told = True

    def boundary(self) -> None:
        """The region has heard that a step ended."""
        if not self._told:
            count = self._finished() - self._marked
            self.all.append(Span(self._marked, count, self._edge, self._now()))
        self._told = False
        self._next()

    def end(self) -> None:
        """The capture ends: at a boundary, or within a step, which is no whole one then."""
        if self.begun and (self._told or self._finished() > self._marked):
            self.boundary()
        self.begun = False

    def _next(self) -> None:
        self._marked = self._finished()
        self._edge = self._now()

    def _now(self) -> int:
        self._synchronize()
        return time.perf_counter_ns()

    def _finished(self) -> int:
        return int(getattr(self._region, "finished_steps", 0))
