"""Kernels that measure the ceilings of a CPU: eager ops with the repeats inside one call, on random data."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

import torch

from hroof.ceilings import host
from hroof.ceilings.host import caches_of
from hroof.ceilings.sizes import Windows, WorkingSets, dram_windows, working_sets
from hroof.integration import CeilingKernel, Device
from hroof.units import MemoryLevel, Precision
from hroof_torch.ceilings.cpu import compiled
from hroof_torch.ceilings.cpu.compiled import Workshop
from hroof_torch.ceilings.cpu.packed import packed_kernels
from hroof_torch.ceilings.cpu.peaks import Prepared, is_offered, peak_kernels, random_values

_TRAFFIC = 32e6
"""Bytes per thread and call: long against the dispatch of one op."""
_FLOAT = 4
_LINE_OF_FLOATS = 64
_EMBEDDING = 448
"""Row length whose kernel keeps its sums in registers; found by trying."""
_BAG = 512
_BAGS_PER_THREAD = 64
_LAUNCHES = 1000
_FEWEST = 4
"""Windows, so that a triad never meets one twice in a call."""
_READ = "Reads are counted."
_BOTH = "Reads and writes in place are counted."
_L1 = " A lower bound: without a compiler PyTorch fills half to two thirds of the load ports."


def kernels(device: Device) -> Iterator[CeilingKernel]:
    """Candidates for the launch cost, L1, L2, L3, DRAM and the peaks of a CPU.

    Args:
        device: As ``hroof_torch.ceilings.device`` describes it. The kernels run on the threads that
            PyTorch is set to.
    """
    threads = int(device.facts.get("threads", torch.get_num_threads()))
    caches = caches_of(device)
    yield from launch_kernels()
    sets = working_sets(caches)
    for level in sets:
        yield from cache_kernels(level, threads)
        yield from mix_kernels(level, threads)
    if is_compiled_for(device):
        workshop = Workshop()
        yield from compiled.bandwidth_kernels(sets, threads, workshop)
        yield from compiled.peak_kernels(threads, workshop)
    last = max(device.caches.values(), default=None)
    yield from dram_kernels(dram_windows(last, host.available_memory(), threads), threads)
    yield from peak_kernels(threads)
    for precision in filter(is_offered, (Precision.BF16, Precision.INT8)):
        yield from packed_kernels(precision, threads)


def is_compiled_for(device: Device) -> bool:
    """Whether kernels are compiled for a device: only where a compiler is at hand, and not in a hurry."""
    return bool(device.facts.get("compiler")) and not device.facts.get("quick")


# --- launch -------------------------------------------------------------------------------------


def launch_kernels() -> Iterator[CeilingKernel]:
    """The dispatch of one tiny op, called from Python as a training program does."""
    note = "One eager op on one element, with its call from Python."
    for name in ("neg_", "mul_"):
        yield CeilingKernel(f"{name} of 1 element", "launch", _launches(name), note=note)


def _launches(name: str) -> Callable[[], Prepared]:
    def prepare() -> Prepared:
        one = torch.ones(1, dtype=torch.float32, device="cpu")
        arguments = (one,) if name == "mul_" else ()
        op = getattr(one, name)

        def call() -> None:
            for _ in range(_LAUNCHES):
                op(*arguments)

        return call, float(_LAUNCHES)

    return prepare


# --- bandwidth ----------------------------------------------------------------------------------


def cache_kernels(sets: WorkingSets, threads: int) -> Iterator[CeilingKernel]:
    """Candidates for one cache level, each with three working sets."""

    def kernel(name: str, size: int, prepare: Callable[[], Prepared], note: str) -> CeilingKernel:
        title = f"{name} {size // 1024} KiB"
        level = sets.level
        note += _L1 if level is MemoryLevel.L1 else ""
        return CeilingKernel(title, "bandwidth", prepare, level=level, threads=threads, note=note)

    for size in sets.sizes:
        yield kernel("expand.sum", size, row_sums(size, threads), _READ)
    for size in sets.sizes:
        if sets.level is MemoryLevel.L1:
            yield kernel("embedding_bag", size, embedding_bag(size, threads), _READ)
        elif (
            sets.each and sets.level is not MemoryLevel.L2
        ):  # one dispatch per pass: too short in L2
            yield kernel("_foreach_mul_", size, in_place(size, threads), _BOTH)


def row_sums(size: int, threads: int) -> Callable[[], Prepared]:
    """Sum the same row again and again in one op: rows of stride 0, divided among the threads."""
    columns = max(size // _FLOAT // _LINE_OF_FLOATS, 1) * _LINE_OF_FLOATS
    rows = threads * max(round(_TRAFFIC / (columns * _FLOAT)), 1)

    def prepare() -> Prepared:
        view = random_values(columns).expand(rows, columns)
        return lambda: view.sum(1), float(rows * columns * _FLOAT)

    return prepare


def embedding_bag(size: int, threads: int) -> Callable[[], Prepared]:
    """Add up rows of a small table, bag by bag; the bags are divided among the threads."""
    rows = max(size // (_EMBEDDING * _FLOAT), 1)
    bags = _BAGS_PER_THREAD * threads

    def prepare() -> Prepared:
        table = random_values(rows, _EMBEDDING)
        order = torch.arange(bags * _BAG, dtype=torch.int32, device="cpu") % rows
        index = order.view(bags, _BAG)
        work = float(bags * _BAG * _EMBEDDING * _FLOAT)
        return lambda: torch.nn.functional.embedding_bag(index, table, mode="sum"), work

    return prepare


def in_place(size: int, threads: int) -> Callable[[], Prepared]:
    """Multiply one tensor by 1 again and again; each thread has ``size`` bytes of it."""
    elements = threads * (size // _FLOAT)
    nbytes = elements * _FLOAT
    times = max(round(_TRAFFIC * threads / (2 * nbytes)), 1)

    def prepare() -> Prepared:
        same = [torch.ones(elements, dtype=torch.float32, device="cpu")] * times
        return lambda: torch._foreach_mul_(same, 1.0), 2.0 * nbytes * times

    return prepare


@dataclasses.dataclass(frozen=True, slots=True)
class Mix:
    """An op that reads and writes: a rate beside the ceiling.

    Attributes:
        variant: Its usual name (McCalpin's STREAM).
        arrays: How many arrays it passes over; the last one is written.
        run: The op.
        note: Which traffic is counted.
    """

    variant: str
    arrays: int
    run: Callable[[Sequence[torch.Tensor]], object]
    note: str


_WRITE_ALLOCATE = (
    "tensor bytes: a line that is read only because it is written (write-allocate) is not counted."
)
_SCALE = 0.0
"""Of the triad: values of one stay what they are, however often they are added up."""
MIXES = (
    Mix("copy", 2, lambda a: a[1].copy_(a[0]), f"One read and one write, {_WRITE_ALLOCATE}"),
    Mix(
        "triad",
        3,
        lambda a: torch.add(a[0], a[1], alpha=_SCALE, out=a[2]),
        f"Two reads and one write, {_WRITE_ALLOCATE}",
    ),
)


def mix_kernels(sets: WorkingSets, threads: int) -> Iterator[CeilingKernel]:
    """Copy and triad of one cache level; none in L1, where the dispatch of one op would be all that is measured."""
    if not sets.each or sets.level is MemoryLevel.L1:
        return
    for mix in MIXES:
        for size in sets.sizes[:2]:
            yield CeilingKernel(
                f"{mix.variant} {size // 1024} KiB",
                "bandwidth",
                mixed(mix, size, threads),
                level=sets.level,
                threads=threads,
                note=f"{mix.note} One dispatch per pass is part of it.",
                variant=mix.variant,
                size=size,
            )


def mixed(mix: Mix, size: int, threads: int) -> Callable[[], Prepared]:
    """Pass over the same arrays again and again; each thread has ``size`` bytes of all of them together."""
    elements = threads * max(size // (_FLOAT * mix.arrays * _LINE_OF_FLOATS), 1) * _LINE_OF_FLOATS
    nbytes = elements * _FLOAT * mix.arrays
    times = max(round(_TRAFFIC * threads / nbytes), 1)

    def prepare() -> Prepared:
        arrays = [random_values(elements) for _ in range(mix.arrays)]

        def call() -> None:
            for _ in range(times):
                mix.run(arrays)

        return call, float(nbytes * times)

    return prepare


class Walk:
    """Windows of memory that kernels share; the memory is taken when the first one needs it.

    Args:
        windows: How many, how large.
    """

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._memory: list[torch.Tensor] = []

    def next_window(self) -> Callable[[], torch.Tensor]:
        """A function that gives the next window each time, round and round."""
        if not self._memory:
            elements = self._windows.size // _FLOAT
            memory = torch.empty(self._windows.count, elements, dtype=torch.float32, device="cpu")
            # First touched window by window, by the threads that will read each part of it.
            self._memory = [window.fill_(1.0) for window in memory]
        return itertools.cycle(self._memory).__next__


def dram_kernels(windows: Windows, threads: int) -> Iterator[CeilingKernel]:
    """Read, and read and write, windows that have left the caches since they were last used."""
    walk = Walk(windows)
    nbytes = float(windows.size // _FLOAT * _FLOAT)
    doubt = "" if windows.enough else " Too little free memory: some of it may come from a cache."

    def read() -> Prepared:
        window = walk.next_window()
        return lambda: window().sum(), nbytes

    def halves() -> Prepared:
        window = walk.next_window()

        def call() -> torch.Tensor:
            left, right = window().view(2, -1)
            return torch.dot(left, right)

        return call, nbytes

    def both() -> Prepared:
        window = walk.next_window()
        return lambda: window().mul_(1.0), 2 * nbytes

    def mixed(mix: Mix) -> Callable[[], Prepared]:
        def prepare() -> Prepared:
            window = walk.next_window()
            return lambda: mix.run([window() for _ in range(mix.arrays)]), mix.arrays * nbytes

        return prepare

    def kernel(name: str, prepare: Callable[[], Prepared], note: str) -> CeilingKernel:
        return CeilingKernel(
            f"{name} of {windows.count} × {windows.size // 1024**2} MiB",
            "bandwidth",
            prepare,
            level=MemoryLevel.DRAM,
            threads=threads,
            note=note + doubt,
            how="measured" if windows.enough else "framework-reachable",
        )

    yield kernel("sum", read, _READ)
    yield kernel("dot", halves, _READ)
    yield kernel("mul_", both, _BOTH)
    for mix in MIXES if windows.count >= _FEWEST else ():
        beside = kernel(mix.variant, mixed(mix), mix.note)
        yield dataclasses.replace(beside, variant=mix.variant)
