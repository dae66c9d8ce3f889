"""Padding waste: convolutions that multiply more zeros of the padding than data."""

from __future__ import annotations

import numpy as np

from hroof.findings import advice
from hroof.findings.context import Context, Flags, Floats
from hroof.findings.finding import Finding
from hroof.findings.thresholds import NOTICEABLE, PADDING_WASTE
from hroof.kernels import Family
from hroof.units import Pipe, Precision, percent


def padding(run: Context) -> list[Finding]:
    """Convolutions whose taps lie on padding: nominal FLOP count them, least FLOP do not."""
    nominal, least = _flop(run, "nominal"), _flop(run, "least")
    rows = run.of_family(Family.CONVOLUTION) & run.model_work
    rows &= (nominal > 0) & (nominal - least >= PADDING_WASTE * nominal)
    point = run.noticeable(rows, NOTICEABLE)
    if point is None:
        return []
    waste = 1 - float(least[rows].sum()) / float(nominal[rows].sum())
    share = run.share(point.time)
    title = (
        f"{percent(waste, 0)} of the FLOP of convolutions that take {percent(share)} of the launch time meet padding "
        "only."
    )
    return [run.finding(
        "padding", title, _wasted(run, rows, 1 - least / np.where(nominal > 0, nominal, np.nan)) * point.time, share,
        advice.advice(advice.PADDING, run.profile.run),
        "The kernels multiply the zeros as well, and their time falls with the taps.", run.layers(rows),
        cause="The kernel is large for the map that it runs over.",
        evidence=run.explained(point),
    )]  # fmt: skip


def _flop(run: Context, convention: str) -> Floats:
    """Rows: matrix FLOP of floating formats."""
    columns = [run.column(f"flop_{convention}_{Pipe.MATRIX}_{q}") for q in Precision if q.is_float]
    return np.asarray(np.nansum(columns, axis=0))


def _wasted(run: Context, rows: Flags, waste: Floats) -> float:
    """Share of the time of some rows that goes into zeros."""
    duration = np.nan_to_num(run.column("duration"))[rows]
    return float((duration * waste[rows]).sum()) / float(duration.sum())
