"""Kernels that measure the ceilings of a CPU with TensorFlow: loops of XLA's, ops on windows of memory, launches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hroof.ceilings import host
from hroof.ceilings.host import caches_of
from hroof.ceilings.sizes import WorkingSets, dram_windows, working_sets
from hroof.integration import CeilingKernel, Device
from hroof.units import MemoryLevel
from hroof_keras.ceilings.dram import dram_kernels
from hroof_keras.ceilings.launch import launch_kernels
from hroof_keras.ceilings.loops import FLOAT, MIXES, REWRITE, Fold, Mix
from hroof_keras.ceilings.memory import Memory, Walker
from hroof_keras.ceilings.peaks import peak_kernels
from hroof_keras.ceilings.xla import (
    Prepared,
    Program,
    Team,
    begin,
    evidence,
    filled,
    scalar,
)

_TRAFFIC = {MemoryLevel.L1: 300e6, MemoryLevel.L2: 100e6, MemoryLevel.L3: 32e6}
"""Bytes per thread and call: about a millisecond, long against the call and the meeting of few threads."""
_NEAR_PARTS = (81, 27, 9)
_NEAR_WIDTH = 1024
"""Floats of a slice at least: shorter ones end before the processor has got going."""
BLOCK = Fold.apart(9, 912)
"""33 kB a turn: for every level beyond L1."""
BLOCKS = (Fold.apart(27, 1200), BLOCK)
"""130 kB a turn where a set is several of them: then the turn itself costs next to nothing."""
_FEWEST_BLOCKS = 4
_READ = "Reads are counted; every thread has memory of its own."


def kernels(device: Device) -> Iterator[CeilingKernel]:
    """Candidates for the launch cost, L1, L2, L3, DRAM and the peaks of a CPU.

    Args:
        device: As ``hroof_keras.ceilings.device`` describes it. The kernels run on as many threads as one op of
            TensorFlow may use.
    """
    threads = int(device.facts.get("threads", 1))
    team = Team(threads, begin())
    yield from launch_kernels()
    for sets in working_sets(caches_of(device)):
        yield from read_kernels(sets, team)
        yield from mix_kernels(sets, team)
    last = max(device.caches.values(), default=None)
    room = host.available_memory()
    half = None if room is None else room // 2  # loops and ops have windows of their own
    yield from dram_kernels(dram_windows(last, half, threads), team)
    yield from peak_kernels(team, quick=bool(device.facts.get("quick")))


# --- caches -------------------------------------------------------------------------------------


def read_kernels(sets: WorkingSets, team: Team) -> Iterator[CeilingKernel]:
    """Loops that read the working sets of one level."""
    if sets.level is MemoryLevel.L1:
        for size in sets.sizes[-2:]:
            yield near_kernel(size, team)
        return
    for block, sizes in _blocks(sets).items():
        walker = Walker(Memory(team, block.row, max(sizes)), block)
        for size in sizes:
            yield walked(walker, sets.level, size // block.nbytes, block.nbytes)


def _blocks(sets: WorkingSets) -> dict[Fold, list[int]]:
    """The sets by the largest block of which they are a few; none for a set that is smaller."""
    found: dict[Fold, list[int]] = {}
    for size in sets.sizes:
        block = next((b for b in BLOCKS if size >= _FEWEST_BLOCKS * b.nbytes), None)
        if block is not None:
            found.setdefault(block, []).append(size)
    return found


def near_kernel(size: int, team: Team, level: MemoryLevel | None = MemoryLevel.L1) -> CeilingKernel:
    """Read a set of L1: slices that overlap, so that one turn of the loop reads it many times."""
    fold = near_fold(size // FLOAT)
    return CeilingKernel(
        f"XLA fold {size // 1024} KiB",
        "bandwidth",
        staying(fold, team),
        level=level,
        threads=team.threads,
        note=f"{_READ} Compiled by XLA.",
        size=size,
        how=evidence(),
    )


def near_fold(floats: int) -> Fold:
    """The most slices that find room in so many floats."""
    folds = [Fold.overlapping(parts, floats) for parts in _NEAR_PARTS]
    return next((fold for fold in folds if fold.width >= _NEAR_WIDTH), folds[-1])


def walked(walker: Walker, level: MemoryLevel, rows: int, row_bytes: int) -> CeilingKernel:
    """Read a set row by row, again and again."""
    return CeilingKernel(
        f"XLA fold {rows * row_bytes // 1024} KiB",
        "bandwidth",
        lambda: walker.again(rows, _TRAFFIC[level]),
        level=level,
        threads=walker.team.threads,
        note=f"{_READ} Compiled by XLA.",
        size=rows * row_bytes,
        how=evidence(),
    )


def staying(fold: Fold, team: Team) -> Callable[[], Prepared]:
    """Read the first of two rows again and again, on every thread."""
    times = max(round(team.scaled(_TRAFFIC[MemoryLevel.L1]) / fold.nbytes), 1)

    def prepare() -> Prepared:
        program = Program(fold.stay())
        calls = [
            program.call(filled(2, fold.row), filled(2, fold.width), scalar(0), scalar(times))
            for _ in range(team.threads)
        ]
        return team.together(calls), float(team.threads * times * fold.nbytes)

    return prepare


def mix_kernels(sets: WorkingSets, team: Team) -> Iterator[CeilingKernel]:
    """Copies and triads of one level, and rewriting of L3; none of L1, where a turn of the loop would be too short."""
    if not sets.each or sets.level is MemoryLevel.L1:
        return
    rewrite = (REWRITE,) if sets.level is MemoryLevel.L3 else ()
    for mix in (*rewrite, *MIXES):
        for size in sets.sizes[:2]:
            memory = Memory(team, BLOCK.row, size, mix.arrays)
            yield mixed(Walker(memory, mix), mix, sets.level, memory)


def mixed(walker: Walker, mix: Mix, level: MemoryLevel, memory: Memory) -> CeilingKernel:
    """Write an array again and again, on every thread one of its own."""
    nbytes = memory.rows * memory.row * FLOAT * mix.arrays
    return CeilingKernel(
        f"XLA {mix.name} {nbytes // 1024} KiB",
        "bandwidth",
        lambda: walker.again(memory.rows, _TRAFFIC[level]),
        level=level,
        threads=walker.team.threads,
        note=f"{mix.note} Compiled by XLA.",
        variant=mix.variant,
        size=nbytes,
    )
