"""The report as one HTML file that works offline, with and without scripts, in light and dark."""

from __future__ import annotations

import base64
import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hroof.errors import MissingError
from hroof.findings import Finding, findings, verdict, warnings
from hroof.machine import Machine
from hroof.report import cells, inline, sections
from hroof.report.bars import bars, gaps
from hroof.report.export import csv_columns, to_json
from hroof.report.look import printable
from hroof.report.placed import placed
from hroof.report.scene import spot
from hroof.report.sections import Report
from hroof.report.view import view
from hroof.roofline import Point, coverage, points, remembering, totals
from hroof.units import Phase, number, percent, si

if TYPE_CHECKING:
    from hroof.profile import Profile

MAX_JSON = 300_000
"""Characters of embedded JSON, so that a page stays below 1 MB."""
MAX_DRAWN = 15
"""Groups in the chart that stands in the page for readers without scripts."""

_MAX_CARDS, _MAX_FINDINGS = 3, 40


@remembering()
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
    spots = _spots(report)
    document = to_json(profile, machine, by)
    data, kept = inline.fitting(document, MAX_JSON)
    script = scripted("page/report.js")
    page: str = template("report.html").render(
        title=printable(profile.name),
        policy=policy(script),
        card=_card(report),
        tiles=_tiles(report),
        verdict=report.verdict,
        findings=report.findings[:_MAX_CARDS],
        more_findings=report.findings[_MAX_CARDS:_MAX_FINDINGS],
        first_more=_MAX_CARDS + 1,
        saved=_saved,
        chart=_chart(report, spots[:MAX_DRAWN]),
        undrawn=max(len(spots) - MAX_DRAWN, 0),
        has_machine=machine is not None,
        bar=sections.phase_bar(report),
        bars=bars(report),
        step=sections.step_facts(report),
        table=sections.ranked(report),
        idle=sections.limited(cells.without_flop(report.points, report.by, report.totals.time)),
        gaps=gaps(report),
        machine=machine,
        ceilings=sections.ceiling_rows(machine),
        coverage=sections.coverage_rows(report.coverage),
        caveats=sections.caveats(report),
        data=data,
        view=inline.json_text(_view(report, spots)),
        script=script,
        left_out=len(document["rows"]) - kept,
    )
    return page


def scripted(name: str) -> str:
    """The text of a page's own script."""
    text: str = template(name).render()
    return text


def policy(script: str) -> str:
    """What a browser may do for the page: run this very script, use its styles, and ask for nothing outside."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _spots(report: Report) -> list[Point]:
    """The groups of the chart: those of the table, by phase where they are layers."""
    keys = report.by
    if "layer" in keys and "phase" not in keys:
        keys = (*keys, "phase")
    return points(report.profile, report.machine, keys)


def _view(report: Report, spots: Sequence[Point]) -> dict[str, Any]:
    row_of = {point.key.get("layer"): index for index, point in enumerate(report.points)}
    found = [
        [row_of[layer] for layer in finding.layers if layer in row_of]
        for finding in report.findings[:_MAX_FINDINGS]
    ]
    drawn = view(report.profile, report.machine, report.by, report.points, spots)
    return drawn | {"findings": found, "csv": csv_columns(report.by)}


def template(name: str) -> Any:
    """A page to fill in, whatever is filled in made safe.

    Raises:
        MissingError: jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingError(
            f"jinja2, which writes the page, cannot be imported: {error}.",
            "Install it with: pip install jinja2. Text, CSV and JSON reports work without.",
        ) from error
    return _environment(jinja2).get_template(name)


@functools.cache
def _environment(jinja2: Any) -> Any:
    """Where the templates are, each read once."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("hroof.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _clean(value: object) -> object:
    """What a template shows, without control characters; elements that are ready stay as they are."""
    return printable(value) if type(value) is str else value


def _collect(profile: Profile, machine: Machine | None, by: tuple[str, ...]) -> Report:
    order = [*Phase, "(no phase)"]
    phases, ranked = points(profile, machine, ("phase",)), findings(profile, machine)
    return Report(
        profile=profile,
        machine=machine,
        by=by,
        points=points(profile, machine, by),
        phases=sorted(phases, key=lambda point: order.index(point.key["phase"])),
        totals=totals(profile, machine),
        coverage=coverage(profile),
        findings=ranked,
        verdict=verdict(profile, machine, ranked),
        warnings=warnings(profile, machine),
    )


# Head


def _card(report: Report) -> list[tuple[str, str]]:
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
        ("Layers", placed(run)),
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


def _steps(report: Report) -> str:
    schedule = report.profile.run.get("schedule")
    skip = schedule.get("skip") if isinstance(schedule, Mapping) else None
    return f"{report.totals.steps} captured" + (
        f" after {skip} skipped" if skip is not None else ""
    )


def _tiles(report: Report) -> list[tuple[str, str, str]]:
    """The main figures of a step: name, value, explanation."""
    sums = report.totals
    rate = sums.hardware_flop / sums.time if sums.time > 0 else math.nan
    tiles = [
        ("Launch time", si(sums.time, "s"), "sum over the launches of the median step"),
        ("Wall time", si(sums.wall, "s"), "of the median step, the cost of collecting in it"),
        ("Work", si(sums.hardware_flop, "FLOP"), "nominal, per step"),
        ("Performance", si(rate, "FLOP/s"), "FLOP ÷ launch time"),
    ]
    if sums.undisturbed is not None:
        tiles.insert(2, ("Undisturbed", si(sums.undisturbed, "s"), "a step without collecting"))
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


def _chart(report: Report, spots: Sequence[Point]) -> Any:
    """The chart as an element for readers without scripts, or why there is none."""
    from markupsafe import Markup, escape

    from hroof.report.chart import roofline, svg

    try:
        artists = roofline(spots, report.machine, title=report.profile.name)
        text = svg(artists, text=True)
    except MissingError as error:
        return Markup('<p class="note">{}</p>').format(escape(str(error)))
    about = {spot(point).name: _hover(point) for point in spots}
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
    return "\n".join(map(printable, [*lines, *point.notes]))
