"""Suite: from an integration's kernels to a Machine, with fake kernels on a fake clock."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.ceilings import FULL, QUICK, Plan, measure
from hroof.ceilings.suite import schedule
from hroof.machine import Machine
from hroof.units import MemoryLevel, Pipe, Precision

L1, L2, _, DRAM = MemoryLevel
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
PLAN = Plan(seconds=0.02, spread_seconds=0.05)


@pytest.fixture
def measured(fake: SimpleNamespace, clock: Any) -> Any:
    """Measures kernels on the fake clock."""

    def run(*kernels: Any, **more: Any) -> Machine:
        how = {"clock": clock, "own_clock": clock, "now": lambda: NOON, "plan": PLAN} | more
        return measure(fake.integration(kernels, threads=2), **how)

    return run


@pytest.fixture
def kernels(fake: SimpleNamespace) -> list[Any]:
    """Two candidates per level, peaks on one unit, a launch: a machine without doubts."""
    mm = fake.peak("mm", 80e9, Precision.FP32)
    return [
        fake.kernel("neg_", 2e6, work=1000.0, what="launch"),
        fake.level("expand", 400e9, L1),
        fake.level("bag", 500e9, L1),
        fake.level("expand", 250e9, L2),
        fake.level("foreach", 200e9, L2),
        fake.level("sum", 40e9, DRAM),
        fake.level("mul_", 60e9, DRAM),
        fake.peak("mm", 40e9, Precision.FP64),
        mm,
        dataclasses.replace(mm, pipe=Pipe.VECTOR, note="same unit"),
    ]


def test_the_best_candidate_of_each_ceiling_makes_the_machine(
    measured: Any, kernels: list[Any]
) -> None:
    machine = measured(*kernels)
    found = {level: (c.kernel, c.rate) for level, c in machine.bandwidths.items()}
    assert found == {
        L1: ("bag", pytest.approx(500e9)),
        L2: ("expand", pytest.approx(250e9)),
        DRAM: ("mul_", pytest.approx(60e9)),
    }
    assert machine.peaks[Pipe.MATRIX, Precision.FP32].rate == pytest.approx(80e9)
    assert machine.peaks[Pipe.VECTOR, Precision.FP32].note == "same unit"
    assert machine.launch_cost is not None
    assert machine.launch_cost.rate == pytest.approx(5e-7)
    assert machine.warnings == ()


def test_the_machine_carries_the_device_and_the_circumstances(
    measured: Any, kernels: list[Any], clock: Any
) -> None:
    machine = measured(*kernels)
    assert (machine.name, machine.device, machine.shared_pipes) == ("fake chip", "cpu", True)
    assert machine.caches == {L1: 32_768, L2: 1_048_576}
    facts = machine.facts
    assert facts["threads"] == 2
    assert facts["measured_at"] == "2026-01-02T12:00:00+00:00"
    assert facts["seconds"] == pytest.approx(clock.now, abs=1e-3)
    assert facts["quick"] is False
    assert facts["candidates"]["DRAM"] == {
        "sum": pytest.approx(40e9),
        "mul_": pytest.approx(60e9),
    }


def test_a_machine_survives_the_way_to_json(measured: Any, kernels: list[Any]) -> None:
    machine = measured(*kernels)
    assert Machine.from_json(machine.to_json()) == machine


def test_a_named_device_is_asked_for(measured: Any, kernels: list[Any]) -> None:
    assert measured(*kernels, device="cuda:0").device == "cuda:0"


def test_one_failing_kernel_costs_only_itself(
    measured: Any, kernels: list[Any], fake: SimpleNamespace
) -> None:
    bad = fake.failing("conv", RuntimeError("no primitive"), what="bandwidth", level=L1)
    machine = measured(bad, *kernels)
    assert machine.bandwidths[L1].kernel == "bag"
    assert machine.warnings == (
        "conv could not run, so it did not compete for L1: RuntimeError: no primitive.",
    )


def test_a_search_that_breaks_off_keeps_what_it_found(measured: Any, fake: SimpleNamespace) -> None:
    kernel = fake.level("sum", 40e9, DRAM)
    machine = measured(kernel, RuntimeError("broken probe"), fake.level("late", 1e9, L1))
    assert list(machine.bandwidths) == [DRAM]
    assert machine.warnings == (
        "The search for kernels ended early: RuntimeError: broken probe.",
        "No kernel measured L1, so it has no roof.",
        "No kernel measured L2, so it has no roof.",
    )


def test_no_kernel_at_all_gives_an_empty_machine_with_warnings(measured: Any) -> None:
    machine = measured()
    assert machine.peaks == {} and machine.bandwidths == {} and machine.launch_cost is None
    assert len(machine.warnings) == 2


# --- the order of measuring ---------------------------------------------------------------------


def test_dram_is_spread_over_the_run(measured: Any, kernels: list[Any]) -> None:
    heard: list[str] = []
    measured(*kernels, progress=heard.append)
    visits = [place for place, text in enumerate(heard) if text.startswith("DRAM")]
    others = [place for place, text in enumerate(heard) if not text.startswith("DRAM")]
    # 7 ordinary measurements (the vector peak shares one), 16 visits: two after each, then the rest.
    assert len(others) == 7 and len(visits) == 16
    assert visits[0] == 1 and visits[-1] == len(heard) - 1
    assert [heard[place] for place in visits[:4]] == ["DRAM: sum", "DRAM: mul_"] * 2


def test_every_spread_kernel_gets_its_time(fake: SimpleNamespace) -> None:
    spread = [fake.level("sum", 1, DRAM), fake.level("mul_", 1, DRAM)]
    ordinary = [fake.level(str(number), 1, L1) for number in range(30)]
    planned = list(schedule([*ordinary, *spread], spread, PLAN))
    for kernel in spread:
        seconds = sum(part for turn, part, _ in planned if turn is kernel)
        assert seconds == pytest.approx(PLAN.spread_seconds)
    assert [kernel for kernel, _, keep in planned if not keep] == ordinary
    assert all(part == PLAN.seconds for _, part, keep in planned if not keep)


def test_dram_alone_is_visited_repeatedly(fake: SimpleNamespace) -> None:
    alone = [fake.level("sum", 1, DRAM)]
    assert len(list(schedule(alone, alone, PLAN))) == 8
    assert list(schedule([], [], PLAN)) == []


def test_quick_takes_less_time(measured: Any, kernels: list[Any]) -> None:
    quick = measured(*kernels, plan=None, quick=True).facts
    full = measured(*kernels, plan=None).facts
    assert (quick["quick"], full["quick"]) == (True, False)
    assert quick["seconds"] < 0.6 * full["seconds"]
    assert QUICK.seconds < FULL.seconds and QUICK.spread_seconds < FULL.spread_seconds


def test_time_that_went_to_other_programs_is_told(
    measured: Any, kernels: list[Any], clock: Any
) -> None:
    machine = measured(*kernels, own_clock=lambda: 0.6 * clock.now)
    assert machine.facts["own_share"] == pytest.approx(0.6)
    assert machine.warnings[0].startswith("Other programs took 40 % of the processor time")


def test_on_a_gpu_the_time_of_this_thread_says_nothing(measured: Any, kernels: list[Any]) -> None:
    machine = measured(*kernels, device="cuda:0", own_clock=lambda: 0.0)
    assert machine.facts["own_share"] is None
    assert machine.warnings == ()


# --- disturbed measurements ---------------------------------------------------------------------


def disturbed(slow_calls: int) -> list[float]:
    """Rates of a kernel that something else slows down at first."""
    return [50e9] * slow_calls + [500e9]


def test_a_level_below_the_next_one_is_measured_again(measured: Any, fake: SimpleNamespace) -> None:
    heard: list[str] = []
    machine = measured(
        fake.level("bag", disturbed(1300), L1),
        fake.level("expand", 200e9, L2),
        progress=heard.append,
    )
    assert heard == ["L1: bag", "L2: expand"] * 2
    assert machine.bandwidths[L1].rate == pytest.approx(500e9)
    assert not any("slower" in warning for warning in machine.warnings)


def test_a_level_that_stays_below_is_measured_twice_and_warned_about(
    measured: Any, fake: SimpleNamespace
) -> None:
    heard: list[str] = []
    machine = measured(
        fake.level("bag", 50e9, L1), fake.level("expand", 200e9, L2), progress=heard.append
    )
    assert heard == ["L1: bag", "L2: expand"] * 2
    assert machine.warnings[0].startswith("L1 (50.0 GB/s) is slower than L2 (200 GB/s)")


def test_levels_in_order_are_not_measured_again(measured: Any, fake: SimpleNamespace) -> None:
    heard: list[str] = []
    measured(fake.level("bag", 300e9, L1), fake.level("expand", 200e9, L2), progress=heard.append)
    assert heard == ["L1: bag", "L2: expand"]
