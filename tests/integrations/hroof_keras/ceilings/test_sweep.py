"""TensorFlow's kernels of the sweep on a CPU: which memory they read, and how much of it."""

from __future__ import annotations

import time
from typing import Any

import pytest

tensorflow = pytest.importorskip("tensorflow")

from hroof.ceilings.sweep import measure_sweep  # noqa: E402
from hroof.integration import CeilingKernel, Device, load  # noqa: E402
from hroof.units import MemoryLevel  # noqa: E402
from hroof_keras.ceilings import cpu as ceilings_cpu  # noqa: E402
from hroof_keras.ceilings import sweep as ceilings_sweep  # noqa: E402
from hroof_keras.ceilings.memory import Walker  # noqa: E402
from hroof_keras.ceilings.sweep import cpu_sweep  # noqa: E402

KIB, MIB = 1024, 1024**2
ROW = 9 * 912 * 4
L1, L2, L3, _ = MemoryLevel


def cpu(threads: int = 1, **caches: int) -> Device:
    sizes = {MemoryLevel(level): threads * size for level, size in caches.items()}
    return Device("cpu", "small", sizes, facts={"threads": threads})


def kernels(sizes: list[int], device: Device | None = None) -> list[CeilingKernel]:
    return list(cpu_sweep(device or cpu(l1=48 * KIB), sizes))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """As little work per call as possible."""
    monkeypatch.setattr(ceilings_cpu, "_TRAFFIC", dict.fromkeys(MemoryLevel, 1.0))
    monkeypatch.setattr(ceilings_sweep, "_TRAFFIC", 1.0)
    monkeypatch.setattr(ceilings_sweep, "_PART", 4 * ROW)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """What the program would have been called with: times, first row, rows."""
    seen: list[tuple[int, ...]] = []

    def calls(self: Walker, *numbers: int) -> list[Any]:
        return [lambda: seen.append(numbers)] * self.team.threads

    monkeypatch.setattr(Walker, "calls", calls)
    return seen


def test_sets_near_l1_are_read_in_overlapping_slices_and_others_by_rows() -> None:
    found = kernels([4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, MIB])
    assert [(kernel.size, kernel.name.split(", ")[1]) for kernel in found] == [
        (16 * KIB, "slices that overlap"),
        (64 * KIB, "slices that overlap"),
        (3 * ROW, "row by row"),
        (31 * ROW, "row by row"),
    ]
    assert {(k.what, k.level, k.threads) for k in found} == {("bandwidth", None, 1)}


def test_a_page_is_too_small_for_any() -> None:
    assert kernels([4 * KIB]) == kernels([]) == []


def test_without_a_known_l1_a_usual_one_is_taken() -> None:
    names = [k.name for k in kernels([40 * KIB, 64 * KIB], Device("cpu", "some", facts={}))]
    assert len(set(names)) == 2


def test_every_size_runs_and_counts_what_it_reads() -> None:
    for kernel in kernels([16 * KIB, 100 * KIB, 6 * ROW], cpu(2, l1=48 * KIB)):
        call, work = kernel.prepare()
        call()
        assert work > 0
    (by_rows,) = kernels([3 * ROW])
    assert by_rows.prepare()[1] == 3 * ROW


def test_a_small_set_is_read_again_and_again(
    asked: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings_sweep, "_TRAFFIC", 10.0 * ROW)
    (kernel,) = kernels([3 * ROW], cpu(2, l1=16 * KIB))
    call, work = kernel.prepare()
    call()
    assert asked == [(3, 0, 3)] * 2
    assert work == 2 * 3 * 3 * ROW


def test_a_large_set_is_read_part_by_part(asked: list[tuple[int, ...]]) -> None:
    (kernel,) = kernels([9 * ROW], cpu(1, l1=16 * KIB, l2=4 * ROW))
    call, work = kernel.prepare()
    assert asked == []
    for _ in range(3):
        call()
    assert asked == [(1, 0, 4), (1, 4, 4), (1, 0, 4)]
    assert work == 4 * ROW


@pytest.mark.parametrize(("last", "reads"), [(6 * ROW, 2), (4 * ROW, 0), (0, 2)])
def test_a_set_that_a_cache_may_hold_is_read_once_before(
    asked: list[tuple[int, ...]], last: int, reads: int
) -> None:
    device = cpu(1, l2=last) if last else Device("cpu", "small", facts={"threads": 1})
    (kernel,) = kernels([9 * ROW], device)
    kernel.prepare()
    assert len(asked) == reads


def test_the_integration_offers_them() -> None:
    found = list(load("keras").sweep_kernels(cpu(l1=48 * KIB), [16 * KIB]))
    assert [kernel.size for kernel in found] == [16 * KIB]


def test_a_short_sweep_of_this_machine() -> None:
    """Real kernels on a real clock: every size has a rate, whatever it is."""
    found = measure_sweep(load("keras"), cpu(l1=48 * KIB), clock=time.perf_counter, seconds=0.05)
    assert found.warnings == ()
    assert found.sweep is not None
    assert 11 * KIB <= found.sweep.sizes[0] < 16 * KIB
    assert found.sweep.sizes[-1] > 6 * 48 * KIB
    assert all(rate > 0 for rate in found.sweep.rates)
