"""Work in a wider number format than it needs: matrix work in fp32 or TF32, any work in fp64."""

from __future__ import annotations

import numpy as np

from hroof.findings import advice
from hroof.findings.context import LEVELS, Context, Flags
from hroof.findings.finding import Finding
from hroof.findings.thresholds import NOTICEABLE, WORTH_RATIO
from hroof.machine import Machine
from hroof.units import Pipe, Precision, number, percent

_LOWER = (Precision.TF32, Precision.FP16, Precision.BF16)
_SEEN = ("measured", "framework-reachable")
_FP64 = tuple(f"{pipe} {Precision.FP64}" for pipe in Pipe)
_HALF_THE_BYTES = 2.0


def lower_precision(machine: Machine, precision: Precision) -> tuple[Precision, float] | None:
    """The format with the highest matrix peak below fp32, and how many times higher it is."""
    base = machine.peaks.get((Pipe.MATRIX, precision))
    if precision not in (Precision.FP32, Precision.TF32) or base is None or not base.rate > 0:
        return None
    known = [(q, machine.peaks.get((Pipe.MATRIX, q))) for q in _LOWER if q is not precision]
    ratios = [(q, ceiling.rate / base.rate) for q, ceiling in known if ceiling is not None]
    best = max(ratios, key=lambda pair: pair[1], default=None)
    return best if best is not None and best[1] >= WORTH_RATIO else None


def precision(run: Context) -> list[Finding]:
    """Matrix work in fp32 where a lower precision has a higher peak."""
    found = []
    for used in (Precision.FP32, Precision.TF32):
        lower, rows = lower_precision(run.machine, used), run.rows((f"matrix {used}",))
        point = None if lower is None else run.noticeable(rows, NOTICEABLE)
        if lower is None or point is None:
            continue
        share = run.share(point.time)
        title = (
            f"Matrix work in {used} takes {percent(share)} of the launch time; the peak of "
            f"{lower[0]} is {number(lower[1], 2)} times higher."
        )
        words = advice.TF32 if lower[0] is Precision.TF32 else advice.PRECISION
        found.append(run.finding(
            "precision", title, point.time * (1 - 1 / lower[1]), share,
            advice.advice(words, run.profile.run).format(precision=lower[0], name=advice.dtype(lower[0])),
            "The time of this work falls as the peak rises, and casts cost nothing.",
            run.layers(rows),
            cause=f"Nothing uses the higher rate that {lower[0]} has.",
            evidence=(_peaks(run.machine, used, lower[0]), *run.explained(point)),
        ))  # fmt: skip
    return found


def _peaks(machine: Machine, used: Precision, lower: Precision) -> str:
    """Where the two peaks come from; that they are of different kinds where they are."""
    here, there = machine.peaks[Pipe.MATRIX, used], machine.peaks[Pipe.MATRIX, lower]
    said = f"The peak of {used} is {here.how}, that of {lower} {there.how}"
    if (here.how in _SEEN) != (there.how in _SEEN):
        return f"{said}: their ratio compares what was seen with what is promised."
    return f"{said}."


def double_precision(run: Context) -> list[Finding]:
    """Work in fp64: half the bytes and a higher peak are to be had in fp32."""
    columns = [run.column(f"flop_least_{pipe}_{Precision.FP64}") > 0 for pipe in Pipe]
    ratios = _gains(run, np.logical_or.reduce(columns) & run.model_work)
    rows = ratios > 1
    point = run.noticeable(rows, NOTICEABLE)
    if point is None:
        return []
    duration = np.nan_to_num(run.column("duration"))
    kept = float((duration[rows] / ratios[rows]).sum()) / float(duration[rows].sum())
    share = run.share(point.time)
    title = (
        f"Work in fp64 takes {percent(share)} of the launch time; in fp32 it moves half the bytes"
    )
    peak = ratios[rows & ~np.isin(run.bound.astype(str), LEVELS)]
    title += f", and its peak is {number(float(peak.max()), 2)} times higher." if peak.size else "."
    return [run.finding(
        "precision", title, point.time * (1 - kept), share,
        advice.advice(advice.DOUBLE, run.profile.run),
        "The model does not need fp64, and the time of this work falls with its bytes or as the peak rises.",
        run.layers(rows),
        cause="NumPy and Python numbers are fp64 unless told otherwise: one such input makes all that it meets fp64.",
        evidence=run.explained(point),
    )]  # fmt: skip


def _gains(run: Context, wide: Flags) -> np.ndarray:
    """Rows: how many times faster the work could be in fp32; 0 where nothing says so."""
    bound, found = run.bound.astype(str), np.zeros(len(run.launches))
    found[wide & np.isin(bound, LEVELS)] = _HALF_THE_BYTES
    for pipe, name in zip(Pipe, _FP64, strict=True):
        base = run.machine.peaks.get((pipe, Precision.FP64))
        lower = run.machine.peaks.get((pipe, Precision.FP32))
        if base is not None and lower is not None and lower.rate >= WORTH_RATIO * base.rate:
            found[wide & (bound == name)] = lower.rate / base.rate
    return found
