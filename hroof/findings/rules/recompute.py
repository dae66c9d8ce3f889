"""Forward work that checkpointing runs again."""

from __future__ import annotations

from hroof.findings import advice
from hroof.findings.context import Context
from hroof.findings.finding import Finding
from hroof.findings.thresholds import MIN_SHARE
from hroof.units import percent


def recompute(run: Context) -> list[Finding]:
    """Forward work that checkpointing runs again."""
    rows = run.launches["recompute"].to_numpy(dtype=bool)
    point = run.noticeable(rows, MIN_SHARE)
    if point is None:
        return []
    share = run.share(point.time)
    return [run.finding(
        "recompute", f"Checkpointing runs {percent(share)} of the launch time again.",
        point.time, share, advice.advice(advice.RECOMPUTE, run.profile.run),
        "The activations fit in memory.", run.layers(rows),
        cause="Results of the forward pass are dropped to save memory and worked out once more for the backward pass.",
    )]  # fmt: skip
