"""The report as one HTML file that works offline, with and without scripts, in light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hroof.errors import MissingError
from hroof.findings import Finding, Verdict, findings, verdict, warnings
from hroof.machine import Ceiling, Machine
from hroof.report import cells, inline
from hroof.report.export import to_json
from hroof.report.grid import Grid
from hroof.report.look import PHASE_COLOURS, printable
from hroof.report.scene import spot
from hroof.roofline import Coverage, Point, Totals, coverage, points, totals
from hroof.units import MemoryLevel, Phase, number, percent, si

if TYPE_CHECKING:
    from hroof.profile import Profile

MAX_ROWS = 300
"""Rows of the layer table and of the zero-FLOP table; the rest is named by number and time."""

MAX_JSON = 350_000
"""Characters of embedded JSON, so that a page stays below 1 MB."""

_MAX_CARDS, _MAX_FINDINGS, _MAX_CAVEATS, _MAX_NAMES = 6, 40, 60, 40
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
class _Report:
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


def render(profile: Profile, machine: Machine | None, by: Sequence[str] = ("layer",)) -> str:
    """Write the report of a run as one HTML page.

    Args:
        profile: What was collected.
        machine: Its ceilings; None: no roofs and no bounds, and the page says so.
        by: Grouping keys of the table.

    Returns:
        The page, at most 1 MB, without any reference to something outside it.

    Raises:
        UsageError: A grouping key is unknown or given twice.
        MissingError: jinja2 is not installed.
    """
    report = _collect(profile, machine, tuple(by))
    document = to_json(profile, machine, by)
    data, kept = inline.fitting(document, MAX_JSON)
    page: str = _template().render(
        title=printable(profile.name),
        card=_card(report),
        tiles=_tiles(report),
        verdict=report.verdict,
        findings=report.findings[:_MAX_CARDS],
        more_findings=report.findings[_MAX_CARDS:_MAX_FINDINGS],
        first_more=_MAX_CARDS + 1,
        saved=_saved,
        chart=_chart(report),
        has_machine=machine is not None,
        bar=_bar(report),
        step=_step_facts(report),
        table=_table(report),
        idle=_limited(cells.without_flop(report.points, report.by, report.totals.time)),
        machine=machine,
        ceilings=_ceilings(machine),
        coverage=_coverage(report.coverage),
        caveats=_caveats(report),
        data=data,
        left_out=len(document["rows"]) - kept,
    )
    return page


def _template() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingError(
            f"jinja2, which writes the page, cannot be imported: {error}.",
            "Install it with: pip install jinja2. Text, CSV and JSON reports work without.",
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hroof.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")


def _collect(profile: Profile, machine: Machine | None, by: tuple[str, ...]) -> _Report:
    order = [*Phase, "(no phase)"]
    phases = points(profile, machine, ("phase",))
    return _Report(
        profile=profile,
        machine=machine,
        by=by,
        points=points(profile, machine, by),
        phases=sorted(phases, key=lambda point: order.index(point.key["phase"])),
        totals=totals(profile, machine),
        coverage=coverage(profile),
        findings=findings(profile, machine),
        verdict=verdict(profile, machine),
        warnings=warnings(profile, machine),
    )


# Head


def _card(report: _Report) -> list[tuple[str, str]]:
    """What was run, on what, and how it was measured; only what is known."""
    run, known = report.profile.run, report.coverage
    facts = run.get("facts")
    threads = facts.get("threads") if isinstance(facts, Mapping) else None
    if threads is None and report.machine is not None:
        threads = report.machine.facts.get("threads")
    rows = [
        ("Program", _words(run.get("program"), " ")),
        ("Device", _words(run.get("device_name") or run.get("device"))),
        ("Threads", _words(threads)),
        ("Framework", _words(run.get("framework"))),
        ("Versions", _words(run.get("versions"))),
        ("Steps", _steps(report)),
        ("Ranks", str(report.totals.ranks)),
        ("How measured", _words(run.get("how"))),
        ("How counted", _words(run.get("counting"))),
        ("Status", _words([run.get("status"), run.get("status_reason")])),
        ("Time with a layer", percent(known.time_attributed)),
        ("Time with known FLOP", percent(known.time_with_flop)),
    ]
    return [(name, text) for name, text in rows if text]


def _words(value: object, joint: str = ", ") -> str:
    """A value of ``run.json`` as text; nothing for what is missing."""
    if isinstance(value, Mapping):
        return joint.join(f"{key} {_words(item)}" for key, item in sorted(value.items()))
    if isinstance(value, list | tuple):
        return joint.join(filter(None, map(_words, value)))
    if isinstance(value, float):
        return number(value)
    return "" if value is None else printable(str(value))


def _steps(report: _Report) -> str:
    schedule = report.profile.run.get("schedule")
    skip = schedule.get("skip") if isinstance(schedule, Mapping) else None
    return f"{report.totals.steps} captured" + (
        f" after {skip} skipped" if skip is not None else ""
    )


def _tiles(report: _Report) -> list[tuple[str, str, str]]:
    """The main figures of a step: name, value, explanation."""
    sums = report.totals
    rate = sums.hardware_flop / sums.time if sums.time > 0 else math.nan
    tiles = [
        ("Launch time", si(sums.time, "s"), "sum over the launches of the median step"),
        ("Wall time", si(sums.wall, "s"), "of the median step"),
        ("Work", si(sums.hardware_flop, "FLOP"), "nominal, per step"),
        ("Performance", si(rate, "FLOP/s"), "FLOP ÷ launch time"),
    ]
    if report.machine is not None:
        tiles += [
            ("Attainable", si(sums.attainable_time, "s"), "as launched, at the measured ceilings"),
            ("Headroom", f"{number(sums.headroom)} ×", "time ÷ attainable time"),
            ("MFU", percent(sums.mfu), "model FLOP at the peaks ÷ wall time"),
        ]
    return tiles


def _saved(finding: Finding) -> str:
    """The impact of a finding, or nothing where it saves nothing."""
    if not finding.saves > 0:
        return ""
    return f"saves at most {si(finding.saves, 's')} a step"


# Chart


def _chart(report: _Report) -> Any:
    """The chart as an element, or why there is none."""
    from markupsafe import Markup, escape

    from hroof.report.chart import roofline, svg

    keys = report.by
    if "layer" in keys and "phase" not in keys:
        keys = (*keys, "phase")
    shown = points(report.profile, report.machine, keys)
    try:
        artists = roofline(shown, report.machine, title=report.profile.name)
        text = svg(artists, text=True)
    except MissingError as error:
        return Markup('<p class="note">{}</p>').format(escape(str(error)))
    rows = {tuple(point.key.values()): index for index, point in enumerate(report.points)}
    about = {
        spot(point).name: (_hover(point), rows.get(tuple(point.key[key] for key in report.by)))
        for point in shown
    }
    titles = {
        marker.get_gid(): about[name]
        for level, markers in artists.markers.items()
        for name, marker in zip(artists.names[level], markers, strict=True)
    }
    drawn = sum(len(markers) for markers in artists.markers.values())
    return Markup(inline.chart(text, f"Roofline chart with {drawn} markers", titles))


def _hover(point: Point) -> str:
    """What pointing at a marker tells."""
    levels = ", ".join(
        f"{level.label} {cells.intensity_cell(point, level)}" for level in point.intensity
    )
    lines = [
        spot(point).name,
        f"{si(point.time, 's')} a step, {si(point.flop_rate, 'FLOP/s')}",
        f"FLOP/byte: {levels}",
    ]
    if point.bound:
        lines.append(f"bound: {cells.bound_cell(point)}, headroom {cells.headroom_cell(point)}")
    return "\n".join([*lines, *point.notes])


# Step


def _bar(report: _Report) -> list[dict[str, str]]:
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


def _step_facts(report: _Report) -> str:
    sums = report.totals
    facts = [f"Sum of launch times {si(sums.time, 's')}"]
    if sums.union_time is not None:
        facts.append(f"time with at least one launch {si(sums.union_time, 's')}")
    if sums.wall is not None:
        facts.append(f"wall time {si(sums.wall, 's')}")
    return ", ".join(facts) + "."


# Tables


def _table(report: _Report) -> dict[str, Any]:
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
    report: _Report, point: Point, levels: Sequence[MemoryLevel]
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


def _limited(grid: Grid) -> dict[str, Any]:
    left = len(grid.rows) - MAX_ROWS
    rest = f"and {left} more rows." if left > 0 else ""
    return {
        "headers": grid.headers,
        "names": grid.names,
        "rows": [[Cell(text, None) for text in row] for row in grid.rows[:MAX_ROWS]],
        "rest": rest,
    }


def _ceilings(machine: Machine | None) -> list[list[str]]:
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


def _coverage(known: Coverage) -> list[tuple[str, str]]:
    rows = [("has a layer", percent(known.time_attributed))]
    rows += [(f"has a layer, {p}", percent(s)) for p, s in known.time_attributed_by_phase.items()]
    rows += [
        (f"rests on {'the root' if not depth else f'containers of depth {depth}'}", percent(share))
        for depth, share in known.time_on_containers.items()
    ]
    rows.append(("has known FLOP", percent(known.time_with_flop)))
    rows.append(("FLOP without a source", percent(known.time_unjoined)))
    named = [("no FLOP rule", known.ops_without_rule), ("found no count", known.ops_unjoined)]
    for text, ops in named:
        rows += [(f"{text}: {op}", percent(share)) for op, share in list(ops.items())[:_MAX_NAMES]]
        if len(ops) > _MAX_NAMES:
            rows.append((f"{text}: {len(ops) - _MAX_NAMES} more ops", cells.DASH))
    return rows


def _caveats(report: _Report) -> list[str]:
    about: dict[str, list[str]] = {}
    for point in report.points[:MAX_ROWS]:
        for note in point.notes:
            about.setdefault(note, []).append("/".join(point.key.values()) or "all")
    notes = [f"{_some(names)}: {note}" for note, names in about.items()]
    machine = list(report.machine.warnings) if report.machine is not None else []
    texts = list(dict.fromkeys([*report.warnings, *machine, *notes]))
    left = len(texts) - _MAX_CAVEATS
    more = [f"and {left} more."] if left > 0 else []
    return [*texts[:_MAX_CAVEATS], *more, *_CONVENTIONS]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MAX_NAMES])
    return shown if len(names) <= _MAX_NAMES else f"{shown} and {len(names) - _MAX_NAMES} more"
