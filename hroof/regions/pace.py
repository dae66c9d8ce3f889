"""Pace: how long a step takes while nobody measures it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from statistics import median

_KEPT = 64


class Pace:
    """Times between the ends of steps that are let pass.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last: float | None = None
        self._steps: deque[float] = deque(maxlen=_KEPT)

    def step_ended(self, count: int) -> None:
        """``count`` steps have ended since the last call."""
        now = self._clock()
        if self._last is not None and count > 0:
            self._steps.append((now - self._last) / count)
        self._last = now

    def median(self) -> float | None:
        """Seconds of the median step; None with fewer than two, of which the first still warms up."""
        return median(self._steps) if len(self._steps) >= 2 else None
