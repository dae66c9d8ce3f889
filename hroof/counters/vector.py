"""FLOP of the vector units (CUDA cores), from counts of their instructions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hroof.counters.chips import Chip, work_metrics
from hroof.counters.columns import OPCODES, THREADS, Columns, Flags, Floats
from hroof.units import Pipe, Precision

_HALF_FMA = "sm__sass_thread_inst_executed_op_hfma_pred_on"
_HALF_FMA_FLOP = 4.0
_LOADS = f"{OPCODES}HFMA2.MMA"
_THREAD_LOADS = f"{THREADS}HFMA2.MMA"
_WARP = 32


@dataclass
class Vector:
    """What is known about the vector work of every launch.

    Attributes:
        nominal: FLOP by precision as counted.
        least: FLOP by precision without what may be no work.
        unknown: Launches of which a counter is missing that others have.
        notes: Sentences for the reader.
    """

    nominal: dict[Precision, Floats] = field(default_factory=dict)
    least: dict[Precision, Floats] = field(default_factory=dict)
    unknown: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    notes: list[str] = field(default_factory=list)


def vector_work(columns: Columns, chip: Chip | None) -> Vector:
    """The vector FLOP of every launch: adds and products count 1, FMAs 2, packed ones twice that."""
    result = Vector(unknown=np.zeros(columns.rows, dtype=bool))
    absent: list[str] = []
    for (pipe, precision), metrics in work_metrics(chip).items():
        if pipe is Pipe.VECTOR:
            absent += _add(result, columns, precision, metrics)
    if absent and result.nominal:
        result.notes.append(f"Not collected, so not in the FLOP: {', '.join(absent)}.")
    if chip is not None and chip.constant_loads:
        _without_constant_loads(result, columns)
    return result


def _add(
    result: Vector, columns: Columns, precision: Precision, metrics: dict[str, float]
) -> list[str]:
    """Add one precision; returns what of it was not collected, in short."""
    named = [metric for metric in metrics if columns.is_named(metric)]
    total = np.zeros(columns.rows)
    for metric in named:
        count = columns.count(metric)
        total += np.nan if count is None else count * metrics[metric]
    if named:
        result.unknown |= np.isnan(total)
        result.nominal[precision] = total
        result.least[precision] = total
    missing = [metric for metric in metrics if metric not in named]
    return [precision.value] if not named else [_short(metric) for metric in missing]


def _short(metric: str) -> str:
    return metric.removeprefix("sm__sass_thread_inst_executed_op_").removesuffix("_pred_on")


def _without_constant_loads(result: Vector, columns: Columns) -> None:
    """Leave loads of constants, ``HFMA2.MMA R, -RZ, RZ, c, c``, out of the least FLOP.

    Opcode strings hold no operands, so a true FMA of that form looks like a load: the rest is certainly work.
    """
    half, nominal = columns.count(_HALF_FMA), result.nominal.get(Precision.FP16)
    if half is None or nominal is None or not (np.nan_to_num(half) > 0).any():
        return
    loads = np.minimum(_constant_loads(columns), half)
    told = ~np.isnan(loads)
    result.least[Precision.FP16] = nominal - _HALF_FMA_FLOP * np.where(told, loads, half)
    rows = int((np.nan_to_num(half) > 0).sum())
    how = (
        "The least FLOP leave out those that their opcode allows for"
        if told.all()
        else ("Nothing here tells them apart, so the least FLOP leave out all")
    )
    result.notes.append(
        f"{counted(rows)} with half-precision FMAs: on this chip the compiler loads constants with such "
        f"instructions, so the FP16 work of the vector units is an upper bound. {how}."
    )


def counted(rows: int) -> str:
    """A number of launches in words."""
    return f"{rows} launch{'es' if rows != 1 else ''}"


def _constant_loads(columns: Columns) -> Floats:
    """Thread instructions that may be loads of constants; NaN in launches without opcodes."""
    warps = columns.get(_LOADS)
    counts = [columns.get(_THREAD_LOADS), None if warps is None else warps * _WARP]
    loads = columns.coalesce(counts)
    _, known = columns.opcodes(OPCODES)
    return np.where(np.isnan(loads) & known, 0.0, loads)
