"""What is doubtful about measured ceilings, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from hroof.machine import Ceiling, Machine
from hroof.units import MemoryLevel, Pipe, Precision, percent, si

_TOLERANCE = 0.05
_OWN_SHARE = 0.85
_WIDE = 0.3
_FAR_BELOW_BEST = 1.5
_LOW_RATIO = 1.6
_HIGH_RATIO = 3.0

Bandwidths = Mapping[MemoryLevel, Ceiling]


def inverted(bandwidths: Bandwidths) -> list[tuple[MemoryLevel, MemoryLevel]]:
    """Neighbouring levels (nearer, farther) of which the nearer is slower."""
    known = [level for level in MemoryLevel if level in bandwidths]
    return [
        (near, far) for near, far in pairwise(known) if bandwidths[near].rate < bandwidths[far].rate
    ]


def warnings(machine: Machine) -> tuple[str, ...]:
    """Every doubt about a machine's ceilings, one sentence each, in a fixed order.

    Where other programs took much of the time, that explains odd ratios, so these are not told.
    """
    taken = list(busy(machine))
    found = [*taken, *missing_levels(machine), *level_order(machine.bandwidths)]
    if taken:
        return tuple(found)
    if machine.device == "cpu":
        found += [*fp64_ratio(machine), *narrow_formats(machine)]
    return (*found, *unsteady(machine))


def is_disturbed(machine: Machine) -> bool:
    """Whether other programs took so much of the machine that its ceilings are worth little."""
    return any(busy(machine)) or any(level_order(machine.bandwidths))


def busy(machine: Machine) -> Iterable[str]:
    """Processor time that went to other programs during the samples."""
    share = machine.facts.get("own_share")
    if isinstance(share, float) and share < _OWN_SHARE:
        yield (
            f"Other programs took {percent(1 - share, 0)} of the processor time meanwhile, so "
            "ceilings may be far too low: measure again on a quiet machine."
        )


def missing_levels(machine: Machine) -> Iterable[str]:
    """Caches that the machine has and no kernel measured."""
    if machine.device != "cpu":
        return
    if not machine.caches:
        yield "The system does not say how large the caches are, so only DRAM can have a roof."
    for level in MemoryLevel:
        if level in machine.caches and level not in machine.bandwidths:
            yield f"No kernel measured {level.label}, so it has no roof."


def level_order(bandwidths: Bandwidths) -> Iterable[str]:
    """Levels that are slower than the next one by more than the spread of the samples."""
    for near, far in inverted(bandwidths):
        first, second = bandwidths[near], bandwidths[far]
        if first.rate < second.rate * (1 - _doubt(first, second)):
            yield (
                f"{near.label} ({si(first.rate, 'B/s')}) is slower than {far.label} "
                f"({si(second.rate, 'B/s')}), also when measured again: other programs disturbed "
                "it, or the system gives wrong cache sizes."
            )


def _doubt(*ceilings: Ceiling) -> float:
    spreads = [ceiling.spread for ceiling in ceilings if math.isfinite(ceiling.spread)]
    return min(max(_TOLERANCE, *spreads), 0.5) if spreads else _TOLERANCE


def fp64_ratio(machine: Machine) -> Iterable[str]:
    """On a CPU, where a vector holds twice as many fp32 as fp64, peaks that are not 1 : 2."""
    single = machine.peaks.get((Pipe.MATRIX, Precision.FP32))
    double = machine.peaks.get((Pipe.MATRIX, Precision.FP64))
    if single is None or double is None:
        return
    ratio = single.rate / double.rate
    if ratio > _HIGH_RATIO:
        share = percent(2 / ratio, 0)
        yield (
            f"fp64 reaches {share} of half the fp32 peak: it is a lower bound, since no fp64 kernel "
            "of the framework used the whole unit."
        )
    elif ratio < _LOW_RATIO:
        yield (
            f"fp32 is only {ratio:.2g} times as fast as fp64, where 2 is expected: fp32 is a lower "
            "bound, or other programs disturbed it."
        )


def narrow_formats(machine: Machine) -> Iterable[str]:
    """16-bit and 8-bit formats on a CPU that are slower than fp32, so converted in software."""
    single = machine.peaks.get((Pipe.MATRIX, Precision.FP32))
    for precision in (Precision.FP16, Precision.BF16, Precision.INT8):
        narrow = machine.peaks.get((Pipe.MATRIX, precision))
        if single is not None and narrow is not None and narrow.rate < single.rate:
            yield (
                f"Matrix products in {precision} are slower than in fp32: "
                "this processor converts the format instead of computing in it."
            )


def unsteady(machine: Machine) -> Iterable[str]:
    """Ceilings whose samples differ so much that the machine was probably busy."""
    ceilings = {level.label: ceiling for level, ceiling in machine.bandwidths.items()}
    ceilings |= {" ".join(pair): ceiling for pair, ceiling in machine.peaks.items()}
    if machine.launch_cost is not None:
        ceilings["launch"] = machine.launch_cost
    names = [name for name, ceiling in ceilings.items() if _unsteady(ceiling)]
    if names:
        yield (
            f"The samples of {', '.join(names)} vary much: other programs were running, or the "
            "clock changed; measure again on a quiet machine."
        )


def _unsteady(ceiling: Ceiling) -> bool:
    apart = max(ceiling.rate / ceiling.median, ceiling.median / ceiling.rate)
    return ceiling.spread > _WIDE or apart > _FAR_BELOW_BEST
