"""Totals of a run per step: time three ways, FLOP by kind, and the share of the matrix peak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from hroof.machine import Machine
from hroof.roofline.bounds import Floats, values
from hroof.roofline.grouping import captured
from hroof.roofline.once import remembered
from hroof.roofline.point import Pair, Point
from hroof.roofline.points import select
from hroof.units import MemoryLevel, Pipe

if TYPE_CHECKING:
    import pandas as pd

    from hroof.profile import Profile


@dataclass(frozen=True)
class Totals:
    """A whole step (the median one). Times in seconds; the three kinds of time are never mixed.

    Attributes:
        steps: How many steps were captured; 0 where the rows belong to no step.
        ranks: How many processes; sums go over all of them.
        time: Sum of the durations of all launches.
        time_spread: (max − min) / median of ``time`` over the steps; NaN with one step.
        union_time: Time in which at least one launch ran, over all streams; of the longest rank.
            None where starts are not known.
        wall: Wall time of a step as the run recorded it, or None. The cost of collecting is in it.
        undisturbed: Wall time of a step on which nothing was collected, or None.
        launches: Σ launches.
        zero_flop_launches: Launches that are known to compute nothing.
        flop: Nominal FLOP per (pipe, precision), OP for integer formats.
        least_flop: Least FLOP per (pipe, precision).
        hardware_flop: All nominal FLOP; NaN where nothing is counted.
        model_flop: The same without work that checkpointing runs again.
        matrix_flop: The part of ``hardware_flop`` on the matrix pipe.
        elementwise_flop: The part on the vector pipe.
        integer_op: Σ integer operations, never part of FLOP.
        nbytes: Bytes per known level.
        attainable_time: As launched, or None.
        fused_time: If all were one launch, or None.
        headroom: Time ÷ attainable time, over the launches with a bound, or None.
        bounded_time: Part of ``time`` with a bound.
        mfu: Model FLOP utilisation: time of the matrix pipe's model FLOP at its peaks ÷ (wall ×
            ranks); None without wall time or peaks (PaLM, arXiv 2204.02311, appendix B).
        hfu: The same with recomputed work, as the hardware sees it.
    """

    steps: int
    ranks: int
    time: float
    time_spread: float
    union_time: float | None
    wall: float | None
    undisturbed: float | None
    launches: float
    zero_flop_launches: float
    flop: Mapping[Pair, float]
    least_flop: Mapping[Pair, float]
    hardware_flop: float
    model_flop: float
    matrix_flop: float
    elementwise_flop: float
    integer_op: float
    nbytes: Mapping[MemoryLevel, float]
    attainable_time: float | None
    fused_time: float | None
    headroom: float | None
    bounded_time: float
    mfu: float | None
    hfu: float | None


@remembered
def totals(profile: Profile, machine: Machine | None = None) -> Totals:
    """Sum a run up, per captured step.

    Args:
        profile: What was collected.
        machine: Its ceilings; without them bounds and utilisation are None.
    """
    launches = captured(profile.launches)
    again = launches["recompute"].to_numpy(dtype=bool)
    whole = select(profile, machine, np.ones(len(launches), dtype=bool)) or _EMPTY
    model = select(profile, machine, ~again) or _EMPTY
    wall, ranks = wall_time(profile), max(int(profile.launches["rank"].nunique()), 1)
    return Totals(
        steps=profile.step_count,
        ranks=ranks,
        time=whole.time,
        time_spread=whole.time_spread,
        union_time=union_time(launches),
        wall=wall,
        undisturbed=undisturbed_step(profile),
        launches=whole.launches,
        zero_flop_launches=whole.zero_flop_launches,
        flop=whole.flop,
        least_flop=whole.least_flop,
        hardware_flop=whole.total_flop,
        model_flop=model.total_flop,
        matrix_flop=_pipe_flop(whole, Pipe.MATRIX),
        elementwise_flop=_pipe_flop(whole, Pipe.VECTOR),
        integer_op=whole.total_op,
        nbytes=whole.nbytes,
        attainable_time=whole.attainable_time,
        fused_time=whole.fused_time,
        headroom=whole.headroom,
        bounded_time=whole.bounded_time,
        mfu=_utilisation(model, machine, wall, ranks),
        hfu=_utilisation(whole, machine, wall, ranks),
    )


_EMPTY = Point(
    key={}, launches=0.0, time=0.0, time_spread=float("nan"), flop={}, least_flop={}, nbytes={},
    bound=None, bound_share=float("nan"), attainable_time=None, fused_time=None, bounded_time=0.0,
    uncounted_time=0.0, zero_flop_launches=0.0, sources={},
)  # fmt: skip


def _pipe_flop(point: Point, pipe: Pipe) -> float:
    if np.isnan(point.total_flop):
        return float("nan")
    return sum((value for (p, q), value in point.flop.items() if p is pipe and q.is_float), 0.0)


def _utilisation(
    point: Point, machine: Machine | None, wall: float | None, ranks: int
) -> float | None:
    """Time of the matrix FLOP at their peaks ÷ wall time of all ranks."""
    work = {
        (p, q): value for (p, q), value in point.flop.items() if p is Pipe.MATRIX and q.is_float
    }
    if machine is None or not wall or not work or not all(pair in machine.peaks for pair in work):
        return None
    return sum(value / machine.peaks[pair].rate for pair, value in work.items()) / (wall * ranks)


def wall_time(profile: Profile) -> float | None:
    """Median wall time of the captured steps in seconds, as ``run.json`` has it, or None."""
    known = wall_times(profile)
    return float(np.median(known)) if known else None


def wall_times(profile: Profile) -> tuple[float, ...]:
    """Wall time of each captured step in seconds, as far as ``run.json`` has it."""
    steps = [step for step in profile.run.get("steps") or () if isinstance(step, Mapping)]
    return tuple(float(step["wall"]) for step in steps if _is_time(step.get("wall")))


def _is_time(value: object) -> TypeGuard[float]:
    """Whether a value of ``run.json`` is a number of seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < np.inf


def undisturbed_step(profile: Profile) -> float | None:
    """Seconds of a step on which nothing was collected, as ``run.json`` has it, or None."""
    seconds = profile.run.get("undisturbed_step")
    return float(seconds) if _is_time(seconds) else None


def union_time(launches: pd.DataFrame) -> float | None:
    """Time in which a launch of a rank ran: of the longest rank, median over the steps.

    Args:
        launches: Rows of captured steps.

    Returns:
        Seconds, or None where no row has a start and a duration.
    """
    timed = launches[launches["start"].notna() & launches["duration"].notna()]
    if timed.empty:
        return None
    # Parts of one launch follow one another inside it: they count as one interval.
    whole = timed.groupby(["step", "rank", "launch_id"], sort=True).agg(
        {"start": "min", "duration": "sum"}
    )
    busy = whole.groupby(level=["step", "rank"], sort=True).apply(
        lambda rows: _covered(values(rows, "start"), values(rows, "duration"))
    )
    return float(busy.groupby(level="step").max().median())


def _covered(start: Floats, duration: Floats) -> float:
    """Length of the union of intervals."""
    order = np.argsort(start, kind="stable")
    begin, end = start[order], (start + duration)[order]
    reached = np.concatenate([[-np.inf], np.maximum.accumulate(end)[:-1]])
    return float(np.maximum(end - np.maximum(begin, reached), 0.0).sum())
