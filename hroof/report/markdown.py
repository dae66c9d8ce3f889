"""The report as a GitHub-flavoured Markdown summary, for a job's page, an issue or a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hroof.findings import Finding, Verdict, findings, verdict, warnings
from hroof.report import cells, gfm
from hroof.report.labels import labelled
from hroof.roofline import Coverage, Point, Totals, coverage, points, totals
from hroof.units import percent, si

if TYPE_CHECKING:
    from hroof.machine import Machine
    from hroof.profile import Profile

FINDINGS, ROWS, NAME = 3, 10, 60


def render(
    profile: Profile,
    machine: Machine | None,
    *,
    by: Sequence[str] = ("layer",),
    top: int = ROWS,
) -> str:
    """Write the summary of a run: verdict, findings, the rows with most time, coverage, caveats.

    Args:
        profile: What was collected.
        machine: Its ceilings; without them there are no bounds, and the summary says so.
        by: Grouping keys of the rows.
        top: How many rows; 0 for all.

    Raises:
        UsageError: A grouping key is unknown or given twice.
    """
    ranked, sums = findings(profile, machine), totals(profile, machine)
    said = verdict(profile, machine, ranked)
    parts = [
        gfm.heading(f"hroof: {profile.name}").lstrip(),
        _said(said),
        _card(profile, sums),
        first_findings(ranked) if machine is not None else "",
        _ranking(points(profile, machine, tuple(by)), tuple(by), machine, top),
        _coverage(coverage(profile)),
        caveats(warnings(profile, machine)),
    ]
    return "".join(parts)


def _said(said: Verdict) -> str:
    sign = "" if said.sound else "⚠ "
    why = f"\nWhy: {gfm.plain(said.why)}  \nNext: {gfm.plain(said.next)}\n"
    return f"**{sign}{gfm.plain(said.text)}**\n{why}"


def _card(profile: Profile, sums: Totals) -> str:
    run = profile.run
    device = str(run.get("device_name") or run.get("device") or "unknown device")
    steps = f"{sums.steps} captured step{'' if sums.steps == 1 else 's'}"
    facts = [
        str(run.get("framework") or "unknown framework"),
        device,
        steps,
        f"launches {si(sums.time, 's')}{' a step' if sums.steps else ''}",
        f"wall {cells.wall_cell(sums)}",
        f"{si(sums.hardware_flop, 'FLOP')}",
    ]
    return f"\n{gfm.plain(' · '.join(facts))}\n"


def first_findings(ranked: Sequence[Finding], most: int = FINDINGS) -> str:
    """The first findings with what each could save; empty where there are none.

    Args:
        ranked: Best first.
        most: How many to show.
    """
    if not ranked:
        return ""
    shown = [_finding(number, finding) for number, finding in enumerate(ranked[:most], 1)]
    left = len(ranked) - most
    more = f"\nand {left} more.\n" if left > 0 else ""
    return gfm.heading("What to change first (savings at most)", 3) + "".join(shown) + more


def _finding(number: int, finding: Finding) -> str:
    saved = f"**{si(finding.saves, 's')}**: " if finding.saves > 0 else ""
    return f"{number}. {saved}{gfm.plain(finding.action)} {gfm.plain(finding.title)}\n"


def _ranking(
    ranked: Sequence[Point], by: tuple[str, ...], machine: Machine | None, top: int
) -> str:
    start = gfm.heading(f"By {', '.join(by) or 'nothing'}, most time first", 3)
    if not ranked:
        return f"{start}No launch was captured.\n"
    shown = labelled(ranked[:top] if top > 0 else ranked)
    whole = cells.time_of(ranked)
    headers = [*(by or ["group"]), "time", "% of time", "FLOP/s"]
    headers += ["bound", "headroom", "could save"] if machine is not None else []
    rows = [_row(point, whole, machine) for point in shown]
    left = ranked[len(shown) :]
    rest = cells.time_of(left)
    more = f"\nand {len(left)} more rows ({si(rest, 's')}, {cells.share_cell(rest, whole)}).\n"
    return start + gfm.table(headers, rows, max(len(by), 1)) + (more if left else "")


def _row(point: Point, whole: float, machine: Machine | None) -> list[str]:
    names = [gfm.code(name, NAME) for name in point.key.values()] or ["all"]
    found = [
        si(point.time, "s"),
        cells.share_cell(point.time, whole),
        cells.rate_of_flop_cell(point),
    ]
    if machine is not None:
        saves = si(point.recoverable_time, "s") if point.attainable_time else cells.DASH
        found += [cells.bound_cell(point), cells.headroom_cell(point), saves]
    return [*names, *map(gfm.plain, found)]


def _coverage(known: Coverage) -> str:
    facts = [
        f"{percent(known.time_attributed)} of the time has a layer",
        f"{percent(known.time_with_flop)} has known FLOP",
    ]
    names = ", ".join(gfm.code(name, NAME) for name in known.ops_without_rule)
    ruleless = f" Ops without a rule: {names}." if names else ""
    return f"\nCoverage: {gfm.plain(', '.join(facts))}.{ruleless}\n"


def caveats(texts: Sequence[str]) -> str:
    """What a reader has to know, closed until it is opened; empty where there is nothing."""
    if not texts:
        return ""
    many = f"{len(texts)} caveat{'' if len(texts) == 1 else 's'}"
    return gfm.folded(many, gfm.bullets([gfm.plain(text) for text in texts]))
