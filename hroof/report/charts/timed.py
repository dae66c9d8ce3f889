"""What a time-based Roofline shows (arXiv 2009.04598), worked out without drawing.

Complexity is the pair of bytes and FLOP of a group; divided by bandwidth and peak it is a pair of times. The measured
time lies on the group's own line of constant intensity, as much farther out as it is slower than its bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hroof.machine import Machine
from hroof.report.cells import unused
from hroof.report.scene import MAX_SPOTS, SOLID, NotDrawn, drawable, spot
from hroof.roofline import Pair, Point
from hroof.units import MemoryLevel, Pipe, Source, si

TOLERANCE = 1.05
"""As for points above a roof: a measured ceiling is not exact."""
MOST_BOXES = 4
_MOST_BALANCES = 4
_NEGLIGIBLE = 1e-3
_PARTIAL = 0.05
_MOST_OF = 0.8

Limits = tuple[float, float]


@dataclass(frozen=True)
class Timed:
    """One group of launches, as work and as times.

    Attributes:
        name: Full name.
        label: Short name.
        group: What gives the colour.
        flop: FLOP that a direct implementation must execute.
        nbytes: Bytes through the level of the chart.
        time: Measured seconds.
        launches: How many launches.
        peak: FLOP/s at which the units that it uses could do its mix of work.
        bandwidth: B/s of the level.
        launch_time: Seconds that its launches cost when they serialise; None where that is not known.
        source: Where the bytes come from.
        missing: Why there is nothing to draw, or empty.
        partial: FLOP or bytes are known for a part of its time only.
        pairs: FLOP and integer operations by (pipe, precision).
    """

    name: str
    label: str = ""
    group: str = "other"
    flop: float = math.nan
    nbytes: float = math.nan
    time: float = math.nan
    launches: float = 0.0
    peak: float = math.nan
    bandwidth: float = math.nan
    launch_time: float | None = None
    source: Source = Source.MISSING
    missing: str = ""
    partial: bool = False
    pairs: Mapping[Pair, float] = field(default_factory=dict)

    @property
    def flop_time(self) -> float:
        """Seconds that the FLOP take at the peak."""
        return self.flop / self.peak

    @property
    def byte_time(self) -> float:
        """Seconds that the bytes take at the bandwidth."""
        return self.nbytes / self.bandwidth

    @property
    def intensity(self) -> float:
        """FLOP/byte."""
        return self.flop / self.nbytes

    @property
    def balance(self) -> float:
        """The machine balance of its own units in FLOP/byte."""
        return self.peak / self.bandwidth

    @property
    def bound(self) -> str:
        """What takes longest: ``compute``, ``memory``, or ``launch`` where the launches alone take longer."""
        longest = max(self.flop_time, self.byte_time)
        if self.launch_time is not None and self.launch_time >= longest:
            return "launch"
        return "compute" if self.intensity > self.balance else "memory"

    @property
    def slowdown(self) -> float:
        """Measured time ÷ the longer of FLOP time and byte time; 1 is at the Roofline."""
        return self.time / max(self.flop_time, self.byte_time)

    @property
    def mixed(self) -> bool:
        """Whether several units or formats share its work: then no axis of one peak tells its FLOP time."""
        return sum(value > _PARTIAL * self.flop for value in self.pairs.values()) > 1

    @property
    def complexity(self) -> tuple[float, float]:
        """Where the work lies, in (bytes, FLOP)."""
        return self.nbytes, self.flop

    @property
    def at_time(self) -> tuple[float, float]:
        """Where the measured time lies: on the same intensity, with the longer of the two times equal to it."""
        return self.nbytes * self.slowdown, self.flop * self.slowdown

    @property
    def corner(self) -> tuple[float, float] | None:
        """Corner of its launch box: work that could be done while its launches are being started."""
        if self.launch_time is None or not self.launch_time > 0:
            return None
        return self.launch_time * self.bandwidth, self.launch_time * self.peak


@dataclass(frozen=True)
class Balance:
    """A diagonal of the chart: the intensity at which a unit needs as long as the memory.

    Attributes:
        key: ``matrix_fp32``.
        label: ``matrix FP32``.
        peak: FLOP/s.
        flop_per_byte: The balance.
        measured: Both ceilings were measured.
    """

    key: str
    label: str
    peak: float
    flop_per_byte: float
    measured: bool = True


@dataclass(frozen=True)
class TimeScene:
    """Everything that one time-based Roofline shows.

    Attributes:
        spots: What is drawn, longest time first.
        level: The memory level whose bytes are drawn; None where there is none.
        bandwidth: B/s of the level; NaN where there is none.
        balances: One for each unit and precision that does FLOP here, most FLOP first.
        boxes: Groups whose launch boxes are drawn: for each pair of launches and peak the longest.
        launch_cost: Seconds per launch, or None.
        xlim: Limits in bytes.
        ylim: Limits in FLOP.
        not_drawn: What is left out, and why.
        above: Name → reason, for groups that are faster than their bound.
    """

    spots: tuple[Timed, ...]
    level: MemoryLevel | None
    bandwidth: float
    balances: tuple[Balance, ...]
    boxes: tuple[Timed, ...]
    launch_cost: float | None
    xlim: Limits
    ylim: Limits
    not_drawn: tuple[NotDrawn, ...]
    above: Mapping[str, str]


def compose_times(
    points: Sequence[Point],
    machine: Machine | None,
    levels: Sequence[MemoryLevel] | None = None,
) -> TimeScene:
    """Work out a chart of times.

    The level is the one farthest from the cores that holds most of the time that can be drawn at any.

    Args:
        points: Groups of launches.
        machine: Its ceilings; without them nothing can be a time.
        levels: Choose among these levels.
    """
    wanted = list(MemoryLevel) if levels is None else [MemoryLevel(one) for one in levels]
    order = sorted(points, key=lambda p: (-p.time if p.time > 0 else 0.0, *p.key.values()))
    by_level = {level: [timed(point, machine, level) for point in order] for level in wanted}
    level = _level(by_level)
    found = by_level[level]
    drawn = [one for one in found if not one.missing]
    shown, surplus = drawn[:MAX_SPOTS], drawn[MAX_SPOTS:]
    bandwidth = shown[0].bandwidth if shown else math.nan
    balances, boxes = _balances(shown, machine, level), _boxes(shown)
    left = [NotDrawn(one.name, (level,), one.missing) for one in found if one.missing]
    left += [NotDrawn(one.name, (level,), f"not among the {MAX_SPOTS} longest") for one in surplus]
    cost = machine.launch_cost.rate if machine is not None and machine.launch_cost else None
    xlim, ylim = _limits(shown, boxes)
    return TimeScene(
        spots=tuple(shown),
        level=level if shown else None,
        bandwidth=bandwidth,
        balances=balances,
        boxes=boxes,
        launch_cost=cost,
        xlim=xlim,
        ylim=ylim,
        not_drawn=tuple(left),
        above={one.name: _reason(one) for one in shown if one.slowdown * TOLERANCE < 1},
    )


def _level(by_level: Mapping[MemoryLevel, Sequence[Timed]]) -> MemoryLevel:
    """The level farthest from the cores that holds most of the time that can be drawn at all."""
    held = {
        level: sum(one.time for one in found if not one.missing)
        for level, found in by_level.items()
    }
    most = max(held.values())
    return [level for level, time in held.items() if time >= _MOST_OF * most][-1]


def timed(point: Point, machine: Machine | None, level: MemoryLevel) -> Timed:
    """See a point as work and times at one memory level."""
    seen = spot(point)
    pairs = dict(point.least_flop)
    flop = sum(value for (_, precision), value in pairs.items() if precision.is_float)
    ceiling = machine.bandwidths.get(level) if machine is not None else None
    peak = mix_peak(pairs, machine)
    missing = (
        _why(point, flop, level)
        or ("" if ceiling is not None else f"no bandwidth known at {level.label}")
        or ("" if peak is not None else _no_peak(pairs, machine))
    )
    cost = machine.launch_cost.rate if machine is not None and machine.launch_cost else None
    return Timed(
        name=seen.name,
        label=seen.label,
        group=seen.group,
        flop=flop,
        nbytes=point.nbytes.get(level, math.nan),
        time=point.time,
        launches=point.launches,
        peak=math.nan if peak is None else peak,
        bandwidth=math.nan if ceiling is None else ceiling.rate,
        launch_time=None if cost is None else point.launches * cost,
        source=point.sources.get(level, Source.MISSING),
        missing=missing,
        partial=_partial(point, level),
        pairs=pairs,
    )


def _why(point: Point, flop: float, level: MemoryLevel) -> str:
    if math.isnan(point.total_flop):
        return "FLOP not known"
    if point.total_flop <= 0 or flop <= 0:
        return "0 FLOP"
    if not point.time > 0:
        return "time not known"
    if not drawable(point.nbytes.get(level)):
        known = "" if unused(point, level) else " known"
        return f"no traffic{known} at {level.label}"
    untimed = max(
        point.untimed_flop / point.total_flop,
        point.untimed_bytes.get(level, 0.0) / point.nbytes[level],
    )
    return "time known for a part of its work only" if untimed > _PARTIAL else ""


def _partial(point: Point, level: MemoryLevel) -> bool:
    unknown = max(point.uncounted_time, point.unsized_time.get(level, 0.0))
    return unknown > _PARTIAL * point.time


def mix_peak(work: Mapping[Pair, float], machine: Machine | None) -> float | None:
    """FLOP/s at which the units could do a mix of work; None where the peak of a part that matters is missing.

    Units overlap unless the machine says that vector and matrix work share one; formats of one unit never do. Integer
    operations are no FLOP and take their time all the same, where their peak is known.
    """
    flop = {pair: value for pair, value in work.items() if pair[1].is_float}
    total = sum(flop.values())
    if machine is None or not total > 0:
        return None
    if any(pair not in machine.peaks and flop[pair] > _NEGLIGIBLE * total for pair in flop):
        return None
    times = {p: value / machine.peaks[p].rate for p, value in work.items() if p in machine.peaks}
    matrix = sum(time for (pipe, _), time in times.items() if pipe is Pipe.MATRIX)
    needed = sum(times.values()) if machine.shared_pipes else max(matrix, *times.values())
    return sum(value for pair, value in flop.items() if pair in machine.peaks) / needed


def _no_peak(flop: Mapping[Pair, float], machine: Machine | None) -> str:
    known = machine.peaks if machine is not None else {}
    names = [f"{p} {q.upper()}" for p, q in flop if q.is_float and (p, q) not in known]
    return f"no peak known for {', '.join(names)}"


def _balances(
    spots: Sequence[Timed], machine: Machine | None, level: MemoryLevel
) -> tuple[Balance, ...]:
    """Of every pair with a share of some group's FLOP that matters, most FLOP first; equal peaks share one."""
    if machine is None or level not in machine.bandwidths:
        return ()
    done: dict[Pair, float] = {}
    for one in spots:
        for pair, value in one.pairs.items():
            if pair[1].is_float and pair in machine.peaks and value > _NEGLIGIBLE * one.flop:
                done[pair] = done.get(pair, 0.0) + value
    alike: dict[str, list[Pair]] = {}
    for pair in sorted(done, key=lambda pair: (-done[pair], pair)):
        alike.setdefault(si(machine.peaks[pair].rate, "FLOP/s"), []).append(pair)
    below = machine.bandwidths[level]
    found = [(pairs, machine.peaks[pairs[0]]) for pairs in alike.values()]
    return tuple(
        Balance(
            key="_".join(pairs[0]),
            label=", ".join(f"{pipe} {precision.upper()}" for pipe, precision in pairs),
            peak=peak.rate,
            flop_per_byte=peak.rate / below.rate,
            measured=peak.how in SOLID and below.how in SOLID,
        )
        for pairs, peak in found[:_MOST_BALANCES]
    )


def _boxes(spots: Sequence[Timed]) -> tuple[Timed, ...]:
    """The longest group of each box, at most a few."""
    found: dict[tuple[str, str], Timed] = {}
    for one in spots:
        if one.corner is not None:
            found.setdefault((f"{one.launches:.6g}", f"{one.peak:.2g}"), one)
    return tuple(found.values())[:MOST_BOXES]


def _limits(spots: Sequence[Timed], boxes: Sequence[Timed]) -> tuple[Limits, Limits]:
    """Limits that hold both markers of every group and the corners of the boxes, with a margin."""
    at = [place for one in spots for place in (one.complexity, one.at_time)]
    at += [one.corner for one in boxes if one.corner is not None]
    if not at:
        return (1.0, 1e6), (1.0, 1e6)
    xs, ys = zip(*at, strict=True)
    return (min(xs) / 6, max(xs) * 6), (min(ys) / 6, max(ys) * 6)


def _reason(one: Timed) -> str:
    if one.flop_time >= one.byte_time:
        return "faster than its FLOP allow: FLOP overcounted or saved (Winograd, FFT), or the peak is too low"
    return (
        "faster than its bytes allow: nearer data, bytes overcounted, or the bandwidth is too low"
    )


def launches_text(one: Timed) -> str:
    """What its launch box stands for: ``35 launches, 147 µs``."""
    count = f"{one.launches:.4g} launch{'' if one.launches == 1 else 'es'}"
    return f"{count}, {si(one.launch_time, 's')}"
