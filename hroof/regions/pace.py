"""Pace: how long a step takes while nobody measures it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from statistics import median

_KEPT = 65


class Pace:
    """Times between the ends of steps that are let pass.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._ends: deque[tuple[float, int]] = deque(maxlen=_KEPT)

    def step_ended(self, count: int) -> None:
        """``count`` steps have ended since the last call."""
        self._ends.append((self._clock(), count))

    def median(self) -> float | None:
        """Seconds of the median step; None with fewer than two, of which the first still warms up."""
        steps = [
            (end - begin) / count for (begin, _), (end, count) in pairwise(self._ends) if count > 0
        ]
        return median(steps) if len(steps) >= 2 else None
