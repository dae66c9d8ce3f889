"""Cells: how the numbers of a point are written, with where each comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hroof.findings.finding import count
from hroof.machine import Machine
from hroof.report.grid import Grid
from hroof.roofline import Point, Totals
from hroof.units import MemoryLevel, Source, number, percent, si

LOADING = "loads data: no part of the shares of FLOP"
"""What a table of coverage says of launches that load data."""

DASH = "–"
_SMALL_OP_SHARE = 1e-3
LETTERS = {
    Source.COUNTER: "K",
    Source.MEASURED: "M",
    Source.COUNTED: "C",
    Source.CONVENTION: "V",
    Source.PREDICTED: "P",
    Source.MISSING: DASH,
}


def levels_of(points: Sequence[Point]) -> list[MemoryLevel]:
    """The memory levels that any point knows bytes of, nearest first."""
    return [level for level in MemoryLevel if any(level in point.nbytes for point in points)]


def unused(point: Point, level: MemoryLevel) -> bool:
    """Whether no byte passes through a level, as far as all launches are known."""
    return point.nbytes.get(level) == 0 and not point.unsized_time.get(level, 0.0) > 0


def bytes_mark(point: Point, level: MemoryLevel) -> str:
    """``≥`` for counted bytes or bytes known for a part only, ``~`` for predicted ones."""
    source = point.sources.get(level.value, Source.MISSING)
    if source is Source.PREDICTED:
        return "~ "
    return "≥ " if source is Source.COUNTED or point.unsized_time.get(level, 0.0) > 0 else ""


def bytes_cell(point: Point, level: MemoryLevel) -> str:
    """Bytes at a level, e.g. ``≥ 1.20 MB``."""
    if level not in point.nbytes:
        return DASH
    return bytes_mark(point, level) + si(point.nbytes[level], "B")


def rate_cell(point: Point, level: MemoryLevel) -> str:
    """B/s at a level; a dash where no byte is counted for some of the time."""
    rate, mark = point.byte_rate.get(level), bytes_mark(point, level)
    if rate is None or (mark and not rate > 0):
        return DASH
    return mark + si(rate, "B/s")


def intensity_cell(point: Point, level: MemoryLevel) -> str:
    """FLOP/B at a level; bytes that are a lower bound make it an upper one."""
    value = point.intensity.get(level)
    if value is None or math.isnan(value):
        return DASH
    return bytes_mark(point, level).replace("≥", "≤") + number(value)


def flop_cell(point: Point) -> str:
    """Nominal FLOP, and integer operations apart; ``≥`` where a part of the time is not counted."""
    flop, op = point.total_flop, point.total_op
    mark = "≥ " if point.uncounted_time > 0 and not math.isnan(flop) else ""
    text = mark + si(flop, "FLOP")
    return f"{text} + {si(op, 'OP')}" if op > 0 else text


def rate_of_flop_cell(point: Point) -> str:
    """FLOP/s, or OP/s of work that is all integer; ``≥`` where a part of the time is not counted."""
    if point.total_op > 0 and not point.total_flop > 0 and point.time > 0:
        return si(point.total_op / point.time, "OP/s")
    mark = "≥ " if point.uncounted_time > 0 and not math.isnan(point.flop_rate) else ""
    return mark + si(point.flop_rate, "FLOP/s")


def bound_cell(point: Point) -> str:
    """The name of the bound with its share."""
    return f"{point.bound} {percent(point.bound_share, 0)}" if point.bound else DASH


def headroom_cell(point: Point) -> str:
    """Headroom; one below 1 carries a warning sign."""
    headroom = point.headroom
    sign = "! " if point.notes and headroom is not None and headroom < 1 else ""
    return sign + number(headroom)


def source_cell(point: Point, levels: Sequence[MemoryLevel]) -> str:
    """One letter per quantity: time, FLOP, and each level."""
    names = ["time", "flop", *(level.value for level in levels)]
    return "/".join(LETTERS[point.sources.get(name, Source.MISSING)] for name in names)


def legend(points: Sequence[Point]) -> str:
    """What the letters of ``source_cell`` mean."""
    names = "/".join(["time", "FLOP", *(level.label for level in levels_of(points))])
    return (
        f"Sources of {names}: " + ", ".join(f"{letter} {s}" for s, letter in LETTERS.items()) + "."
    )


def ranking(
    points: Sequence[Point], by: Sequence[str], step: float, machine: Machine | None
) -> Grid:
    """The ranked groups.

    Args:
        points: In the order to show.
        by: Their grouping keys.
        step: Seconds that the shares are of, see ``time_of``.
        machine: Without one there are no columns of bounds.
    """
    levels = levels_of(points)
    headers = [*(by or ["group"]), "launches", "time", "% of time", "FLOP", "FLOP/s"]
    headers += [f"FLOP/B {level.label}" for level in levels]
    if machine is not None:
        headers += ["bound", "headroom", "could save"]
    headers.append("source")
    rows = [_row(point, levels, step, machine) for point in points]
    return Grid(headers, rows, max(len(by), 1))


def _row(
    point: Point, levels: Sequence[MemoryLevel], step: float, machine: Machine | None
) -> list[str]:
    cells = [*(point.key.values() or ["all"]), count(point.launches), si(point.time, "s")]
    cells += [share_cell(point.time, step), flop_cell(point), rate_of_flop_cell(point)]
    cells += [intensity_cell(point, level) for level in levels]
    if machine is not None:
        saves = si(point.recoverable_time, "s") if point.attainable_time else DASH
        cells += [bound_cell(point), headroom_cell(point), saves]
    return [*cells, source_cell(point, levels)]


def time_of(points: Sequence[Point]) -> float:
    """Seconds of all groups together.

    Shares are of this sum: every group has its own median step, so that the groups do not add up to
    the time of one step exactly.
    """
    return math.fsum(point.time for point in points if point.time > 0)


def wall_cell(sums: Totals) -> str:
    """Wall time of a captured step, with that of an undisturbed one where it is known."""
    beside = f" (undisturbed {si(sums.undisturbed, 's')})" if sums.undisturbed else ""
    return si(sums.wall, "s") + beside


def share_cell(part: float, whole: float) -> str:
    """A share in percent, a dash where there is nothing to share."""
    return percent(part / whole) if whole > 0 else DASH


def without_flop(points: Sequence[Point], by: Sequence[str], step: float) -> Grid:
    """Groups with launches that compute nothing, or only integers: by their bytes and launches.

    Those come first whose launches without FLOP take longest; bytes and rates are of all launches of a group.
    """
    shown = [p for p in points if p.zero_flop_launches > 0 or _much_op(p)]
    shown.sort(key=lambda p: -p.zero_flop_time)
    levels = levels_of(shown)
    headers = [*(by or ["group"]), "no FLOP", "their time", "% of time"]
    headers += ["launches", "time", "OP/s", "launches/s"]
    headers += [text for level in levels for text in (f"bytes {level.label}", f"B/s {level.label}")]
    return Grid(headers, [_bytes_row(p, levels, step) for p in shown], max(len(by), 1))


def _much_op(point: Point) -> bool:
    """Whether integer work is worth a row: a few indices beside many FLOP are not."""
    op = point.total_op
    return op > 0 and not op < _SMALL_OP_SHARE * point.total_flop


def _bytes_row(point: Point, levels: Sequence[MemoryLevel], step: float) -> list[str]:
    timed = point.time > 0
    cells = [*(point.key.values() or ["all"]), count(point.zero_flop_launches)]
    cells.append(si(point.zero_flop_time, "s") if timed else DASH)
    cells.append(share_cell(point.zero_flop_time, step) if timed else DASH)
    cells += [count(point.launches), si(point.time, "s")]
    cells.append(si(point.total_op / point.time, "OP/s") if timed and point.total_op else DASH)
    cells.append(si(point.launches / point.time, "") if timed else DASH)
    for level in levels:
        cells += [bytes_cell(point, level), rate_cell(point, level)]
    return cells
