"""The optimizer: a loop over the parameters, lists of them, or one fused op."""

from __future__ import annotations

import numpy as np

from hroof.findings import advice
from hroof.findings.context import Context, Flags
from hroof.findings.finding import Finding, launches_text
from hroof.findings.fusing import chains, fused_time
from hroof.findings.thresholds import FEW_LAUNCHES, NEAR_ROOF, NOTICEABLE
from hroof.units import Phase, number, percent

_LISTS, _FUSED = "_foreach_", "_fused_"
_HOW = {
    "loop": "as a loop over the parameters, ",
    "foreach": "as lists of parameters (foreach), ",
    "": "",
}
_CAUSE = {
    "loop": "Each op of the update runs once for each parameter and passes over its state anew.",
    "foreach": "Each op of the update passes over all parameters and their state anew.",
    "": "",
}


def optimizer(run: Context) -> list[Finding]:
    """An optimizer that launches many ops or stays below its bandwidth; a fused one is as it should be."""
    rows = run.phase(Phase.OPTIMIZER)
    point = run.noticeable(rows, NOTICEABLE)
    if point is None:
        return []
    headroom = point.headroom
    if point.fused_time is None or headroom is None or headroom < NEAR_ROOF:
        return []
    how = _implementation(run, rows)
    if how == "fused":
        return []
    how = "" if point.launches <= FEW_LAUNCHES else how
    share = run.share(point.time)
    title = (
        f"The optimizer takes {percent(share)} of the launch time in {launches_text(point.launches)}{run.per}, "
        f"{_HOW[how]}{number(headroom, 2)} times what its ceilings allow."
    )
    saves, assumption = (
        point.bounded_time - point.fused_time,
        "One launch does the whole update at full bandwidth.",
    )
    if how in ("loop", "foreach"):
        removed = chains(run, rows, rows).removed
        saves = max(saves, point.bounded_time - fused_time(point, removed, 1.0))
        assumption = (
            "One launch does the whole update at full bandwidth and passes over each tensor once."
        )
    return [run.finding(
        "optimizer", title, saves, share, _action(run, point.launches), assumption,
        cause=_CAUSE[how], evidence=(f"Most of it: {run.named(rows, 'op')}.", *run.explained(point)),
    )]  # fmt: skip


def _action(run: Context, launches: float) -> str:
    if launches <= FEW_LAUNCHES:
        return "Its launches are few already: keep its state in a smaller format, or update less."
    return advice.advice(advice.OPTIMIZER, run.profile.run)


def _implementation(run: Context, rows: Flags) -> str:
    """How the update is launched, by the ops that take most of its time; empty where they do not say."""
    ops = run.launches["op"][rows]
    if ops.isna().all():
        return ""
    names, duration = ops.astype(str), np.nan_to_num(run.column("duration"))[rows]
    share = {
        "foreach": float(duration[names.str.contains(_LISTS, regex=False)].sum()),
        "fused": float(duration[names.str.contains(_FUSED, regex=False)].sum()),
    }
    most = max(share, key=lambda name: share[name])
    if share[most] > 0.5 * float(duration.sum()):
        return most
    return "loop" if names.str.startswith("aten::").mean() > 0.5 else ""
