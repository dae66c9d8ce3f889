"""How long a step takes while nobody measures it."""

from __future__ import annotations

from collections.abc import Iterator

from hroof.regions.pace import Pace


def clock(*times: float) -> Iterator[float]:
    yield from times


def paced(times: list[float], counts: list[int] | None = None) -> float | None:
    ticks = clock(*times)
    pace = Pace(lambda: next(ticks))
    for count in counts or [1] * len(times):
        pace.step_ended(count)
    return pace.median()


def test_the_median_of_the_times_between_ends() -> None:
    assert paced([10.0, 11.0, 13.0, 14.0]) == 1.0


def test_the_first_end_only_starts_the_clock() -> None:
    assert paced([100.0]) is None
    assert paced([100.0, 101.0]) is None


def test_several_steps_at_once_share_the_time() -> None:
    assert paced([0.0, 4.0, 6.0], [1, 2, 1]) == 2.0


def test_only_the_last_steps_are_kept() -> None:
    slow_then_fast = [float(number * 10) for number in range(11)]
    slow_then_fast += [100.0 + number for number in range(1, 101)]
    assert paced(slow_then_fast) == 1.0
