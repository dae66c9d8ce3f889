"""Kernels of the sweep over working sets on a CPU: every thread reads memory of its own in a loop of XLA's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hroof.ceilings.sweep import caches_per_thread
from hroof.integration import CeilingKernel, Device
from hroof.units import MemoryLevel
from hroof_keras.ceilings.cpu import BLOCK, near_kernel
from hroof_keras.ceilings.memory import Memory, Walker
from hroof_keras.ceilings.xla import Load, Prepared, Team

_TRAFFIC = 64e6
"""Bytes per thread and call: about a millisecond in L2, a few in DRAM."""
_PART = 16 * 1024**2
"""Bytes per thread of one call where the set is larger: samples stay short, so that a neighbour hits few."""
_NO_HITS = 2.0
_BEYOND_L1 = 1.4
_USUAL_L1 = 32 * 1024
_SMALLEST = 11 * 1024
"""Bytes of a set in which overlapping slices are long enough."""
_NOTE = "Reads are counted; every thread has memory of its own. Compiled by XLA."
_NEAR, _FAR = "XLA fold, slices that overlap", "XLA fold, row by row"


def cpu_sweep(device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
    """Loops over memory of each thread: slices that overlap up to a little beyond L1, whole rows from there on.

    Args:
        device: As ``hroof_keras.ceilings.device`` describes it.
        sizes: Bytes per thread; they become whole rows.
    """
    team = Team(int(device.facts.get("threads", 1)), Load())
    walker = Walker(Memory(team, BLOCK.row, max(sizes, default=0)), BLOCK)
    last = max(device.caches.values(), default=0)
    near = _BEYOND_L1 * caches_per_thread(device).get(MemoryLevel.L1, _USUAL_L1)
    for size in sizes:
        if _SMALLEST <= size <= near:
            kernel = near_kernel(size, team, None)
            yield CeilingKernel(
                _NEAR, "bandwidth", kernel.prepare, threads=team.threads, note=_NOTE, size=size
            )
        elif size > near:
            rows = size // BLOCK.nbytes
            fits = team.threads * size < _NO_HITS * last or not last
            prepare = repeating(walker, rows) if size <= _PART else passing(walker, rows, fits)
            yield CeilingKernel(
                _FAR,
                "bandwidth",
                prepare,
                threads=team.threads,
                note=_NOTE,
                size=rows * BLOCK.nbytes,
            )


def repeating(walker: Walker, rows: int) -> Callable[[], Prepared]:
    """Read the whole set again and again in one call."""
    return lambda: walker.again(rows, _TRAFFIC)


def passing(walker: Walker, rows: int, fits: bool) -> Callable[[], Prepared]:
    """Read the set as a whole, some rows in each call."""
    return lambda: walker.by_parts(rows, _PART, fits=fits)
