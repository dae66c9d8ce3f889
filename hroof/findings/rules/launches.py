"""Launches that cost more than their work, all layers together: N·c against t."""

from __future__ import annotations

from hroof.findings import advice
from hroof.findings.context import Context
from hroof.findings.finding import Finding, count, launches_text
from hroof.findings.thresholds import NOTICEABLE
from hroof.roofline import Point
from hroof.units import percent, si


def small_launches(run: Context) -> list[Finding]:
    """Launches that cost more than their work."""
    rows = run.rows(("launch",))
    point = run.noticeable(rows, NOTICEABLE)
    if point is None:
        return []
    share = run.share(point.time)
    title = (
        f"{launches_text(point.launches)}{run.per} bound by the launch itself take "
        f"{percent(share)} of the launch time."
    )
    return [run.finding(
        "small-launches", title, point.time - (point.fused_time or 0.0), share,
        advice.advice(advice.LAUNCHES, run.profile.run),
        "All of them become one launch; the gaps between them, which would go as well, are left out.",
        run.layers(rows),
        cause="Starting each of them takes longer than its arithmetic and its bytes.",
        evidence=_cost(run, point),
    )]  # fmt: skip


def _cost(run: Context, point: Point) -> tuple[str, ...]:
    ceiling = run.machine.launch_cost
    if ceiling is None or point.launch_time is None:
        return ()
    each = f"{count(point.launches)} × {si(ceiling.rate, 's')}"
    spent = f"{si(point.launch_time, 's')} of their {si(point.time, 's')}"
    return (f"Launching alone costs {each} ({ceiling.how}) = {spent}.",)
