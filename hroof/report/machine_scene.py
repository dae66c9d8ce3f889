"""What the figures of a machine show, worked out without drawing: its Roofline alone, and its sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hroof.ceilings.datasheets import datasheet
from hroof.ceilings.plateaus import Plateau
from hroof.ceilings.sweep import caches_per_thread, doubts, each, levels, plateaus
from hroof.machine import Ceiling, Machine, Sweep
from hroof.report.scene import SOLID, Roof, Scene, drawable
from hroof.roofline import Pair
from hroof.units import MemoryLevel, Pipe, number, si

_SHEET = "sheet-"
_AT_LEAST = "≥ "
REACHABLE = "≥ framework-reachable: the unit may do more than the framework's kernels reached"


# --- Roofline -----------------------------------------------------------------------------------


def machine_scene(machine: Machine) -> Scene:
    """The Roofline of a machine alone: every bandwidth and every floating-point peak.

    What its vendor prints comes beside that, where a data sheet of it is known.
    """
    sheet = datasheet(machine.name, machine.device)
    bandwidths, peaks = _bandwidths(machine), _peaks(machine)
    all_bandwidths = [*bandwidths.values(), *(_bandwidths(sheet).values() if sheet else ())]
    all_peaks = [*peaks.values(), *(_peaks(sheet).values() if sheet else ())]
    roofs = [*_slopes(bandwidths, all_peaks), *_flats(peaks, all_bandwidths)]
    if sheet is not None:
        printed = [
            *_slopes(_bandwidths(sheet), all_peaks),
            *_flats(_peaks(sheet), all_bandwidths),
        ]
        roofs += [replace(roof, key=_SHEET + roof.key, label="", used=False) for roof in printed]
    main = _main_ridge(machine, bandwidths, peaks)
    xlim, ylim = _limits([one.rate for one in all_bandwidths], [one.rate for one in all_peaks])
    return Scene((), (), tuple(roofs), main, xlim, ylim, (), {})


def _bandwidths(machine: Machine) -> dict[MemoryLevel, Ceiling]:
    return {level: one for level, one in machine.bandwidths.items() if drawable(one.rate)}


def _peaks(machine: Machine) -> dict[Pair, Ceiling]:
    """The floating-point peaks, highest first: integer operations are no FLOP."""
    found = {p: one for p, one in machine.peaks.items() if p[1].is_float and drawable(one.rate)}
    return dict(sorted(found.items(), key=lambda item: -item[1].rate))


def _slopes(bandwidths: Mapping[MemoryLevel, Ceiling], peaks: Iterable[Ceiling]) -> list[Roof]:
    """Each ends at the highest peak."""
    top = max((one.rate for one in peaks), default=None)
    return [
        Roof(
            key=str(level),
            label=f"{level.label} {_rate(one, 'B/s')}",
            rate=one.rate,
            sloped=True,
            measured=one.how in SOLID,
            used=True,
            ridge=None if top is None else top / one.rate,
        )
        for level, one in bandwidths.items()
    ]


def _flats(peaks: Mapping[Pair, Ceiling], bandwidths: Iterable[Ceiling]) -> list[Roof]:
    """Each begins at the fastest memory; those that read the same share one label."""
    fastest = max((one.rate for one in bandwidths), default=None)
    texts = {pair: _rate(one, "FLOP/s") for pair, one in peaks.items()}
    alike: dict[str, list[Pair]] = {}
    for pair, text in texts.items():
        alike.setdefault(text, []).append(pair)
    return [
        Roof(
            key="_".join(pair),
            label=f"{_names(alike[texts[pair]])} {texts[pair]}"
            if alike[texts[pair]][0] == pair
            else "",
            rate=one.rate,
            sloped=False,
            measured=one.how in SOLID,
            used=True,
            ridge=None if fastest is None else one.rate / fastest,
        )
        for pair, one in peaks.items()
    ]


def _names(pairs: Iterable[Pair]) -> str:
    """``vector FP64, matrix FP64/FP32``."""
    by_pipe: dict[str, list[str]] = {}
    for pipe, precision in sorted(pairs, key=lambda pair: list(Pipe).index(pair[0])):
        by_pipe.setdefault(pipe, []).append(precision.upper())
    return ", ".join(f"{pipe} {'/'.join(names)}" for pipe, names in by_pipe.items())


def _rate(ceiling: Ceiling, unit: str) -> str:
    """The rate, with what kind of evidence it is where it is not a measurement of the unit itself."""
    text = si(ceiling.rate, unit)
    if ceiling.how == "framework-reachable":
        return _AT_LEAST + text
    return text if ceiling.how == "measured" else f"{text} ({ceiling.how})"


def sheet_lines(machine: Machine) -> list[str]:
    """What the vendor prints, in words: ``matrix BF16 989 TFLOP/s``; empty where no data sheet is known."""
    sheet = datasheet(machine.name, machine.device)
    if sheet is None:
        return []
    lines = [f"{level.label} {si(one.rate, 'B/s')}" for level, one in _bandwidths(sheet).items()]
    plain = {pair: replace(one, how="measured") for pair, one in _peaks(sheet).items()}
    return lines + [roof.label for roof in _flats(plain, ()) if roof.label]


def _main_ridge(
    machine: Machine, bandwidths: Mapping[MemoryLevel, Ceiling], peaks: Mapping[Pair, Ceiling]
) -> tuple[float, float] | None:
    """Where the slowest memory meets the highest peak."""
    if not bandwidths or not peaks:
        return None
    level = min(bandwidths, key=lambda one: bandwidths[one].rate)
    pair = max(peaks, key=lambda one: peaks[one].rate)
    balance = machine.balance(*pair, level)
    return None if balance is None else (balance, peaks[pair].rate)


def _limits(
    bandwidths: list[float], peaks: list[float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Limits that hold every ridge, with room for labels along the slopes and beyond the ridges."""
    if not bandwidths or not peaks:
        low = min(bandwidths or peaks, default=1e9)
        high = max(bandwidths or peaks, default=1e9)
        return (0.01, 100.0), (low / 100, high * 100)
    x0 = min(peaks) / max(bandwidths) / 30
    x1 = max(peaks) / min(bandwidths) * 30
    return (x0, x1), (min(bandwidths) * x0, max(peaks) * 3)


def ridges(machine: Machine) -> list[tuple[str, dict[MemoryLevel, float]]]:
    """The machine balance in FLOP/byte of each floating-point peak at each level, highest peak first.

    Peaks that read the same share one entry.
    """
    rows: dict[str, tuple[list[Pair], dict[MemoryLevel, float]]] = {}
    for pair, one in _peaks(machine).items():
        balances = {level: machine.balance(*pair, level) for level in _bandwidths(machine)}
        known = {level: value for level, value in balances.items() if value is not None}
        rows.setdefault(si(one.rate, "FLOP/s"), ([], known))[0].append(pair)
    return [(_names(pairs), values) for pairs, values in rows.values() if values]


def ridge_points(machine: Machine) -> list[tuple[float, float]]:
    """Every ridge point as (FLOP/byte, FLOP/s): where a bandwidth meets a peak."""
    return [
        (peak.rate / bandwidth.rate, peak.rate)
        for peak in _peaks(machine).values()
        for bandwidth in _bandwidths(machine).values()
    ]


def ridge_lines(machine: Machine) -> list[str]:
    """The ridge points in words: ``matrix FP32: L1 1.42, DRAM 17.9``."""
    return [
        f"{name}: " + ", ".join(f"{level.label} {number(value)}" for level, value in values.items())
        for name, values in ridges(machine)
    ]


# --- sweep --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A horizontal line of the sweep: a plateau, or a ceiling over the sizes of its level.

    Attributes:
        key: ``l2`` or, for a plateau that is no known level, ``plateau 3``.
        label: Text at the line.
        rate: B/s.
        first: Bytes where it begins.
        last: Bytes where it ends.
    """

    key: str
    label: str
    rate: float
    first: float
    last: float


@dataclass(frozen=True)
class SweepScene:
    """Everything that the figure of a sweep shows.

    Attributes:
        sizes: Bytes per thread.
        rates: B/s.
        steps: The plateaus, named where they are a level.
        ceilings: What the best kernel of each level reached, over the sizes of the level.
        caches: Bytes per thread of each cache that the system tells.
        xlim: Limits in bytes.
        ylim: Limits in B/s.
        each: What has a set of this size: ``thread`` or ``multiprocessor``.
        about: What was swept.
        doubts: What is doubtful about it, one sentence each.
    """

    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    steps: tuple[Step, ...]
    ceilings: tuple[Step, ...]
    caches: Mapping[MemoryLevel, int]
    xlim: tuple[float, float]
    ylim: tuple[float, float]
    each: str
    about: str
    doubts: tuple[str, ...]


def sweep_scene(machine: Machine) -> SweepScene | None:
    """Work out the figure of a machine's sweep; None where it has none that can be drawn."""
    sweep = machine.sweep
    if sweep is None:
        return None
    points = [p for p in zip(sweep.sizes, sweep.rates, strict=True) if all(map(drawable, p))]
    if not points:
        return None
    sizes, rates = zip(*points, strict=True)
    caches = caches_per_thread(machine)
    shown = [*rates, *(one.rate for one in _bandwidths(machine).values())]
    return SweepScene(
        sizes=sizes,
        rates=rates,
        steps=steps(sweep, caches),
        ceilings=tuple(_ceilings(machine, caches, max(sizes))),
        caches=caches,
        xlim=(min(sizes) / 1.3, max(*sizes, *caches.values(), 0) * 1.3),
        ylim=(min(shown) / 2, max(shown) * 5),
        each=each(machine),
        about=_swept(sweep, each(machine)),
        doubts=tuple(doubts(machine)),
    )


def steps(sweep: Sweep, caches: Mapping[MemoryLevel, int]) -> tuple[Step, ...]:
    """The plateaus of a sweep with the names of the levels that they are."""
    names = {plateau: level for level, plateau in levels(sweep, caches).items()}
    return tuple(_step(one, names.get(one), at) for at, one in enumerate(plateaus(sweep), 1))


def _step(plateau: Plateau, level: MemoryLevel | None, place: int) -> Step:
    rate = si(plateau.rate, "B/s")
    key, label = (str(level), f"{level.label} {rate}") if level else (f"plateau {place}", rate)
    return Step(key, label, plateau.rate, plateau.first, plateau.last)


def _ceilings(
    machine: Machine, caches: Mapping[MemoryLevel, int], largest: float
) -> Iterable[Step]:
    lower = 0.0
    for level, one in _bandwidths(machine).items():
        own = caches.get(level, largest if level is MemoryLevel.DRAM else math.nan)
        if own > lower:
            yield Step(str(level), level.label, one.rate, lower, own)
            lower = own


def _swept(sweep: Sweep, unit: str) -> str:
    count = f"{sweep.threads} {unit}{'s' if sweep.threads > 1 else ''}"
    return f"Kernel: {sweep.kernel or 'not stated'}; {count}, each with a set of this size."
