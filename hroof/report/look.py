"""How a chart looks: colours, shapes, marker areas, legend and caption, as plain values."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hroof.machine import Machine
from hroof.report.scene import Scene, Spot
from hroof.units import MemoryLevel, Phase, Source, si

INK, MUTED, FAINT, GRID, PAPER = "#1f2937", "#4b5563", "#9ca3af", "#e5e7eb", "#ffffff"
MEMORY_ZONE, COMPUTE_ZONE, ALARM = "#eaf2fb", "#fdf3e7", "#b42318"
PHASE_COLOURS = {
    Phase.FORWARD.value: "#0072b2",
    Phase.BACKWARD.value: "#d55e00",
    Phase.OPTIMIZER.value: "#009e73",
    Phase.LOSS.value: "#cc79a7",
    Phase.DATA.value: "#e69f00",
    Phase.OTHER.value: "#7f7f7f",
}
"""Okabe and Ito's colours, which people with any colour vision tell apart."""

LEVELS_HEADING = "Bytes by memory level"
SHAPES = {MemoryLevel.L1: "o", MemoryLevel.L2: "s", MemoryLevel.L3: "D", MemoryLevel.DRAM: "^"}

_LARGEST, _SMALLEST, _SAME = 320.0, 16.0, 64.0
_NAMES, _LINES, _WIDTH, _LABEL = 5, 5, 175, 30
_GREY = PHASE_COLOURS[Phase.OTHER.value]
_PALETTE = [*list(PHASE_COLOURS.values())[:5], "#56b4e9", "#a6761d"]
_SOURCES = {
    Source.COUNTED: "counted, FLOP/byte ≤",
    Source.PREDICTED: "predicted, about",
    Source.COUNTER: "from counters",
    Source.MEASURED: "measured",
    Source.CONVENTION: "by convention",
    Source.MISSING: "source not stated",
}


@dataclass(frozen=True)
class Key:
    """One line of the legend.

    Attributes:
        text: What it says.
        shape: Marker, or empty for a heading.
        colour: Colour of the marker.
        open: The marker is not filled.
        area: Area of the marker in points².
    """

    text: str
    shape: str = ""
    colour: str = MUTED
    open: bool = False
    area: float = _SAME


def printable(text: str) -> str:
    """The text without characters that break a line or an XML file."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def short(text: str, limit: int = _LABEL) -> str:
    """The end of a long name, which tells layers apart."""
    text = printable(text)
    return text if len(text) <= limit else "…" + text[1 - limit :]


def colours(spots: Sequence[Spot]) -> dict[str, str]:
    """A colour for each group; phases have fixed ones, others by falling time, then grey."""
    groups = list(dict.fromkeys(one.group for one in spots))
    if set(groups) <= set(PHASE_COLOURS):
        return {name: colour for name, colour in PHASE_COLOURS.items() if name in groups}
    return {name: _PALETTE[i] if i < len(_PALETTE) else _GREY for i, name in enumerate(groups)}


def areas(spots: Sequence[Spot]) -> list[float]:
    """Marker areas in points², in proportion to time; all the same where times say nothing."""
    longest = _longest(spots)
    if not longest:
        return [_SAME] * len(spots)
    scale = _LARGEST * min(1.0, (40 / len(spots)) ** 0.5)
    return [max(_SMALLEST, scale * s.time / longest) if s.time > 0 else _SMALLEST for s in spots]


def _longest(spots: Sequence[Spot]) -> float:
    """The longest time in seconds; 0 where there is none or one is infinite."""
    longest = max((one.time for one in spots if one.time > 0), default=0.0)
    return longest if math.isfinite(longest) else 0.0


def is_open(one: Spot, level: MemoryLevel) -> bool:
    """Predicted bytes have open markers."""
    return one.sources.get(level) is Source.PREDICTED


def legend(scene: Scene) -> list[Key]:
    """What colours, shapes and areas mean."""
    if not scene.spots:
        return []
    found = colours(scene.spots)
    named = "Phase" if set(found) <= set(PHASE_COLOURS) else "Layer group"
    keys = [Key(named)]
    keys += [Key(short(n, 24), "o", c) for n, c in found.items() if c != _GREY or named == "Phase"]
    if named != "Phase" and _GREY in found.values():
        keys.append(Key("other groups", "o", _GREY))
    keys.append(Key(LEVELS_HEADING))
    keys += [_level(level, source) for level in scene.levels for source in _sources(scene, level)]
    return [*keys, *_sizes(scene.spots)]


def _sources(scene: Scene, level: MemoryLevel) -> list[Source]:
    found = {one.sources.get(level, Source.MISSING) for one in scene.spots if level in one.levels}
    return [source for source in Source if source in found]


def _level(level: MemoryLevel, source: Source) -> Key:
    filled = source is not Source.PREDICTED
    return Key(f"{level.label} {_SOURCES[source]}", SHAPES[level], MUTED, not filled)


def _sizes(spots: Sequence[Spot]) -> list[Key]:
    longest = _longest(spots)
    if not longest:
        return [Key("Area: the same, no times known")]
    largest = max(areas(spots))
    sizes = [(longest / part, largest / part) for part in (1, 4, 16)]
    keys = [
        Key(si(time, "s", 2), "o", FAINT, area=area) for time, area in sizes if area >= _SMALLEST
    ]
    return [Key("Area: time per step"), *keys]


def subtitle(machine: Machine | None) -> str:
    """What the roofs are."""
    if machine is None:
        return "No ceilings, so no roofs. Measure them with: hroof ceilings"
    how = sorted({c.how for c in (*machine.peaks.values(), *machine.bandwidths.values())})
    facts = [printable(machine.name), f"ceilings: {', '.join(how)}" if how else "no ceilings"]
    threads = machine.facts.get("threads")
    if threads:
        facts.insert(1, f"{threads} thread" if threads == 1 else f"{threads} threads")
    return " · ".join(facts)


def caption(scene: Scene) -> str:
    """What is left out and what is odd, in a few lines; the full lists are in the scene."""
    left = _by_reason((one.reason, one.name) for one in scene.not_drawn)
    odd = _by_reason((reason, name) for name, reason in scene.above.items())
    parts = [f"⚠ {reason}: {_some(names)}." for reason, names in odd.items()]
    if left:
        parts.append("Not drawn: " + "; ".join(f"{r}: {_some(n)}" for r, n in left.items()) + ".")
    lines = [line for part in parts for line in textwrap.wrap(part, _WIDTH)]
    return "\n".join(lines if len(lines) <= _LINES else [*lines[: _LINES - 1], "…"])


def _by_reason(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for reason, name in pairs:
        reasons.setdefault(reason, []).append(name)
    return reasons


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(short(name, 40) for name in names[:_NAMES])
    return shown if len(names) <= _NAMES else f"{shown} and {len(names) - _NAMES} more"
