"""Sections of the page as plain values: tables with what they sort by, bars, and lists of words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hroof.findings import Finding, Verdict
from hroof.machine import Ceiling, Machine
from hroof.report import cells
from hroof.report.grid import Grid
from hroof.report.look import PHASE_COLOURS
from hroof.roofline import Coverage, Point, Totals
from hroof.units import MemoryLevel, Phase, percent, si

if TYPE_CHECKING:
    from hroof.profile import Profile

MAX_ROWS = 300
"""Rows of the layer table and of the zero-FLOP table; the rest is named by number and time."""

_MAX_CAVEATS, _MAX_NAMES = 60, 40
_CONVENTIONS = (
    "A fused multiply-add is 2 FLOP; integer operations (OP) are no FLOP; 1 GB = 1e9 B.",
    "FLOP follow the published convention (nominal); bounds use the least FLOP that a direct "
    "implementation executes.",
    "≥ at least, ≤ at most, ~ predicted. Numbers are those of the median step.",
    "Savings are upper limits; those of several findings overlap and do not add up.",
)


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: What it shows.
        value: What it sorts by; None: nothing known; a string for names.
    """

    text: str
    value: float | str | None


@dataclass(frozen=True)
class Report:
    """Everything that the sections show."""

    profile: Profile
    machine: Machine | None
    by: tuple[str, ...]
    points: list[Point]
    phases: list[Point]
    totals: Totals
    coverage: Coverage
    findings: list[Finding]
    verdict: Verdict
    warnings: list[str]


# Step


def phase_bar(report: Report) -> list[dict[str, str]]:
    """The phases of a step by time."""
    timed = [point for point in report.phases if point.time > 0]
    whole = math.fsum(point.time for point in timed)
    grey = PHASE_COLOURS[Phase.OTHER.value]
    return [
        {
            "name": point.key["phase"],
            "time": si(point.time, "s"),
            "share": percent(point.time / whole),
            "width": f"{100 * point.time / whole:.3f}%",
            "colour": PHASE_COLOURS.get(point.key["phase"], grey),
            "bound": cells.bound_cell(point),
            "headroom": cells.headroom_cell(point),
        }
        for point in timed
    ]


def step_facts(report: Report) -> str:
    """What a step is made of, in one sentence."""
    sums = report.totals
    facts = [f"Sum of launch times {si(sums.time, 's')}"]
    if sums.union_time is not None:
        facts.append(f"time with at least one launch {si(sums.union_time, 's')}")
    if sums.wall is not None:
        facts.append(f"wall time {cells.wall_cell(sums)}")
    return ", ".join(facts) + "."


# Tables


def ranked(report: Report) -> dict[str, Any]:
    """The ranked groups, sortable."""
    levels = cells.levels_of(report.points)
    shown = report.points[:MAX_ROWS]
    grid = cells.ranking(shown, report.by, report.totals.time, report.machine)
    rows = [
        [
            Cell(text, value)
            for text, value in zip(texts, _values(report, point, levels), strict=True)
        ]
        for texts, point in zip(grid.rows, shown, strict=True)
    ]
    left = report.points[MAX_ROWS:]
    time = math.fsum(point.time for point in left if point.time > 0)
    return {
        "headers": grid.headers,
        "names": grid.names,
        "rows": rows,
        "rest": f"and {len(left)} more rows, {si(time, 's')} together." if left else "",
        "legend": cells.legend(shown),
    }


def _values(
    report: Report, point: Point, levels: Sequence[MemoryLevel]
) -> list[float | str | None]:
    """What the columns of ``cells.ranking`` sort by."""
    values: list[float | str | None] = [*(point.key.values() or ["all"])]
    numbers = [point.launches, point.time, point.time, point.total_flop, point.flop_rate]
    values += [_finite(value) for value in numbers]
    values += [_finite(point.intensity.get(level)) for level in levels]
    if report.machine is not None:
        saves = point.recoverable_time if point.attainable_time else None
        values += [point.bound or "", _finite(point.headroom), _finite(saves)]
    return [*values, cells.source_cell(point, levels)]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def limited(grid: Grid) -> dict[str, Any]:
    """The first rows of a grid, and how many are left out."""
    left = len(grid.rows) - MAX_ROWS
    rest = f"and {left} more rows." if left > 0 else ""
    return {
        "headers": grid.headers,
        "names": grid.names,
        "rows": [[Cell(text, None) for text in row] for row in grid.rows[:MAX_ROWS]],
        "rest": rest,
    }


def ceiling_rows(machine: Machine | None) -> list[list[str]]:
    """The ceilings as rows: name, rate, spread, samples, how, kernel."""
    if machine is None:
        return []
    rows = [
        _ceiling(f"{pipe} {precision.upper()}", peak, "FLOP/s" if precision.is_float else "OP/s")
        for (pipe, precision), peak in machine.peaks.items()
    ]
    rows += [_ceiling(level.label, roof, "B/s") for level, roof in machine.bandwidths.items()]
    if machine.launch_cost is not None:
        rows.append(_ceiling("launch", machine.launch_cost, "s"))
    return rows


def _ceiling(name: str, ceiling: Ceiling, unit: str) -> list[str]:
    numbers = [si(ceiling.rate, unit), percent(ceiling.spread), str(ceiling.samples)]
    return [name, *numbers, ceiling.how, ceiling.kernel or cells.DASH, ceiling.note or cells.DASH]


# Foot


def coverage_rows(known: Coverage) -> list[tuple[str, str]]:
    """What the launch time is known to be, as (what, share)."""
    rows = [("has a layer", percent(known.time_attributed))]
    rows += [(f"has a layer, {p}", percent(s)) for p, s in known.time_attributed_by_phase.items()]
    rows += [
        (f"rests on {'the root' if not depth else f'containers of depth {depth}'}", percent(share))
        for depth, share in known.time_on_containers.items()
    ]
    if known.time_loading > 0:
        rows.append((cells.LOADING, percent(known.time_loading)))
    rows.append(("has known FLOP", percent(known.time_with_flop)))
    rows.append(("FLOP without a source", percent(known.time_unjoined)))
    named = [("no FLOP rule", known.ops_without_rule), ("found no count", known.ops_unjoined)]
    for text, ops in named:
        rows += [(f"{text}: {op}", percent(share)) for op, share in list(ops.items())[:_MAX_NAMES]]
        if len(ops) > _MAX_NAMES:
            rows.append((f"{text}: {len(ops) - _MAX_NAMES} more ops", cells.DASH))
    return rows


def caveats(report: Report) -> list[str]:
    """What the reader has to know, one sentence each."""
    about: dict[str, list[str]] = {}
    for point in report.points[:MAX_ROWS]:
        for note in point.notes:
            about.setdefault(note, []).append("/".join(point.key.values()) or "all")
    notes = [f"{_some(names)}: {note}" for note, names in about.items()]
    # The warnings hold those of the machine.
    texts = list(dict.fromkeys([*report.warnings, *notes]))
    left = len(texts) - _MAX_CAVEATS
    more = [f"and {left} more."] if left > 0 else []
    return [*texts[:_MAX_CAVEATS], *more, *_CONVENTIONS]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MAX_NAMES])
    return shown if len(names) <= _MAX_NAMES else f"{shown} and {len(names) - _MAX_NAMES} more"
