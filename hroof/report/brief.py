"""The short text report: what to do, which layers, and how far to trust it; fits a terminal of 100 columns."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hroof.findings import Finding, findings, no_ceilings_remedy, verdict, warnings
from hroof.kernels import display_name
from hroof.machine import Ceiling, Machine
from hroof.report import cells
from hroof.report.grid import Grid, show
from hroof.report.labels import labelled
from hroof.report.page import console_for, heading, line, panel
from hroof.report.placed import placed
from hroof.roofline import Point, Totals, coverage, points, remembering, totals
from hroof.units import MemoryLevel, Phase, Pipe, Precision, number, percent, si

if TYPE_CHECKING:
    from rich.console import Console

    from hroof.profile import Profile

FINDINGS = 3
OPS, NAME = 5, 60
_SAME_RATE = 0.005
FULL = "--full shows everything: FLOP and bytes at every level, totals, ceilings with spread."


@remembering()
def render(
    profile: Profile,
    machine: Machine | None,
    *,
    by: Sequence[str] = ("layer",),
    top: int = 15,
    width: int | None = None,
    color: bool = False,
) -> str:
    """Write the short report of a run as text; arguments and errors are those of ``hroof.report.text.render``."""
    ranked = findings(profile, machine)
    sums = totals(profile, machine)
    stream = io.StringIO()
    console = console_for(stream, width, color)
    panel(console, f"Verdict: {profile.name}", verdict(profile, machine, ranked))
    line(console, _card(profile, sums))
    if machine is not None:
        _findings(console, ranked)
    _ranking(console, points(profile, machine, tuple(by)), tuple(by), machine, top)
    _trust(console, profile, machine)
    return "\n".join(text.rstrip() for text in stream.getvalue().splitlines()) + "\n"


def _card(profile: Profile, sums: Totals) -> str:
    run = profile.run
    device = f"{run.get('device_name') or ''} ({run.get('device') or 'unknown device'})".strip()
    steps = f"{sums.steps} captured steps" if sums.steps != 1 else "1 captured step"
    per = " a step" if sums.steps else ""
    times = f"launches {si(sums.time, 's')}{per}, wall {cells.wall_cell(sums)}"
    # Of counters nobody can tell which vector work is elementwise.
    vector = "elementwise" if profile.counters is None else "vector"
    work = f"{si(sums.matrix_flop, 'FLOP')} matrix + {si(sums.elementwise_flop, 'FLOP')} {vector}"
    return " · ".join(
        [str(run.get("framework") or "unknown framework"), device, steps, times, work]
    )


def _findings(console: Console, ranked: Sequence[Finding]) -> None:
    heading(console, "What to change first (savings at most)")
    if not ranked:
        line(console, "Nothing was found.")
    for place, finding in enumerate(ranked[:FINDINGS], 1):
        saved = f"{si(finding.saves, 's')}: " if finding.saves > 0 else ""
        line(console, f"{place}. {saved}{finding.action}")
        line(console, finding.title, indent=3)
    more = len(ranked) - FINDINGS
    if more > 0:
        line(console, f"and {more} more with --full.")


def _ranking(
    console: Console, ranked: Sequence[Point], by: Sequence[str], machine: Machine | None, top: int
) -> None:
    heading(console, f"By {', '.join(by) or 'nothing'}, most time first")
    if not ranked:
        line(console, "No launch was captured.")
        return
    if machine is None:
        line(console, "Measured times only: without ceilings there is no bound and no headroom.")
    shown = labelled(ranked[:top] if top > 0 else ranked)
    whole = cells.time_of(ranked)
    show(console, Grid(_headers(by, shown, machine), _rows(shown, whole, machine), max(len(by), 1)))
    if len(ranked) > 1:
        line(console, "Each row is a median of its own: rows do not add up exactly to the step.")
    left = ranked[len(shown) :]
    if left:
        time = cells.time_of(left)
        rest = f"{si(time, 's')}, {cells.share_cell(time, whole)} of the time"
        line(console, f"and {len(left)} more rows ({rest}; --top 0 shows all).")


def _far_level(shown: Sequence[Point]) -> MemoryLevel | None:
    """The farthest level that bytes pass through: what fits the caches leaves columns of dashes at DRAM."""
    levels = cells.levels_of(shown)
    passed = [level for level in levels if any(point.nbytes.get(level, 0) > 0 for point in shown)]
    return next(reversed(passed or levels), None)


def _headers(by: Sequence[str], shown: Sequence[Point], machine: Machine | None) -> list[str]:
    level = _far_level(shown)
    far = [f"B/s {level.label}", f"FLOP/B {level.label}"] if level is not None else []
    judged = ["bound", "headroom", "could save"] if machine is not None else []
    return [*(by or ["group"]), "time", "%", "FLOP/s", *far, *judged]


def _rows(shown: Sequence[Point], whole: float, machine: Machine | None) -> list[list[str]]:
    level = _far_level(shown)
    return [_row(point, level, whole, machine) for point in shown]


def _row(
    point: Point, level: MemoryLevel | None, whole: float, machine: Machine | None
) -> list[str]:
    share = percent(point.time / whole) if whole > 0 else cells.DASH
    row = [*(point.key.values() or ["all"]), si(point.time, "s"), share.removesuffix(" %")]
    row.append(cells.rate_of_flop_cell(point))
    if level is not None:
        row += [cells.rate_cell(point, level), cells.intensity_cell(point, level)]
    if machine is not None:
        saves = si(point.recoverable_time, "s") if point.attainable_time else cells.DASH
        row += [point.bound or cells.DASH, cells.headroom_cell(point), saves]
    return row


def _trust(console: Console, profile: Profile, machine: Machine | None) -> None:
    heading(console, "How far to trust it")
    line(console, _phases(profile, machine))
    line(console, _coverage(profile))
    if layers := placed(profile.run):
        line(console, f"Layers: {layers}.")
    line(console, _ceilings(profile, machine))
    for text in warnings(profile, machine):
        line(console, f"• {text}")
    line(console, f"≥ counted, at least · ~ predicted · – not known. {FULL}")


def _phases(profile: Profile, machine: Machine | None) -> str:
    found = {point.key["phase"]: point for point in points(profile, machine, ("phase",))}
    whole = cells.time_of(list(found.values()))
    parts = []
    for phase in Phase:
        if phase.value in found:
            point = found[phase.value]
            share = cells.share_cell(point.time, whole)
            room = f", headroom {number(point.headroom)}" if point.headroom is not None else ""
            parts.append(f"{phase.value} {si(point.time, 's')} ({share}{room})")
    return f"Phases: {' · '.join(parts) or 'none'}."


def _coverage(profile: Profile) -> str:
    known = coverage(profile)
    text = f"Coverage: {percent(known.time_attributed)} of the launch time has a layer, "
    text += f"{percent(known.time_with_flop)} known FLOP"
    if known.time_loading > 0:
        text += f" (data loading, {percent(known.time_loading)}, left out)"
    containers = sum(known.time_on_containers.values())
    if containers > 0:
        text += f"; {percent(containers)} rests on the model itself or a container"
    if known.ops_without_rule:
        fact = "no FLOP rule" if profile.counters is None else "FLOP unknown"
        text += f"; {fact}: {_named(known.ops_without_rule)}"
    sized = [
        f"{level.label} of {count:g}"
        for level, count in known.launches_with_bytes.items()
        if 0 < count < known.launches
    ]
    if sized:
        text += f"; bytes known at {', '.join(sized)} of {known.launches:g} launches"
    return f"{text}."


def _named(shares: Mapping[str, float]) -> str:
    """The first ops with their shares, and how many more there are."""
    named = [f"{_short(op)} {percent(share)}" for op, share in list(shares.items())[:OPS]]
    more = len(shares) - OPS
    return ", ".join([*named, *([f"and {more} more"] if more > 0 else [])])


def _short(op: str) -> str:
    """An op as it is; a kernel without arguments; both cut where they are very long."""
    name = display_name(op) if "(" in op else op
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def _ceilings(profile: Profile, machine: Machine | None) -> str:
    if machine is None:
        return f"Ceilings: none. {no_ceilings_remedy(profile)}"
    rates = [f"{p} {q} {si(c.rate, _unit(q.is_float))}" for (p, q), c in _told(machine).items()]
    rates += ["vector: same unit"] if machine.shared_pipes else []
    rates += [f"{level.label} {si(c.rate, 'B/s')}" for level, c in machine.bandwidths.items()]
    if machine.launch_cost is not None:
        rates.append(f"launch {si(machine.launch_cost.rate, 's')}")
    kinds = sorted(
        {ceiling.how for ceiling in [*machine.peaks.values(), *machine.bandwidths.values()]}
    )
    return f"Ceilings ({', '.join(kinds)}): {' · '.join(rates)}."


def _told(machine: Machine) -> dict[tuple[Pipe, Precision], Ceiling]:
    """The matrix peaks, and vector peaks that differ from the matrix peak of their precision."""
    matrix = {q: c.rate for (pipe, q), c in machine.peaks.items() if pipe is Pipe.MATRIX}
    return {
        (pipe, q): ceiling
        for (pipe, q), ceiling in machine.peaks.items()
        if pipe is Pipe.MATRIX
        or (q not in matrix or not math.isclose(ceiling.rate, matrix[q], rel_tol=_SAME_RATE))
    }


def _unit(is_float: bool) -> str:
    return "FLOP/s" if is_float else "OP/s"
