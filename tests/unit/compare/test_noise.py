"""Noise: what counts as a difference, and how often equal runs are taken for different ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.compare import Change
from hroof.compare.noise import ENOUGH, FLOOR, OF_TWO, RULE, judge, spread

times = st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=12)


class TestSpread:
    def test_one_step_tells_nothing(self) -> None:
        assert math.isnan(spread([1.0]))
        assert math.isnan(spread([]))

    def test_two_steps_are_taken_wide(self) -> None:
        assert spread([1.0, 1.5]) == OF_TWO * 0.5

    @pytest.mark.parametrize("count", range(3, ENOUGH))
    def test_few_steps_have_their_whole_range(self, count: int) -> None:
        assert spread([1.0] * (count - 1) + [3.0]) == 2.0

    def test_many_steps_have_the_distance_of_the_quartiles(self) -> None:
        assert spread([*map(float, range(1, 10))]) == 4.0
        assert spread([1.0] * 9 + [100.0]) == 0.0

    def test_a_time_that_is_not_known_makes_it_unknown(self) -> None:
        assert math.isnan(spread([1.0, math.nan, 2.0]))

    @given(times)
    def test_the_order_of_the_steps_does_not_matter(self, found: list[float]) -> None:
        assert spread(found) == spread(found[::-1]) or len(found) == 1


class TestJudge:
    def test_beyond_both_spreads(self) -> None:
        base, new = [1.0, 1.1, 1.2], [2.0, 2.1, 2.2]
        assert judge(base, new, 1.0).change is Change.SLOWER
        assert judge(new, base, -1.0).change is Change.FASTER
        assert judge(base, new, 1.0).noise == pytest.approx(0.4)

    def test_within_both_spreads_together(self) -> None:
        assert judge([1.0, 1.1, 1.2], [1.3, 1.4, 1.5], 0.3).change is Change.NOISE

    def test_one_odd_step_is_no_change(self) -> None:
        """The step that is shown differs, the medians do not."""
        base, new = [1.0] * 8, [1.0] * 8
        assert judge(base, new, 5.0).change is Change.NOISE
        assert judge(base, [2.0] * 8, 0.0).change is Change.NOISE

    def test_steps_that_agree_leave_the_floor(self) -> None:
        assert judge([1.0] * 3, [1.0 + FLOOR / 2] * 3, FLOOR / 2).change is Change.NOISE
        assert judge([1.0] * 3, [1.0 + FLOOR * 2] * 3, FLOOR * 2).change is Change.SLOWER

    @pytest.mark.parametrize(("base", "new"), [([1.0], [9.0] * 3), ([1.0] * 3, [9.0]), ([], [])])
    def test_without_a_spread_nothing_is_judged(self, base: list[float], new: list[float]) -> None:
        judged = judge(base, new, 8.0)
        assert judged.change is Change.UNKNOWN
        assert math.isnan(judged.noise)

    def test_without_a_difference_nothing_is_judged(self) -> None:
        assert judge([1.0] * 3, [1.0] * 3, math.nan).change is Change.UNKNOWN

    @given(times, times)
    def test_the_other_order_gives_the_opposite(self, base: list[float], new: list[float]) -> None:
        moved = float(np.median(new) - np.median(base))
        there, back = judge(base, new, moved), judge(new, base, -moved)
        opposite = {Change.FASTER: Change.SLOWER, Change.SLOWER: Change.FASTER}
        assert back.change is opposite.get(there.change, there.change)
        assert there.noise == back.noise or math.isnan(there.noise)

    @given(times)
    def test_a_run_does_not_differ_from_itself(self, found: list[float]) -> None:
        assert judge(found, found, 0.0).change in (Change.NOISE, Change.UNKNOWN)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 8, 12, 30])
@pytest.mark.parametrize("kind", ["normal", "lognormal", "exponential"])
def test_equal_runs_are_rarely_taken_for_different_ones(count: int, kind: str) -> None:
    """Draws with a fixed seed: fewer than 1 in 50, as the rule promises."""
    draw = np.random.default_rng(count)
    drawn: dict[str, Callable[[], Any]] = {
        "normal": lambda: 1 + 0.2 * draw.normal(size=count),
        "lognormal": lambda: np.exp(0.3 * draw.normal(size=count)),
        "exponential": lambda: 1 + draw.exponential(size=count),
    }
    found = []
    for _ in range(1000):
        base, new = [float(x) for x in drawn[kind]()], [float(x) for x in drawn[kind]()]
        found.append(judge(base, new, float(np.median(new) - np.median(base))).change)
    assert sum(change is not Change.NOISE for change in found) < len(found) / 50


def test_a_large_difference_is_seen_with_the_usual_number_of_steps() -> None:
    """Three steps with 5 % noise each: a step of twice the time is called slower nearly always."""
    draw = np.random.default_rng(7)
    found = []
    for _ in range(500):
        base = [float(x) for x in 1 + 0.05 * draw.normal(size=3)]
        new = [2 * float(x) for x in 1 + 0.05 * draw.normal(size=3)]
        found.append(judge(base, new, float(np.median(new) - np.median(base))).change)
    assert sum(change is Change.SLOWER for change in found) > 0.98 * len(found)


def test_the_rule_in_words_names_the_numbers() -> None:
    assert f"fewer than {ENOUGH} steps" in RULE
    assert "at least 2 % of the time" in RULE
    assert "four times" in RULE
