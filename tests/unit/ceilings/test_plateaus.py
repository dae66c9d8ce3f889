"""Plateaus on made-up and on recorded curves, undisturbed and disturbed, with the share of right answers."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.ceilings.plateaus import (
    MOST_LEVELS,
    Plateau,
    blind,
    guided,
    named,
    unexplained_knees,
    used_sizes,
)
from hroof.units import MemoryLevel

L1, L2, L3, DRAM = MemoryLevel
KIB, MIB = 1024, 1024**2
Levels = Sequence[tuple[float, float]]

FAST: Levels = ((500e9, 48 * KIB), (260e9, MIB), (120e9, 40 * MIB), (45e9, math.inf))
SLOW: Levels = ((150e9, 32 * KIB), (90e9, 2 * MIB), (25e9, 50 * MIB), (8e9, math.inf))
FLAT_PAIR: Levels = ((260e9, MIB), (130e9, 32 * MIB), (45e9, math.inf))
"""L1 and L2 that the kernel reads equally fast."""


def sizes_of(per_octave: int, largest: float = 1024 * MIB) -> list[int]:
    count = int(math.log2(largest / (4 * KIB)) * per_octave) + 1
    return [int(4 * KIB * 2 ** (place / per_octave)) for place in range(count)]


def curve(levels: Levels, sizes: Sequence[int]) -> list[float]:
    """Bandwidth whose misses grow from one level to the next over about an octave."""
    return [_bandwidth(levels, size) for size in sizes]


def _bandwidth(levels: Levels, size: int) -> float:
    inverse = 1 / levels[0][0]
    for (_, capacity), (farther, _) in itertools.pairwise(levels):
        missed = 1 / (1 + (capacity / size) ** 6)
        inverse = inverse * (1 - missed) + missed / farther
    return 1 / inverse


def disturbed(
    rates: Sequence[float], share: float, lowest: float, random: np.random.Generator
) -> list[float]:
    """1 % noise, and a share of the points lowered by a factor between ``lowest`` and 0.95."""
    noisy = np.array(rates) * (1 + 0.01 * random.standard_normal(len(rates)))
    low = random.random(len(rates)) < share
    factors = random.uniform(lowest, 0.95, len(rates))
    return [float(rate) for rate in np.where(low, noisy * factors, noisy)]


def rates_of(plateaus: Sequence[Plateau]) -> list[float]:
    return [plateau.rate for plateau in plateaus]


def curve_of(sweep: Mapping[str, Any]) -> tuple[list[int], list[float]]:
    return sweep["sizes"], sweep["rates"]


def recorded(name: str) -> dict[str, Any]:
    text = Path(__file__).with_name("recorded_sweeps.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)[name]
    return found


# --- undisturbed --------------------------------------------------------------------------------


@pytest.mark.parametrize("per_octave", [2, 4, 8])
@pytest.mark.parametrize("levels", [FAST, SLOW, FLAT_PAIR], ids=["fast", "slow", "flat pair"])
def test_every_level_is_found_with_its_rate(levels: Levels, per_octave: int) -> None:
    sizes = sizes_of(per_octave)
    found = blind(sizes, curve(levels, sizes))
    assert rates_of(found) == pytest.approx([rate for rate, _ in levels], rel=0.05)


@pytest.mark.parametrize("per_octave", [4, 8])
def test_a_plateau_ends_near_the_capacity(per_octave: int) -> None:
    sizes = sizes_of(per_octave)
    found = blind(sizes, curve(FAST, sizes))
    for plateau, (_, capacity) in zip(found[:-1], FAST, strict=False):
        assert capacity / 1.3 <= plateau.last <= 1.3 * capacity
    assert found[-1].last == pytest.approx(sizes[-1], rel=0.01)


def test_plateaus_follow_one_another() -> None:
    sizes = sizes_of(8)
    found = blind(sizes, curve(FAST, sizes))
    assert found[0].first == sizes[0]
    for near, far in itertools.pairwise(found):
        assert near.first < near.last < far.last
        assert near.last <= far.first or near.last / far.first < 1.5


def test_a_curve_without_steps_is_one_plateau() -> None:
    sizes = sizes_of(4)
    assert rates_of(blind(sizes, [1e9] * len(sizes))) == pytest.approx([1e9])


def test_a_steady_slope_has_no_plateau() -> None:
    sizes = sizes_of(4)
    assert blind(sizes, [1e15 / size for size in sizes]) == ()


def test_two_levels_that_differ_little_are_one() -> None:
    sizes = sizes_of(8)
    found = blind(sizes, curve(((110e9, 64 * KIB), (100e9, 32 * MIB), (20e9, math.inf)), sizes))
    assert len(found) == 2


def test_no_more_plateaus_than_wanted() -> None:
    sizes = sizes_of(8)
    steps = [(2.0**-place * 1e12, 16 * KIB * 8.0**place) for place in range(5)]
    levels = [*steps, (2.0**-5 * 1e12, math.inf)]
    assert len(blind(sizes, curve(levels, sizes), most=6)) == 6
    assert len(blind(sizes, curve(levels, sizes))) == MOST_LEVELS
    assert len(blind(sizes, curve(FAST, sizes), most=2)) == 2


def test_an_overhead_of_small_sets_is_no_level() -> None:
    sizes = sizes_of(4)
    rates = [
        rate * size / (size + 2 * KIB) for size, rate in zip(sizes, curve(FAST, sizes), strict=True)
    ]
    assert len(blind(sizes, rates)) == 4


# --- odd input ----------------------------------------------------------------------------------


def test_points_without_a_rate_are_left_out() -> None:
    sizes = sizes_of(8)
    rates = curve(FAST, sizes)
    for place, odd in ((3, math.nan), (20, math.inf), (40, 0.0), (60, -1e9)):
        rates[place] = odd
    assert len(blind(sizes, rates)) == 4
    assert len(guided(sizes, rates, {L1: 48 * KIB, L2: MIB, L3: 40 * MIB})) == 4


def test_the_order_of_the_points_does_not_matter() -> None:
    sizes = sizes_of(4)
    rates = curve(FAST, sizes)
    assert blind(sizes[::-1], rates[::-1]) == blind(sizes, rates)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_points_show_nothing(count: int) -> None:
    assert blind([4096, 8192][:count], [1e9, 1e9][:count]) == ()


def test_sizes_that_are_all_the_same_show_no_step() -> None:
    assert len(blind([4096] * 5, [1e9] * 5)) <= 1


@pytest.mark.parametrize("find", [lambda s, r: blind(s, r), lambda s, r: guided(s, r, {L1: 4096})])
def test_one_rate_for_each_size(find: Any) -> None:
    with pytest.raises(ValueError, match="there are 3 sizes and 2 rates"):
        find([1, 2, 3], [1e9, 1e9])


@given(st.lists(st.floats(1e6, 1e13), min_size=3, max_size=60), st.floats(0.01, 100.0))
def test_plateaus_fall_outwards_and_scale_with_the_rates(rates: list[float], scale: float) -> None:
    sizes = sizes_of(3)[: len(rates)]
    rates = rates[: len(sizes)]
    found = blind(sizes, rates)
    assert all(near.rate > 1.19 * far.rate for near, far in itertools.pairwise(found))
    assert all(near.last < far.last for near, far in itertools.pairwise(found))
    assert all(sizes[0] <= one.first <= one.last <= sizes[-1] * 1.001 for one in found)
    assert all(one.rate <= max(rates) * 1.001 for one in found)
    scaled = blind(sizes, [rate * scale for rate in rates])
    if len(scaled) == len(found):  # rounding may move a point over a threshold
        assert rates_of(scaled) == pytest.approx([rate * scale for rate in rates_of(found)])


# --- disturbed ----------------------------------------------------------------------------------


def test_a_single_point_that_is_too_high_does_no_harm() -> None:
    sizes = sizes_of(4)
    rates = curve(FAST, sizes)
    for place in (6, 25, 45, len(sizes) - 1):
        spiked = list(rates)
        spiked[place] *= 2.5
        assert rates_of(blind(sizes, spiked)) == pytest.approx([rate for rate, _ in FAST], rel=0.05)


CACHES = {
    "fast": {L1: 48 * KIB, L2: MIB, L3: 40 * MIB},
    "slow": {L1: 32 * KIB, L2: 2 * MIB, L3: 50 * MIB},
}
SHARES = [
    # points per octave, share of lowered points, lowest factor, least share right: blind, guided
    (8, 0.0, 1.0, 1.0, 1.0),
    (8, 0.1, 0.3, 1.0, 1.0),
    (8, 0.3, 0.3, 0.97, 1.0),
    (4, 0.0, 1.0, 1.0, 1.0),
    (4, 0.1, 0.3, 0.97, 1.0),
    (4, 0.3, 0.3, 0.90, 0.97),
    (2, 0.0, 1.0, 1.0, 1.0),
    (2, 0.1, 0.3, 0.90, 0.95),
    (2, 0.3, 0.3, 0.65, 0.80),
]
"""Shares of 200 trials, blind and guided, of the curve that came out worse, for 0, 10 and 30 % of the points lowered:
8 points per octave  100, 100, 100 %      100, 100, 100 %
4 points per octave  100, 100, 98 %       100, 100, 99.5 %
2 points per octave  100, 98.5, 77.5 %    100, 100, 93 %
The recorded sweep of one thread: 93.5 % blind with 10 % of its points lowered, 81 % with 30 %."""
_TRIALS = 40


@pytest.mark.parametrize(("per_octave", "share", "lowest", "least", "least_guided"), SHARES)
@pytest.mark.parametrize("name", CACHES)
def test_share_of_right_answers(
    name: str, per_octave: int, share: float, lowest: float, least: float, least_guided: float
) -> None:
    levels, random = {"fast": FAST, "slow": SLOW}[name], np.random.default_rng(4)
    sizes = sizes_of(per_octave)
    clean, wanted = curve(levels, sizes), [rate for rate, _ in levels]
    right = right_guided = 0
    for _ in range(_TRIALS):
        rates = disturbed(clean, share, min(lowest, 0.95), random)
        right += rates_of(blind(sizes, rates)) == pytest.approx(wanted, rel=0.08)
        told = guided(sizes, rates, CACHES[name])
        right_guided += list(told.values()) == pytest.approx(wanted, rel=0.08)
    assert right >= least * _TRIALS
    assert right_guided >= least_guided * _TRIALS


# --- recorded -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one thread", "a disturbed second level"])
def test_recorded_levels_of_one_thread(name: str) -> None:
    """An Intel Xeon, read with 256-bit loads: every level shows."""
    found = blind(*curve_of(recorded(name)))
    assert rates_of(found) == pytest.approx([155e9, 111e9, 23e9, 12.5e9], rel=0.06)
    check_ends(found)


def test_recorded_levels_of_two_kernels() -> None:
    """The compiled one reads L1 almost twice as fast; where it stops, at 4 MiB, no step appears."""
    found = blind(*curve_of(recorded("compiled, one thread")))
    assert rates_of(found) == pytest.approx([273e9, 112e9, 20.7e9, 11.2e9], rel=0.03)
    check_ends(found)


def check_ends(found: Sequence[Plateau]) -> None:
    """48 KiB, 2 MiB, and what this virtual machine gets of its L3."""
    ends = [plateau.last for plateau in found[:3]]
    assert 40 * KIB < ends[0] < 56 * KIB
    assert 1.5 * MIB < ends[1] < 2.5 * MIB
    assert 20 * MIB < ends[2] < 64 * MIB


@pytest.mark.parametrize(
    ("name", "near"),
    [("disturbed outside", [300e9, 217e9]), ("more than half disturbed", [185e9, 152e9])],
)
def test_recorded_near_levels_of_two_disturbed_threads(name: str, near: list[float]) -> None:
    """Sizes of L1 and L2 that nothing disturbed are few in the second, but enough."""
    sweep = recorded(name)
    found = blind(sweep["sizes"], sweep["rates"])
    assert rates_of(found[:2]) == pytest.approx(near, rel=0.05)
    assert 20 * KIB < found[0].last < 64 * KIB
    assert 1.5 * MIB < found[1].last < 3 * MIB


def test_recorded_levels_of_two_loaded_threads() -> None:
    """Neighbours that were measured seconds apart are not disturbed together, so every level shows."""
    found = blind(*curve_of(recorded("two loaded threads")))
    assert rates_of(found) == pytest.approx([444e9, 166e9, 45e9, 20e9], rel=0.03)
    ends = [plateau.last for plateau in found[:3]]
    assert 36 * KIB < ends[0] < 56 * KIB
    assert 1.2 * MIB < ends[1] < 2.5 * MIB
    assert 8 * MIB < ends[2] < 32 * MIB


@pytest.mark.parametrize("keep", [2, 3])
def test_fewer_recorded_points_show_the_same_levels(keep: int) -> None:
    sweep = recorded("one thread")
    sizes, rates = sweep["sizes"][::keep], sweep["rates"][::keep]
    assert rates_of(blind(sizes, rates)) == pytest.approx([155e9, 111e9, 24e9, 12.5e9], rel=0.08)


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_recorded_levels_survive_more_disturbance(share: float) -> None:
    sweep, random = recorded("one thread"), np.random.default_rng(7)
    wanted = [155e9, 111e9, 23.5e9, 12.5e9]
    right = sum(
        rates_of(blind(sweep["sizes"], disturbed(sweep["rates"], share, 0.3, random)))
        == pytest.approx(wanted, rel=0.1)
        for _ in range(_TRIALS)
    )
    assert right >= (0.8 if share == 0.1 else 0.5) * _TRIALS


# --- guided -------------------------------------------------------------------------------------


def test_each_level_is_told_by_sizes_of_its_own() -> None:
    caches = {L1: 48 * KIB, L2: MIB, L3: 32 * MIB}
    sizes = sizes_of(2)
    used = used_sizes(sizes, caches)
    assert list(used) == [L1, L2, L3, DRAM]
    assert max(used[L1]) <= 0.85 * 48 * KIB
    assert min(used[L2]) >= 96 * KIB and max(used[L2]) <= 0.85 * MIB
    assert min(used[L3]) >= 2 * MIB and max(used[L3]) <= 0.85 * 32 * MIB
    assert min(used[DRAM]) > 6 * 32 * MIB


def test_dram_is_read_beyond_six_times_the_last_cache_only() -> None:
    sizes = [64 * MIB, 128 * MIB, 192 * MIB]
    assert used_sizes(sizes, {L3: 32 * MIB}) == {}
    assert used_sizes([*sizes, 193 * MIB], {L3: 32 * MIB}) == {DRAM: (193 * MIB,)}


def test_where_a_nearer_cache_is_not_told_small_sizes_are_not_the_level() -> None:
    assert used_sizes([64 * KIB, 512 * KIB, 800 * KIB], {L2: MIB}) == {L2: (512 * KIB, 800 * KIB)}


def test_a_cache_hardly_larger_than_the_nearer_one_is_told_by_its_largest_size() -> None:
    used = used_sizes([1 * MIB, 16 * MIB, 40 * MIB], {L1: 20 * MIB, L2: 40 * MIB})
    assert used == {L1: (1 * MIB, 16 * MIB), L2: (16 * MIB,)}


def test_without_caches_nothing_is_told() -> None:
    assert used_sizes([4096, 8192], {}) == {}
    assert used_sizes([4096, 8192], {L1: 0}) == {}
    assert guided([4096, 8192], [1e9, 1e9], {}) == {}


def test_one_point_that_is_too_high_is_not_the_rate_of_a_cache() -> None:
    rates = [10e9, 10.1e9, 30e9, 10.2e9, 9.9e9]
    sizes = [2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 24 * KIB]
    assert guided(sizes, rates, {L1: 32 * KIB}) == {L1: 10.2e9}
    assert guided(sizes[:3], rates[:3], {L1: 32 * KIB}) == {L1: 30e9}


def test_dram_is_the_median_of_the_upper_half() -> None:
    sizes = [100 * MIB * factor for factor in (1, 2, 3, 4)]
    assert guided(sizes, [1e9, 9e9, 11e9, 2e9], {L3: MIB})[DRAM] == pytest.approx(10e9)


def test_recorded_levels_by_the_sizes() -> None:
    sweep = recorded("one thread")
    caches = {L1: 48 * KIB, L2: 2 * MIB, L3: 50 * MIB}
    told = guided(sweep["sizes"], sweep["rates"], caches)
    assert list(told) == [L1, L2, L3, DRAM]
    assert list(told.values()) == pytest.approx([158e9, 112e9, 24e9, 12.5e9], rel=0.08)


# --- names --------------------------------------------------------------------------------------


def plateaus(*ends: float) -> list[Plateau]:
    """Plateaus that end at these sizes, each half as fast as the one before."""
    firsts = [4 * KIB, *ends]
    return [
        Plateau(2.0**-place * 1e12, int(first), int(last))
        for place, (first, last) in enumerate(zip(firsts, ends, strict=False))
    ]


FOUR = plateaus(48 * KIB, MIB, 40 * MIB, 600 * MIB)


def names(found: Sequence[Plateau], caches: Mapping[MemoryLevel, int]) -> dict[str, int]:
    """Level → which plateau."""
    return {level.label: found.index(one) for level, one in named(found, caches).items()}


def test_as_many_plateaus_as_levels_are_those() -> None:
    assert names(FOUR, CACHES["fast"]) == {"L1": 0, "L2": 1, "L3": 2, "DRAM": 3}


def test_a_hypervisor_that_tells_a_wrong_size_does_not_change_the_names() -> None:
    wrong = {L1: 48 * KIB, L2: MIB, L3: 300 * MIB}
    assert names(FOUR, wrong) == {"L1": 0, "L2": 1, "L3": 2, "DRAM": 3}


def test_levels_that_are_not_resolved_leave_one_out() -> None:
    found = plateaus(MIB, 40 * MIB, 600 * MIB)
    assert names(found, CACHES["fast"]) == {"L2": 0, "L3": 1, "DRAM": 2}


def test_a_cache_that_the_system_hides_has_no_name() -> None:
    assert names(FOUR, {L1: 48 * KIB, L2: MIB}) == {"L1": 0, "L2": 1, "DRAM": 3}


def test_a_curve_that_ends_inside_the_last_cache_has_no_dram() -> None:
    found = plateaus(48 * KIB, MIB, 30 * MIB)
    assert names(found, CACHES["fast"]) == {"L1": 0, "L2": 1, "L3": 2}


def test_what_reaches_beyond_the_last_cache_is_dram() -> None:
    found = plateaus(4 * MIB, 900 * MIB)
    assert names(found, {L1: 48 * KIB, L2: 2 * MIB, L3: 150 * MIB}) == {"L2": 0, "DRAM": 1}


def test_levels_nearer_than_the_first_stated_one() -> None:
    """A GPU tells the size of its L2 only."""
    found = plateaus(200 * KIB, 380 * KIB, 3 * MIB)
    assert names(found, {L2: 400 * KIB}) == {"L1": 0, "L2": 1, "DRAM": 2}
    assert names(found[1:], {L2: 400 * KIB}) == {"L2": 0, "DRAM": 1}


def test_without_sizes_the_order_names_the_levels() -> None:
    assert names(FOUR, {}) == {"L1": 0, "L2": 1, "L3": 2, "DRAM": 3}
    assert names(FOUR[1:], {}) == {"L1": 0, "L2": 1, "DRAM": 2}
    assert names(FOUR[2:], {}) == {"L1": 0, "DRAM": 1}


def test_without_sizes_a_single_plateau_is_no_level() -> None:
    assert names(FOUR[:1], {}) == {}
    assert names([], {}) == {}


def test_without_plateaus_there_are_no_names() -> None:
    assert names([], CACHES["fast"]) == {}


def test_knees_at_the_stated_sizes_are_explained() -> None:
    assert unexplained_knees(FOUR, CACHES["fast"]) == []
    assert unexplained_knees(FOUR, {L1: 32 * KIB, L2: 2 * MIB, L3: 32 * MIB}) == []


def test_a_knee_far_from_every_stated_size_is_not() -> None:
    assert unexplained_knees(FOUR, {L1: 48 * KIB, L2: MIB, L3: 300 * MIB}) == [40 * MIB]
    assert unexplained_knees(FOUR, {L1: 48 * KIB, L2: MIB}) == [40 * MIB]


def test_where_no_size_is_stated_no_knee_is_strange() -> None:
    assert unexplained_knees(FOUR, {}) == []


def test_knees_below_the_first_stated_size_are_those_of_unstated_caches() -> None:
    assert unexplained_knees(FOUR, {L2: MIB, L3: 40 * MIB}) == []
    assert unexplained_knees(FOUR, {L1: MIB, L3: 40 * MIB}) == [48 * KIB]


# --- the solved case ----------------------------------------------------------------------------


def test_case_65_no_level_is_read_from_sizes_between_two() -> None:
    """What the working-set case asks: warm-up dropped, the best of each size, levels by known sizes."""
    if "HROOF_CASES" not in os.environ:
        pytest.skip("HROOF_CASES is not set: the solved cases lie outside the repository")
    folder = Path(os.environ["HROOF_CASES"]) / "65-ceiling-working-set-and-warmup"
    device = json.loads((folder / "input_device.json").read_text(encoding="utf-8"))
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    rows = (folder / "input.csv").read_text(encoding="utf-8").split()[1:]
    best: dict[int, float] = {}
    for size, moved, nanoseconds, iteration in (row.split(",") for row in rows):
        if int(iteration) > 0:
            rate = float(moved) / float(nanoseconds) * 1e9
            best[int(size)] = max(best.get(int(size), 0.0), rate)
    caches = {L1: device["l1_bytes_per_sm"] * device["sm_count"], L2: device["l2_bytes"]}
    told = guided(list(best), list(best.values()), caches)
    used = {size for sizes in used_sizes(list(best), caches).values() for size in sizes}
    assert told[DRAM] / 1e9 == pytest.approx(expected["expect"]["dram_gb_per_s"], rel=1e-3)
    assert told[L2] / 1e9 == pytest.approx(expected["expect"]["l2_gb_per_s"], rel=1e-3)
    assert sorted(set(best) - used) == expected["expect"]["not_used_sizes"]
