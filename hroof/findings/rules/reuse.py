"""Poor reuse between two levels: matrix work that fetches from a far level what a nearer one could keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hroof.findings import advice
from hroof.findings.context import Context, Flags, Floats
from hroof.findings.finding import Finding
from hroof.findings.thresholds import NO_REUSE, NOTICEABLE
from hroof.profile import bytes_column
from hroof.roofline import Point
from hroof.units import MemoryLevel, Source, number, percent, si

_ONCE = 1.5
"""Parts of launches add up to 1 within rounding."""
_FAR = tuple(level.label for level in MemoryLevel if level is not MemoryLevel.L1)


@dataclass(frozen=True)
class _Missed:
    """A level that serves nothing twice.

    Attributes:
        near: The nearer level.
        far: The level that bounds.
        times: Bytes at the nearer ÷ bytes at the far level.
        without: Seconds the work would take if the far level did not bound it.
    """

    near: MemoryLevel
    far: MemoryLevel
    times: float
    without: float


def reuse(run: Context) -> list[Finding]:
    """Matrix work that a far level bounds although its operands could be used more than once.

    Elementwise work touches each byte once: there, equal traffic at two levels is no fault. Nor is it for a product
    that runs once and fetches no more than its operands, unless hardware counted: then nothing is known of operands.
    """
    rows = run.rows(_FAR) & run.matrix
    calls = _calls(run, rows)
    rows &= _again(run, calls)
    point = run.noticeable(rows, NOTICEABLE)
    missed = None if point is None else _missed(point, _kept(run, rows, calls))
    if point is None or missed is None:
        return []
    share = run.share(point.time)
    title = (
        f"Matrix work that {missed.far.label} bounds takes {percent(share)} of the launch time: "
        f"{missed.near.label} serves only {number(missed.times, 2)} times the bytes that it fetches."
    )
    return [run.finding(
        "reuse", title, point.time - missed.without, share,
        advice.advice(advice.REUSE, run.profile.run).format(near=missed.near.label),
        f"{missed.far.label} no longer bounds this work, and calls of one layer become one.",
        run.layers(rows),
        cause=(
            "Too little is done with each byte before it leaves the cache: few rows meet the same weights, or the same "
            "op runs again and again on small parts."
        ),
        evidence=(
            f"{missed.near.label} moves {si(point.nbytes[missed.near], 'B')}, {missed.far.label} "
            f"{si(point.nbytes[missed.far], 'B')} ({point.sources[missed.far.value]}).",
            *run.explained(point),
        ),
    )]  # fmt: skip


def _missed(point: Point, kept: float) -> _Missed | None:
    """The level that bounds the work as a whole, and the next nearer one, where that one serves nothing twice."""
    known = [level for level in MemoryLevel if level in point.memory_times]
    if len(known) < 2 or point.sources.get("flop") is Source.MISSING:
        return None
    far = max(known, key=lambda level: point.memory_times[level])
    nearer = known[: known.index(far)]
    if not nearer or not point.nbytes[far] > 0:
        return None
    near, times = nearer[-1], point.nbytes[nearer[-1]] / point.nbytes[far]
    others = [t for level, t in point.memory_times.items() if level is not far]
    traffic = (kept * t for t in (point.launch_time or 0.0, *others))
    without = max(point.compute_time or 0.0, *traffic)
    return _Missed(near, far, times, without) if times < NO_REUSE else None


def _calls(run: Context, rows: Flags) -> Floats:
    """Rows: how often their layer runs their op in a step; 1 where that is not known."""
    keys = ["rank", "step", "phase", "layer", "op"]
    chosen = run.launches.loc[rows, [*keys, "launches"]]
    calls = np.ones(len(rows))
    again = chosen.groupby(keys, observed=True, sort=False)["launches"].transform("sum")
    calls[rows] = np.fmax(again.to_numpy(dtype=np.float64), 1.0)
    return calls


def _again(run: Context, calls: Floats) -> Flags:
    """Rows that fetch something again: their layer runs the op again in a step, or they fetch more than operands."""
    counted = np.asarray(run.launches["source_l1"] == Source.COUNTER.value, dtype=bool)
    operands = run.column("bytes_read") + run.column("bytes_written")
    far = np.fmax.reduce([run.column(bytes_column(level)) for level in MemoryLevel][1:])
    return np.asarray(counted | (calls > _ONCE) | (far > NO_REUSE * operands), dtype=bool)


def _kept(run: Context, rows: Flags, calls: Floats) -> float:
    """Share of the traffic that is left where the calls of each layer become one."""
    moved = np.nan_to_num(run.column(bytes_column(MemoryLevel.L1)))[rows]
    return float((moved / calls[rows]).sum()) / float(moved.sum()) if moved.any() else 1.0
