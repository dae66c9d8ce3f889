"""Suite: from an integration's kernels to a Machine, with fake kernels on a fake clock."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.ceilings import FULL, QUICK, Plan, Senses, measure
from hroof.ceilings.signs import Signs
from hroof.ceilings.suite import schedule
from hroof.errors import UsageError
from hroof.machine import Machine
from hroof.units import MemoryLevel, Pipe, Precision

L1, L2, _, DRAM = MemoryLevel
ONCE = ["looking for kernels", "1 of 2: L1: bag", "2 of 2: L2: expand"]
AGAIN = ["again: L1: bag", "again: L2: expand"]
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
PLAN = Plan(seconds=0.02, spread_seconds=0.05)


@pytest.fixture
def measured(fake: SimpleNamespace, clock: Any) -> Any:
    """Measures kernels on the fake clock."""

    def run(*kernels: Any, own: float = 1.0, look: Any = Signs, **more: Any) -> Machine:
        senses = Senses(
            clock=clock,
            own_clock=lambda: own * clock.now,
            core_clock=more.pop("core_clock", lambda: None),
            look=look,
            now=lambda: NOON,
        )
        chip = fake.integration(kernels, threads=2, **more.pop("facts", {}))
        how: dict[str, Any] = {"senses": senses, "plan": PLAN} | more
        return measure(chip, **how)

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
    visits = [place for place, text in enumerate(heard) if ": DRAM: " in text]
    others = [place for place, text in enumerate(heard) if ": DRAM: " not in text]
    # The search, 7 ordinary measurements (the vector peak shares one), 16 visits: two after each, then the rest.
    assert len(others) == 8 and len(visits) == 16
    assert visits[0] == 2 and visits[-1] == len(heard) - 1
    kernels_heard = [heard[place].split(": ", 1)[1] for place in visits[:4]]
    assert kernels_heard == ["DRAM: sum", "DRAM: mul_"] * 2
    assert heard[1] == "1 of 23: launch: neg_"


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


def test_beyond_its_limit_every_kernel_has_one_sample(measured: Any, fake: SimpleNamespace) -> None:
    kernels = [
        fake.peak(f"mm {n}", 1e9, p)
        for n, p in enumerate((Precision.FP64, Precision.FP32, Precision.BF16))
    ]
    machine = measured(*kernels, plan=dataclasses.replace(PLAN, limit=0.03))
    samples = [ceiling.samples for ceiling in machine.peaks.values()]
    assert samples[0] > 5 and samples[1] > 5 and samples[2] == 1
    assert QUICK.limit < 10 and FULL.limit + FULL.sweep < 60


def test_time_that_went_to_other_programs_is_told(measured: Any, kernels: list[Any]) -> None:
    machine = measured(*kernels, own=0.6)
    assert machine.facts["own_share"] == pytest.approx(0.6)
    assert machine.warnings[0].startswith("Other programs took 40 % of the processor time")


def test_on_a_gpu_the_time_of_this_thread_says_nothing(measured: Any, kernels: list[Any]) -> None:
    machine = measured(*kernels, device="cuda:0", own=0.0)
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
    assert heard == [*ONCE, *AGAIN]
    assert machine.bandwidths[L1].rate == pytest.approx(500e9)
    assert not any("slower" in warning for warning in machine.warnings)


def test_a_level_that_stays_below_is_measured_again_twice_and_warned_about(
    measured: Any, fake: SimpleNamespace
) -> None:
    heard: list[str] = []
    machine = measured(
        fake.level("bag", 50e9, L1), fake.level("expand", 200e9, L2), progress=heard.append
    )
    assert heard == [*ONCE, *AGAIN, *AGAIN]
    assert machine.warnings[0].startswith("L1 (50.0 GB/s) is slower than L2 (200 GB/s)")


def test_levels_in_order_are_not_measured_again(measured: Any, fake: SimpleNamespace) -> None:
    heard: list[str] = []
    measured(fake.level("bag", 300e9, L1), fake.level("expand", 200e9, L2), progress=heard.append)
    assert heard == ONCE


# --- what cannot be -----------------------------------------------------------------------------

BOUND = {"facts": {"per_cycle": {"l1": 128.0}}, "core_clock": lambda: 1e9}
"""Two threads at 1 GHz: 256 GB/s."""


def test_more_than_the_cores_can_do_is_forgotten_and_measured_again(
    measured: Any, fake: SimpleNamespace
) -> None:
    heard: list[str] = []
    bag = fake.level("bag", [600e9] * 200 + [250e9], L1)
    machine = measured(bag, fake.level("expand", 200e9, L2), progress=heard.append, **BOUND)
    assert heard[3:] == ["again: L1: bag"]
    assert machine.bandwidths[L1].rate == pytest.approx(250e9)
    assert not any("more than the cores" in warning for warning in machine.warnings)


def test_what_stays_above_the_limit_is_kept_and_named(measured: Any, fake: SimpleNamespace) -> None:
    heard: list[str] = []
    bag = fake.level("bag", 300e9, L1)
    machine = measured(bag, fake.level("expand", 200e9, L2), progress=heard.append, **BOUND)
    assert heard[3:] == ["again: L1: bag"] * 2
    assert machine.bandwidths[L1].rate == pytest.approx(300e9)
    assert machine.warnings[0].startswith("L1 (300 GB/s) is more than the cores can do (256 GB/s")


def test_five_percent_above_the_limit_are_a_matter_of_clocks(
    measured: Any, fake: SimpleNamespace
) -> None:
    machine = measured(fake.level("bag", 265e9, L1), fake.level("expand", 200e9, L2), **BOUND)
    assert machine.warnings == ()


# --- the sweep ----------------------------------------------------------------------------------


class Swept:
    """Kernels of a sweep beside those of an integration."""

    capture: Any = None
    watch_program: Any = None
    ceiling_facts: Any = staticmethod(lambda device: {})

    def __init__(self, inner: Any, fake: SimpleNamespace, rate: Any) -> None:
        self._inner = inner
        self._fake = fake
        self._rate = rate
        self.sweeps = 0
        self.FRAMEWORK = inner.FRAMEWORK
        self.device = inner.device
        self.ceiling_kernels = inner.ceiling_kernels

    def sweep_kernels(self, device: Any, sizes: Any) -> Any:
        self.sweeps += 1
        for size in sizes:
            yield self._fake.kernel(
                "expand", self._rate(size), what="bandwidth", level=L1, size=size, threads=2
            )


def falling(size: int) -> float:
    """Two levels: up to 32 KiB, and beyond."""
    return 400e9 if size <= 32_768 else 100e9


def ragged(size: int) -> float:
    """Falls all the time, so that nothing is a level."""
    return 1e15 / size


@pytest.fixture
def swept(fake: SimpleNamespace, clock: Any) -> Any:
    """Measures an integration whose sweep has a given shape."""

    def run(rate: Any, plan: Plan = PLAN, **more: Any) -> tuple[Machine, int]:
        senses = Senses(clock, clock, lambda: None, Signs, lambda: NOON)
        inner = fake.integration([fake.level("bag", 500e9, L1), fake.level("sum", 40e9, DRAM)])
        chip = Swept(inner, fake, rate)
        return measure(chip, plan=plan, senses=senses, **more), chip.sweeps

    return run


SWEEPING = Plan(0.002, 0.002, sweep=0.2)


def test_the_sweep_is_part_of_a_full_measurement(swept: Any) -> None:
    machine, sweeps = swept(falling, SWEEPING)
    assert sweeps == 1 and machine.sweep is not None
    rates = [rate for rate, _ in machine.sweep.plateaus]
    assert rates == [pytest.approx(400e9), pytest.approx(100e9)]
    assert swept(falling)[0].sweep is None
    assert FULL.sweep > 0 and QUICK.sweep == 0


def test_a_sweep_without_plateau_is_measured_again_twice_and_flagged(swept: Any) -> None:
    machine, sweeps = swept(ragged, SWEEPING)
    assert sweeps == 3
    assert any("shows no plateau" in warning for warning in machine.warnings)


def test_levels_are_read_off_the_sweep_where_the_system_tells_no_caches(
    fake: SimpleNamespace, clock: Any
) -> None:
    inner = fake.integration([fake.level("sum", 90e9, DRAM)])
    device = inner.device
    inner.device = lambda name=None: dataclasses.replace(device(name), caches={})
    senses = Senses(clock, clock, lambda: None, Signs, lambda: NOON)
    machine = measure(Swept(inner, fake, falling), plan=SWEEPING, senses=senses)
    assert machine.bandwidths[L1].rate == pytest.approx(400e9)
    assert "Read off" in machine.bandwidths[L1].note
    assert machine.bandwidths[DRAM].kernel == "sum"


def test_a_cache_that_is_smaller_than_told_is_read_off_the_sweep(
    fake: SimpleNamespace, clock: Any
) -> None:
    """The kernel for L1 reads as slowly as memory, since its size is not that of the cache."""
    inner = fake.integration([fake.level("sum", 90e9, L1), fake.level("sum", 80e9, DRAM)])
    device = inner.device
    inner.device = lambda name=None: dataclasses.replace(device(name), caches={L1: 2**20})
    senses = Senses(clock, clock, lambda: None, Signs, lambda: NOON)
    machine = measure(Swept(inner, fake, falling), plan=SWEEPING, senses=senses)
    assert machine.bandwidths[L1].rate == pytest.approx(400e9)
    assert "Kernels for the stated size" in machine.bandwidths[L1].note
    assert machine.bandwidths[DRAM].rate == pytest.approx(80e9)


# --- only some ----------------------------------------------------------------------------------


def test_only_what_is_asked_for_is_measured(measured: Any, kernels: list[Any]) -> None:
    machine = measured(*kernels, only=["l2", "fp32"])
    assert list(machine.bandwidths) == [L2]
    assert set(machine.peaks) == {(Pipe.VECTOR, Precision.FP32), (Pipe.MATRIX, Precision.FP32)}
    assert machine.launch_cost is None
    assert machine.facts["only"] == ["fp32", "l2"]


def test_the_sweep_alone_can_be_asked_for(swept: Any) -> None:
    machine, sweeps = swept(falling, only=["sweep"])
    assert sweeps == 1 and machine.sweep is not None and machine.bandwidths == {}
    assert swept(falling, SWEEPING, only=["l1"])[1] == 0


def test_a_name_without_a_kernel_is_refused_with_those_that_have_one(
    measured: Any, kernels: list[Any]
) -> None:
    with pytest.raises(UsageError, match=r"fake chip \(cpu\) has no kernel for fp8\..*fp32.*sweep"):
        measured(*kernels, only=["fp8", "l1"])


def test_a_quick_measurement_leaves_out_variants_and_short_formats(
    measured: Any, fake: SimpleNamespace
) -> None:
    copy = dataclasses.replace(fake.level("copy_", 30e9, DRAM), variant="copy")
    kernels = [
        copy,
        fake.level("sum", 40e9, DRAM),
        fake.peak("mm", 80e9, Precision.FP32),
        fake.peak("_int_mm", 200e9, Precision.INT8),
    ]
    quick = measured(*kernels, plan=None, quick=True)
    assert not quick.others and list(quick.peaks) == [(Pipe.MATRIX, Precision.FP32)]
    full = measured(*kernels, plan=dataclasses.replace(FULL, sweep=0.0))
    assert set(full.others) == {"dram copy"} and len(full.peaks) == 2


def test_the_integration_is_told_that_it_is_to_be_quick(fake: SimpleNamespace, clock: Any) -> None:
    asked: list[Any] = []
    chip = fake.integration([])

    def offer(device: Any) -> Any:
        asked.append(device.facts["quick"])
        return iter(())

    chip.ceiling_kernels = offer
    senses = Senses(clock, clock, lambda: None, Signs, lambda: NOON)
    measure(chip, quick=True, senses=senses)
    measure(chip, plan=PLAN, senses=senses)
    assert asked == [True, False]


def test_many_kernels_share_the_time(fake: SimpleNamespace) -> None:
    plan = Plan(0.2, 1.0, budget=2.0)
    assert plan.each(5) == 0.2
    assert plan.each(40) == 0.05
    kernels = [fake.level(str(number), 1, L1) for number in range(40)]
    assert sum(seconds for _, seconds, _ in schedule(kernels, [], plan)) == pytest.approx(2.0)


# --- beside the ceilings ------------------------------------------------------------------------


def test_variants_stand_beside_the_ceilings(measured: Any, fake: SimpleNamespace) -> None:
    mm = fake.peak("mm", 80e9, Precision.FP32)
    kernels = [
        fake.level("sum", 40e9, DRAM),
        dataclasses.replace(fake.level("copy_", 60e9, DRAM), variant="copy", note="Both."),
        mm,
        dataclasses.replace(fake.peak("mul add", 50e9, Precision.FP32), variant="no fma"),
        dataclasses.replace(fake.kernel("graph", 1e7, 1e3, what="launch"), variant="graph"),
    ]
    machine = measured(*kernels)
    assert machine.bandwidths[DRAM].kernel == "sum"
    assert {name: ceiling.rate for name, ceiling in machine.others.items()} == {
        "launch_cost graph": pytest.approx(1e-7),
        "dram copy": pytest.approx(60e9),
        "matrix_fp32 no fma": pytest.approx(50e9),
    }
    assert machine.others["dram copy"].note == "Both."
    assert machine.launch_cost is None
    assert set(machine.facts["candidates"]) >= {"DRAM", "DRAM copy"}


def test_a_ceiling_carries_how_threads_size_and_clock(measured: Any, fake: SimpleNamespace) -> None:
    clocks = iter([3.0e9, 3.2e9])
    known = dataclasses.replace(
        fake.level("fold", 400e9, L1), how="measured", threads=2, size=24_576
    )
    machine = measured(known, fake.level("sum", 200e9, L2), core_clock=lambda: next(clocks))
    first, second = machine.bandwidths[L1], machine.bandwidths[L2]
    assert (first.how, first.threads, first.size, first.clock) == ("measured", 2, 24_576, 3.0e9)
    assert (second.how, second.size, second.clock) == ("framework-reachable", None, 3.2e9)
    assert machine.facts["clock"] == 3.2e9
    assert "additions" in machine.facts["clock_source"]


def test_a_clock_that_cannot_be_measured_is_no_fact(measured: Any, kernels: list[Any]) -> None:
    assert "clock" not in measured(*kernels).facts
    assert "clock" not in measured(*kernels, device="cuda:0", core_clock=lambda: 3e9).facts


def test_signs_of_disturbance_are_facts(measured: Any, kernels: list[Any]) -> None:
    looks = iter([Signs(0.5, 1000, 10, 0), Signs(1.5, 2000, 110, 4)])
    machine = measured(*kernels, look=lambda: next(looks))
    assert machine.facts["load"] == [0.5, 1.5]
    assert machine.facts["stolen_share"] == pytest.approx(0.1)
    assert machine.warnings[0].startswith("The hypervisor gave 10 %")
    assert machine.warnings[1].startswith("A quota of the container stopped this program 4 times")


def test_an_integration_may_tell_what_it_saw_meanwhile(fake: SimpleNamespace, clock: Any) -> None:
    chip = fake.integration([fake.level("sum", 40e9, DRAM)])
    chip.ceiling_facts = lambda device: {"clock": 1.5e9, "power": 300.0}
    senses = Senses(clock, clock, lambda: None, Signs, lambda: NOON)
    machine = measure(chip, "cuda:0", plan=PLAN, senses=senses)
    assert (machine.facts["clock"], machine.facts["power"]) == (1.5e9, 300.0)
    assert machine.facts["framework"] == "fake"


def test_clocks_that_it_saw_belong_to_the_kernel_that_won(
    fake: SimpleNamespace, clock: Any
) -> None:
    burst = dataclasses.replace(fake.peak("mm burst", 90e9, Precision.FP32), variant="burst")
    chip = fake.integration(
        [fake.level("sum", 40e9, DRAM), fake.peak("mm", 80e9, Precision.FP32), burst]
    )
    seen = {"mm": 1.5e9, "mm burst": 1.9e9, "slower": 1e9}
    chip.ceiling_facts = lambda device: {"clocks": seen, "doubts": ["It was hot."]}
    senses = Senses(clock, clock, lambda: None, Signs, lambda: NOON)
    machine = measure(chip, "cuda:0", plan=PLAN, senses=senses)
    assert machine.peaks[Pipe.MATRIX, Precision.FP32].clock == 1.5e9
    assert machine.others["matrix_fp32 burst"].clock == 1.9e9
    assert math.isnan(machine.bandwidths[DRAM].clock)
    assert "It was hot." in machine.warnings and "doubts" not in machine.facts
    assert machine.facts["clocks"] == seen
