"""The chart of a comparison: arrows on the Roofline from each layer's point in BASE to its point in NEW."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hroof.compare import Change, Comparison, Difference
from hroof.machine import Machine
from hroof.report.artists import Artists
from hroof.report.drawing import Drawing
from hroof.report.look import LEVELS_HEADING, MUTED, SHAPES, Key, legend, printable, subtitle
from hroof.report.place import along
from hroof.report.scene import Scene, Spot, spot
from hroof.units import MemoryLevel, Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 15
"""Arrows of one chart: more would cover one another."""
CHANGE_COLOURS = {
    Change.FASTER: "#009e73",
    Change.SLOWER: "#d55e00",
    Change.NOISE: "#7f7f7f",
    Change.UNKNOWN: "#56b4e9",
}
"""Of Okabe and Ito, which people with any colour vision tell apart."""
_BASE, _NEW = " · BASE", " · NEW"
_SHORTEST = 6.0
_HEAD: dict[str, Any] = {
    "arrowstyle": "-|>",
    "linewidth": 1.4,
    "shrinkA": 3,
    "shrinkB": 3,
    "mutation_scale": 12,
}


@dataclass(frozen=True)
class Arrow:
    """A layer in both runs.

    Attributes:
        row: Its difference.
        base: Where it was.
        new: Where it is.
    """

    row: Difference
    base: Spot
    new: Spot


@dataclass(frozen=True)
class Arrows:
    """What one chart shows.

    Attributes:
        arrows: The largest differences of time first.
        level: The memory level that all points are drawn at; None where no layer can be drawn.
        left_out: How many layers are in both runs and not drawn.
    """

    arrows: tuple[Arrow, ...]
    level: MemoryLevel | None
    left_out: int


def arrows(found: Comparison) -> Arrows:
    """Choose the level, then the layers that can be drawn at it in both runs.

    The level is the one at which most layers have bytes of the same kind in both runs, of equals the one farthest from
    the cores.
    """
    both = [row for row in found.layers if row.base and row.new]
    drawn = {level: [row for row in both if _drawable(row, level)] for level in MemoryLevel}
    level = max(MemoryLevel, key=lambda level: (len(drawn[level]), list(MemoryLevel).index(level)))
    if not drawn[level]:
        return Arrows((), None, len(both))
    chosen = drawn[level][:MOST]
    made = tuple(_pair(row, level) for row in chosen)
    return Arrows(made, level, len(both) - len(made))


def _drawable(row: Difference, level: MemoryLevel) -> bool:
    parts = [part for part in (row.base, row.new) if part]
    same = row.comparable(level.value) and row.comparable("flop")
    return same and all(level in spot(part.point).levels for part in parts)


def _pair(row: Difference, level: MemoryLevel) -> Arrow:
    base, new = (spot(part.point) for part in (row.base, row.new) if part)
    before, after = (
        dataclasses.replace(
            one,
            name=f"{row.name}{side}",
            label=row.name,
            group=str(row.change),
            intensity={level: one.intensity[level]},
        )
        for one, side in ((base, _BASE), (new, _NEW))
    )
    return Arrow(row, before, after)


class ArrowDrawing(Drawing):
    """A Roofline whose spots come in pairs: hollow in BASE, filled in NEW, an arrow between the two."""

    def __init__(self, scene: Scene, axes: Axes, renderer: Any, pairs: Sequence[Arrow]) -> None:
        super().__init__(scene, axes, renderer)
        self.pairs = pairs
        self.drawn: dict[str, Any] = {}
        self.colours = {str(change): colour for change, colour in CHANGE_COLOURS.items()}

    def draw(self, title: str, subtitle: str) -> Artists:
        """Draw everything; ``joins`` of the result are the arrows by layer."""
        return dataclasses.replace(super().draw(title, subtitle), joins=self.drawn)

    def _markers(self) -> dict[MemoryLevel, list[tuple[str, Any]]]:
        """Arrows are there before labels, which keep off them."""
        found = super()._markers()
        for number, pair in enumerate(self.pairs):
            self._arrow(number, pair)
        return found

    def _arrow(self, number: int, pair: Arrow) -> None:
        (start,), (end,) = pair.base.intensity.values(), pair.new.intensity.values()
        tail, tip = self.pixel(start, pair.base.rate), self.pixel(end, pair.new.rate)
        length = math.dist(tail, tip)
        if length < _SHORTEST:
            return  # the two markers lie on one another
        self.layout.take(*along(*tail, length, 4.0, math.atan2(tip[1] - tail[1], tip[0] - tail[0])))
        artist = self.axes.annotate(
            "",
            xy=(end, pair.new.rate),
            xytext=(start, pair.base.rate),
            arrowprops={**_HEAD, "color": self.colours[pair.base.group]},
            annotation_clip=False,
            zorder=5.5,
        )
        if artist.arrow_patch is not None:
            artist.arrow_patch.set_gid(f"arrow-{number}")
        self.drawn[pair.row.name] = artist

    def _hollow(self, one: Spot, level: MemoryLevel) -> bool:
        return one.name.endswith(_BASE)

    def _keys(self) -> list[Key]:
        (shape,) = {SHAPES[level] for level in self.scene.levels} or {"o"}
        ends = [Key("From BASE to NEW"), Key("BASE", shape, MUTED, True), Key("NEW", shape, MUTED)]
        found = {pair.row.change for pair in self.pairs}
        kinds = [
            Key(str(c), "o", CHANGE_COLOURS[c], mark=self.manners[str(c)].mark)
            for c in CHANGE_COLOURS
            if c in found
        ]
        usual = [dataclasses.replace(key, open=False) for key in legend(self.scene)]
        texts = [key.text for key in usual]
        # What the colours of other charts mean comes before this heading.
        start = texts.index(LEVELS_HEADING) if LEVELS_HEADING in texts else len(texts)
        return [*ends, Key("Time per step"), *kinds, *usual[start:]]


def captions(found: Comparison, shown: Arrows) -> tuple[str, str]:
    """Heading and what stands below it."""
    title = f"{printable(found.base.name)} → {printable(found.new.name)}"
    if shown.level is None:
        return title, "No layer has FLOP, time and bytes of one kind in both runs: nothing to draw."
    source = {pair.new.sources.get(shown.level, Source.MISSING) for pair in shown.arrows}
    kinds = ", ".join(sorted(map(str, source)))
    about = f"bytes at {shown.level.label} ({kinds})"
    left = f" · {shown.left_out} layers without an arrow" if shown.left_out else ""
    return title, f"{about}{left} · {_roofs(found)}"


def machine_of(found: Comparison) -> Machine | None:
    """Whose roofs are drawn: NEW's, else BASE's."""
    return found.new.machine or found.base.machine


def _roofs(found: Comparison) -> str:
    base, new = found.base.machine, found.new.machine
    if base is None or new is None or base.name == new.name:
        return subtitle(machine_of(found))
    return f"roofs of NEW's machine, {printable(new.name)}; BASE ran on {printable(base.name)}"


def draw_file(found: Comparison, path: Path) -> Path:
    """Draw a comparison into a file; the ending says the format.

    Raises:
        UsageError: The ending is none of png, svg and pdf.
        MissingError: matplotlib is not installed.
        OutputError: It cannot be written there.
    """
    from hroof.report import chart

    return chart.save(draw(found).figure, path)


def draw(found: Comparison) -> Artists:
    """Draw a comparison; ``joins`` of the result are the arrows by layer.

    Raises:
        MissingError: matplotlib is not installed.
    """
    from hroof.report import chart

    shown = arrows(found)
    return chart.composed(
        [end for pair in shown.arrows for end in (pair.base, pair.new)],
        machine_of(found),
        lambda scene, axes, renderer: ArrowDrawing(scene, axes, renderer, shown.arrows),
        *captions(found, shown),
    )
