"""Noise: whether two sets of step times differ by more than the steps of one run do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hroof.units import percent

ENOUGH = 8
"""From this many steps on the spread is the distance between the quartiles; below it is the whole range."""
OF_TWO = 4.0
"""How much wider the range of two steps is taken.

Of two runs that are drawn from one distribution (normal, lognormal or exponential) fewer than 1 in 50 then differ
beyond the noise, whatever their number of steps; a test draws them.
"""
FLOOR = 0.02
"""Share of the time that two runs of one program may differ by even where their steps agree: memory lies elsewhere,
the clock is another one. Chosen by this project; not measured."""
RULE = (
    f"A time differs only if it moves by more than the spreads of both runs together: the distance between the "
    f"quartiles of the step times, with fewer than {ENOUGH} steps their whole range (of 2 steps four times it), "
    f"and at least {percent(FLOOR, 0)} of the time. With 1 step nothing is known of the noise."
)


class Change(StrEnum):
    """What became of a group of launches."""

    FASTER = "faster"
    SLOWER = "slower"
    NOISE = "within noise"
    UNKNOWN = "not judged"
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True)
class Judged:
    """A difference of times and the noise that it is held against, both in seconds.

    Attributes:
        change: ``faster``, ``slower``, ``within noise`` or ``not judged``.
        noise: What the difference has to exceed; NaN where it is not known.
    """

    change: Change
    noise: float


def spread(times: Sequence[float]) -> float:
    """How far the times of one run's steps lie apart, in seconds; NaN with fewer than two.

    Args:
        times: One per captured step.
    """
    count = len(times)
    if count < 2 or not all(map(math.isfinite, times)):
        return math.nan
    if count >= ENOUGH:
        low, high = np.quantile(times, (0.25, 0.75))
        return float(high - low)
    return (max(times) - min(times)) * (OF_TWO if count == 2 else 1.0)


def judge(base: Sequence[float], new: Sequence[float], difference: float) -> Judged:
    """Say whether a difference is more than noise.

    Args:
        base: Seconds of each captured step.
        new: The same of the other run.
        difference: Seconds that are shown as the difference, new − base. Both it and the difference of the medians
            have to exceed the noise: one odd step is no change.
    """
    noise = apart(base, new)
    if math.isnan(noise) or math.isnan(difference):
        return Judged(Change.UNKNOWN, noise)
    moved = float(np.median(new)) - float(np.median(base))
    if min(difference, moved) > noise:
        return Judged(Change.SLOWER, noise)
    return Judged(Change.FASTER if max(difference, moved) < -noise else Change.NOISE, noise)


def apart(base: Sequence[float], new: Sequence[float]) -> float:
    """By how much two runs of one program may differ, in seconds; NaN where one has fewer than two steps.

    Args:
        base: Seconds of each captured step.
        new: The same of the other run.
    """
    both = spread(base) + spread(new)
    if math.isnan(both):
        return math.nan
    return max(both, FLOOR * max(float(np.median(base)), float(np.median(new))))
