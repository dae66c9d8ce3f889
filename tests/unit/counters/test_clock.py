"""Ceilings and launches at different clocks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.counters import CLOCK, at_clock, clock_warning
from hroof.machine import Ceiling, Machine
from hroof.units import MemoryLevel, Pipe, Precision

FP32 = (Pipe.VECTOR, Precision.FP32)
CLOCKS = st.floats(1e8, 4e9)


def measured(clock: float | None = 1.755e9, rate: float = 19e12) -> Machine:
    return Machine(
        name="GPU",
        device="cuda:0",
        peaks={FP32: Ceiling(rate, median=rate * 0.9, spread=0.02, note="own note")},
        bandwidths={
            level: Ceiling(1e12) for level in (MemoryLevel.L1, MemoryLevel.L2, MemoryLevel.DRAM)
        },
        facts={} if clock is None else {CLOCK: clock, "driver": "1"},
    )


def test_compute_and_l1_follow_the_clock_of_the_sm() -> None:
    scaled = at_clock(measured(2e9), 1e9)
    assert scaled.peaks[FP32].rate == 9.5e12
    assert scaled.peaks[FP32].median == pytest.approx(8.55e12)
    assert scaled.peaks[FP32].spread == 0.02
    assert scaled.peaks[FP32].note == "own note; scaled from 2.00 GHz to 1.00 GHz"
    rates = {level.value: ceiling.rate for level, ceiling in scaled.bandwidths.items()}
    assert rates == {"l1": 5e11, "l2": 1e12, "dram": 1e12}
    assert scaled.facts == {CLOCK: 1e9, "clock_measured": 2e9, "driver": "1"}


@given(CLOCKS, CLOCKS)
def test_scaling_back_gives_the_same_roof(one: float, other: float) -> None:
    machine = measured(one)
    back = at_clock(at_clock(machine, other), one)
    assert back.peaks[FP32].rate == pytest.approx(machine.peaks[FP32].rate)


@pytest.mark.parametrize("clock", [None, 0.0])
def test_an_unknown_clock_scales_nothing_and_says_so(clock: float | None) -> None:
    machine = at_clock(measured(clock), 1e9)
    assert machine.peaks == measured().peaks
    assert "could not be scaled" in machine.warnings[0]
    assert at_clock(machine, 1e9).warnings == machine.warnings


@pytest.mark.parametrize("clock", [math.nan, math.inf, 0.0, -1.0])
def test_nor_does_an_impossible_one(clock: float) -> None:
    machine = at_clock(measured(), clock)
    assert machine.peaks == measured().peaks
    assert machine.warnings


def test_a_note_is_not_needed_for_the_same_clock() -> None:
    assert at_clock(measured(1e9), 1e9).peaks[FP32].rate == 19e12


@given(CLOCKS, CLOCKS)
def test_only_clocks_more_than_5_percent_apart_are_told(one: float, other: float) -> None:
    apart = abs(one - other) > 0.05 * max(one, other)
    assert bool(clock_warning(measured(one), other)) is apart


@pytest.mark.parametrize("own", [None, 1e9])
def test_an_unknown_clock_is_no_difference(own: float | None) -> None:
    assert clock_warning(measured(own), math.nan) == ""
    assert clock_warning(measured(None), 1e9) == ""


def test_the_warning_holds_both_clocks_and_the_remedy() -> None:
    assert clock_warning(measured(), 1.095e9) == (
        "The launches were profiled at an SM clock of 1.09 GHz, 38 % below the 1.75 GHz of the ceilings. The compute "
        "roof was scaled to the clock of the launches; ncu --clock-control none keeps the clocks alike."
    )
    assert "50 % above the 1.00 GHz" in clock_warning(measured(1e9), 1.5e9)


def test_case_68(solved: Callable[[str], Path]) -> None:
    folder = solved("68")
    given_, expected = (
        json.loads((folder / name).read_text()) for name in ("input.json", "expected.json")
    )
    expected = expected["expect"]
    machine = measured(given_["roof_clock_hz"], given_["roof_flops_per_s"])
    assert bool(clock_warning(machine, given_["kernel_clock_hz"])) is expected["warn"]
    roof = at_clock(machine, given_["kernel_clock_hz"]).peaks[FP32].rate
    assert roof == pytest.approx(expected["scaled_roof_flops_per_s"], rel=1e-3)
    reached = given_["kernel_flops_per_s"]
    assert 100 * reached / roof == pytest.approx(expected["pct_of_scaled_roof"], rel=1e-3)
    assert 100 * reached / machine.peaks[FP32].rate == pytest.approx(
        expected["pct_of_boost_roof"], rel=1e-3
    )
