"""Imbalance: ranks that wait for the slowest one."""

from __future__ import annotations

import numpy as np

from hroof.findings import advice
from hroof.findings.context import Context
from hroof.findings.finding import Finding
from hroof.findings.thresholds import IMBALANCE, MOST_STEPS
from hroof.kernels import Family
from hroof.units import number, percent, si


def imbalance(run: Context) -> list[Finding]:
    """A rank that computes longer than the others in most steps, so that they wait for it.

    Communication is left out: the ranks that wait spend their time there.
    """
    if run.totals.ranks < 2:
        return []
    alone = ~run.of_family(Family.COMMUNICATION)
    chosen = run.launches.loc[alone, ["step", "rank", "duration"]]
    table = chosen.groupby(["step", "rank"], sort=True)["duration"].sum().unstack()
    if table.shape[1] < 2 or table.isna().to_numpy().any():
        return []
    times = table.median(axis=0).to_numpy(dtype=np.float64)
    place, most, mean = int(times.argmax()), float(times.max()), float(times.mean())
    often = float((table.to_numpy(dtype=np.float64).argmax(axis=1) == place).mean())
    behind = most - mean
    if not mean > 0 or behind < IMBALANCE * mean or often < MOST_STEPS:
        return []
    title = (
        f"Rank {table.columns[place]} computes {si(most, 's')}{run.per}, {number(most / mean, 3)} times "
        f"the mean of {len(times)} ranks: the others wait for it."
    )
    return [run.finding(
        "imbalance", title, behind, float(np.clip(behind / run.step, 0.0, 1.0)),
        advice.advice(advice.RANKS, run.profile.run),
        "All ranks take the mean of their times.",
        cause="Its part of the batch or of the model is more work, or its device is slower.",
        evidence=(
            f"It is the slowest in {percent(often, 0)} of the steps; the fastest takes {si(float(times.min()), 's')}.",
        ),
    )]  # fmt: skip
