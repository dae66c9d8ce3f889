"""How a chart looks: colours, shapes, marker areas, legend and caption, as plain values."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from hroof.kernels import Family
from hroof.machine import Machine
from hroof.report.labels import telling, within
from hroof.report.scene import NotDrawn, Scene, Spot
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

NO_MARKER = "None"
_LARGEST, _SMALLEST, _SAME, _NAMED = 320.0, 16.0, 64.0, 100.0
MARKED_AREA = 22.0
"""Area in points² from which on a marker has room for a sign."""
_NAMES, _LINES, _WIDTH, _LABEL = 5, 5, 175, 30
_SIGNATURE = re.compile(r"(?:void [^\n]+|[^\n]+::[^\n]+)[>)]")
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


class Grouped(Protocol):
    """Whatever has a group that gives it its colour."""

    @property
    def group(self) -> str:
        """The group's name."""


@dataclass(frozen=True)
class Key:
    """One line of the legend.

    Attributes:
        text: What it says.
        shape: Marker, or empty for a heading.
        colour: Colour of the marker.
        open: The marker is not filled.
        area: Area of the marker in points².
        mark: A sign within the marker.
        line: Style of a line through the marker; empty: none.
    """

    text: str
    shape: str = ""
    colour: str = MUTED
    open: bool = False
    area: float = _SAME
    mark: str = ""
    line: Any = ""


@dataclass(frozen=True)
class Manner:
    """What tells a group apart in black and white.

    Attributes:
        mark: A sign within its markers; empty: none.
        line: Style of the lines that join its markers.
    """

    mark: str = ""
    line: Any = "-"


_MANNERS = (
    Manner(),
    Manner("_", "--"),
    Manner("|", ":"),
    Manner("x", "-."),
    Manner("+", (0, (5, 1, 1, 1, 1, 1))),
    Manner("2", (0, (1, 3))),
    Manner("*", (0, (8, 3))),
)
_REST = Manner(".", (0, (2, 2)))


def manners(groups: Iterable[str]) -> dict[str, Manner]:
    """Sign and line of each group: phases have fixed ones, others by their order, then one for the rest."""
    found = list(groups)
    if set(found) <= set(PHASE_COLOURS):
        return {name: _MANNERS[list(PHASE_COLOURS).index(name)] for name in found}
    return {name: _MANNERS[i] if i < len(_MANNERS) else _REST for i, name in enumerate(found)}


def printable(text: str) -> str:
    """The text without characters that break a line or an XML file."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def short(text: str, limit: int = _LABEL) -> str:
    """The end of a long name, which tells layers apart."""
    text = printable(text)
    return text if len(text) <= limit else "…" + text[1 - limit :]


def colours(spots: Sequence[Grouped]) -> dict[str, str]:
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
    keys = [Key(heading_of(found)), *group_keys(found)]
    keys.append(Key(LEVELS_HEADING))
    keys += [_level(level, source) for level in scene.levels for source in _sources(scene, level)]
    return [*keys, *_sizes(scene.spots)]


def told_apart(spots: Sequence[Spot]) -> list[Spot]:
    """Spots whose colours say something: where all lie in one outermost layer, the groups are those within it."""
    (group, *others) = dict.fromkeys(one.group for one in spots) or ("",)
    labels = [one.label or one.name for one in spots]
    layers = heading_of([group]) not in ("Phase", "Kind of work")
    if others or not layers or any(label.split(".", 1)[0] != group for label in labels):
        return list(spots)
    groups = within(labels, len(_PALETTE))
    return [replace(one, group=name) for one, name in zip(spots, groups, strict=True)]


def heading_of(groups: Iterable[str]) -> str:
    """What the groups of a chart are."""
    found = set(groups)
    if found <= set(PHASE_COLOURS):
        return "Phase"
    return "Kind of work" if found <= set(map(str, Family)) else "Layer group"


def group_keys(found: Mapping[str, str]) -> list[Key]:
    """One line per group, all those in grey together: its colour, its sign and its kind of line."""
    phases, manner = set(found) <= set(PHASE_COLOURS), manners(found)
    keys = [
        Key(
            short(name, 24),
            "o",
            colour,
            area=_NAMED,
            mark=manner[name].mark,
            line=manner[name].line,
        )
        for name, colour in found.items()
        if colour != _GREY or phases
    ]
    if not phases and _GREY in found.values():
        keys.append(Key("other groups", "o", _GREY, area=_NAMED, mark=_REST.mark, line=_REST.line))
    return keys


def roof_keys(scene: Scene) -> list[Key]:
    """What dashed roofs and warning signs are, where there are any."""
    keys = []
    if any(not roof.measured for roof in scene.roofs):
        keys.append(Key("Dashed roof: not measured", NO_MARKER, line="--", colour=INK))
    if scene.above:
        keys.append(Key("⚠ above a roof: evidence of\na fault, never a success", NO_MARKER))
    return keys


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
        facts.insert(1, "1 thread" if threads == 1 else f"{printable(str(threads))} threads")
    return " · ".join(facts)


def caption(scene: Scene, width: int = _WIDTH) -> str:
    """What is left out and what is odd, in a few lines; the full lists are in the scene."""
    return caption_of(scene.not_drawn, scene.above, width=width)


def caption_of(
    not_drawn: Iterable[NotDrawn],
    above: Mapping[str, str],
    more: Sequence[str] = (),
    width: int = _WIDTH,
) -> str:
    """The same from its parts, with further sentences between them, in lines of at most ``width`` characters."""
    left = _by_reason((one.reason, one.name) for one in not_drawn)
    odd = _by_reason((reason, name) for name, reason in above.items())
    parts = [f"⚠ {reason}: {some(names)}." for reason, names in odd.items()]
    parts += [printable(part) for part in more]
    if left:
        parts.append("Not drawn: " + "; ".join(f"{r}: {some(n)}" for r, n in left.items()) + ".")
    lines = [line for part in parts for line in textwrap.wrap(part, width)]
    return "\n".join(lines if len(lines) <= _LINES else [*lines[: _LINES - 1], "…"])


def _by_reason(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for reason, name in pairs:
        reasons.setdefault(reason, []).append(name)
    return reasons


def some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(short(_said(name), 40) for name in names[:_NAMES])
    return shown if len(names) <= _NAMES else f"{shown} and {len(names) - _NAMES} more"


def _said(name: str) -> str:
    """A name in a sentence: of the signature of a kernel what tells, not its last argument."""
    parts = name.split(" · ")
    return " · ".join(telling(part) if _SIGNATURE.fullmatch(part) else part for part in parts)
