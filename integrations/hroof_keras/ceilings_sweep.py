"""Kernels of the sweep over working sets on a CPU: every thread reads memory of its own in a loop of XLA's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hroof.ceilings.sweep import caches_per_thread
from hroof.integration import CeilingKernel, Device
from hroof.units import MemoryLevel
from hroof_keras.ceilings_cpu import BLOCK, near_kernel
from hroof_keras.ceilings_xla import Call, Load, Prepared, Program, Team, filled, scalar

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


class Memory:
    """Rows of memory on every thread, which all sizes share, and the program that reads them.

    Args:
        team: The threads.
        nbytes: Of each thread, at most.
    """

    def __init__(self, team: Team, nbytes: int) -> None:
        self.team = team
        self._rows = max(nbytes // BLOCK.nbytes, 1)
        self._program = Program(BLOCK.walk())
        self._memories: list[Any] = []

    def calls(self, *numbers: int) -> list[Call]:
        """A call for each thread that reads ``count`` rows from ``first`` on, ``times`` times.

        Args:
            numbers: times, first, count.
        """
        if not self._memories:
            self._memories = [
                (filled(self._rows, BLOCK.row), filled(2, BLOCK.width))
                for _ in range(self.team.threads)
            ]
        given = [scalar(number) for number in (0, *numbers)]
        return [self._program.call(*memory, *given) for memory in self._memories]


def cpu_sweep(device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
    """Loops over memory of each thread: slices that overlap up to a little beyond L1, whole rows from there on.

    Args:
        device: As ``hroof_keras.ceilings.device`` describes it.
        sizes: Bytes per thread; they become whole rows.
    """
    team = Team(int(device.facts.get("threads", 1)), Load())
    memory = Memory(team, max(sizes, default=0))
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
            prepare = again(memory, rows) if size <= _PART else part_by_part(memory, rows, fits)
            yield CeilingKernel(
                _FAR,
                "bandwidth",
                prepare,
                threads=team.threads,
                note=_NOTE,
                size=rows * BLOCK.nbytes,
            )


def again(memory: Memory, rows: int) -> Callable[[], Prepared]:
    """Read the whole set again and again in one call."""
    nbytes = rows * BLOCK.nbytes
    times = max(round(memory.team.scaled(_TRAFFIC) / nbytes), 1)

    def prepare() -> Prepared:
        calls = memory.calls(times, 0, rows)
        return memory.team.together(calls), float(memory.team.threads * times * nbytes)

    return prepare


def part_by_part(memory: Memory, rows: int, fits: bool) -> Callable[[], Prepared]:
    """Read the set as a whole, some rows in each call.

    Args:
        memory: Of all sizes.
        rows: Of the set.
        fits: A cache may hold it, or a part of it: read it once before it is measured.
    """
    each = min(round(memory.team.scaled(_PART) / BLOCK.nbytes), rows)
    parts = rows // each

    def prepare() -> Prepared:
        team = memory.team
        made = [team.together(memory.calls(1, part * each, each)) for part in range(parts)]
        for call in made if fits else ():
            call()
        following = itertools.cycle(made).__next__
        return lambda: following()(), float(team.threads * each * BLOCK.nbytes)

    return prepare
