"""Cells of a comparison, as text; whatever is not known is a dash."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hroof.compare import Change, Comparison, Difference, How
from hroof.compare.summary import signed
from hroof.compare.work import short_work
from hroof.report.cells import DASH
from hroof.report.grid import Grid
from hroof.report.labels import labels
from hroof.units import MemoryLevel, number, si

ROUNDING = 1e-9
SIGNS = {
    Change.FASTER: "faster",
    Change.SLOWER: "slower",
    Change.NOISE: "within noise",
    Change.UNKNOWN: "not judged",
    Change.NEW: "new",
    Change.GONE: "gone",
}


def levels_of(rows: Iterable[Difference]) -> list[MemoryLevel]:
    """The levels at which a row knows bytes, nearest first."""
    known = {level for row in rows for level in row.levels}
    return [level for level in MemoryLevel if level in known]


def named(rows: Sequence[Difference]) -> list[str]:
    """What the rows are called; kernels by labels that are short where that is enough."""
    short = labels(part.name for row in rows for part in (row.base, row.new) if part)
    return [_name(row, short) for row in rows]


def _name(row: Difference, short: dict[str, str]) -> str:
    names = [short[part.name] for part in (row.base, row.new) if part]
    name = " → ".join(dict.fromkeys(names))
    return f"{name} (by {row.how})" if row.how not in (How.NAME, How.NONE) else name


def brief(kind: str, rows: Sequence[Difference], names: Sequence[str]) -> Grid:
    """The rows in a table of few columns.

    Args:
        kind: What the rows are.
        rows: In the order to show.
        names: What they are called, one each.
    """
    judged = any(not math.isnan(value) for row in rows for value in row.headrooms)
    headers = [kind, "BASE", "NEW", "Δ time", "× as fast", "change"]
    headers += ["headroom"] if judged else []
    headers.append("work")
    cells = [_brief(name, row, judged) for name, row in zip(names, rows, strict=True)]
    return Grid(headers, cells)


def _brief(name: str, row: Difference, judged: bool) -> list[str]:
    cells = [name, *times(row), number(row.ratio), SIGNS[row.change]]
    return [*cells, *([headrooms(row)] if judged else []), short_work(row) or DASH]


def times(row: Difference) -> list[str]:
    """Seconds in both runs and their difference."""
    before, after = row.times
    return [
        DASH if row.base is None else si(before, "s"),
        DASH if row.new is None else si(after, "s"),
        signed(row.time),
    ]


def headrooms(row: Difference) -> str:
    """Headroom in both runs, e.g. ``4.10 → 2.30``."""
    before, after = row.headrooms
    if math.isnan(before) and math.isnan(after):
        return DASH
    return f"{_headroom(before)} → {_headroom(after)}"


def _headroom(value: float) -> str:
    """One below 1 carries a warning sign: a ceiling, a count or a clock is wrong."""
    return f"! {number(value)}" if value < 1 - ROUNDING else number(value)


def full(kind: str, rows: Sequence[Difference], names: Iterable[str]) -> Grid:
    """The rows with every difference: time, launches, FLOP, bytes at each level, headroom."""
    levels = levels_of(rows)
    headers = [kind, "BASE", "NEW", "Δ time", "noise", "change", "Δ launches", "Δ FLOP"]
    headers += [f"Δ {level.label}" for level in levels]
    headers += ["headroom", "Δ headroom", "matched by"]
    cells = [_full(name, row, levels) for name, row in zip(names, rows, strict=True)]
    return Grid(headers, cells)


def _full(name: str, row: Difference, levels: Sequence[MemoryLevel]) -> list[str]:
    return [
        name,
        *times(row),
        si(row.judged.noise, "s"),
        SIGNS[row.change],
        signed_number(row.launches),
        signed(row.flop, "FLOP"),
        *(signed(row.nbytes(level), "B") for level in levels),
        headrooms(row),
        signed_number(row.headroom),
        str(row.how),
    ]


def signed_number(value: float) -> str:
    """A plain difference with its sign."""
    return f"+{number(value)}" if value > 0 else number(value)


def sums(found: Comparison, rows: Sequence[Difference]) -> str:
    """How the rows add up to the difference of the step."""
    parts = [(change, [row.time for row in rows if row.change is change]) for change in Change]
    said = [
        f"{len(known)} {SIGNS[change]} {signed(math.fsum(known))}"
        for change, all_of_them in parts
        if (known := [time for time in all_of_them if not math.isnan(time)])
    ]
    rest = found.rest(rows)
    said += [f"not known {signed(rest)}"] if rest and not math.isnan(rest) else []
    return f"{', '.join(said)}; together {signed(found.total.time)}." if said else ""
