"""Grouping → work → points: intensity per level, bound, attainable time, headroom; the time-based Roofline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hroof.units import MemoryLevel, Pipe, Precision, Source


@dataclass(frozen=True)
class Point:
    """A group of launches on the Roofline. All numbers are per captured step (median over the steps).

    Attributes:
        key: The grouping keys and their values, e.g. ``{"layer": "head", "phase": "forward"}``.
        launches: Σ launches.
        time: Sum of the durations in seconds.
        time_spread: (max − min) / median of ``time`` over the steps; NaN with one step.
        flop: Nominal FLOP per (pipe, precision); pairs without work are left out; integer formats are OP.
        least_flop: Least FLOP per (pipe, precision).
        nbytes: Bytes per level; levels that are not known are left out.
        bound: Name of what bounds the largest share of the time as launched (``matrix fp32``, ``DRAM``,
            ``launch``), or None.
        bound_share: Share of the attainable time under that name.
        attainable_time: As launched: sum of the launches' bounds in seconds, or None.
        fused_time: If fused: the bound of the summed work in seconds, or None.
        bounded_time: Part of ``time`` whose launches have a bound; headroom uses only this part.
        uncounted_time: Part of ``time`` whose launches have no known FLOP.
        zero_flop_launches: Launches that are known to compute nothing.
        sources: Where ``time``, ``flop`` and each level come from (the worst of the group).
        notes: Flags in words, e.g. a point above its roof with likely causes.
    """

    key: Mapping[str, str]
    launches: float
    time: float
    time_spread: float
    flop: Mapping[tuple[Pipe, Precision], float]
    least_flop: Mapping[tuple[Pipe, Precision], float]
    nbytes: Mapping[MemoryLevel, float]
    bound: str | None
    bound_share: float
    attainable_time: float | None
    fused_time: float | None
    bounded_time: float
    uncounted_time: float
    zero_flop_launches: float
    sources: Mapping[str, Source]
    notes: tuple[str, ...] = ()

    @property
    def total_flop(self) -> float:
        """Σ nominal FLOP in s of floating formats; NaN where nothing of the group is counted."""
        return sum(value for (_, precision), value in self.flop.items() if precision.is_float)

    @property
    def flop_rate(self) -> float:
        """Nominal FLOP/s: ΣF / t (a ratio of sums)."""
        return self.total_flop / self.time if self.time > 0 else float("nan")

    @property
    def intensity(self) -> dict[MemoryLevel, float]:
        """FLOP per byte at each known level: ΣF / ΣB; levels without traffic are left out."""
        return {level: self.total_flop / size for level, size in self.nbytes.items() if size > 0}

    @property
    def headroom(self) -> float | None:
        """Time ÷ attainable time as launched, over the launches that have a bound."""
        if not self.attainable_time:
            return None
        return self.bounded_time / self.attainable_time

    @property
    def recoverable_time(self) -> float:
        """Seconds a step could lose at most: time − attainable time, never below 0."""
        return max(self.bounded_time - (self.attainable_time or self.bounded_time), 0.0)
