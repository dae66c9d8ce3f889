"""The sweep: bandwidth over the size of the working set, with the plateaus that it shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hroof.ceilings import host
from hroof.ceilings.bench import Progress, reason
from hroof.ceilings.plateaus import Plateau, blind, named, unexplained_knees
from hroof.ceilings.sampling import Clock, sample
from hroof.integration import CeilingKernel, Device, Integration
from hroof.machine import Ceiling, Machine, Sweep
from hroof.units import MemoryLevel, si

SMALLEST = 4 * 1024
"""Bytes per thread: one page."""
_UNKNOWN_TOP = 512 * 1024**2
_MOST_MEMORY = 1024**3
_SHARE_OF_MEMORY = 4
_OVER_LAST = 6.5
_FINE, _COARSE = 3, 2
_FINE_UNTIL = 16 * 1024**2
_WORTH_ITS_TIME = 1.1
_LINE = 64
_SECONDS = 6.0
_TURNS = 5
_STRIDE = 3
_FOR_DIPS = 0.25
_DIP = 0.9
_DISTURBED = 0.25
_FASTER = 1.1
_NAMED = 4


# --- which sizes --------------------------------------------------------------------------------


def caches_per_thread(owner: Device | Machine) -> dict[MemoryLevel, int]:
    """Bytes of each cache that one thread (GPU: multiprocessor) has to itself when all of them run.

    A cache that several cores share is divided among the threads that run on them.

    Args:
        owner: A device or a machine. Its ``facts["caches"]`` say the size of one instance and how many
            usable cores share it; without them every thread has the same part of the level's total.
    """
    threads = _threads(owner)
    described = owner.facts.get("caches")
    if isinstance(described, list) and described:
        return {
            MemoryLevel(cache["level"]): cache["size"] // max(min(cache["sharers"], threads), 1)
            for cache in described
        }
    return {level: size // threads for level, size in owner.caches.items()}


def _threads(owner: Device | Machine) -> int:
    """How many working sets there are at a time: one for each thread, or for each multiprocessor of a GPU."""
    facts = owner.facts
    number = facts.get("threads") if owner.device == "cpu" else facts.get("multiprocessors")
    return max(int(number or 1), 1)


def each(owner: Device | Machine) -> str:
    """What has a working set of its own: ``thread`` or ``multiprocessor``."""
    return "thread" if owner.device == "cpu" else "multiprocessor"


def sweep_sizes(
    caches: Mapping[MemoryLevel, int], threads: int, available: int | None
) -> tuple[int, ...]:
    """The working sets to measure: from 4 KiB to more than six times the last cache where there is room.

    Three points per octave up to 16 MiB, where sets are small and levels close together, then two. All
    threads together take a quarter of the free memory and 1 GiB at most, since filling it takes time;
    without known caches 512 MiB.

    Args:
        caches: Bytes per thread.
        threads: How many threads have a set of their own.
        available: Bytes of free memory; None where unknown.

    Returns:
        Bytes per thread, rising, in whole cache lines.
    """
    last = max(caches.values(), default=0)
    wanted = _OVER_LAST * last if last else _UNKNOWN_TOP / threads
    room = math.inf if available is None else available / _SHARE_OF_MEMORY
    top = min(wanted, room / threads, _MOST_MEMORY / threads)
    sizes, octaves, size = [], 0.0, float(SMALLEST)
    while size <= top:
        sizes.append(_whole_lines(size))
        octaves += 1 / (_FINE if size < _FINE_UNTIL else _COARSE)
        size = SMALLEST * 2**octaves
    if sizes and top > _WORTH_ITS_TIME * sizes[-1]:
        sizes.append(_whole_lines(top))
    return tuple(sizes)


def _whole_lines(size: float) -> int:
    return round(size / _LINE) * _LINE


# --- measuring ----------------------------------------------------------------------------------


def slower_than_larger(rates: Mapping[int, float]) -> set[int]:
    """Sizes that are slower than a larger one by a tenth or more: something may have disturbed them.

    Args:
        rates: B/s by bytes.
    """
    highest, found = 0.0, set()
    for size in sorted(rates, reverse=True):
        if rates[size] < _DIP * highest:
            found.add(size)
        highest = max(highest, rates[size])
    return found


@dataclass(frozen=True)
class Swept:
    """What a sweep gave.

    Attributes:
        sweep: The curve; None where the integration has no kernels for one, or none that ran.
        warnings: Which kernels could not run, one sentence each.
    """

    sweep: Sweep | None = None
    warnings: tuple[str, ...] = ()


class _Curve:
    """The best rate at each size so far, and which kernels failed.

    Args:
        clock: Seconds, monotonic.
        progress: Hears the name and the size before a kernel runs.
    """

    def __init__(self, clock: Clock, progress: Progress | None) -> None:
        self.best: dict[int, tuple[float, CeilingKernel]] = {}
        self._clock = clock
        self._progress = progress
        self._failures: dict[tuple[str, int], str] = {}

    def measure(self, kernel: CeilingKernel, seconds: float) -> None:
        """Sample a kernel; one that has failed once is not tried again."""
        size = kernel.size or 0
        if (kernel.name, size) in self._failures:
            return
        if self._progress is not None:
            self._progress(f"sweep: {kernel.name} {si(size, 'B')}")
        try:
            call, work = kernel.prepare()
            rate = sample(call, work, seconds=seconds, clock=self._clock).best
        except Exception as error:  # whatever a framework raises: the other sizes still count
            self._failures[kernel.name, size] = reason(error)
        else:
            if rate > self.best.get(size, (0.0, kernel))[0]:
                self.best[size] = rate, kernel

    @property
    def rates(self) -> dict[int, float]:
        """The best rate of each size, by rising size."""
        return {size: self.best[size][0] for size in sorted(self.best)}

    @property
    def warnings(self) -> list[str]:
        """A sentence for each kernel and reason."""
        sizes: dict[tuple[str, str], list[str]] = {}
        for (name, size), why in self._failures.items():
            sizes.setdefault((name, why), []).append(si(size, "B"))
        return [
            f"{name} could not run in the sweep at {_some(where)}: {why}."
            for (name, why), where in sizes.items()
        ]


def _some(sizes: Sequence[str]) -> str:
    if len(sizes) <= _NAMED:
        return ", ".join(sizes)
    return f"{', '.join(sizes[: _NAMED - 1])} and {len(sizes) - _NAMED + 1} more sizes"


def measure_sweep(
    integration: Integration,
    device: Device,
    *,
    clock: Clock,
    progress: Progress | None = None,
    seconds: float = _SECONDS,
    available: Callable[[], int | None] = host.available_memory,
) -> Swept:
    """Measure the bandwidth over the working set.

    Every size is measured in two rounds at different times, and its best sample counts, since
    interference only lowers a rate. Then those that are still slower than a larger one, which only a
    disturbance or the kernel itself explains, have a few more turns.

    Args:
        integration: Whose kernels; one without ``sweep_kernels`` has no sweep.
        device: As the integration described it.
        clock: Seconds, monotonic.
        progress: Hears the kernel and the size before they are measured.
        seconds: For all samples together, about. Filling the memory and compiling come on top.
        available: Asks for the bytes of free memory of a CPU; of other devices the integration knows.
    """
    offer = getattr(integration, "sweep_kernels", None)
    if offer is None:
        return Swept()
    room = available() if device.device == "cpu" else None
    sizes = sweep_sizes(caches_per_thread(device), _threads(device), room)
    kernels, warnings = _offered(offer(device, sizes))
    curve = _Curve(clock, progress)
    _run(curve, kernels, seconds, clock)
    sweep = _sweep(curve)
    return Swept(sweep, (*warnings, *curve.warnings))


def _run(curve: _Curve, kernels: Sequence[CeilingKernel], seconds: float, clock: Clock) -> None:
    """The first round measures every size, however long it takes; the others together have half of the time."""
    part = (1 - _FOR_DIPS) * seconds / (2 * max(len(kernels), 1))
    ordered = _apart(kernels)
    for kernel in ordered:
        curve.measure(kernel, part)
    end = clock() + seconds / 2
    for turn in range(_TURNS):
        again = slower_than_larger(curve.rates) if turn else curve.rates.keys()
        for kernel in ordered:
            if kernel.size in again and clock() < end:
                curve.measure(kernel, part)


def _apart(kernels: Sequence[CeilingKernel]) -> list[CeilingKernel]:
    """Every third size by rising size, then the next ones: a disturbance of a second hits no neighbours."""
    places = {size: place for place, size in enumerate(sorted({k.size or 0 for k in kernels}))}
    return sorted(kernels, key=lambda k: (places[k.size or 0] % _STRIDE, k.size or 0))


def _offered(kernels: Iterator[CeilingKernel]) -> tuple[list[CeilingKernel], list[str]]:
    """The kernels that have a size; what was offered before the search broke still counts."""
    found: list[CeilingKernel] = []
    try:
        for kernel in kernels:
            found.append(kernel)
    except Exception as error:  # whatever a framework raises
        return found, [f"The search for kernels of the sweep ended early: {reason(error)}."]
    return found, []


def _sweep(curve: _Curve) -> Sweep | None:
    """The curve as a sweep; None where no kernel ran."""
    rates = curve.rates
    if not rates:
        return None
    kernels = [curve.best[size][1] for size in rates]
    return Sweep(
        sizes=tuple(rates),
        rates=tuple(rates.values()),
        kernel=", ".join(dict.fromkeys(kernel.name for kernel in kernels)),
        threads=max(kernel.threads for kernel in kernels),
        plateaus=tuple((one.rate, one.last) for one in blind(tuple(rates), tuple(rates.values()))),
    )


# --- using --------------------------------------------------------------------------------------


def plateaus(sweep: Sweep) -> tuple[Plateau, ...]:
    """The plateaus of a sweep again, with where each begins: after the end of the one before."""
    first = [sweep.sizes[0], *(size for _, size in sweep.plateaus)] if sweep.sizes else []
    return tuple(
        Plateau(rate, begin, last)
        for begin, (rate, last) in zip(first, sweep.plateaus, strict=False)
    )


def levels(sweep: Sweep, caches: Mapping[MemoryLevel, int]) -> dict[MemoryLevel, Plateau]:
    """Which level each plateau of a sweep is.

    Args:
        sweep: The curve with its plateaus.
        caches: Bytes per thread, as ``caches_per_thread`` gives them; empty where none is known.
    """
    return named(plateaus(sweep), caches)


def doubts(machine: Machine) -> list[str]:
    """What is doubtful about a machine's sweep, one sentence each.

    It shows no step; or it was disturbed so much that its steps mean little; or it falls at a size far
    from every cache that the system tells of. Nothing where there is none, or one without plateaus, of
    which the checks tell.
    """
    sweep, caches = machine.sweep, caches_per_thread(machine)
    if sweep is None or not sweep.plateaus:
        return []
    if _is_disturbed(sweep):
        return [
            f"The sweep was disturbed: {len(_low(sweep))} of {len(sweep.sizes)} sizes are slower than a larger one, "
            "so its steps may be wrong; measure again on a quiet machine."
        ]
    if len(sweep.plateaus) < 2:
        return ["The sweep shows no step between two levels, so it tells nothing about them."]
    stated = ", ".join(f"{level.label} {si(size, 'B')}" for level, size in caches.items())
    return [
        f"The sweep falls at {si(knee, 'B')} per {each(machine)}, where the system tells of no cache "
        f"({stated}): a hypervisor may hide caches or give this machine a part of one."
        for knee in unexplained_knees(plateaus(sweep), caches)
    ]


def _low(sweep: Sweep) -> set[int]:
    return slower_than_larger(dict(zip(sweep.sizes, sweep.rates, strict=True)))


def _is_disturbed(sweep: Sweep) -> bool:
    return len(_low(sweep)) > _DISTURBED * len(sweep.sizes)


def ceilings(sweep: Sweep, caches: Mapping[MemoryLevel, int]) -> dict[MemoryLevel, Ceiling]:
    """The levels of a sweep as ceilings, for levels of which nothing better is known.

    Args:
        sweep: The curve with its plateaus.
        caches: Bytes per thread; empty where the system tells none, so that only the knees name levels.
    """
    note = "Read off the plateaus of a sweep over working sets; reads are counted."
    if not caches:
        note += " The system tells no cache sizes: levels are named by their order."
    return {
        level: Ceiling(plateau.rate, kernel=sweep.kernel, note=note)
        for level, plateau in levels(sweep, caches).items()
    }


def better(machine: Machine) -> dict[MemoryLevel, Ceiling]:
    """Caches that the sweep reads faster than the kernels made for their stated sizes did, by a tenth or more.

    That is so where a hypervisor tells a size that this machine does not get: those kernels then read
    from farther away. Nothing where the sweep was disturbed, or does not show every level.
    """
    sweep, caches = machine.sweep, caches_per_thread(machine)
    if sweep is None or len(sweep.plateaus) != len(caches) + 1 or _is_disturbed(sweep):
        return {}
    return {
        level: replace(
            ceiling,
            note=f"{ceiling.note} Kernels for the stated size of {si(caches[level], 'B')} were slower.",
        )
        for level, ceiling in ceilings(sweep, caches).items()
        if level in caches
        and level in machine.bandwidths
        and _FASTER * machine.bandwidths[level].rate < ceiling.rate
    }
