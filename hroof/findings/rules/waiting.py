"""Waiting: for data, and time in which nothing runs at all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hroof.findings import advice
from hroof.findings.context import Context
from hroof.findings.finding import Finding
from hroof.findings.thresholds import IDLE_SHARE, LOADING_SHARE, NOTICEABLE
from hroof.units import Phase, percent, si


def data(run: Context) -> list[Finding]:
    """Work that loads data inside the step, and the time that the program waits for its loader."""
    point = run.noticeable(run.phase(Phase.DATA), NOTICEABLE)
    ops = 0.0 if point is None else point.time
    waits = loader_wait(run)
    if point is None and not waits > LOADING_SHARE * run.step:
        return []
    if waits > max(ops, LOADING_SHARE * run.step):
        title = f"The step waits {si(waits, 's')} for its loader, {percent(waits / run.step)} of its time."
        evidence: tuple[str, ...] = ("The time is that of the calls which fetch the next batch.",)
        share = min(waits / run.step, 1.0)
    else:
        waits, share, evidence = 0.0, run.share(ops), ()
        title = f"Loading data takes {si(ops, 's')}{run.per}, {percent(run.share(ops))} of the launch time."
    return [run.finding(
        "data", title, max(ops, waits), share,
        advice.advice(advice.LOADING, run.profile.run),
        "All loading overlaps with the step before.",
        cause="The next batch is made, or waited for, while the model has nothing to do.", evidence=evidence,
    )]  # fmt: skip


def loader_wait(run: Context) -> float:
    """Seconds that a step spends in fetching its batch, as the run noted them; 0 where it did not."""
    steps = [step for step in run.profile.run.get("steps") or () if isinstance(step, Mapping)]
    known = [step.get("loading") for step in steps if run.step > 0]
    seconds = [float(s) for s in known if isinstance(s, int | float) and not isinstance(s, bool)]
    usable = [s for s in seconds if 0 <= s < float("inf")]
    return float(np.median(usable)) if usable else 0.0


def idle(run: Context) -> list[Finding]:
    """Wall time in which no launch ran."""
    undisturbed, union = run.totals.undisturbed, run.totals.union_time
    wall = undisturbed or run.totals.wall
    if wall is None or union is None:
        return []
    loading = _silent_loading(run)
    gap = wall - union - loading
    if gap < IDLE_SHARE * wall:
        return []
    if undisturbed is None:
        whose = "the wall time"
        cost = "Collecting costs nothing"
    else:
        whose, cost = "an undisturbed step", "Collecting does not change the launches"
    title = f"No launch runs in {percent(gap / wall)} of {whose} ({si(gap, 's')} a step)."
    if undisturbed is None:
        title += " The profiler's own cost is in it."
    beside = f" Beside it the step waits {si(loading, 's')} for its loader." if loading else ""
    return [run.finding(
        "idle", title + beside, gap, gap / wall,
        advice.advice(advice.IDLE, run.profile.run),
        f"{cost}, and launches follow one another without a gap.",
    )]  # fmt: skip


def _silent_loading(run: Context) -> float:
    """Seconds of waiting for the loader in which no op runs: the finding about data speaks of them."""
    waits = loader_wait(run)
    if not waits > LOADING_SHARE * run.step:
        return 0.0
    point = run.point(run.phase(Phase.DATA))
    return max(waits - (0.0 if point is None else point.time), 0.0)
