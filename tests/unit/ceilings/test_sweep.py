"""The sweep: which sizes, how they are measured, what is read off it and what is doubtful about it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.ceilings.plateaus import blind, guided
from hroof.ceilings.sweep import (
    better,
    caches_per_thread,
    ceilings,
    doubts,
    each,
    levels,
    measure_sweep,
    plateaus,
    slower_than_larger,
    sweep_sizes,
)
from hroof.integration import CeilingKernel, Device
from hroof.machine import Ceiling, Machine, Sweep
from hroof.units import MemoryLevel

L1, L2, L3, DRAM = MemoryLevel
KIB, MIB, GIB = 1024, 1024**2, 1024**3
STEPS = {32 * KIB: 400e9, 1 * MIB: 200e9, 16 * MIB: 80e9}
"""Bandwidth up to a size; beyond the last one 20 GB/s."""


def speed(size: int) -> float:
    return next((rate for end, rate in STEPS.items() if size <= end), 20e9)


class Swept:
    """An integration whose kernels are as fast as ``rate`` says; it keeps the sizes that it was asked for."""

    FRAMEWORK = "fake"

    def __init__(self, fake: SimpleNamespace, rate: Callable[[int], Any] = speed) -> None:
        self._fake = fake
        self._rate = rate
        self.asked: Sequence[int] = ()
        self.ran: list[int] = []
        self.broken: Exception | None = None

    def sweep_kernels(self, device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
        self.asked = sizes
        for size in sizes:
            yield self._kernel(size)
        if self.broken is not None:
            raise self.broken

    def _kernel(self, size: int) -> CeilingKernel:
        rate = self._rate(size)
        if isinstance(rate, Exception):
            failing: CeilingKernel = self._fake.failing("read", rate, what="bandwidth", size=size)
            return failing
        kernel: CeilingKernel = self._fake.kernel(
            "read", rate, work=2e8, what="bandwidth", size=size
        )

        def prepare() -> Any:
            self.ran.append(size)
            return kernel.prepare()

        return replace(kernel, prepare=prepare)


def cpu(threads: int = 1, **facts: Any) -> Device:
    caches = [
        {"level": "l1", "size": 32 * KIB, "sharers": 1},
        {"level": "l2", "size": MIB, "sharers": 1},
        {"level": "l3", "size": 16 * MIB, "sharers": 4},
    ]
    totals = {L1: 4 * 32 * KIB, L2: 4 * MIB, L3: 16 * MIB}
    return Device("cpu", "fake", totals, facts={"threads": threads, "caches": caches} | facts)


def machine_of(found: Sweep | None, device: Device | None = None) -> Machine:
    device = device or cpu()
    return Machine(
        device.name, device.device, caches=device.caches, facts=device.facts, sweep=found
    )


@pytest.fixture
def swept(fake: SimpleNamespace, clock: Any) -> Callable[..., Any]:
    """Runs a sweep of a fake integration on the fake clock."""

    def run(integration: Any = None, device: Device | None = None, **more: Any) -> Any:
        integration = integration or Swept(fake)
        values = {"clock": clock, "available": lambda: None, "seconds": 6.0} | more
        return measure_sweep(integration, device or cpu(), **values)

    return run


# --- caches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threads", "last"), [(1, 16 * MIB), (2, 8 * MIB), (4, 4 * MIB), (8, 4 * MIB)]
)
def test_a_shared_cache_is_divided_among_the_threads_on_it(threads: int, last: int) -> None:
    assert caches_per_thread(cpu(threads)) == {L1: 32 * KIB, L2: MIB, L3: last}


def test_without_instances_every_thread_has_a_part_of_the_total() -> None:
    device = Device("cpu", "fake", {L1: 96 * KIB, L3: 30 * MIB}, facts={"threads": 2})
    assert caches_per_thread(device) == {L1: 48 * KIB, L3: 15 * MIB}


def test_without_threads_one_has_everything() -> None:
    assert caches_per_thread(Device("cpu", "fake", {L2: MIB})) == {L2: MIB}
    assert caches_per_thread(Device("cpu", "fake", {L2: MIB}, facts={"threads": None})) == {L2: MIB}


def test_on_a_gpu_every_multiprocessor_has_a_set() -> None:
    gpu = Device("cuda:0", "fake", {L2: 50 * MIB}, facts={"multiprocessors": 100, "threads": 7})
    assert caches_per_thread(gpu) == {L2: MIB // 2}
    assert (each(gpu), each(cpu())) == ("multiprocessor", "thread")


def test_a_machine_has_the_caches_of_its_device() -> None:
    assert caches_per_thread(machine_of(None, cpu(2))) == caches_per_thread(cpu(2))


# --- sizes --------------------------------------------------------------------------------------


def test_sizes_reach_beyond_six_times_the_last_cache() -> None:
    sizes = sweep_sizes({L1: 32 * KIB, L2: MIB, L3: 16 * MIB}, 1, None)
    assert sizes[0] == 4 * KIB
    assert 6 * 16 * MIB < sizes[-1] <= 6.5 * 16 * MIB
    assert all(size % 64 == 0 for size in sizes)


def test_small_sizes_are_denser() -> None:
    sizes = sweep_sizes({L1: 32 * KIB, L2: MIB, L3: 16 * MIB}, 1, None)
    steps = {near: far / near for near, far in pairwise(sizes)}
    assert all(1.2 < step < 1.3 for size, step in steps.items() if size < 15 * MIB)
    assert all(1.35 < step < 1.45 for size, step in list(steps.items())[:-1] if size > 15 * MIB)
    assert {32 * KIB, 64 * KIB, MIB} <= set(sizes)
    assert len(sizes) < 60


def test_without_caches_half_a_gibibyte_is_swept() -> None:
    assert 300 * MIB < 4 * sweep_sizes({}, 4, None)[-1] <= 512 * MIB


def test_a_quarter_of_the_free_memory_is_enough() -> None:
    assert 2 * sweep_sizes({L3: 100 * MIB}, 2, 400 * MIB)[-1] <= 100 * MIB + 64
    assert sweep_sizes({L3: MIB}, 2, 0) == ()


def test_no_more_than_a_gibibyte() -> None:
    sizes = sweep_sizes({L3: 400 * MIB}, 3, None)
    assert 0.9 * GIB < 3 * sizes[-1] <= GIB + 192


@given(
    st.dictionaries(st.sampled_from([L1, L2, L3]), st.integers(1024, 2**30)),
    st.integers(1, 256),
    st.none() | st.integers(0, 2**38),
)
def test_sizes_rise_and_fit_the_memory(
    caches: dict[MemoryLevel, int], threads: int, free: int | None
) -> None:
    sizes = sweep_sizes(caches, threads, free)
    assert list(sizes) == sorted(set(sizes))
    assert not sizes or threads * (sizes[-1] - 32) <= min(
        GIB, math.inf if free is None else free / 4
    )
    assert len(sizes) < 120


# --- measuring ----------------------------------------------------------------------------------


def test_a_sweep_has_every_size_with_its_rate(fake: SimpleNamespace, swept: Any) -> None:
    integration = Swept(fake)
    found = swept(integration)
    assert found.warnings == ()
    assert found.sweep.sizes == tuple(integration.asked)
    assert found.sweep.rates == pytest.approx([speed(size) for size in integration.asked])
    assert (found.sweep.kernel, found.sweep.threads) == ("read", 1)


def test_a_sweep_has_its_plateaus(swept: Any) -> None:
    found = swept().sweep.plateaus
    assert [rate for rate, _ in found] == pytest.approx([400e9, 200e9, 80e9, 20e9])
    for (_, last), end in zip(found, STEPS, strict=False):
        assert end / 1.3 < last < 1.3 * end


def test_an_integration_without_kernels_has_no_sweep(swept: Any) -> None:
    nothing = swept(SimpleNamespace(FRAMEWORK="old"))
    assert (nothing.sweep, nothing.warnings) == (None, ())


def test_a_device_without_kernels_has_no_sweep(swept: Any) -> None:
    none = SimpleNamespace(sweep_kernels=lambda device, sizes: iter(()))
    assert swept(none).sweep is None


def test_free_memory_of_the_computer_does_not_limit_a_gpu(
    fake: SimpleNamespace, swept: Any
) -> None:
    gpu = Device("cuda:0", "fake", {L2: 8 * MIB}, facts={"multiprocessors": 4})
    integration = Swept(fake)
    swept(integration, gpu, available=lambda: 0)
    assert max(integration.asked) > 6 * 2 * MIB


def test_what_was_disturbed_is_measured_again(fake: SimpleNamespace, swept: Any) -> None:
    """The first round and most of the second go wrong at one size."""
    wrong = {64 * KIB: [20e9] * 10 + [200e9]}
    found = swept(Swept(fake, lambda size: wrong.get(size, speed(size)))).sweep
    assert dict(zip(found.sizes, found.rates, strict=True))[64 * KIB] == pytest.approx(200e9)


def test_only_what_is_slower_than_a_larger_size_has_more_than_two_turns(
    fake: SimpleNamespace, swept: Any
) -> None:
    integration = Swept(fake, lambda size: 20e9 if size == 64 * KIB else speed(size))
    swept(integration)
    turns = {size: integration.ran.count(size) for size in integration.asked}
    assert turns.pop(64 * KIB) > 2
    assert set(turns.values()) == {2}


def test_rounds_after_the_first_keep_to_the_time(
    fake: SimpleNamespace, swept: Any, clock: Any
) -> None:
    """The first one measures every size; here a single kernel takes longer than is left after it."""
    integration = Swept(fake, lambda size: 1e6)
    swept(integration, seconds=0.01)
    count = len(integration.asked)
    assert sorted(integration.ran[:count]) == list(integration.asked)
    assert len(integration.ran) == count + 1


def test_neighbours_are_measured_apart(fake: SimpleNamespace, swept: Any) -> None:
    """Each pass rises, so that what a large set leaves in a cache is no part of the next one."""
    integration = Swept(fake)
    swept(integration)
    first = integration.ran[: len(integration.asked)]
    assert sorted(first) == list(integration.asked)
    falls = [near for near, far in pairwise(first) if far < near]
    assert len(falls) == 2
    place = {size: number for number, size in enumerate(integration.asked)}
    assert all(abs(place[near] - place[far]) > 1 for near, far in pairwise(first))


def test_the_samples_take_about_the_time_that_is_given(
    fake: SimpleNamespace, swept: Any, clock: Any
) -> None:
    swept(seconds=4.0)
    assert 2.0 < clock.now < 6.0


def test_progress_hears_the_sizes(swept: Any) -> None:
    heard: list[str] = []
    swept(progress=heard.append)
    assert heard[0] == "sweep: read 4.10 kB"
    assert len(set(heard)) == len(set(heard) & {text for text in heard if "read" in text})


def test_a_kernel_that_fails_is_told_once_with_its_sizes(fake: SimpleNamespace, swept: Any) -> None:
    error = MemoryError("no room for this")
    integration = Swept(fake, lambda size: error if size > 64 * MIB else speed(size))
    found = swept(integration)
    (text,) = found.warnings
    assert text.startswith("read could not run in the sweep at ")
    assert text.endswith("MB: MemoryError: no room for this.")
    assert max(found.sweep.sizes) <= 64 * MIB < max(integration.asked)


def test_where_every_kernel_fails_there_is_no_sweep(fake: SimpleNamespace, swept: Any) -> None:
    found = swept(Swept(fake, lambda size: RuntimeError("broken")))
    assert found.sweep is None
    (text,) = found.warnings
    assert text.startswith("read could not run in the sweep at 4.10 kB, 8.19 kB, 16.4 kB and ")
    assert text.endswith(" more sizes: RuntimeError: broken.")


def test_a_search_that_breaks_leaves_what_was_found(fake: SimpleNamespace, swept: Any) -> None:
    integration = Swept(fake)
    integration.broken = OSError("lost")
    found = swept(integration)
    assert found.warnings == ("The search for kernels of the sweep ended early: OSError: lost.",)
    assert len(found.sweep.sizes) == len(integration.asked)


def test_of_several_kernels_of_a_size_the_faster_one_counts(
    fake: SimpleNamespace, swept: Any
) -> None:
    def offered(device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
        for size in sizes:
            yield fake.kernel("near", 300e9 / size, what="bandwidth", size=size)
            yield fake.kernel("far", 1e6, what="bandwidth", size=size)

    found = swept(SimpleNamespace(sweep_kernels=offered)).sweep
    assert found.kernel == "near, far"
    assert found.rates == pytest.approx([max(300e9 / size, 1e6) for size in found.sizes])


# --- using --------------------------------------------------------------------------------------


def test_plateaus_of_a_saved_sweep_begin_where_the_nearer_one_ends() -> None:
    found = plateaus(
        Sweep((4096, 8192, 2**20), (4e9, 4e9, 1e9), "k", 1, ((4e9, 9000), (1e9, 2**20)))
    )
    assert [(one.first, one.last) for one in found] == [(4096, 9000), (9000, 2**20)]
    assert plateaus(Sweep((), ())) == ()


def test_levels_by_sizes_and_without(swept: Any) -> None:
    found = swept().sweep
    assert list(levels(found, caches_per_thread(cpu()))) == [L1, L2, L3, DRAM]
    assert levels(found, {}) == levels(found, caches_per_thread(cpu()))


def test_a_sweep_gives_ceilings_where_nothing_else_does(swept: Any) -> None:
    found = ceilings(swept().sweep, {})
    assert [one.rate for one in found.values()] == pytest.approx([400e9, 200e9, 80e9, 20e9])
    assert {one.how for one in found.values()} == {"framework-reachable"}
    assert all(
        one.kernel == "read" and "named by their order" in one.note for one in found.values()
    )
    known = ceilings(swept().sweep, caches_per_thread(cpu()))
    assert not any("order" in one.note for one in known.values())


def test_slower_than_a_larger_size() -> None:
    assert slower_than_larger({1: 5.0, 2: 10.0, 3: 9.5, 4: 4.0, 5: 6.0}) == {1, 4}
    assert slower_than_larger({}) == set()


# --- better -------------------------------------------------------------------------------------


def told_too_much(found: Sweep, **rates: float) -> Machine:
    """The system tells of an L3 of 200 MiB, so that its kernels read DRAM."""
    device = cpu()
    caches = [*device.facts["caches"][:2], {"level": "l3", "size": 200 * MIB, "sharers": 1}]
    machine = machine_of(found, replace(device, facts={**device.facts, "caches": caches}))
    rates = {"l1": 500e9, "l2": 195e9, "l3": 21e9, "dram": 10e9} | rates
    bandwidths = {MemoryLevel(name): Ceiling(rate) for name, rate in rates.items()}
    return replace(machine, bandwidths=bandwidths)


def test_a_level_whose_kernels_missed_it_is_read_off_the_sweep(swept: Any) -> None:
    """L3 only: L1 has a faster kernel, L2 one that is as fast, and DRAM may be read from a cache."""
    found = better(told_too_much(swept().sweep))
    assert list(found) == [L3]
    assert found[L3].rate == pytest.approx(80e9)
    assert found[L3].note.endswith("Kernels for the stated size of 210 MB were slower.")


def test_kernels_that_were_as_fast_stay(swept: Any) -> None:
    assert better(told_too_much(swept().sweep, l3=75e9)) == {}


def test_a_level_that_was_not_measured_stays_out(swept: Any) -> None:
    machine = told_too_much(swept().sweep)
    rest = {level: one for level, one in machine.bandwidths.items() if level is not L3}
    assert better(replace(machine, bandwidths=rest)) == {}
    assert better(replace(machine, sweep=None)) == {}


def test_a_sweep_that_does_not_show_every_level_is_not_better(swept: Any) -> None:
    found = swept().sweep
    assert better(told_too_much(replace(found, plateaus=found.plateaus[1:]))) == {}


def test_a_disturbed_sweep_is_not_better(swept: Any) -> None:
    found = swept().sweep
    rates = [rate / 3 if place % 3 else rate for place, rate in enumerate(found.rates)]
    assert better(told_too_much(replace(found, rates=tuple(rates)))) == {}


# --- doubts -------------------------------------------------------------------------------------


def test_a_sweep_as_the_system_says_raises_no_doubt(swept: Any) -> None:
    assert doubts(machine_of(swept().sweep)) == []


def test_a_shared_cache_ends_at_a_part_of_its_size(fake: SimpleNamespace, swept: Any) -> None:
    """64 MiB that four threads share: each falls out of it at 16 MiB, and that is as it should be."""
    device = cpu(threads=4)
    caches = [*device.facts["caches"][:2], {"level": "l3", "size": 64 * MIB, "sharers": 4}]
    device = replace(device, facts={**device.facts, "caches": caches})
    found = swept(Swept(fake), device).sweep
    machine = machine_of(found, device)
    assert doubts(machine) == []
    named = levels(found, caches_per_thread(machine))
    assert list(named) == [L1, L2, L3, DRAM]
    assert 12 * MIB < named[L3].last < 20 * MIB


def test_a_machine_without_a_sweep_raises_none() -> None:
    assert doubts(machine_of(None)) == []


def test_a_knee_where_no_cache_is_told_of(swept: Any) -> None:
    device = cpu()
    facts = dict(device.facts)
    facts["caches"] = [*facts["caches"][:2], {"level": "l3", "size": 200 * MIB, "sharers": 1}]
    (text,) = doubts(machine_of(swept().sweep, replace(device, facts=facts)))
    assert text.startswith(
        "The sweep falls at 16.8 MB per thread, where the system tells of no cache"
    )
    assert "L3 210 MB" in text and "hypervisor" in text


def test_a_cache_that_the_system_hides(swept: Any) -> None:
    device = cpu()
    facts = {**device.facts, "caches": device.facts["caches"][:2]}
    (text,) = doubts(machine_of(swept().sweep, replace(device, facts=facts)))
    assert "at 16.8 MB per thread" in text


def test_where_the_system_tells_nothing_no_knee_is_doubtful(swept: Any) -> None:
    unknown = Device("cpu", "fake", facts={"threads": 1})
    assert doubts(machine_of(swept().sweep, unknown)) == []


def test_a_sweep_without_a_step() -> None:
    flat = Sweep((4096, 8192, 16384), (1e9, 1e9, 1e9), "k", 1, ((1e9, 16384),))
    (text,) = doubts(machine_of(flat))
    assert "no step" in text
    assert doubts(machine_of(replace(flat, plateaus=()))) == []


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("one thread", "The sweep falls at 56.4 MB per thread"),
        ("disturbed everywhere", "The sweep was disturbed: 44 of 57 sizes"),
    ],
)
def test_recorded_doubts(name: str, start: str) -> None:
    """A virtual machine that is told of 300 MiB of L3 and gets a sixth; and a hopeless measurement."""
    text = Path(__file__).with_name("recorded_sweeps.json").read_text(encoding="utf-8")
    data = json.loads(text)[name]
    found = tuple((one.rate, one.last) for one in blind(data["sizes"], data["rates"]))
    caches = [{"level": key, "size": size, "sharers": 1} for key, size in data["caches"].items()]
    device = Device("cpu", "vm", facts={"threads": data["threads"], "caches": caches})
    recorded = Sweep(tuple(data["sizes"]), tuple(data["rates"]), "k", data["threads"], found)
    (said,) = doubts(machine_of(recorded, device))
    assert said.startswith(start)


# --- the solved case ----------------------------------------------------------------------------


def test_case_65_the_first_slow_run_is_no_sample(fake: SimpleNamespace, swept: Any) -> None:
    """The series of the case as kernels: the first run of each size is slow, the best of the others counts."""
    if "HROOF_CASES" not in os.environ:
        pytest.skip("HROOF_CASES is not set: the solved cases lie outside the repository")
    folder = Path(os.environ["HROOF_CASES"]) / "65-ceiling-working-set-and-warmup"
    told = json.loads((folder / "input_device.json").read_text(encoding="utf-8"))
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expect"]
    runs: dict[int, list[float]] = {}
    for row in (folder / "input.csv").read_text(encoding="utf-8").split()[1:]:
        size, moved, nanoseconds, _ = row.split(",")
        runs.setdefault(int(size), []).append(float(moved) / float(nanoseconds) * 1e9)

    def offered(device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
        for size, (first, second, third) in runs.items():
            rates = [first, third, *[third, second] * 5]
            yield fake.kernel("read", rates, work=100.0 * size, what="bandwidth", size=size)

    gpu = Device("cuda:0", "made up", {L2: told["l2_bytes"]})
    found = swept(SimpleNamespace(sweep_kernels=offered), gpu).sweep
    caches = {L1: told["l1_bytes_per_sm"] * told["sm_count"], L2: told["l2_bytes"]}
    rates = guided(found.sizes, found.rates, caches)
    assert rates[DRAM] / 1e9 == pytest.approx(wanted["dram_gb_per_s"], rel=1e-3)
    assert rates[L2] / 1e9 == pytest.approx(wanted["l2_gb_per_s"], rel=1e-3)
