"""The step as bars on one scale of seconds, and the gaps in it; three kinds of time that are never mixed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hroof.findings.finding import count
from hroof.report.sections import Report
from hroof.units import percent, si

_WIDE = 0.08
"""Share of the scale from which a part has room for its name."""

_Part = tuple[str, str, float]
"""Name, class of its colour, seconds."""


def bars(report: Report) -> list[dict[str, Any]]:
    """Launch time by phase, wall time, the undisturbed step, and what launching costs; only what is known."""
    sums = report.totals
    lines: list[tuple[str, list[_Part]]] = [("launch time", _phases(report))]
    if sums.wall is not None:
        lines.append(("wall time", _wall(sums.wall, sums.union_time)))
    if sums.undisturbed is not None:
        lines.append(("undisturbed step", _wall(sums.undisturbed, sums.union_time)))
    cost = launch_cost(report)
    if cost is not None:
        lines.append(("launches × launch cost", [("launch", "launch", cost)]))
    scale = max((_sum(parts) for _, parts in lines), default=0.0)
    return [_bar(name, parts, scale) for name, parts in lines if _sum(parts) > 0]


def _phases(report: Report) -> list[_Part]:
    timed = [point for point in report.phases if point.time > 0]
    return [(p.key["phase"], f"hue-{p.key['phase']}", p.time) for p in timed]


def _wall(wall: float, union: float | None) -> list[_Part]:
    """Wall time, divided into where a launch ran and where none did."""
    if union is None or not union < wall:
        return [("wall", "busy", wall)]
    return [("busy", "busy", union), ("idle", "idle", wall - union)]


def launch_cost(report: Report) -> float | None:
    """Seconds that the launches of a step cost where they serialise, or None."""
    known = [point.launch_time for point in report.phases if point.launch_time is not None]
    return math.fsum(known) if known else None


def _bar(name: str, parts: Sequence[_Part], scale: float) -> dict[str, Any]:
    whole = _sum(parts)
    shown = [
        {
            "name": part,
            "class": colour,
            "width": f"{100 * seconds / scale:.3f}%",
            "wide": seconds > _WIDE * scale,
            "title": f"{part} {si(seconds, 's')}, {percent(seconds / whole)}",
        }
        for part, colour, seconds in parts
        if seconds > 0
    ]
    label = f"{name} {si(whole, 's')}: " + ", ".join(str(part["title"]) for part in shown)
    return {"name": name, "label": label, "time": si(whole, "s"), "parts": shown}


def _sum(parts: Sequence[_Part]) -> float:
    return math.fsum(seconds for _, _, seconds in parts)


def gaps(report: Report) -> list[str]:
    """Time in which nothing ran and what launching costs, one sentence each."""
    sums, found = report.totals, []
    if sums.wall is not None and sums.union_time is not None and sums.union_time < sums.wall:
        gap = sums.wall - sums.union_time
        share = percent(gap / sums.wall)
        found.append(
            f"No launch ran in {si(gap, 's')} of the {si(sums.wall, 's')} of a captured step ({share}); "
            "the cost of collecting is in it."
        )
    cost = launch_cost(report)
    if cost is not None and sums.time > 0:
        found.append(
            f"{count(sums.launches)} launches a step cost {si(cost, 's')} where they serialise, "
            f"{percent(cost / sums.time)} of the launch time."
        )
    return found
