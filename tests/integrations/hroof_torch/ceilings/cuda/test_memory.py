"""Kernels for a GPU's memory, L2, L1 and shared memory: what they read, count, and how they are launched."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.errors import MissingError  # noqa: E402
from hroof.integration import CeilingKernel, Device  # noqa: E402
from hroof.units import MemoryLevel  # noqa: E402
from hroof_torch.ceilings.cuda import memory  # noqa: E402

L1, L2, L3, DRAM = MemoryLevel
KIB, MIB, GIB = 1024, 1024**2, 1024**3
VECTOR = 16


def values(arguments: tuple[Any, ...]) -> list[int]:
    """The numbers among the arguments of a kernel."""
    return [argument.value for argument in arguments if not isinstance(argument, torch.Tensor)]


# --- windows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nbytes", "window"),
    [
        (16383, 0),
        (16384, 16 * KIB),
        (40_000, 32 * KIB),
        (65_536, 64 * KIB),
        (200_000, 192 * KIB),
        (1e7, 152 * 64 * KIB),
    ],
)
def test_a_window_is_what_threads_read_without_a_remainder(nbytes: float, window: int) -> None:
    assert memory.whole_window(nbytes) == window
    if window:
        threads = memory.threads_for(window)
        assert window % (threads * 4 * VECTOR) == 0


@pytest.mark.parametrize(("window", "threads"), [(16, 256), (32, 512), (48, 256), (64, 1024)])
def test_as_many_threads_as_possible_read_a_window(window: int, threads: int) -> None:
    assert memory.threads_for(window * KIB) == threads


@pytest.mark.parametrize("window", [0, 1000, 17 * KIB])
def test_a_window_with_a_remainder_is_refused(window: int) -> None:
    with pytest.raises(ValueError, match=f"{window} bytes is no multiple"):
        memory.threads_for(window)


@pytest.mark.parametrize("near", [True, False])
def test_every_multiprocessor_reads_its_own_window(card: Any, near: bool) -> None:
    asked: list[int] = []

    def data(nbytes: int) -> Any:
        asked.append(nbytes)
        return torch.zeros(nbytes // 4)

    call, work = memory.window_kernel(card.device, card.timer(), "read", data, 64 * KIB, near=near)
    ((name, shape, arguments, prefer_l1),) = card.built
    assert name == ("window_near" if near else "window_far") and prefer_l1 is near
    assert shape == (4, 1024) and asked == [4 * 64 * KIB]
    vectors, passes, zero = values(arguments)
    assert vectors * VECTOR == 64 * KIB and zero == 0
    launches = len(card.launches)
    call()
    per_call = len(card.launches) - launches
    assert work == per_call * passes * 4 * 64 * KIB


def test_a_large_window_is_read_at_least_once(card: Any) -> None:
    window = 512 * MIB
    data = torch.empty(0)
    memory.window_kernel(card.device, card.timer(), "read", lambda _: data, window, near=False)
    assert values(card.built[0][2])[1] == 1


def test_a_kernel_holds_the_memory_that_it_reads(card: Any) -> None:
    memory.window_kernel(card.device, card.timer(), "read", torch.zeros, 16 * KIB, near=True)
    first, *_, last = card.built[0][2]
    assert first.numel() == 4 * 16 * KIB and last.numel() == 1


# --- caches -------------------------------------------------------------------------------------


def l1_of(device: Device, card: Any, capability: tuple[int, int]) -> list[CeilingKernel]:
    kernels = list(memory.l1_kernels(device, card.timer(), capability))
    assert {kernel.level for kernel in kernels} == {L1}
    return kernels


@pytest.mark.parametrize(
    ("capability", "windows"),
    [
        ((9, 0), [16, 32, 64, 128]),
        ((8, 0), [16, 32, 64]),
        ((8, 9), [16, 32, 64]),
        ((7, 5), [16, 32]),
        ((99, 9), [16, 32]),
    ],
)
def test_windows_fit_l1(card: Any, capability: tuple[int, int], windows: list[int]) -> None:
    kernels = l1_of(card.device, card, capability)
    sizes = [kernel.size for kernel in kernels if not kernel.variant]
    assert sizes == [window * KIB for window in windows]
    assert {kernel.how for kernel in kernels} == {"measured"}
    assert {kernel.threads for kernel in kernels} == {4}


def test_shared_memory_is_told_apart(card: Any) -> None:
    (shared,) = [k for k in l1_of(card.device, card, (9, 0)) if k.variant == "shared memory"]
    card.seconds["shared_window"] = 0.02
    call, work = shared.prepare()
    ((name, shape, arguments, _),) = card.built
    passes, zero = values(arguments)
    assert (name, shape, zero) == ("shared_window", (4, 1024), 0)
    assert work == 4 * 32 * KIB * passes
    call()
    assert card.launches[-1] == "shared_window"


def test_l1_is_read_through_l1_and_l2_past_it(card: Any) -> None:
    for kernel in memory.l1_kernels(card.device, card.timer(), (9, 0)):
        kernel.prepare()
    assert {name for name, *_ in card.built} == {"window_near", "shared_window"}
    card.built.clear()
    for kernel in memory.l2_kernels(card.device, card.timer()):
        kernel.prepare()
    assert {name for name, *_ in card.built} == {"window_far"}


def test_windows_lie_in_l2_together(gpu: Callable[..., Device], card: Any) -> None:
    device = gpu(multi_processor_count=132, L2_cache_size=50 * MIB)
    kernels = list(memory.l2_kernels(device, card.timer()))
    assert [kernel.level for kernel in kernels] == [L2] * len(kernels)
    sizes = [kernel.size for kernel in kernels]
    assert sizes == [32 * KIB, 64 * KIB, 192 * KIB]
    assert all(size is not None and size * 132 <= 25 * MIB for size in sizes)


def test_a_small_l2_has_fewer_windows(gpu: Callable[..., Device], card: Any) -> None:
    device = gpu(7, 0, multi_processor_count=80, L2_cache_size=6 * MIB)
    kernels = list(memory.l2_kernels(device, card.timer()))
    assert [kernel.size for kernel in kernels] == [16 * KIB, 32 * KIB]
    tiny = gpu(7, 0, multi_processor_count=80, L2_cache_size=MIB)
    assert list(memory.l2_kernels(tiny, card.timer())) == []


def test_copies_within_l2_count_reads_and_writes(card: Any) -> None:
    copies = list(memory.copies(card.device, card.timer()))
    assert [kernel.name for kernel in copies] == ["copy_ L2/8", "copy_ L2/4"]
    assert {kernel.how for kernel in copies} == {"framework-reachable"}
    timer = card.timer()
    timer.batched = lambda name, launch, work: (launch, work)
    (kernel, _) = memory.copies(card.device, timer)
    prepared: Any = kernel.prepare()
    call, work = prepared
    assert work == 2 * MIB // 8
    assert call().numel() * 4 == MIB // 8


def test_without_nvrtc_l1_is_refused_with_the_reason() -> None:
    kernel = memory.refused_l1(MissingError("NVRTC was not found.", "Install it."))
    assert kernel.level is L1
    with pytest.raises(MissingError, match="NVRTC was not found"):
        kernel.prepare()


# --- the device's memory ------------------------------------------------------------------------


def test_arrays_exceed_l2_and_a_gibibyte(gpu: Callable[..., Device]) -> None:
    assert memory.memory_bytes(gpu(), 80 * GIB) == (GIB, True)
    large = dataclasses.replace(gpu(), caches={L2: GIB})
    assert memory.memory_bytes(large, 80 * GIB) == (4 * GIB, True)
    assert memory.memory_bytes(gpu(), 0) == (GIB, True)


def test_little_free_memory_is_told(gpu: Callable[..., Device], card: Any) -> None:
    assert memory.memory_bytes(gpu(), GIB + 12) == (GIB // 4, False)
    notes = {k.note for k in memory.memory_kernels(gpu(), card.timer(), GIB, own=True)}
    assert all("Too little free memory" in note for note in notes)
    notes = {k.note for k in memory.memory_kernels(gpu(), card.timer(), 80 * GIB, own=True)}
    assert not any("Too little" in note for note in notes)


def test_free_memory_is_what_the_device_says(
    gpu: Callable[..., Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (7, 9))
    assert memory.free_memory(gpu()) == 7

    def refuse(device: str) -> tuple[int, int]:
        raise RuntimeError("no CUDA")

    monkeypatch.setattr(torch.cuda, "mem_get_info", refuse)
    assert memory.free_memory(gpu()) == 80 * GIB


def by_name(kernels: list[CeilingKernel]) -> dict[str, set[str]]:
    """Which rates each kernel is measured for; the ceiling itself is empty."""
    found: dict[str, set[str]] = {}
    for kernel in kernels:
        found.setdefault(kernel.name.split()[0], set()).add(kernel.variant)
    return found


def test_every_way_to_use_memory_is_a_rate_of_its_own(card: Any) -> None:
    kernels = list(memory.memory_kernels(card.device, card.timer(), 16 * MIB, own=True))
    assert {kernel.level for kernel in kernels} == {DRAM}
    assert by_name(kernels) == {
        "read": {"", "read"},
        "sum": {"", "read"},
        "copy_": {"", "copy"},
        "mul_": {"", "in place"},
        "fill_": {"write"},
    }


def test_the_ceiling_and_its_rate_are_one_measurement(card: Any) -> None:
    kernels = list(memory.memory_kernels(card.device, card.timer(), 16 * MIB, own=True))
    assert len({kernel.prepare for kernel in kernels}) == 5


def test_only_the_kernel_of_our_own_is_known_to_use_the_whole_memory(card: Any) -> None:
    kernels = list(memory.memory_kernels(card.device, card.timer(), 16 * MIB, own=True))
    measured = {kernel.name.split()[0] for kernel in kernels if kernel.how == "measured"}
    assert measured == {"read"}
    without = list(memory.memory_kernels(card.device, card.timer(), 16 * MIB, own=False))
    assert set(by_name(without)) == set(by_name(kernels)) - {"read"}


@pytest.mark.parametrize(
    ("op", "times"), [("sum", 1), ("copy_", 2), ("mul_", 2), ("fill_", 1), ("read", 1)]
)
def test_traffic_is_counted_as_the_note_says(card: Any, op: str, times: int) -> None:
    free = 16 * MIB
    timer = card.timer()
    timer.batched = lambda name, launch, work, **more: (launch, work)
    kernels = memory.memory_kernels(card.device, timer, free, own=True)
    kernel = next(k for k in kernels if k.name == f"{op} 4 MiB")
    call, work = kernel.prepare()
    call()
    if op == "read":  # repeats inside one launch
        vectors, passes, _ = values(card.built[0][2])
        assert work == 4 * vectors * VECTOR * passes and vectors * VECTOR * 4 == 4 * MIB
    else:
        assert work == times * 4 * MIB


def test_copies_and_sums_use_the_same_two_arrays() -> None:
    arrays = memory.Arrays("cpu", 4096)
    assert arrays.get(1) is arrays.get(1) and arrays.get(0) is not arrays.get(1)
    assert arrays.get(0).numel() == 1024
    arrays.get(1).copy_(arrays.get(0))


def test_values_are_random_and_leave_the_programs_generator_alone() -> None:
    before = torch.get_rng_state()
    values = memory.random_values("cpu", 1000)
    assert torch.equal(torch.get_rng_state(), before)
    assert values.unique().numel() > 900 and math.isclose(float(values.std()), 1, abs_tol=0.1)
    assert torch.equal(values, memory.random_values("cpu", 1000))
