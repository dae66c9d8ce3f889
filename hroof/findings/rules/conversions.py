"""Zero-FLOP work: copies, conversions of number formats and layout changes."""

from __future__ import annotations

import numpy as np

from hroof.findings import advice
from hroof.findings.context import Context, Flags
from hroof.findings.finding import Finding, launches_text
from hroof.findings.thresholds import NOTICEABLE
from hroof.kernels import Family
from hroof.profile import bytes_column
from hroof.roofline.bounds import flop_known, has_work
from hroof.units import MemoryLevel, percent, si

_FORMATS = (2.0, 4.0, 8.0)
"""How many times wider one number format is than another."""


def conversions(run: Context) -> list[Finding]:
    """Copies, conversions and layout changes between the ops of the model."""
    rows = run.model_work & run.of_family(Family.LAYOUT, Family.COPY) & _moves_only(run)
    point = run.noticeable(rows, NOTICEABLE)
    if point is None:
        return []
    share = run.share(point.time)
    moved = point.nbytes.get(MemoryLevel.L1)
    bytes_ = f" and move {si(moved, 'B')}" if moved else ""
    title = (
        f"Copies, conversions and layout changes, {launches_text(point.launches)}{run.per}, compute nothing{bytes_}; "
        f"they take {percent(share)} of the launch time."
    )
    converted = _time_share(run, rows, _converts(run))
    return [run.finding(
        "conversion", title, point.time, share,
        advice.advice(advice.FORMATS if converted > 0.5 else advice.LAYOUTS, run.profile.run),
        "None of them is needed.", run.layers(rows),
        cause=_cause(converted),
        evidence=(f"Most of it: {run.named(rows, _names(run))}.", *run.explained(point)),
    )]  # fmt: skip


def _names(run: Context) -> str:
    return "op" if run.launches["op"].notna().any() else "kernel"


def _moves_only(run: Context) -> Flags:
    """Rows that are known to compute nothing, without views, which move nothing either."""
    known = [run.column("bytes_read") + run.column("bytes_written")]
    moved = np.fmax.reduce([*known, *(run.column(bytes_column(level)) for level in MemoryLevel)])
    still = moved == 0
    return np.asarray(flop_known(run.launches) & ~has_work(run.launches) & ~still, dtype=bool)


def _converts(run: Context) -> Flags:
    """Rows that write the elements which they read in another width."""
    read, written = run.column("bytes_read"), run.column("bytes_written")
    with np.errstate(divide="ignore", invalid="ignore"):
        wider = np.maximum(read, written) / np.minimum(read, written)
    return np.isin(wider, _FORMATS)


def _time_share(run: Context, rows: Flags, some: Flags) -> float:
    """Share of the time of some rows that others of them take."""
    duration = np.nan_to_num(run.column("duration"))
    total = float(duration[rows].sum())
    return float(duration[rows & some].sum()) / total if total > 0 else 0.0


def _cause(converted: float) -> str:
    if converted > 0.5:
        return "Neighbouring ops want different number formats."
    return "Neighbouring ops want their operands laid out differently, joined, or in a place of their own."
