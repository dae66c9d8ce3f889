"""Timing of one kernel: many short samples, of which the best one counts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]

WARM_UPS = 2
SHORTEST_SAMPLE = 3e-4
"""Seconds: long against the clock and a call's overhead, short against a time slice."""
_LEAST_SAMPLES = 3
_PATIENCE = 3
"""Times the given seconds, after which one sample is enough."""
_MOST_REPEATS = 2**20


@dataclass(frozen=True, slots=True)
class Samples:
    """Rates of one kernel, in work per second.

    Attributes:
        rates: One rate per sample, in the order measured; at least one.
    """

    rates: tuple[float, ...]

    @property
    def best(self) -> float:
        """The highest rate: interference only ever lowers a rate."""
        return max(self.rates)

    @property
    def median(self) -> float:
        """The middle rate."""
        return statistics.median(self.rates)

    @property
    def spread(self) -> float:
        """(Upper − lower quartile) / median; NaN with one sample."""
        if len(self.rates) < 2:
            return math.nan
        lower, _, upper = statistics.quantiles(self.rates, n=4, method="inclusive")
        return (upper - lower) / self.median

    def __add__(self, other: Samples) -> Samples:
        return Samples(self.rates + other.rates)

    def __len__(self) -> int:
        return len(self.rates)


def sample(call: Callable[[], object], work: float, *, seconds: float, clock: Clock) -> Samples:
    """Time a kernel again and again.

    Two calls warm it up. A sample is as many calls as take 0.3 ms; a shorter one is thrown away and
    the number of calls doubled, so that a disturbed first call cannot leave all samples too short.
    On a busy machine, where a call can take a hundred times as long, one sample is enough.

    Args:
        call: Runs the kernel once, to the end.
        work: Work of one call: bytes, FLOP or launches.
        seconds: Time to spend; three samples are taken even if they take up to three times as long.
        clock: Seconds, monotonic.

    Raises:
        ValueError: The work is not a positive finite number.
        RuntimeError: The clock does not advance.
    """
    if not (math.isfinite(work) and work > 0):
        raise ValueError(f"its work is {work!r}, not a positive number")
    for _ in range(WARM_UPS):
        call()
    rates: list[float] = []
    repeats = 1
    begun = clock()
    end, latest = begun + seconds, begun + _PATIENCE * seconds
    while not rates or clock() < (end if len(rates) >= _LEAST_SAMPLES else latest):
        took = _time(call, repeats, clock)
        if took >= SHORTEST_SAMPLE:
            rates.append(work * repeats / took)
        else:
            repeats = _doubled(repeats)
    return Samples(tuple(rates))


def _time(call: Callable[[], object], repeats: int, clock: Clock) -> float:
    begun = clock()
    for _ in range(repeats):
        call()
    return clock() - begun


def _doubled(repeats: int) -> int:
    if repeats >= _MOST_REPEATS:
        raise RuntimeError(f"{repeats} calls took no measurable time")
    return 2 * repeats
