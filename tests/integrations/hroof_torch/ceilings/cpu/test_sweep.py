"""PyTorch's kernels of the sweep on a CPU: what they read, how much of it, and what they leave alone."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.ceilings.sweep import measure_sweep  # noqa: E402
from hroof.integration import CeilingKernel, Device, load  # noqa: E402
from hroof.units import MemoryLevel  # noqa: E402
from hroof_torch import ceilings  # noqa: E402
from hroof_torch.ceilings.cpu import sweep as ceilings_sweep  # noqa: E402
from hroof_torch.ceilings.cpu.sweep import Memory, cpu_sweep  # noqa: E402

KIB, MIB = 1024, 1024**2


def cpu(threads: int = 2, last: int = 4 * MIB) -> Device:
    return Device("cpu", "small", {MemoryLevel.L2: last}, facts={"threads": threads})


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> int:
    """Windows of 64 KiB, so that large sets are small."""
    monkeypatch.setattr(ceilings_sweep, "_WINDOW", 64 * KIB)
    monkeypatch.setattr(ceilings_sweep, "_TRAFFIC", 256e3)
    return 64 * KIB


@pytest.fixture
def random_state() -> Iterator[None]:
    """Fails if the program's random state has changed."""
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before)


def kernels(sizes: list[int], device: Device | None = None) -> list[CeilingKernel]:
    return list(cpu_sweep(device or cpu(), sizes))


def prepared(kernel: CeilingKernel) -> tuple[Any, float]:
    """The kernel's call, whose result may be anything, and its work."""
    return kernel.prepare()


def test_one_kernel_for_each_size() -> None:
    sizes = [4 * KIB, 64 * KIB, 32 * MIB]
    found = kernels(sizes)
    assert [kernel.size for kernel in found] == sizes
    assert {(kernel.what, kernel.threads, kernel.level) for kernel in found} == {
        ("bandwidth", 2, None)
    }
    assert kernels([]) == []


@pytest.fixture
def asked_to_compile(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes for which a compiled kernel was wanted; nothing is compiled."""
    sizes: list[int] = []

    def folds(compiled: Any, size: int, threads: int, traffic: float) -> Any:
        sizes.append(size)
        return lambda: (lambda: None, traffic * threads)

    monkeypatch.setattr(ceilings_sweep, "folds", folds)
    return sizes


@pytest.mark.parametrize(
    ("caches", "wanted"),
    [
        ({MemoryLevel.L1: 32 * KIB, MemoryLevel.L2: MIB}, [16, 32, 44]),
        ({MemoryLevel.L1: 48 * KIB}, [16, 32, 44, 64]),
        ({MemoryLevel.L2: MIB}, []),
    ],
)
def test_with_a_compiler_sets_in_l1_have_a_second_kernel(
    caches: dict[MemoryLevel, int], wanted: list[int], asked_to_compile: list[int]
) -> None:
    """From two blocks of the compiled loop to a little more than L1, if its size is known."""
    device = Device("cpu", "some", caches, facts={"threads": 1, "compiler": "/usr/bin/c++"})
    sizes = [KIB * size for size in (4, 8, 16, 32, 44, 64, 128, 1024)]
    names = [(kernel.size, kernel.name) for kernel in kernels(sizes, device)]
    assert asked_to_compile == [KIB * size for size in wanted]
    assert [size for size, name in names if name == "compiled fold"] == asked_to_compile
    assert [size for size, name in names if name == "expand.sum"] == sizes


@pytest.mark.parametrize("facts", [{}, {"compiler": None}, {"compiler": "/c++", "quick": True}])
def test_without_one_or_in_a_hurry_nothing_is_compiled(
    facts: dict[str, Any], asked_to_compile: list[int]
) -> None:
    caches = {MemoryLevel.L1: 64 * KIB}
    device = Device("cpu", "some", caches, facts={"threads": 1, **facts})
    assert {kernel.name for kernel in kernels([32 * KIB, MIB], device)} == {"expand.sum"}
    assert asked_to_compile == []


def test_the_integration_offers_them() -> None:
    integration = load("torch")
    found = list(integration.sweep_kernels(cpu(), [4 * KIB]))
    assert [kernel.size for kernel in found] == [4 * KIB]


def test_other_devices_have_kernels_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[int]]] = []

    def offered(device: Device, sizes: list[int]) -> Iterator[CeilingKernel]:
        asked.append((device.device, sizes))
        return iter(())

    monkeypatch.setattr("hroof_torch.ceilings.cuda.sweep.cuda_sweep_kernels", offered)
    assert list(ceilings.sweep_kernels(Device("cuda:0", "gpu"), [4096])) == []
    assert asked == [("cuda:0", [4096])]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_work_is_what_the_sums_read(threads: int, small_windows: int) -> None:
    (kernel,) = kernels([4 * KIB], cpu(threads))
    call, work = prepared(kernel)
    sums = call()
    assert sums.shape == (threads, round(256e3 / (4 * KIB)))
    assert work == sums.numel() * 4 * KIB
    assert torch.equal(sums, torch.full(sums.shape, float(KIB)))


def test_every_thread_has_memory_of_its_own() -> None:
    rows = Memory(3, 64 * KIB).rows(16 * KIB)
    starts = [row.data_ptr() for row in rows]
    assert rows.shape == (3, 4 * KIB)
    assert all(abs(a - b) >= 64 * KIB for a in starts for b in starts if a != b)
    assert len(set(starts)) == 3


def test_repeats_read_the_same_memory(small_windows: int) -> None:
    """Not copies of it, which would be another, larger working set."""
    memory = Memory(2, 8 * KIB)
    call: Any = ceilings_sweep._sums(memory, 8 * KIB, 2)()[0]
    memory.rows(8 * KIB)[0, 0] += 5.0
    sums = call()
    assert torch.equal(sums[0], torch.full_like(sums[0], 2 * KIB + 5.0))
    assert torch.equal(sums[1], torch.full_like(sums[1], 2 * KIB))


def test_memory_is_written_before_it_is_read() -> None:
    """Pages that nobody wrote are all the same page of zeros."""
    memory = Memory(2, 64 * KIB)
    for nbytes in (4 * KIB, 32 * KIB, 64 * KIB, 16 * KIB):
        assert torch.equal(memory.rows(nbytes), torch.ones(2, nbytes // 4))


def test_no_more_memory_is_taken_than_a_size_needs() -> None:
    memory = Memory(2, 64 * KIB)
    memory.rows(4 * KIB)
    assert memory._touched == KIB
    assert memory.rows(8 * KIB).data_ptr() == memory.rows(64 * KIB).data_ptr()


def test_windows_cover_a_large_set_and_come_again(small_windows: int) -> None:
    size = 4 * small_windows
    memory = Memory(2, size)
    whole = memory.rows(size)
    begins = [
        (memory.next_window(size).data_ptr() - whole.data_ptr()) // small_windows for _ in range(9)
    ]
    assert begins == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert memory.next_window(size).shape == (2, small_windows // 4)


def test_windows_go_on_where_the_size_before_stopped(small_windows: int) -> None:
    memory = Memory(1, 8 * small_windows)
    start = memory.rows(8 * small_windows).data_ptr()
    for _ in range(3):
        memory.next_window(4 * small_windows)
    assert memory.next_window(8 * small_windows).data_ptr() - start == 3 * small_windows


def test_a_large_set_is_read_one_window_a_call(small_windows: int) -> None:
    (kernel,) = kernels([4 * small_windows])
    call, work = prepared(kernel)
    assert work == 2 * small_windows
    assert torch.equal(call(), torch.full((2,), small_windows / 4))


@pytest.mark.parametrize(("last", "reads"), [(MIB, 4), (64 * KIB, 0), (0, 4)])
def test_a_set_that_a_cache_may_hold_is_read_once_before(
    last: int, reads: int, small_windows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no cache is known, any may hold it; twice the last cache holds none of it."""
    device = cpu(last=last) if last else Device("cpu", "small", facts={"threads": 2})
    (kernel,) = kernels([4 * small_windows], device)
    seen: list[int] = []
    plain = Memory.next_window

    def counted(self: Memory, nbytes: int) -> Any:
        seen.append(nbytes)
        return plain(self, nbytes)

    monkeypatch.setattr(Memory, "next_window", counted)
    kernel.prepare()
    assert len(seen) == reads


def test_kernels_leave_the_random_state_alone(random_state: None, small_windows: int) -> None:
    for kernel in kernels([4 * KIB, 256 * KIB]):
        kernel.prepare()[0]()


def test_memory_goes_with_the_kernels(small_windows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[weakref.ref[Memory]] = []

    class Watched(Memory):
        def __init__(self, threads: int, nbytes: int) -> None:
            super().__init__(threads, nbytes)
            taken.append(weakref.ref(self))

    monkeypatch.setattr(ceilings_sweep, "Memory", Watched)
    found = kernels([4 * KIB, 4 * small_windows])
    calls = [prepared(kernel)[0] for kernel in found]
    assert taken[0]() is not None
    del found, calls
    gc.collect()
    assert taken[0]() is None


def test_a_short_sweep_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real kernels on a real clock: every size has a rate, whatever it is."""
    monkeypatch.setattr(ceilings_sweep, "_TRAFFIC", 1e6)
    device = Device("cpu", "small", {MemoryLevel.L1: 64 * KIB}, facts={"threads": 1})
    found = measure_sweep(load("torch"), device, clock=time.perf_counter, seconds=0.1)
    assert found.warnings == ()
    assert found.sweep is not None
    assert found.sweep.sizes[0] == 4 * KIB and found.sweep.sizes[-1] > 6 * 64 * KIB
    assert all(rate > 0 for rate in found.sweep.rates)
    assert found.sweep.kernel == "expand.sum"
