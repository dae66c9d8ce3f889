"""Sampling: the arithmetic of samples, and when a sample counts, on a clock that kernels advance."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from hroof.ceilings.sampling import SHORTEST_SAMPLE, WARM_UPS, Samples, sample


def kernel(clock: Any, *durations: float) -> tuple[Callable[[], None], list[float]]:
    """A call that takes the given times, the last one for ever, and the times it has taken."""
    taken: list[float] = []
    numbers = count()

    def call() -> None:
        took = durations[min(next(numbers), len(durations) - 1)]
        clock.now += took
        taken.append(took)

    return call, taken


def test_statistics_of_samples() -> None:
    samples = Samples((1.0, 2.0, 3.0, 4.0, 5.0))
    assert samples.best == 5.0
    assert samples.median == 3.0
    # Quartiles 2 and 4 (inclusive method), median 3.
    assert samples.spread == pytest.approx(2 / 3)
    assert len(samples + Samples((9.0,))) == 6
    assert (samples + Samples((9.0,))).best == 9.0


def test_one_sample_has_no_spread() -> None:
    assert math.isnan(Samples((7.0,)).spread)


def test_the_rate_is_work_over_time(clock: Any) -> None:
    call, _ = kernel(clock, 1e-3)
    samples = sample(call, 5e6, seconds=0.02, clock=clock)
    assert samples.best == pytest.approx(5e9)
    assert len(samples) == pytest.approx(20, abs=1)


def test_warm_ups_are_not_timed(clock: Any) -> None:
    call, taken = kernel(clock, *[1.0] * WARM_UPS, 1e-3)
    samples = sample(call, 1.0, seconds=0.01, clock=clock)
    assert min(samples.rates) == pytest.approx(1000)
    assert taken[:WARM_UPS] == [1.0] * WARM_UPS


def test_short_calls_are_repeated_until_a_sample_is_long_enough(clock: Any) -> None:
    call, taken = kernel(clock, 1e-5)
    samples = sample(call, 1.0, seconds=0.01, clock=clock)
    repeats = 32  # the first power of two with 32 × 10 µs >= 0.3 ms
    assert repeats * 1e-5 >= SHORTEST_SAMPLE > repeats // 2 * 1e-5
    thrown_away = sum(2**power for power in range(5))
    assert len(taken) == WARM_UPS + thrown_away + repeats * len(samples)
    assert samples.median == pytest.approx(1e5)


def test_a_disturbed_first_call_does_not_leave_all_samples_short(clock: Any) -> None:
    call, _ = kernel(clock, *[1e-5] * WARM_UPS, 1e-2, 1e-5)
    samples = sample(call, 1.0, seconds=0.05, clock=clock)
    # The first sample is one slow call; every later one has the full 32 calls.
    assert samples.rates[0] == pytest.approx(100)
    assert min(samples.rates[1:]) == pytest.approx(1e5)


@pytest.mark.parametrize(
    ("duration", "count"), [(0.05, 3), (0.09, 3), (0.14, 3), (0.16, 2), (0.31, 1), (9.0, 1)]
)
def test_slow_kernels_have_three_samples_within_three_times_the_seconds(
    clock: Any, duration: float, count: int
) -> None:
    call, taken = kernel(clock, duration)
    assert len(sample(call, 1.0, seconds=0.1, clock=clock)) == count
    assert len(taken) == WARM_UPS + count


@pytest.mark.parametrize("work", [0.0, -1.0, math.nan, math.inf])
def test_work_must_be_positive_and_finite(clock: Any, work: float) -> None:
    call, taken = kernel(clock, 1.0)
    with pytest.raises(ValueError, match="not a positive number"):
        sample(call, work, seconds=1.0, clock=clock)
    assert taken == []


def test_a_clock_that_stands_still_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no measurable time"):
        sample(lambda: None, 1.0, seconds=1.0, clock=lambda: 0.0)
