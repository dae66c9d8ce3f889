"""The strip of work without FLOP: one row per group, its bytes/s at each level against the bandwidths."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hroof.report.artists import StripArtists
from hroof.report.charts.canvas import Canvas, si_tick
from hroof.report.look import (
    ALARM,
    GRID,
    INK,
    MARKED_AREA,
    MUTED,
    PAPER,
    SHAPES,
    is_open,
    manners,
    short,
)
from hroof.report.scene import Roof, Scene, Spot, drawable
from hroof.roofline import flag_point
from hroof.units import MemoryLevel, si

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 8
ROW, EDGES = 0.26, 0.3
"""Inches of one row, which holds the largest marker, and of the room above and below all of them."""
_NAME = 32.0
"""Pixels between two names of roofs."""
_ABOVE = "bytes/s above its {} roof: nearer data, bytes overcounted, or a low ceiling"


def levels(one: Spot) -> list[MemoryLevel]:
    """The levels at which a group without FLOP can be drawn."""
    return [level for level in MemoryLevel if drawable(one.byte_rate.get(level))]


def with_strip(scene: Scene) -> Scene:
    """The scene of a chart that has a strip: what it shows is not left out any more, and may lie above a roof, too."""
    rows, rest = scene.zero[:MOST_ROWS], {one.name for one in scene.zero[MOST_ROWS:]}
    shown = {one.name for one in rows}
    left = [
        dataclasses.replace(one, reason=f"{one.reason}, not among the {MOST_ROWS} longest")
        if one.name in rest
        else one
        for one in scene.not_drawn
        if one.name not in shown
    ]
    found = {one.name: _above(one, scene) for one in rows}
    above = {name: reason for name, reason in found.items() if reason}
    return dataclasses.replace(
        scene, zero=rows, not_drawn=tuple(left), above={**scene.above, **above}
    )


def _bandwidths(scene: Scene) -> dict[str, Roof]:
    return {roof.key: roof for roof in scene.roofs if roof.sloped}


def _above(one: Spot, scene: Scene) -> str:
    """Why a group may move more bytes than the machine can; empty where it does not."""
    roofs = _bandwidths(scene)
    over = [
        level.label
        for level in levels(one)
        if level in roofs and flag_point(1.0, one.byte_rate[level], None, roofs[level].rate)
    ]
    return _ABOVE.format(", ".join(over)) if over else ""


def height(scene: Scene) -> float:
    """Inches that the strip of a scene needs; 0 where it has none."""
    rows = min(len(scene.zero), MOST_ROWS)
    return EDGES + ROW * rows if rows else 0.0


class StripDrawing(Canvas):
    """A strip in the making.

    Args:
        scene: What to show: its ``zero``.
        axes: Where.
        renderer: Measures texts.
        style: The colours.
    """

    def __init__(self, scene: Scene, axes: Axes, renderer: Any, *style: Any) -> None:
        super().__init__(axes, renderer, *style)
        self.scene = scene
        self.rows = scene.zero
        self.areas: Sequence[float] = ()
        self.manners = manners({one.group: "" for one in (*scene.spots, *scene.zero)})

    def draw(self, colours: Mapping[str, str], areas: Sequence[float]) -> StripArtists:
        """Draw everything.

        Args:
            colours: Group → colour of this style.
            areas: Of the markers of each row, in points².
        """
        self.areas = areas
        self._frame()
        roofs = {key: self._roof(roof) for key, roof in _bandwidths(self.scene).items()}
        self._roof_names()
        joins: dict[str, Any] = {}
        found: dict[MemoryLevel, list[tuple[str, Any]]] = {}
        labels: dict[str, Any] = {}
        for row, one in enumerate(self.rows):
            colour, shown = colours[one.group], levels(one)
            if len(shown) > 1:
                joins[one.name] = self._join(row, one, colour)
            for level in shown:
                marker = self._marker(row, one, level, colour, areas[row])
                found.setdefault(level, []).append((one.name, marker))
            labels[one.name] = self._label(row, one, areas[row])
        return StripArtists(
            axes=self.axes,
            roofs=roofs,
            markers={level: tuple(m for _, m in pairs) for level, pairs in found.items()},
            names={level: tuple(name for name, _ in pairs) for level, pairs in found.items()},
            joins=joins,
            labels=labels,
        )

    def _frame(self) -> None:
        axes, count = self.axes, len(self.rows)
        rates = [one.byte_rate[level] for one in self.rows for level in levels(one)]
        rates += [roof.rate for roof in _bandwidths(self.scene).values()]
        axes.set_xscale("log")
        axes.set_xlim(*self._limits(min(rates) / 3, max(rates) * 3))
        edge = EDGES / ROW / 2
        axes.set_ylim(count - 0.5 + edge, -0.5 - edge)
        axes.set_yticks([])
        axes.xaxis.set_major_formatter(si_tick)
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel("Work without FLOP: bytes moved per second [B/s]", fontsize=9)
        axes.grid(which="major", axis="x", color=self.shade(GRID), linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        self.frame_labels()

    def _roof(self, roof: Roof) -> Any:
        """A bandwidth as a vertical line."""
        line = self.axes.axvline(
            roof.rate, color=self.shade(INK), linewidth=1.1, zorder=2,
            linestyle="-" if roof.measured else "--", gid=f"strip-roof-{roof.key}",
        )  # fmt: skip
        return line

    def _roof_names(self) -> None:
        """Above the lines; those too close to one another share one text."""
        groups: list[list[Roof]] = []
        for roof in sorted(_bandwidths(self.scene).values(), key=lambda roof: roof.rate):
            x = self.pixel(roof.rate, 0)[0]
            if groups and x - self.pixel(groups[-1][-1].rate, 0)[0] < _NAME:
                groups[-1].append(roof)
            else:
                groups.append([roof])
        for group in groups:
            name = ", ".join(MemoryLevel(roof.key).label for roof in group)
            at = math.prod(roof.rate ** (1 / len(group)) for roof in group)
            self.axes.annotate(
                name, (at, 1), (0, 1), xycoords=("data", "axes fraction"),
                textcoords="offset points", ha="center", va="bottom", fontsize=7.5,
                color=self.shade(MUTED), parse_math=False, annotation_clip=False,
            )  # fmt: skip

    def _join(self, row: int, one: Spot, colour: str) -> Any:
        xs = [one.byte_rate[level] for level in levels(one)]
        (line,) = self.axes.plot(
            [min(xs), max(xs)], [row, row], color=colour, linewidth=1, alpha=0.6, zorder=3,
            linestyle=self.manners[one.group].line,
        )  # fmt: skip
        return line

    def _marker(self, row: int, one: Spot, level: MemoryLevel, colour: str, area: float) -> Any:
        paper, hollow = self.shade(PAPER), is_open(one, level)
        at = ([one.byte_rate[level]], [row])
        marker = self.axes.scatter(
            *at, s=area, marker=SHAPES[level], zorder=4, linewidths=1.0 if hollow else 0.6,
            facecolors=[(paper, 0.55) if hollow else (colour, 0.85)],
            edgecolors=colour if hollow else paper, gid=f"zero-{row}-{level}",
        )  # fmt: skip
        sign = self.manners[one.group].mark
        if sign and area >= MARKED_AREA:
            self.axes.scatter(
                *at, s=0.36 * area, marker=sign, linewidths=0.9, zorder=5,
                c=[colour if hollow else paper],
            )  # fmt: skip
        return marker

    def _limits(self, low: float, high: float) -> tuple[float, float]:
        """Limits with room for every name at the right of its row's last marker."""
        whole = float(self.axes.get_window_extent(self.renderer).width)
        for one, area in zip(self.rows, self.areas, strict=True):
            text = self.text(self._words(one), (1, 1), (0, 0))
            extent = float(text.get_window_extent(self.renderer).width)
            text.remove()
            share = 1 - (extent + (self._beside(area) + 8) * self.figure.dpi / 72) / whole
            last = max(one.byte_rate[level] for level in levels(one))
            high = max(high, low * (last / low) ** (1 / max(share, 0.2)))
        return low, high

    def _words(self, one: Spot) -> str:
        sign = "⚠ " if one.name in self.scene.above else ""
        return f"{sign}{short(one.label or one.name)}  {si(one.time, 's')}"

    def _beside(self, area: float) -> float:
        """Points from the middle of a marker to its name."""
        return math.sqrt(area) / 2 + 5

    def _label(self, row: int, one: Spot, area: float) -> Any:
        """Name and time to the right of the row's last marker; the row is its own, so nothing can be in the way."""
        last = max(one.byte_rate[level] for level in levels(one))
        return self.text(
            self._words(one), (last, row), (self._beside(area), 0), va="center", zorder=6,
            color=self.shade(ALARM if one.name in self.scene.above else INK),
            bbox={"facecolor": self.shade(PAPER), "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
        )  # fmt: skip
