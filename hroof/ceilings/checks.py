"""What is doubtful about measured ceilings, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from hroof.ceilings import datasheets, limits
from hroof.ceilings.sweep import doubts
from hroof.machine import Ceiling, Machine
from hroof.units import MemoryLevel, Pipe, Precision, percent, si

_TOLERANCE = 0.05
_OWN_SHARE = 0.85
_STOLEN_SHARE = 0.05
_OVER_LIMIT = 1.05
_EQUAL = 1.1
_HALF_USED = 0.6
_WIDE = 0.3
_FAR_BELOW_BEST = 1.5
_LOW_RATIO = 1.6
_HIGH_RATIO = 3.0

_MIXES = ("copy", "triad")

Bandwidths = Mapping[MemoryLevel, Ceiling]


def inverted(bandwidths: Bandwidths) -> list[tuple[MemoryLevel, MemoryLevel]]:
    """Neighbouring levels (nearer, farther) of which the nearer is slower."""
    return [
        (near, far)
        for near, far in _neighbours(bandwidths)
        if bandwidths[near].rate < bandwidths[far].rate
    ]


def _neighbours(bandwidths: Bandwidths) -> Iterable[tuple[MemoryLevel, MemoryLevel]]:
    return pairwise([level for level in MemoryLevel if level in bandwidths])


def too_slow(machine: Machine) -> set[str]:
    """Names of the levels of which one is slower than the next one, both of them; also of copies and triads."""
    return {
        f"{level} {mix}".strip()
        for mix, bandwidths in _mixes(machine)
        for pair in inverted(bandwidths)
        for level in pair
    }


def _mixes(machine: Machine) -> Iterable[tuple[str, Bandwidths]]:
    """Bandwidths by what is read and written: the ceilings themselves, copies and triads."""
    yield "", machine.bandwidths
    for mix in _MIXES:
        keys = {level: f"{level} {mix}" for level in MemoryLevel}
        yield (
            mix,
            {level: machine.others[key] for level, key in keys.items() if key in machine.others},
        )


def warnings(machine: Machine) -> tuple[str, ...]:
    """Every doubt about a machine's ceilings, one sentence each, in a fixed order.

    Where other programs took much of the time, that explains odd ratios, so these are not told.
    """
    taken = list(busy(machine))
    found = [*taken, *held_back(machine), *too_fast(machine).values()]
    found += [*missing_levels(machine), *orders(machine), *no_plateau(machine)]
    if taken:
        return tuple(found)
    found += [*unresolved(machine), *doubts(machine)]
    if machine.device == "cpu":
        found += [*fp64_ratio(machine), *narrow_formats(machine)]
    return (*found, *below_sheet(machine), *unsteady(machine))


def given(machine: Machine) -> tuple[str, ...]:
    """Doubts about ceilings that a user gives: peaks that are those with sparsity, or above the data sheet."""
    sparse = datasheets.sparse_peaks(machine)
    fast = {name: text for name, text in too_fast(machine).items() if name not in sparse}
    return (*map(_sparse, sparse), *fast.values())


def _sparse(name: str) -> str:
    return (
        f"The peak of {_label(name)} is twice what the data sheet gives without structured sparsity: with it as the "
        "roof every utilisation comes out at half. Use the dense peak."
    )


def is_disturbed(machine: Machine) -> bool:
    """Whether other programs took so much of the machine that its ceilings are worth little."""
    return any(busy(machine)) or any(level_order(machine.bandwidths))


def busy(machine: Machine) -> Iterable[str]:
    """Processor time that went to other programs during the samples, or to other machines of the same host."""
    share = machine.facts.get("own_share")
    if isinstance(share, float) and share < _OWN_SHARE:
        yield (
            f"Other programs took {percent(1 - share, 0)} of the processor time meanwhile, so "
            "ceilings may be far too low: measure again on a quiet machine."
        )
    stolen = machine.facts.get("stolen_share")
    if isinstance(stolen, float) and stolen > _STOLEN_SHARE:
        yield (
            f"The hypervisor gave {percent(stolen, 0)} of the processor time to other programs of its host, so "
            "ceilings may be too low: measure again at a quieter time."
        )


def held_back(machine: Machine) -> Iterable[str]:
    """A quota or heat that stopped or slowed the cores meanwhile."""
    if _count(machine, "quota_hits"):
        yield (
            f"A quota of the container stopped this program {_count(machine, 'quota_hits')} times meanwhile: "
            "medians are too low, and sustained rates are those of the quota."
        )
    if _count(machine, "throttles"):
        yield (
            f"Cores slowed down {_count(machine, 'throttles')} times meanwhile because they were too hot: "
            "ceilings are those of a hot machine."
        )


def _count(machine: Machine, fact: str) -> int:
    count = machine.facts.get(fact)
    return count if isinstance(count, int) else 0


def too_fast(machine: Machine) -> dict[str, str]:
    """A sentence for each ceiling that is more than the hardware can do, by its name.

    The limits are cores × width × clock, of which 105 % are allowed, and the data sheet, of which 101 %.
    """
    rates, found = _rates(machine), {}
    for name, limit in limits.limits(machine).items():
        if name in rates and rates[name] > _OVER_LIMIT * limit:
            found[name] = (
                f"{_label(name)} ({_rate(name, rates[name])}) is more than the cores can do "
                f"({_rate(name, limit)} by their number, width and clock): its kernel counts work that it does not do, "
                "or the clock was higher than it was measured."
            )
    for name, share in datasheets.shares(machine).items():
        if share > datasheets.ABOVE:
            found[name] = (
                f"{_label(name)} ({_rate(name, rates[name])}) is {percent(share, 0)} of the data sheet at this clock: "
                "its kernel counts work that it does not do, or the data are in a cache."
            )
    return found


def below_sheet(machine: Machine) -> Iterable[str]:
    """Ceilings far below the data sheet, named together."""
    low = {n: s for n, s in datasheets.shares(machine).items() if s < datasheets.BELOW}
    if low:
        names = ", ".join(f"{_label(name)} {percent(share, 0)}" for name, share in low.items())
        yield (
            f"Less than {percent(datasheets.BELOW, 0)} of the data sheet: {names}. A limit of clock or power, another "
            "program or the kernel holds them back."
        )


def _rates(machine: Machine) -> dict[str, float]:
    rates = {str(level): ceiling.rate for level, ceiling in machine.bandwidths.items()}
    return rates | {"_".join(pair): ceiling.rate for pair, ceiling in machine.peaks.items()}


def _label(name: str) -> str:
    return name.replace("_", " ") if "_" in name else name.upper()


def _rate(name: str, rate: float) -> str:
    unit = ("OP/s" if "int" in name else "FLOP/s") if "_" in name else "B/s"
    return si(rate, unit)


def unresolved(machine: Machine) -> Iterable[str]:
    """Neighbouring levels that came out the same, with the reason as far as it is known."""
    for near, far in _neighbours(machine.bandwidths):
        first, second = machine.bandwidths[near], machine.bandwidths[far]
        if second.rate * (1 - _doubt(first, second)) <= first.rate < _EQUAL * second.rate:
            yield (
                f"{near.label} ({si(first.rate, 'B/s')}) and {far.label} ({si(second.rate, 'B/s')}) are not resolved: "
                f"{_why_equal(machine, near, far)}."
            )


def _why_equal(machine: Machine, near: MemoryLevel, far: MemoryLevel) -> str:
    limit = limits.limits(machine).get(str(near))
    rate = machine.bandwidths[near].rate
    if limit is not None and rate < _HALF_USED * limit:
        share = percent(rate / limit, 0)
        return (
            f"the kernel takes {share} of what the cores can load, as one with vectors of half the width does, so "
            f"{near.label} is a lower bound"
        )
    if far is MemoryLevel.DRAM:
        return f"the cache sizes that the system tells may be wrong, or others fill {near.label}"
    return "no kernel tells them apart, or the cache sizes that the system tells are wrong"


def no_plateau(machine: Machine) -> Iterable[str]:
    """A sweep in which no level shows."""
    if machine.sweep is not None and not machine.sweep.plateaus:
        yield (
            "The sweep over working sets shows no plateau, also when measured again: other programs disturbed it, "
            "so it confirms no level."
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


def orders(machine: Machine) -> Iterable[str]:
    """Levels that are slower than the next one, in any mix of reads and writes."""
    for mix, bandwidths in _mixes(machine):
        yield from level_order(bandwidths, mix)


def level_order(bandwidths: Bandwidths, mix: str = "") -> Iterable[str]:
    """Levels that are slower than the next one by more than the spread of the samples.

    Args:
        bandwidths: By level.
        mix: What is read and written, if it is not the ceiling itself.
    """
    said = f" {mix}" if mix else ""
    for near, far in inverted(bandwidths):
        first, second = bandwidths[near], bandwidths[far]
        if first.rate < second.rate * (1 - _doubt(first, second)):
            yield (
                f"{near.label}{said} ({si(first.rate, 'B/s')}) is slower than {far.label}{said} "
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
