"""Flags: a point above a roof is evidence of something wrong, with likely causes in words."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from hroof.machine import Machine
from hroof.roofline.point import Point
from hroof.units import MemoryLevel, Source, number, si

COMPUTE_TOLERANCE = 1.02
BANDWIDTH_TOLERANCE = 1.05
ORDER_TOLERANCE = 1.01

_COMPUTE_CAUSES = (
    "Likely causes: the FLOP count is wrong, an algorithm needs fewer FLOP (Winograd, FFT), the "
    "peak is of another number format or too low (measured while the machine was busy, or at "
    "another clock), or the time misses part of the work (a missing synchronisation)."
)
_BANDWIDTH_CAUSES = (
    "Likely causes: the data come from a nearer cache, the bytes are counted too high, or the "
    "bandwidth is too low (measured while the machine was busy, or at another clock)."
)
_NEAREST_CAUSES = (
    "Likely causes: the bandwidth is only what framework kernels reach, or was measured while the "
    "machine was busy or at another clock; the operands stay in registers; or the bytes are "
    "counted too high."
)
_ORDER_CAUSES = (
    "Likely causes: accesses that bypass the nearer cache, atomics, prefetching, write-backs of other kernels' data, "
    "or a counter of another pass."
)
_LAUNCH_CAUSES = (
    "Likely causes: the launch cost was measured while the machine was busy, or these launches "
    "overlap."
)


def flag_point(
    intensity: float, rate: float, peak: float | None, bandwidth: float | None
) -> Literal["compute", "bandwidth"] | None:
    """Whether a point lies above its roof.

    Args:
        intensity: FLOP/B at the level of the bandwidth.
        rate: FLOP/s.
        peak: FLOP/s, or None where it is not known.
        bandwidth: B/s, or None where it is not known.

    Returns:
        ``compute`` for a rate more than 2 % above the peak, ``bandwidth`` for traffic more than 5 %
        above the bandwidth, else None; None as well where a number is missing.
    """
    if peak is not None and rate > COMPUTE_TOLERANCE * peak:
        return "compute"
    if (
        bandwidth is not None
        and intensity > 0
        and rate / intensity > BANDWIDTH_TOLERANCE * bandwidth
    ):
        return "bandwidth"
    return None


def point_flags(point: Point, machine: Machine) -> tuple[str, ...]:
    """What is implausible about a point, one sentence or two each."""
    if not point.time > 0:
        return ()
    flags = [*_compute_flag(point), *_bandwidth_flags(point, machine), *_order_flags(point)]
    headroom = point.headroom
    above = any(flag.startswith("Above") for flag in flags)
    if headroom is not None and headroom < 1 - 1e-9 and not above:
        flags.append(_headroom_flag(point, headroom))
    return tuple(flags)


def _compute_flag(point: Point) -> list[str]:
    ratio = (point.compute_time or 0.0) / point.time
    if ratio <= COMPUTE_TOLERANCE:
        return []
    return [f"Above the compute roof: {number(ratio)} times the peak. {_COMPUTE_CAUSES}"]


def _bandwidth_flags(point: Point, machine: Machine) -> list[str]:
    flags = []
    for level, seconds in point.memory_times.items():
        ratio = seconds / point.time
        if ratio > BANDWIDTH_TOLERANCE:
            roof = si(machine.bandwidths[level].rate, "B/s")
            causes = _NEAREST_CAUSES if level is MemoryLevel.L1 else _BANDWIDTH_CAUSES
            above = f"{number(ratio)} times the {roof} of {level.label}"
            flags.append(f"Above the bandwidth roof: {above}. {causes}")
    return flags


def _order_flags(point: Point) -> list[str]:
    """Counted by hardware: a level that moves more than the one nearer to the cores, or nothing at all."""
    sources = point.sources
    counted = [pair for pair in point.nbytes.items() if sources.get(pair[0]) is Source.COUNTER]
    flags = [
        f"More bytes at {far.label} ({si(more, 'B')}) than at {near.label} ({si(fewer, 'B')}). {_ORDER_CAUSES}"
        for (near, fewer), (far, more) in pairwise(counted)
        if more > ORDER_TOLERANCE * fewer > 0
    ]
    idle = [level.label for level, size in counted if size == 0]
    if idle and point.total_flop > 0:
        flags.append(f"No {' and no '.join(idle)} traffic: there is no intensity at that level.")
    return flags


def _headroom_flag(point: Point, headroom: float) -> str:
    start = f"Headroom {number(headroom)} is below 1"
    if point.bound == "launch":
        return f"{start}. {_LAUNCH_CAUSES}"
    if headroom * BANDWIDTH_TOLERANCE >= 1:
        return f"{start}, within the tolerance of a measured ceiling."
    return (
        f"{start}. {_COMPUTE_CAUSES if point.bound and ' ' in point.bound else _BANDWIDTH_CAUSES}"
    )
