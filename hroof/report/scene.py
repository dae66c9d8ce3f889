"""What a Roofline chart shows: spots, roofs, limits and notes, worked out without drawing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hroof.machine import Machine
from hroof.report.cells import unused
from hroof.report.labels import group_of, label_of
from hroof.roofline import Pair, Point, flag_point
from hroof.units import MemoryLevel, Pipe, Source, si

MAX_SPOTS = 200
"""How many groups one chart draws; the rest, the shortest, are named as not drawn."""

ZERO_FLOP = "0 FLOP"
SOLID = ("measured", "framework-reachable")
"""Kinds of evidence whose roofs are solid lines; those of others are dashed."""

_SMALLEST, _LARGEST = 1e-12, 1e24
_MAX_PEAKS = 6

Flop = Mapping[Pair, float]


@dataclass(frozen=True)
class Spot:
    """One group of launches as the chart sees it.

    Attributes:
        name: Full name, e.g. ``head · forward``.
        rate: Performance in FLOP/s.
        intensity: FLOP per byte at each level.
        time: Seconds, for the marker's area.
        label: Short name for the chart; empty: ``name``.
        group: What gives the colour: a phase, the outermost layer or the kind of work.
        sources: Where the bytes of each level come from.
        flop: Nominal FLOP per (pipe, precision), for the compute roof that applies.
        executed: Least ÷ nominal FLOP.
        missing: Why there is nothing to draw, or empty.
        byte_rate: B/s at each level that is known.
        unused: Levels that no byte passes through, which is known.
    """

    name: str
    rate: float
    intensity: Mapping[MemoryLevel, float]
    time: float = math.nan
    label: str = ""
    group: str = "other"
    sources: Mapping[MemoryLevel, Source] = field(default_factory=dict)
    flop: Flop = field(default_factory=dict)
    executed: float = 1.0
    missing: str = ""
    byte_rate: Mapping[MemoryLevel, float] = field(default_factory=dict)
    unused: tuple[MemoryLevel, ...] = ()

    @property
    def levels(self) -> list[MemoryLevel]:
        """The levels at which it can be drawn."""
        if self.missing or not drawable(self.rate):
            return []
        return [level for level in MemoryLevel if drawable(self.intensity.get(level))]


@dataclass(frozen=True)
class Roof:
    """One ceiling of the machine as a line of the chart.

    Attributes:
        key: ``dram`` or ``matrix_fp32``.
        label: Text beside the line, with the rate; empty where another line has said it.
        rate: B/s for a bandwidth, FLOP/s for a peak.
        sloped: A bandwidth.
        measured: Measured here, not printed by the vendor, computed from a clock or given by hand.
        used: A bandwidth, or the peak of a unit that some spot uses.
        ridge: FLOP/byte where the line begins (a peak) or ends (a bandwidth); None: nowhere.
    """

    key: str
    label: str
    rate: float
    sloped: bool
    measured: bool
    used: bool
    ridge: float | None

    def at(self, intensity: float) -> float:
        """Height of the line in FLOP/s at an intensity in FLOP/byte."""
        return self.rate * intensity if self.sloped else self.rate


@dataclass(frozen=True)
class NotDrawn:
    """A spot, or some levels of it, that the chart leaves out.

    Attributes:
        name: Name of the spot.
        levels: The levels left out.
        reason: Why.
    """

    name: str
    levels: tuple[MemoryLevel, ...]
    reason: str


@dataclass(frozen=True)
class Scene:
    """Everything that one chart shows.

    Attributes:
        spots: What is drawn, longest time first.
        levels: The levels that have a marker, nearest to the cores first.
        roofs: Bandwidths, then peaks.
        ridge: The DRAM-most ridge as (FLOP/byte, FLOP/s), or None.
        xlim: Limits in FLOP/byte.
        ylim: Limits in FLOP/s.
        not_drawn: What is left out, and why.
        above: Name → reason, for spots above a roof that should hold them.
        zero: Groups without FLOP whose bytes/s are known, longest time first; ``not_drawn`` names them, too.
    """

    spots: tuple[Spot, ...]
    levels: tuple[MemoryLevel, ...]
    roofs: tuple[Roof, ...]
    ridge: tuple[float, float] | None
    xlim: tuple[float, float]
    ylim: tuple[float, float]
    not_drawn: tuple[NotDrawn, ...]
    above: Mapping[str, str]
    zero: tuple[Spot, ...] = ()

    @property
    def ridges(self) -> list[tuple[float, float]]:
        """Where each bandwidth meets each peak in use, as (FLOP/byte, FLOP/s)."""
        slopes = [roof.rate for roof in self.roofs if roof.sloped]
        flats = [roof.rate for roof in self.roofs if not roof.sloped and roof.used]
        return [(peak / bandwidth, peak) for peak in flats for bandwidth in slopes]


def drawable(value: float | None) -> bool:
    """Whether a logarithmic axis can show the value."""
    return value is not None and math.isfinite(value) and _SMALLEST < value < _LARGEST


def spot(point: Point) -> Spot:
    """See a point as the chart does."""
    total, least = point.total_flop, sum(v for (_, q), v in point.least_flop.items() if q.is_float)
    return Spot(
        name=" · ".join(value or f"(no {key})" for key, value in point.key.items()) or "all",
        rate=point.flop_rate,
        intensity=point.intensity,
        time=point.time,
        label=label_of(point.key),
        group=group_of(point.key),
        sources={level: point.sources.get(level, Source.MISSING) for level in point.nbytes},
        flop={pair: value for pair, value in point.flop.items() if pair[1].is_float},
        executed=least / total if total > 0 and least > 0 else 1.0,
        missing=_missing(point),
        byte_rate=point.byte_rate,
        unused=tuple(level for level in point.nbytes if unused(point, level)),
    )


def _missing(point: Point) -> str:
    if math.isnan(point.total_flop):
        return "FLOP not known"
    if point.total_flop <= 0:
        return ZERO_FLOP
    if not point.time > 0:
        return "time not known"
    return "" if point.nbytes else "bytes not known"


def compose(
    spots: Iterable[Spot], machine: Machine | None, levels: Sequence[MemoryLevel] | None = None
) -> Scene:
    """Work out a chart.

    Args:
        spots: What to show.
        machine: Its ceilings become roofs; None: no roofs.
        levels: Show only these levels.
    """
    wanted = tuple(MemoryLevel) if levels is None else tuple(MemoryLevel(level) for level in levels)
    ordered = sorted(spots, key=lambda s: (-s.time if s.time > 0 else 0.0, s.name))
    ordered = [_only(one, wanted) for one in ordered]
    shown = [one for one in ordered if one.levels]
    drawn, surplus = shown[:MAX_SPOTS], shown[MAX_SPOTS:]
    peaks, bandwidths = _peaks(machine, drawn), _bandwidths(machine, wanted)
    ridge = _main_ridge(bandwidths, peaks, drawn)
    xlim, ylim = _limits(drawn, peaks, bandwidths, ridge)
    return Scene(
        spots=tuple(drawn),
        levels=tuple(level for level in MemoryLevel if any(level in s.levels for s in drawn)),
        roofs=_roofs(bandwidths, peaks, machine, {pair for one in drawn for pair in one.flop}),
        ridge=ridge,
        xlim=xlim,
        ylim=ylim,
        not_drawn=tuple(_left_out(ordered, surplus)),
        above=_above(drawn, machine, bandwidths),
        zero=tuple(one for one in ordered if _moves(one)),
    )


def _moves(one: Spot) -> bool:
    """Whether a group without FLOP has bytes/s to be shown."""
    return one.missing == ZERO_FLOP and any(map(drawable, one.byte_rate.values()))


def _only(one: Spot, wanted: tuple[MemoryLevel, ...]) -> Spot:
    return replace(
        one,
        intensity={level: v for level, v in one.intensity.items() if level in wanted},
        byte_rate={level: v for level, v in one.byte_rate.items() if level in wanted},
        unused=tuple(level for level in one.unused if level in wanted),
    )


def _left_out(spots: Sequence[Spot], surplus: Sequence[Spot]) -> Iterable[NotDrawn]:
    for one in spots:
        levels, drawn = tuple(one.intensity), one.levels
        rest = tuple(level for level in levels if level not in drawn)
        if one.missing or not drawn:
            yield NotDrawn(one.name, levels, one.missing or _why(one))
        elif rest:
            yield NotDrawn(one.name, rest, _no_traffic(one, rest))
    for one in surplus:
        yield NotDrawn(one.name, tuple(one.levels), f"not among the {MAX_SPOTS} longest")


def _why(one: Spot) -> str:
    if one.rate == 0:
        return ZERO_FLOP
    if not drawable(one.rate):
        return "performance not known"
    return _no_traffic(one, (*one.intensity, *one.unused))


def _no_traffic(one: Spot, levels: tuple[MemoryLevel, ...]) -> str:
    """That no byte passes through levels, or that it is not known of some of them."""
    known = "" if levels and set(levels) <= set(one.unused) else " known"
    where = f" at {', '.join(level.label for level in levels)}" if levels else ""
    return f"no traffic{known}{where}"


# Ceilings


def _peaks(machine: Machine | None, spots: Sequence[Spot]) -> dict[Pair, float]:
    """The floating-point peaks that the spots use, the highest one, or all where no spot says."""
    rates = {
        pair: ceiling.rate
        for pair, ceiling in (machine.peaks.items() if machine else ())
        if pair[1].is_float and drawable(ceiling.rate)
    }
    used = {pair for one in spots for pair in one.flop if pair in rates}
    kept = used | {max(rates, key=lambda pair: rates[pair])} if used else set(rates)
    ranked = sorted(kept, key=lambda pair: (-rates[pair], pair))
    return {pair: rates[pair] for pair in ranked[:_MAX_PEAKS]}


def _bandwidths(
    machine: Machine | None, wanted: tuple[MemoryLevel, ...]
) -> dict[MemoryLevel, float]:
    found = machine.bandwidths if machine else {}
    return {
        level: found[level].rate
        for level in MemoryLevel
        if level in wanted and level in found and drawable(found[level].rate)
    }


def _roofs(
    bandwidths: Mapping[MemoryLevel, float],
    peaks: Mapping[Pair, float],
    machine: Machine | None,
    used: set[Pair],
) -> tuple[Roof, ...]:
    if machine is None:
        return ()
    top, fastest = max(peaks.values(), default=None), max(bandwidths.values(), default=None)
    slopes = (
        Roof(
            str(level),
            f"{level.label} {si(rate, 'B/s')}",
            rate,
            True,
            machine.bandwidths[level].how in SOLID,
            True,
            None if top is None else top / rate,
        )
        for level, rate in bandwidths.items()
    )
    labels = _peak_labels(peaks)
    flats = (
        Roof(
            f"{pipe}_{precision}",
            labels[pipe, precision],
            rate,
            False,
            machine.peaks[pipe, precision].how in SOLID,
            not used or (pipe, precision) in used,
            None if fastest is None else rate / fastest,
        )
        for (pipe, precision), rate in peaks.items()
    )
    return (*slopes, *flats)


def _peak_labels(peaks: Mapping[Pair, float]) -> dict[Pair, str]:
    """Texts for the peaks; those that read the same share one."""
    rates = {pair: si(rate, "FLOP/s") for pair, rate in peaks.items()}
    names: dict[str, list[str]] = {}
    for (pipe, precision), rate in rates.items():
        names.setdefault(rate, []).append(f"{pipe} {precision.upper()}")
    first = {rate: next(pair for pair in rates if rates[pair] == rate) for rate in names}
    return {
        pair: f"{', '.join(names[rate])} {rate}" if first[rate] == pair else ""
        for pair, rate in rates.items()
    }


def _main_ridge(
    bandwidths: Mapping[MemoryLevel, float],
    peaks: Mapping[Pair, float],
    spots: Sequence[Spot],
) -> tuple[float, float] | None:
    """Where the slowest memory meets the peak of the unit that does most of the FLOP."""
    if not bandwidths or not peaks:
        return None
    done = {pair: sum(one.flop.get(pair, 0.0) for one in spots) for pair in peaks}
    peak = peaks[max(peaks, key=lambda pair: (done[pair], peaks[pair]))]
    return peak / min(bandwidths.values()), peak


def _limits(
    spots: Sequence[Spot],
    peaks: Mapping[Pair, float],
    bandwidths: Mapping[MemoryLevel, float],
    ridge: tuple[float, float] | None,
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Limits that hold every spot and the ridges of the main and the highest peak, with a margin."""
    ridges = [ridge[1] / bandwidth for bandwidth in bandwidths.values()] if ridge else []
    ridges += [max(peaks.values()) / bandwidth for bandwidth in bandwidths.values() if peaks]
    xs = [one.intensity[level] for one in spots for level in one.levels] + ridges
    x0, x1 = (min(xs) / 4, max(xs) * 6) if xs else (0.01, 100.0)
    rates = [one.rate for one in spots]
    low = [rate / 3 for rate in rates] or [b * x0 for b in bandwidths.values()] or [1e6]
    high = [*rates, *peaks.values()] or [max(low) * 1e4]
    y0, y1 = min(low), max(high) * 3
    return (x0, x1), (min(y0, y1 / 1e3), y1)


# Above a roof


def compute_roof(one: Spot, machine: Machine) -> float | None:
    """FLOP/s at which the machine's units could do the spot's mix of work, or None.

    Units overlap unless the machine says that vector and matrix work share one.
    """
    if not one.flop or any(pair not in machine.peaks for pair in one.flop):
        known = [ceiling.rate for pair, ceiling in machine.peaks.items() if pair[1].is_float]
        return max(known, default=None)
    times = {pair: value / machine.peaks[pair].rate for pair, value in one.flop.items()}
    matrix = sum(time for (pipe, _), time in times.items() if pipe is Pipe.MATRIX)
    needed = sum(times.values()) if machine.shared_pipes else max(matrix, *times.values())
    return sum(one.flop.values()) / needed if needed > 0 else None


def _above(
    spots: Sequence[Spot], machine: Machine | None, bandwidths: Mapping[MemoryLevel, float]
) -> dict[str, str]:
    if machine is None:
        return {}
    reasons = {one.name: _reason(one, compute_roof(one, machine), bandwidths) for one in spots}
    return {name: reason for name, reason in reasons.items() if reason}


def _reason(one: Spot, peak: float | None, bandwidths: Mapping[MemoryLevel, float]) -> str:
    if flag_point(1.0, one.rate, peak, None):
        if not flag_point(1.0, one.rate * one.executed, peak, None):
            return (
                "above its peak: nominal FLOP include work that is skipped (causal mask, padding)"
            )
        return "above its peak: FLOP overcounted or saved (Winograd, FFT), or the peak is too low"
    over = [
        level.label
        for level in one.levels
        if flag_point(one.intensity[level], one.rate, None, bandwidths.get(level))
    ]
    if not over:
        return ""
    return f"above its {', '.join(over)} roof: nearer data, bytes overcounted, or a low ceiling"
