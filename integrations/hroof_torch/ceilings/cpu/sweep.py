"""Kernels of the sweep over working sets on a CPU: every thread reads memory of its own, again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from hroof.ceilings.sweep import caches_per_thread
from hroof.integration import CeilingKernel, Device
from hroof.units import MemoryLevel
from hroof_torch.ceilings.cpu.compiled import SWEPT, Compiled, Workshop, fold, folds
from hroof_torch.ceilings.cpu.kernels import is_compiled_for
from hroof_torch.ceilings.cpu.peaks import Prepared

_TRAFFIC = 32e6
"""Bytes per thread and call: long against the dispatch of one op."""
_COMPILED_TRAFFIC = 100e6
"""The same for a compiled call, which takes 10 to 20 µs and reads L1 faster."""
_FLOAT = 4
_WINDOW = 8 * 1024**2
"""Bytes per thread of one call where the set is larger: samples stay short, so that a neighbour hits few."""
_NO_HITS = 2.0
_OWN = "Reads are counted; every thread has memory of its own."
_SAME = "Reads are counted; all threads read the same memory, each through its own caches."
_FEWEST_BLOCKS = 2
"""A set of one block would be a compilation of its own."""
_BEYOND_L1 = 1.4


class Memory:
    """One row of memory per thread, which all sizes share.

    Args:
        threads: How many rows.
        nbytes: Of one row.
    """

    def __init__(self, threads: int, nbytes: int) -> None:
        self._shape = threads, nbytes // _FLOAT
        self._rows: torch.Tensor | None = None
        self._touched = 0
        self._next = 0

    def rows(self, nbytes: int) -> torch.Tensor:
        """The first bytes of every row; none is taken from the system before it is needed."""
        if self._rows is None:
            self._rows = torch.empty(self._shape, dtype=torch.float32, device="cpu")
        end = nbytes // _FLOAT
        if end > self._touched:
            # By the threads that will read it: this op is divided by rows, as the sums are.
            self._rows[:, self._touched : end].fill_(1.0)
            self._touched = end
        return self._rows[:, :end]

    def next_window(self, nbytes: int) -> torch.Tensor:
        """The next window of the first bytes of every row, round and round.

        It goes on where it stopped, also from one size to the next: what was read last is never read again soon.
        """
        width = _WINDOW // _FLOAT
        begin = self._next % (nbytes // _WINDOW) * width
        self._next += 1
        return self.rows(nbytes)[:, begin : begin + width]


def cpu_sweep(device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
    """Sums over one row per thread: ``expand`` repeats it inside one call.

    Threads that read the same memory would fetch it for one another, so that DRAM would come out too
    fast. Where kernels are compiled, sets that lie in L1 have a second kernel, which fills the load ports:
    without it L1 may be no faster than L2.

    Args:
        device: As ``hroof_torch.ceilings.device`` describes it.
        sizes: Bytes per thread.
    """
    threads = int(device.facts.get("threads", torch.get_num_threads()))
    memory = Memory(threads, max(sizes, default=0))
    last = max(device.caches.values(), default=0)
    compiled = Compiled(Workshop(), fold, fma=False, dynamic=True)
    near = _near(device) if is_compiled_for(device) else 0
    for size in sizes:
        if _FEWEST_BLOCKS * _FLOAT * SWEPT.block <= size <= near:
            prepare = folds(compiled, size, threads, _COMPILED_TRAFFIC)
            yield _kernel("compiled fold", prepare, size, threads, _SAME)
        fits = threads * size < _NO_HITS * last or not last
        prepare = (
            _sums(memory, size, threads)
            if size <= _WINDOW
            else _windows(memory, size, threads, fits)
        )
        yield _kernel("expand.sum", prepare, size, threads, _OWN)


def _near(device: Device) -> int:
    """Bytes per thread up to which both kernels run: to a little beyond L1, where either reads L2.

    Less than an octave, so that a step where the second kernel ends cannot be taken for a level.
    """
    return int(_BEYOND_L1 * caches_per_thread(device).get(MemoryLevel.L1, 0))


def _kernel(
    name: str, prepare: Callable[[], Prepared], size: int, threads: int, note: str
) -> CeilingKernel:
    return CeilingKernel(name, "bandwidth", prepare, threads=threads, note=note, size=size)


def _sums(memory: Memory, size: int, threads: int) -> Callable[[], Prepared]:
    """Read the whole set again and again in one call."""
    times = max(round(_TRAFFIC / size), 1)

    def prepare() -> Prepared:
        rows = memory.rows(size)
        view = rows.unsqueeze(1).expand(threads, times, rows.shape[1])
        return lambda: view.sum(2), float(view.numel() * _FLOAT)

    return prepare


def _windows(memory: Memory, size: int, threads: int, fits: bool) -> Callable[[], Prepared]:
    """Read the set as a whole, window after window, one in each call.

    Args:
        memory: Of all sizes.
        size: Bytes per thread.
        threads: How many.
        fits: A cache may hold it, or a part of it: read it once before it is measured.
    """

    def prepare() -> Prepared:
        memory.rows(size)
        for _ in range(size // _WINDOW if fits else 0):
            memory.next_window(size).sum(1)
        return lambda: memory.next_window(size).sum(1), float(threads * _WINDOW)

    return prepare
