"""The text report: verdict first, then ranked groups, phases, totals, ceilings, coverage."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hroof.findings import Finding, Verdict, findings, verdict, warnings
from hroof.findings.finding import count
from hroof.machine import Ceiling, Machine
from hroof.report.cells import (
    DASH,
    LOADING,
    bytes_cell,
    legend,
    ranking,
    share_cell,
    time_of,
    wall_cell,
    without_flop,
)
from hroof.report.grid import Grid, show
from hroof.report.page import console_for, heading, line, panel
from hroof.report.placed import placed
from hroof.roofline import (
    Coverage,
    Point,
    Totals,
    captured,
    coverage,
    points,
    remembering,
    select,
    totals,
)
from hroof.units import Phase, number, percent, si

if TYPE_CHECKING:
    from rich.console import Console

    from hroof.profile import Profile

MAX_FINDINGS = 5
_CONVENTIONS = (
    "A fused multiply-add is 2 FLOP; integer operations (OP) are no FLOP; 1 GB = 1e9 B. FLOP "
    "follow the published convention; bounds use the least FLOP that a direct implementation "
    "executes. ≥ at least, ≤ at most, ~ predicted. Numbers are those of the median step, "
    "chosen for each row by its time; savings are upper limits, and those of several findings "
    "overlap."
)


@dataclass(frozen=True)
class _Report:
    """Everything that the sections show."""

    profile: Profile
    machine: Machine | None
    by: tuple[str, ...]
    points: list[Point]
    totals: Totals
    coverage: Coverage
    findings: list[Finding]
    verdict: Verdict
    warnings: list[str]


@remembering()
def render(
    profile: Profile,
    machine: Machine | None,
    *,
    by: Sequence[str] = ("layer",),
    top: int = 20,
    width: int | None = None,
    color: bool = False,
) -> str:
    """Write the report of a run as text.

    Args:
        profile: What was collected.
        machine: Its ceilings; without them the report holds measured times only, and says so.
        by: Grouping keys of the ranked rows.
        top: How many rows to rank; 0 for all. The rest is named by number and time.
        width: Columns of the terminal; None for that of this terminal.
        color: Use terminal colours.

    Raises:
        UsageError: A grouping key is unknown or given twice.
    """
    report = _collect(profile, machine, tuple(by))
    stream = io.StringIO()
    console = console_for(stream, width, color)
    _verdict(console, report)
    _findings(console, report)
    _ranking(console, report, top)
    _phases(console, report)
    _totals(console, report)
    _ceilings(console, report)
    _coverage(console, report)
    _caveats(console, report, top)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _collect(profile: Profile, machine: Machine | None, by: tuple[str, ...]) -> _Report:
    ranked = findings(profile, machine)
    return _Report(
        profile=profile,
        machine=machine,
        by=by,
        points=points(profile, machine, by),
        totals=totals(profile, machine),
        coverage=coverage(profile),
        findings=ranked,
        verdict=verdict(profile, machine, ranked),
        warnings=warnings(profile, machine),
    )


def _verdict(console: Console, report: _Report) -> None:
    panel(console, f"Verdict: {report.profile.name}", report.verdict)
    line(console, _card(report))


def _card(report: _Report) -> str:
    run = report.profile.run
    facts = [
        f"framework {run.get('framework') or 'unknown'}",
        f"device {_device(run)}",
        f"{report.totals.steps} captured steps",
        f"ranks {report.totals.ranks}",
        f"how: {_how(run.get('how'))}",
    ]
    if run.get("counting"):
        facts.append(f"counted {run['counting']}")
    return " · ".join(facts)


def _device(run: Mapping[str, Any]) -> str:
    device = run.get("device")
    facts = device if isinstance(device, Mapping) else {"device": device}
    names = [run.get("device_name") or facts.get("name"), facts.get("device")]
    return ", ".join(dict.fromkeys(str(name) for name in names if name)) or "unknown"


def _how(how: object) -> str:
    if isinstance(how, Mapping):
        return ", ".join(f"{key} {value}" for key, value in sorted(how.items()))
    return str(how or "unknown")


def _findings(console: Console, report: _Report) -> None:
    if report.machine is None:
        return
    heading(console, "What to change first")
    shown = report.findings[:MAX_FINDINGS]
    if not shown:
        line(console, "Nothing was found.")
    for number_, finding in enumerate(shown, 1):
        line(console, f"{number_}. [{finding.severity}] {finding.title}")
        line(console, f"{finding.cause} {finding.action}".lstrip(), indent=3)
        if finding.saves > 0:
            saved = f"Saves at most {si(finding.saves, 's')} a step. Assumed: {finding.assumption}"
            line(console, saved, indent=3)
    for number_, finding in enumerate(report.findings[MAX_FINDINGS:], MAX_FINDINGS + 1):
        saved = f" Saves at most {si(finding.saves, 's')} a step." if finding.saves > 0 else ""
        line(console, f"{number_}. [{finding.severity}] {finding.title}{saved}")


def _rest(console: Console, more: int, what: str, how: str) -> None:
    if more > 0:
        line(console, f"and {more} more {what}{'s' if more > 1 else ''} ({how}).")


def _shown(report: _Report, top: int) -> list[Point]:
    return report.points[:top] if top > 0 else report.points


def _ranking(console: Console, report: _Report, top: int) -> None:
    heading(console, f"By {', '.join(report.by) or 'nothing'}, most time first")
    if not report.points:
        line(console, "No launch was captured.")
        return
    if report.machine is None:
        line(console, "Measured times only: without ceilings there is no bound and no headroom.")
    shown, step = _shown(report, top), time_of(report.points)
    show(console, ranking(shown, report.by, step, report.machine))
    line(console, legend(shown))
    left = report.points[len(shown) :]
    time = time_of(left)
    share = share_cell(time, step)
    _rest(console, len(left), "row", f"{si(time, 's')}, {share} of the time; --top 0 shows all")
    idle = without_flop(shown, report.by, step)
    if idle.rows:
        heading(
            console,
            "Launches of no FLOP, by their bytes (bytes and rates are of all launches of a row)",
        )
        show(console, idle)


def _phases(console: Console, report: _Report) -> None:
    found = points(report.profile, report.machine, ("phase",))
    if not found:
        return
    order = [*Phase, "(no phase)"]
    heading(console, "Phases")
    ranked = sorted(found, key=lambda point: order.index(point.key["phase"]))
    show(console, ranking(ranked, ("phase",), time_of(ranked), report.machine))


def _totals(console: Console, report: _Report) -> None:
    sums = report.totals
    heading(console, "Totals of a step")
    rows = [
        ["sum of launch times", si(sums.time, "s")],
        ["union over streams", si(sums.union_time, "s")],
        ["wall time", wall_cell(sums)],
        ["spread of the launch time over steps", percent(sums.time_spread)],
        ["launches", f"{count(sums.launches)}, of no FLOP {count(sums.zero_flop_launches)}"],
        ["matrix FLOP", si(sums.matrix_flop, "FLOP")],
        ["elementwise FLOP", si(sums.elementwise_flop, "FLOP")],
        ["FLOP of the hardware", si(sums.hardware_flop, "FLOP")],
        ["FLOP of the model, nothing recomputed", si(sums.model_flop, "FLOP")],
        ["integer operations", si(sums.integer_op, "OP")],
        *_byte_rows(report),
    ]
    if report.machine is not None:
        rows += _bound_rows(sums)
    show(console, Grid(["what", "value"], rows))


def _byte_rows(report: _Report) -> list[list[str]]:
    everything = np.ones(len(captured(report.profile.launches)), dtype=bool)
    whole = select(report.profile, report.machine, everything)
    if whole is None:
        return []
    return [[f"bytes at {level.label}", bytes_cell(whole, level)] for level in whole.nbytes]


def _bound_rows(sums: Totals) -> list[list[str]]:
    return [
        ["attainable as launched", si(sums.attainable_time, "s")],
        ["attainable if fused, at most", si(sums.fused_time, "s")],
        ["headroom", number(sums.headroom)],
        ["model FLOP utilisation (MFU)", percent(sums.mfu)],
        ["hardware FLOP utilisation (HFU)", percent(sums.hfu)],
    ]


def _ceilings(console: Console, report: _Report) -> None:
    machine = report.machine
    heading(console, "Ceilings")
    if machine is None:
        line(console, "None. Measure them once with: hroof ceilings")
        return
    shared = " · vector and matrix work share one unit" if machine.shared_pipes else ""
    line(console, f"{machine.name} ({machine.device}){shared}")
    rows = [
        _ceiling(f"{pipe} {precision}", peak, "FLOP/s" if precision.is_float else "OP/s")
        for (pipe, precision), peak in machine.peaks.items()
    ]
    rows += [_ceiling(level.label, roof, "B/s") for level, roof in machine.bandwidths.items()]
    if machine.launch_cost is not None:
        rows.append(_ceiling("launch", machine.launch_cost, "s"))
    show(console, Grid(["ceiling", "rate", "spread", "samples", "how", "kernel"], rows))
    for note, names in _ceiling_notes(machine).items():
        line(console, f"{', '.join(names)}: {note}")


def _ceiling(name: str, ceiling: Ceiling, unit: str) -> list[str]:
    numbers = [si(ceiling.rate, unit), percent(ceiling.spread), str(ceiling.samples)]
    return [name, *numbers, ceiling.how, ceiling.kernel or DASH]


def _ceiling_notes(machine: Machine) -> dict[str, list[str]]:
    """What a reader has to know about ceilings, each once, with the ceilings it is about."""
    named = {f"{pipe} {precision}": peak for (pipe, precision), peak in machine.peaks.items()}
    named |= {level.label: roof for level, roof in machine.bandwidths.items()}
    if machine.launch_cost is not None:
        named["launch"] = machine.launch_cost
    about: dict[str, list[str]] = {}
    for name, ceiling in named.items():
        if ceiling.note:
            about.setdefault(ceiling.note, []).append(name)
    return about


def _coverage(console: Console, report: _Report) -> None:
    known = report.coverage
    heading(console, "Coverage, in shares of the launch time")
    rows = [["has a layer", percent(known.time_attributed)]]
    rows += [[f"has a layer, {p}", percent(s)] for p, s in known.time_attributed_by_phase.items()]
    rows += [
        [f"rests on {'the root' if depth == 0 else f'containers of depth {depth}'}", percent(share)]
        for depth, share in known.time_on_containers.items()
    ]
    if known.time_loading > 0:
        rows.append([LOADING, percent(known.time_loading)])
    rows.append(["has known FLOP", percent(known.time_with_flop)])
    rows.append(["FLOP without a source", percent(known.time_unjoined)])
    rows += [[f"no FLOP rule: {op}", percent(s)] for op, s in known.ops_without_rule.items()]
    rows += [[f"found no count: {op}", percent(s)] for op, s in known.ops_unjoined.items()]
    show(console, Grid(["launch time that", "share"], rows))
    if layers := placed(report.profile.run):
        line(console, f"Layers: {layers}.")


def _caveats(console: Console, report: _Report, top: int) -> None:
    heading(console, "Caveats")
    for text in [*report.warnings, *_notes(_shown(report, top)), _CONVENTIONS]:
        line(console, f"• {text}")


def _notes(shown: Iterable[Point]) -> list[str]:
    """The notes of the rows, each once, with the rows it is about."""
    about: dict[str, list[str]] = {}
    for point in shown:
        for note in point.notes:
            about.setdefault(note, []).append("/".join(point.key.values()) or "all")
    return [f"{', '.join(names)}: {note}" for note, names in about.items()]
