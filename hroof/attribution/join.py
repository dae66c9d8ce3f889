"""Joining timed with counted ops: every op of a timed step gets the work of its twin."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from hroof.units import Phase


@dataclass(frozen=True, slots=True)
class Part:
    """A layer's share of a launch that serves several layers; the shares of a launch sum to 1.

    Attributes:
        layer: Number in the layer map.
        share: Of the launch.
        phase: What the part serves, where the parts of a launch serve several phases; else None.
    """

    layer: int | None
    share: float
    phase: Phase | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """One op of the counted step.

    Attributes:
        phase: What it serves.
        layer: Layer in whose range or node it ran.
        recompute: Forward work run again.
        is_sum: Adds gradients that meet.
        op: Name.
        signature: Shapes and dtypes of its tensor arguments.
        work: Its work, as the integration counts it.
        owner: Layer it is reported under (for a sum: the layer that receives it).
        parts: Shares by layer, if it serves several.
        template: What a recount with other shapes needs.
    """

    phase: Phase
    layer: int | None
    recompute: bool
    is_sum: bool
    op: str
    signature: Hashable
    work: Any
    owner: int | None
    parts: tuple[Part, ...] = ()
    template: Any = None


@dataclass(slots=True)
class Timed:
    """One op of a timed step; ``counted`` is filled by ``join``.

    Attributes:
        step: Number of the timed step.
        phase: What it serves.
        layer: Layer in whose range or node it ran.
        recompute: Forward work run again.
        is_sum: Adds gradients that meet.
        op: Name.
        signature: Shapes and dtypes of its tensor arguments.
        start: Seconds since the capture began.
        duration: Seconds.
        thread: OS thread.
        composite: Only the dispatch of an op that calls others; computes nothing itself.
        counted: The counted op that did the same work.
        ordinal: How many ops of the same (phase, recompute, layer, op) came before in the step.
    """

    step: int
    phase: Phase
    layer: int | None
    recompute: bool
    is_sum: bool
    op: str
    signature: Hashable
    start: float
    duration: float
    thread: int = 0
    composite: bool = False
    counted: Counted | None = None
    ordinal: int = 0

    @classmethod
    def like(
        cls,
        work: Counted,
        *,
        step: int = 0,
        start: float = math.nan,
        duration: float = math.nan,
        thread: int = 0,
    ) -> Timed:
        """An op at the place of a counted one, not joined with it; without times where it was not timed."""
        return cls(
            step,
            work.phase,
            work.layer,
            work.recompute,
            work.is_sum,
            work.op,
            work.signature,
            start,
            duration,
            thread,
        )


Key = Callable[[Any], Hashable]


def _name(row: Counted | Timed) -> str:
    """A sum of gradients may be made in place in the one step and not in the other: one name for both."""
    return "sum" if row.is_sum else row.op


def _exact(row: Counted | Timed) -> Hashable:
    return (row.phase, row.recompute, row.layer, row.is_sum, _name(row))


_LOOSER: tuple[Key, ...] = (
    lambda row: (row.phase, row.layer, _name(row), row.signature),
    lambda row: (row.phase, _name(row), row.signature),
    lambda row: (_name(row), row.signature),
)
"""Keys for what the exact one leaves over, e.g. gradients of a weight that two layers share."""


def join(timed: Sequence[Timed], counted: Sequence[Counted]) -> int:
    """Give every timed op of one step its counted twin.

    Ops are paired by (phase, recompute, layer, op), ordinal within it, and equal shapes and dtypes; what is
    left over is paired by looser keys, in order. An op that finds no twin keeps ``counted=None``.

    Args:
        timed: Ops of one step in order of their start; ``counted`` and ``ordinal`` are written.
        counted: Ops of the counted step in order.

    Returns:
        How many timed ops, composite ones apart, found no twin.
    """
    left = _pair_by_ordinal([row for row in timed if not row.composite], counted)
    paired = {id(row.counted) for row in timed}
    remaining = [op for op in counted if id(op) not in paired]
    for key in _LOOSER:
        left, remaining = _pair_in_order(left, remaining, key)
    return len(left)


def _pair_by_ordinal(timed: list[Timed], counted: Sequence[Counted]) -> list[Timed]:
    by_key: dict[Hashable, list[Counted]] = {}
    for op in counted:
        by_key.setdefault(_exact(op), []).append(op)
    seen: dict[Hashable, int] = {}
    left = []
    for row in timed:
        key = _exact(row)
        row.ordinal = seen.get(key, 0)
        seen[key] = row.ordinal + 1
        twins = by_key.get(key, [])
        if row.ordinal < len(twins) and twins[row.ordinal].signature == row.signature:
            row.counted = twins[row.ordinal]
        else:
            left.append(row)
    return left


def _pair_in_order(
    timed: list[Timed], counted: list[Counted], key: Key
) -> tuple[list[Timed], list[Counted]]:
    waiting: dict[Hashable, list[Counted]] = {}
    for op in reversed(counted):
        waiting.setdefault(key(op), []).append(op)
    left = []
    for row in timed:
        twins = waiting.get(key(row))
        if twins:
            row.counted = twins.pop()
        else:
            left.append(row)
    remaining_ids = {id(op) for twins in waiting.values() for op in twins}
    return left, [op for op in counted if id(op) in remaining_ids]
