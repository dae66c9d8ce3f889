"""What the page's own script draws from: groups of launches in columns, roofs and names, small enough to embed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hroof.machine import Ceiling, Machine
from hroof.report import cells
from hroof.report.labels import KERNEL, group_of, labels
from hroof.report.look import printable
from hroof.report.scene import SOLID
from hroof.roofline import Point, captured, points
from hroof.roofline.grouping import group
from hroof.units import MemoryLevel, Phase

if TYPE_CHECKING:
    from hroof.profile import Profile

MAX_ROWS, MAX_POINTS, MAX_LEAVES = 1000, 1000, 1500
"""Groups of each kind in a page, the longest ones; the page says how many more there are."""
MAX_LAYERS = 300
"""Layers whose ops are looked up; the others, the shortest, stay closed."""
MAX_NAME = 300
"""Characters of a name in the page; the data below it have the whole one."""

MAX_LABEL = 80
"""Characters of what a kernel is called in the chart and in the tree."""

_DIGITS = 5
_LEAF = ("layer", "phase", "op", "kernel")


@dataclass
class _Terms:
    """Texts that repeat, each once."""

    texts: list[Any] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)

    def of(self, text: Any) -> int:
        place = self.places.setdefault(text, len(self.texts))
        if place == len(self.texts):
            self.texts.append(text)
        return place


@dataclass
class _Book:
    """The texts of one page by kind, and the levels that it shows."""

    levels: tuple[MemoryLevel, ...]
    names: _Terms = field(default_factory=_Terms)
    bounds: _Terms = field(default_factory=_Terms)
    notes: _Terms = field(default_factory=_Terms)
    pairs: _Terms = field(default_factory=_Terms)
    trust: _Terms = field(default_factory=_Terms)


def view(
    profile: Profile,
    machine: Machine | None,
    by: Sequence[str],
    rows: Sequence[Point],
    spots: Sequence[Point],
) -> dict[str, Any]:
    """Put a run into the form that the page's script reads.

    Args:
        profile: The run.
        machine: Its ceilings, or None.
        by: Grouping keys of the rows.
        rows: The groups of the table, longest first.
        spots: The groups of the chart, longest first; their keys begin with those of the rows.

    Returns:
        Plain JSON values without NaN: names are printable and at most ``MAX_NAME`` characters long. A table holds
        its columns as lists of equal length; columns of nothing are left out.
    """
    book = _Book(tuple(cells.levels_of(rows)))
    leaves, left = _leaves(profile, machine, rows) if tuple(by) == ("layer",) else ([], 0)
    row_of = {tuple(row.key.values()): index for index, row in enumerate(rows[:MAX_ROWS])}
    drawn = _table(spots[:MAX_POINTS], book)
    drawn["group"] = [book.names.of(clipped(group_of(one.key))) for one in spots[:MAX_POINTS]]
    drawn["row"] = [row_of.get(tuple(one.key[k] for k in by)) for one in spots[:MAX_POINTS]]
    tables = {
        "rows": _table(rows[:MAX_ROWS], book) | _types(profile, by, rows[:MAX_ROWS], book),
        "points": drawn,
        "leaves": _table(leaves, book),
    }
    return tables | {
        "by": list(by),
        "time": _short(cells.time_of(rows)),
        "pointsTime": _short(cells.time_of(spots)),
        "levels": [[level.value, level.label] for level in book.levels],
        "phases": [phase.value for phase in Phase],
        "roofs": roofs(machine),
        "left": {
            "rows": max(len(rows) - MAX_ROWS, 0),
            "points": max(len(spots) - MAX_POINTS, 0),
            "leaves": left,
        },
        "labels": _labels([*rows[:MAX_ROWS], *leaves], book),
        "names": book.names.texts,
        "bounds": book.bounds.texts,
        "notes": book.notes.texts,
        "pairs": book.pairs.texts,
        "trust": book.trust.texts,
    }


def _labels(found: Sequence[Point], book: _Book) -> list[tuple[int, str]]:
    """Short names of kernels, each with the place of the full one; of a few that only C++ tells apart, both ends."""
    short = labels(point.key[KERNEL] for point in found if KERNEL in point.key)
    return [
        (book.names.of(clipped(name)), clipped(label, MAX_LABEL))
        for name, label in short.items()
        if label != name or len(name) > MAX_LABEL
    ]


def roofs(machine: Machine | None) -> list[dict[str, Any]]:
    """The bandwidths from the cores outwards, then the floating-point peaks."""
    if machine is None:
        return []
    slopes = [
        {"level": level.value, "name": level.label, **_ceiling(roof)}
        for level, roof in machine.bandwidths.items()
    ]
    flats = [
        {"pipe": pipe.value, "precision": q.value, "name": f"{pipe} {q.upper()}", **_ceiling(peak)}
        for (pipe, q), peak in machine.peaks.items()
        if q.is_float
    ]
    return [roof for roof in (*slopes, *flats) if roof["rate"]]


def _ceiling(ceiling: Ceiling) -> dict[str, Any]:
    return {
        "rate": _short(ceiling.rate),
        "how": ceiling.how,
        "solid": ceiling.how in SOLID,
        "spread": _short(ceiling.spread),
        "kernel": clipped(ceiling.kernel),
    }


def clipped(name: str, most: int = MAX_NAME) -> str:
    """A name without control characters; ``…`` stands for the middle of a very long one."""
    half = most // 2
    return printable(name if len(name) <= most else f"{name[:half]}…{name[1 - half :]}")


def _leaves(
    profile: Profile, machine: Machine | None, rows: Sequence[Point]
) -> tuple[list[Point], int]:
    """The ops and kernels of the longest layers, longest first, and how many more there are."""
    if not rows:
        return [], 0
    launches = captured(profile.launches)
    if len(rows) > MAX_LAYERS:
        kept = [row.key["layer"] for row in rows[:MAX_LAYERS]]
        # Work of no layer at all is a row as well, under a name that the table does not hold.
        launches = launches[launches["layer"].isin(kept)]
    keys = _LEAF if launches["kernel"].notna().any() else _LEAF[:-1]
    part = profile.replace(launches=launches)
    found = points(part, machine, keys, most=MAX_LEAVES)
    return found, len(group(captured(part.launches), keys).keys) - len(found)


def _types(
    profile: Profile, by: Sequence[str], rows: Sequence[Point], book: _Book
) -> dict[str, Any]:
    """The class of each layer, where the run tells."""
    if tuple(by) != ("layer",):
        return {}
    entries = profile.run.get("layers")
    known = {
        str(entry.get("name")): clipped(str(entry["type"]))
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, Mapping) and entry.get("type")
    }
    found = [known.get(row.key["layer"]) for row in rows]
    return {"type": [None if name is None else book.names.of(name) for name in found]}


# Columns


def _table(found: Sequence[Point], book: _Book) -> dict[str, Any]:
    keys = list(found[0].key) if found else []
    columns: dict[str, Any] = {
        "size": len(found),
        "keys": {k: [book.names.of(clipped(p.key[k])) for p in found] for k in keys},
    }
    for name, value in _NUMBERS.items():
        columns |= _column(name, [_short(value(point)) for point in found])
    for name, value in _MOSTLY_ZERO.items():
        numbers = [_short(value(point)) for point in found]
        columns |= {name: numbers} if any(numbers) else {}
    columns["bytes"] = _by_level([point.nbytes for point in found], book)
    columns["untimedBytes"] = _by_level([point.untimed_bytes for point in found], book)
    columns |= _column("bound", [book.bounds.of(p.bound) if p.bound else None for p in found])
    columns |= _column("pair", [_pair(point, book) for point in found])
    columns |= _column("notes", [[book.notes.of(note) for note in p.notes] or None for p in found])
    columns["trust"] = [book.trust.of(_trust(point, book)) for point in found]
    return columns


_NUMBERS: dict[str, Callable[[Point], float | None]] = {
    "launches": lambda point: point.launches,
    "time": lambda point: point.time,
    "flop": lambda point: point.total_flop,
    "boundShare": lambda point: point.bound_share,
    "attainable": lambda point: point.attainable_time,
    "bounded": lambda point: point.bounded_time,
}
"""Columns in which nothing means not known."""
_MOSTLY_ZERO: dict[str, Callable[[Point], float]] = {
    "op": lambda point: point.total_op,
    "untimedFlop": lambda point: point.untimed_flop,
    "uncounted": lambda point: point.uncounted_time,
    "zero": lambda point: point.zero_flop_launches,
}
"""Columns that are left out where all is zero."""


def _column(name: str, values: list[Any]) -> dict[str, list[Any]]:
    return {name: values} if any(value is not None for value in values) else {}


def _by_level(found: Sequence[Mapping[MemoryLevel, float]], book: _Book) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for level in book.levels:
        columns |= _column(level.value, [_short(part.get(level)) for part in found])
    return columns


def _pair(point: Point, book: _Book) -> int | None:
    """The unit and format that does most of the FLOP."""
    work = {pair: value for pair, value in point.flop.items() if pair[1].is_float}
    if not work:
        return None
    pipe, precision = max(work, key=lambda pair: work[pair])
    return book.pairs.of((pipe.value, precision.value))


def _trust(point: Point, book: _Book) -> tuple[str, ...]:
    """Where time, FLOP and bytes come from, in letters, and the mark of each level's bytes."""
    marks = (cells.bytes_mark(point, level).strip() for level in book.levels)
    return (cells.source_cell(point, book.levels), *marks)


def _short(value: float | None) -> float | int | None:
    """A number with few digits, as whole where it is; None for what is not known."""
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e6 else rounded
