"""Kernels that measure the memory levels of a CUDA device: its memory, L2, L1, shared memory.

Windows are read again and again inside one launch by kernels of our own, one block per multiprocessor, each with a
window of its own. Where they cannot be compiled, PyTorch's copies have to do for L2, and nothing measures L1. Not run
on a GPU so far.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from hroof.errors import MissingError
from hroof.integration import CeilingKernel, Device
from hroof.units import MemoryLevel
from hroof_torch.ceilings.cuda.program import Launcher
from hroof_torch.ceilings.cuda.timing import BATCH, Launch, Prepared, Timer

KIB = 1024
GRANULE = 16 * KIB
"""The smallest window of a block: 256 threads, four float4 each."""
_FLOAT, _VECTOR = 4, 16
_GIBIBYTE = 1024**3
_MOST_THREADS = 1024
_PER_BLOCK = 256 * 1024**2
"""Bytes that a block reads per launch: some 1.2 ms out of L1, the fastest level."""
_SHARE_OF_FREE = 4
_OVER_L2 = 4
_L1_WINDOWS = (16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB)
_L1_SHARE = 0.6
_L2_SHARES = (8, 4, 2)
_COPY_SHARES = (8, 4)
_SHARED = 32 * KIB
_SHARED_PASSES = 4096
_READ = "Reads are counted."
_BOTH = "Reads and writes are counted."

L1_SIZES = {
    (7, 0): 128,
    (7, 2): 128,
    (7, 5): 64,
    (8, 0): 192,
    (8, 6): 128,
    (8, 7): 192,
    (8, 9): 128,
    (9, 0): 256,
    (10, 0): 256,
    (10, 3): 256,
    (12, 0): 128,
    (12, 1): 128,
}
"""KiB that L1 can have at most per multiprocessor, by compute capability (CUDA C++ Programming Guide, compute
capabilities). Shared memory takes its part of it."""


def multiprocessors(device: Device) -> int:
    """How many multiprocessors a device has."""
    return int(device.facts["multiprocessors"])


def random_values(device: str, *shape: int) -> torch.Tensor:
    """Random normal values: constants draw less power and run faster. Own generator."""
    own = torch.Generator(device).manual_seed(0)
    return torch.randn(shape, generator=own, dtype=torch.float32, device=device)


# --- windows ------------------------------------------------------------------------------------


def whole_window(nbytes: float) -> int:
    """The largest window of a block within some bytes that its threads read without a remainder; 0 for none."""
    for unit in (4 * GRANULE, 2 * GRANULE, GRANULE):
        if nbytes >= unit:
            return int(nbytes // unit) * unit
    return 0


def threads_for(window: int) -> int:
    """How many threads read a window: the most of which each has four float4 of it.

    Raises:
        ValueError: No such number fits.
    """
    for threads in (1024, 512, 256):
        if window and window % (threads * 4 * _VECTOR) == 0:
            return threads
    raise ValueError(f"a window of {window} bytes is no multiple of {GRANULE}")


def window_kernel(
    device: Device,
    timer: Timer,
    name: str,
    data: Callable[[int], torch.Tensor],
    window: int,
    *,
    near: bool,
    batch: float = BATCH,
) -> Prepared:
    """Prepare reading windows.

    Args:
        device: As ``hroof_torch.ceilings.device`` describes it.
        timer: Of the device.
        name: For what the timer sees.
        data: Gives at least so many bytes of memory.
        window: Bytes per block, which ``threads_for`` takes.
        near: Through L1; otherwise past it.
        batch: Seconds of one call.
    """
    blocks, threads = multiprocessors(device), threads_for(window)
    passes = max(round(_PER_BLOCK / window), 1)
    memory, never = data(blocks * window), torch.zeros(1, dtype=torch.float32, device=device.device)
    numbers = map(ctypes.c_uint, (window // _VECTOR, passes, 0))
    kernel = "window_near" if near else "window_far"
    shape = blocks, threads
    launch = Launcher(device, kernel, shape, (memory, *numbers, never), prefer_l1=near)
    return timer.batched(name, launch, float(blocks * window * passes), batch=batch)


# --- caches -------------------------------------------------------------------------------------


def l1_kernels(
    device: Device, timer: Timer, capability: tuple[int, int]
) -> Iterator[CeilingKernel]:
    """Reads of windows that lie in L1, and, as a rate beside it, of shared memory."""
    room = L1_SIZES.get(capability, min(L1_SIZES.values())) * KIB
    for window in _L1_WINDOWS:
        if window <= _L1_SHARE * room or window == _L1_WINDOWS[0]:
            yield _window(device, timer, MemoryLevel.L1, window, near=True)
    name = "shared memory 32 KiB"
    yield CeilingKernel(
        name,
        "bandwidth",
        lambda: _shared(device, timer, name),
        level=MemoryLevel.L1,
        threads=multiprocessors(device),
        variant="shared memory",
        note=f"{_READ} One block per multiprocessor reads its shared memory in one launch.",
        size=_SHARED,
        how="measured",
    )


def l2_kernels(device: Device, timer: Timer) -> Iterator[CeilingKernel]:
    """Reads past L1 of windows that lie in L2 together."""
    blocks, l2 = multiprocessors(device), device.caches[MemoryLevel.L2]
    windows = dict.fromkeys(whole_window(l2 / share / blocks) for share in _L2_SHARES)
    for window in filter(None, windows):
        yield _window(device, timer, MemoryLevel.L2, window, near=False)


def _window(
    device: Device, timer: Timer, level: MemoryLevel, window: int, *, near: bool
) -> CeilingKernel:
    name = f"{'read' if near else 'read past L1'} {window // KIB} KiB per multiprocessor"

    def data(nbytes: int) -> torch.Tensor:
        return random_values(device.device, nbytes // _FLOAT)

    return CeilingKernel(
        name,
        "bandwidth",
        lambda: window_kernel(device, timer, name, data, window, near=near),
        level=level,
        threads=multiprocessors(device),
        note=f"{_READ} Every multiprocessor reads a window of its own again and again in one launch.",
        size=window,
        how="measured",
    )


def _shared(device: Device, timer: Timer, name: str) -> Prepared:
    blocks = multiprocessors(device)
    never = torch.zeros(1, dtype=torch.float32, device=device.device)
    arguments = (ctypes.c_uint(_SHARED_PASSES), ctypes.c_uint(0), never)
    launch = Launcher(device, "shared_window", (blocks, _MOST_THREADS), arguments)
    return timer.batched(name, launch, float(blocks * _SHARED * _SHARED_PASSES))


def copies(device: Device, timer: Timer) -> Iterator[CeilingKernel]:
    """Copies between tensors that lie in L2 together, where there are no kernels of our own."""
    for share in _COPY_SHARES:
        elements = max(device.caches[MemoryLevel.L2] // share // _FLOAT, 1)
        name = f"copy_ L2/{share}"

        def prepare(elements: int = elements, name: str = name) -> Prepared:
            source = random_values(device.device, elements)
            target = torch.empty_like(source)
            return timer.batched(name, lambda: target.copy_(source), 2.0 * _FLOAT * elements)

        note = f"{_BOTH} A lower bound: one short launch per pass."
        yield CeilingKernel(name, "bandwidth", prepare, level=MemoryLevel.L2, note=note)


def refused_l1(obstacle: MissingError) -> CeilingKernel:
    """Says why nothing measures L1: no kernel of PyTorch reads a block's own data again within one launch."""

    def prepare() -> Prepared:
        raise obstacle

    return CeilingKernel("reads of L1", "bandwidth", prepare, level=MemoryLevel.L1)


# --- the device's memory ------------------------------------------------------------------------


def free_memory(device: Device) -> int:
    """Bytes that are free on a device now; without an answer all that it has."""
    try:
        return int(torch.cuda.mem_get_info(device.device)[0])
    except (RuntimeError, AssertionError, AttributeError):
        return int(device.facts.get("memory", 0))


def memory_bytes(device: Device, free: int) -> tuple[int, bool]:
    """How large an array is that is to come from the device's memory.

    Args:
        device: As ``hroof_torch.ceilings.device`` describes it.
        free: Bytes that are free; 0 where that is not known.

    Returns:
        Bytes: 1 GiB, or four times L2 where that is more, but at most a quarter of what is free; and whether that is
        as much as it should be.
    """
    wanted = max(_GIBIBYTE, _OVER_L2 * device.caches.get(MemoryLevel.L2, 0))
    nbytes = min(wanted, free // _SHARE_OF_FREE) if free else wanted
    return nbytes // _VECTOR * _VECTOR, nbytes >= wanted


class Arrays:
    """Two large arrays that kernels share; taken when the first one needs them.

    Args:
        device: Such as ``cuda:0``.
        nbytes: Of one array.
    """

    def __init__(self, device: str, nbytes: int) -> None:
        self.nbytes = nbytes
        self._device = device
        self._arrays: list[torch.Tensor] = []

    def get(self, index: int) -> torch.Tensor:
        """One of the arrays."""
        while len(self._arrays) <= index:
            self._arrays.append(random_values(self._device, self.nbytes // _FLOAT))
        return self._arrays[index]


def memory_kernels(
    device: Device, timer: Timer, free: int, *, own: bool
) -> Iterator[CeilingKernel]:
    """Reads, writes and both of arrays that leave L2 before they are used again.

    Each is a rate of its own; all but the pure writes compete for the ceiling too.

    Args:
        device: As ``hroof_torch.ceilings.device`` describes it.
        timer: Of the device.
        free: Bytes that are free on it.
        own: Whether kernels of our own can be compiled.
    """
    nbytes, enough = memory_bytes(device, free)
    doubt = "" if enough else " Too little free memory: some of it may come from L2."
    for way in _ways(device, timer, Arrays(device.device, nbytes), own=own):
        kernel = CeilingKernel(
            way.name,
            "bandwidth",
            way.prepare,
            level=MemoryLevel.DRAM,
            note=way.note + doubt,
            how="measured" if way.own else "framework-reachable",
        )
        if way.variant != "write":
            yield kernel
        yield dataclasses.replace(kernel, variant=way.variant)


@dataclass(frozen=True)
class Way:
    """One way to use the device's memory: which rate it is, what is counted, and whether the kernel is our own."""

    name: str
    variant: str
    note: str
    prepare: Callable[[], Prepared]
    own: bool = False


def _ways(device: Device, timer: Timer, arrays: Arrays, *, own: bool) -> Iterator[Way]:
    nbytes, size = float(arrays.nbytes), f"{arrays.nbytes // 1024**2} MiB"
    window = whole_window(nbytes / multiprocessors(device))
    if own and window:
        name = f"read {size}"

        def read() -> Prepared:
            return window_kernel(device, timer, name, lambda _: arrays.get(0), window, near=False)

        yield Way(name, "read", _READ, read, own=True)

    def way(op: str, variant: str, note: str, work: float, launch: Callable[[], Launch]) -> Way:
        title = f"{op} {size}"
        return Way(title, variant, note, lambda: timer.batched(title, launch(), work))

    def add_up() -> Launch:
        first = arrays.get(0)
        return lambda: first.sum()

    def copy() -> Launch:
        first, second = arrays.get(0), arrays.get(1)
        return lambda: second.copy_(first)

    def both() -> Launch:
        second = arrays.get(1)
        return lambda: second.mul_(1.0)

    def write() -> Launch:
        second = arrays.get(1)
        return lambda: second.fill_(1.0)

    yield way("sum", "read", _READ, nbytes, add_up)
    yield way("copy_", "copy", _BOTH, 2 * nbytes, copy)
    yield way("mul_", "in place", "Reads and writes in place are counted.", 2 * nbytes, both)
    yield way("fill_", "write", "Writes are counted; nothing is read.", nbytes, write)
