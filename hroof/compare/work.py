"""Work: what else changed of a group whose time changed: launches, FLOP, precision, bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hroof.compare.differences import Difference
from hroof.roofline import Pair, Point
from hroof.units import number, si

SAME = "same work"
_APART = 0.01
"""Share by which counts differ before it is told; counters jitter by less."""


def work_of(row: Difference) -> str:
    """What changed of the work, in a few words, e.g. ``fp32 → bf16, DRAM × 0.52``; ``same work`` where nothing did."""
    return ", ".join(facts_of(row)) or _unchanged(row)


def facts_of(row: Difference) -> list[str]:
    """The same, one fact each: precision, FLOP, launches, then bytes from the far levels to the near ones."""
    if row.base is None or row.new is None:
        return []
    return [*_precision(row.base.point, row.new.point), *_counts(row)]


def short_work(row: Difference) -> str:
    """The first two of the facts, for a table."""
    return ", ".join(facts_of(row)[:2]) or _unchanged(row)


def _unchanged(row: Difference) -> str:
    """The same work, where something is known of it in both runs."""
    if row.base is None or row.new is None:
        return ""
    known = [row.flop, *(row.nbytes(level) for level in row.levels)]
    return "" if all(map(math.isnan, known)) else SAME


def _precision(base: Point, new: Point) -> Iterator[str]:
    before, after = main_pair(base), main_pair(new)
    if before and after and before != after:
        pipes = before[0] != after[0]
        names = [
            f"{pipe} {precision}" if pipes else str(precision)
            for pipe, precision in (before, after)
        ]
        yield " → ".join(names)


def main_pair(point: Point) -> Pair | None:
    """The unit and format that do most of the FLOP, or None."""
    work = {pair: value for pair, value in point.flop.items() if pair[1].is_float}
    return max(work, key=lambda pair: (work[pair], pair)) if work else None


def _counts(row: Difference) -> Iterator[str]:
    if not math.isnan(row.flop) and _differs(*row.flops):
        yield f"FLOP {_times(*row.flops)}"
    if _differs(*row.counts):
        yield f"launches {_times(*row.counts)}"
    for level in reversed(row.levels):
        if not math.isnan(row.nbytes(level)) and _differs(*row.sizes(level)):
            yield f"{level.label} {_times(*row.sizes(level))}"


def _differs(base: float, new: float) -> bool:
    return abs(new - base) > _APART * max(abs(base), abs(new))


def _times(base: float, new: float) -> str:
    return f"× {number(new / base)}" if base > 0 and new > 0 else f"{si(base, '')} → {si(new, '')}"
