"""Point: a group of launches on the Roofline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hroof.units import MemoryLevel, Pipe, Precision, Source

Pair = tuple[Pipe, Precision]


@dataclass(frozen=True)
class Point:
    """A group of launches on the Roofline.

    All numbers are per captured step (median over the steps). The median step is chosen once per
    group, by its time; every other number of the group is that of the same step (with an even
    number of steps the mean of the two middle ones), so that FLOP, bytes and time always belong to
    the same launches.

    Attributes:
        key: The grouping keys and their values, e.g. ``{"layer": "head", "phase": "forward"}``.
        launches: Σ launches.
        time: Sum of the durations in seconds; NaN where no duration is known.
        time_spread: (max − min) / median of ``time`` over the steps; NaN with one step.
        flop: Nominal FLOP per (pipe, precision); pairs without work are left out; integer formats
            are OP.
        least_flop: Least FLOP per (pipe, precision).
        nbytes: Bytes per level; levels that are not known are left out.
        bound: Name of what bounds the largest share of the time as launched (``matrix fp32``,
            ``DRAM``, ``launch``), or None.
        bound_share: Share of the attainable time under that name.
        attainable_time: As launched: sum of the launches' bounds in seconds, or None.
        fused_time: If fused: the bound of the summed work in seconds, or None. The launch table
            does not tell which traffic is intermediate, so all bytes stay in: what fusing could
            reach is this or less.
        bounded_time: Part of ``time`` whose launches have a bound; headroom uses only this part.
        uncounted_time: Part of ``time`` whose launches have no known FLOP.
        zero_flop_launches: Launches that are known to compute nothing.
        zero_flop_time: Part of ``time`` that these take.
        sources: Where ``time``, ``flop`` and each level come from: the worst of the group's
            launches for which it is known and not zero; missing where it is known for none.
        notes: Flags in words, e.g. a point above its roof with likely causes.
        compute_time: Seconds that the group's least FLOP take at the peaks, or None.
        memory_times: Seconds that the group's bytes take at each level's bandwidth.
        launch_time: Seconds that its launches cost when they serialise, or None.
        unsized_time: Part of ``time`` whose launches have no known bytes, for each level in
            ``nbytes``.
        untimed_flop: Part of the nominal FLOP of floating formats whose launches have no known time.
        untimed_bytes: Part of ``nbytes`` whose launches have no known time; levels with none are left out.
    """

    key: Mapping[str, str]
    launches: float
    time: float
    time_spread: float
    flop: Mapping[Pair, float]
    least_flop: Mapping[Pair, float]
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
    compute_time: float | None = None
    memory_times: Mapping[MemoryLevel, float] = field(default_factory=dict)
    launch_time: float | None = None
    unsized_time: Mapping[MemoryLevel, float] = field(default_factory=dict)
    untimed_flop: float = 0.0
    untimed_bytes: Mapping[MemoryLevel, float] = field(default_factory=dict)
    zero_flop_time: float = 0.0

    @property
    def total_flop(self) -> float:
        """Σ nominal FLOP of floating formats; NaN where nothing of the group is counted."""
        if not self.flop and not self.zero_flop_launches > 0:
            return float("nan")
        return sum((value for (_, q), value in self.flop.items() if q.is_float), 0.0)

    @property
    def total_op(self) -> float:
        """Σ operations of the integer formats; never part of ``total_flop``."""
        return sum((value for (_, q), value in self.flop.items() if not q.is_float), 0.0)

    @property
    def flop_rate(self) -> float:
        """Nominal FLOP/s: ΣF / t (a ratio of sums) of the launches whose time is known."""
        return (self.total_flop - self.untimed_flop) / self.time if self.time > 0 else float("nan")

    @property
    def sized_time(self) -> float:
        """Seconds whose launches have known bytes, at the level where most have; 0 where none is known."""
        return max((self.time - part for part in self.unsized_time.values()), default=0.0)

    @property
    def intensity(self) -> dict[MemoryLevel, float]:
        """FLOP per byte at each known level: ΣF / ΣB; levels without traffic are left out."""
        return {level: self.total_flop / size for level, size in self.nbytes.items() if size > 0}

    @property
    def byte_rate(self) -> dict[MemoryLevel, float]:
        """B/s at each known level: ΣB / t of the launches with a time; empty where that is not known or zero."""
        if not self.time > 0:
            return {}
        untimed = self.untimed_bytes
        return {
            level: (b - untimed.get(level, 0.0)) / self.time for level, b in self.nbytes.items()
        }

    @property
    def headroom(self) -> float | None:
        """Time ÷ attainable time as launched, over the launches that have a bound."""
        if not self.attainable_time or not self.bounded_time > 0:
            return None
        return self.bounded_time / self.attainable_time

    @property
    def recoverable_time(self) -> float:
        """Seconds a step could lose at most: time − attainable time, never below 0."""
        if not self.bounded_time > 0:
            return 0.0
        return max(self.bounded_time - (self.attainable_time or self.bounded_time), 0.0)
