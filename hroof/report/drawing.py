"""Drawing of one Roofline on axes that somebody else made; only their methods are used."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hroof.report.artists import Artists, StripArtists
from hroof.report.charts.canvas import Canvas, plain_tick, si_tick
from hroof.report.charts.strip import StripDrawing, with_strip
from hroof.report.charts.style import LIGHT, Style
from hroof.report.look import (
    ALARM,
    COMPUTE_ZONE,
    FAINT,
    INK,
    MARKED_AREA,
    MEMORY_ZONE,
    MUTED,
    PAPER,
    SHAPES,
    Key,
    Manner,
    areas,
    caption,
    colours,
    is_open,
    legend,
    manners,
    roof_keys,
)
from hroof.report.place import Box, Layout, along
from hroof.report.scene import Roof, Scene, Spot
from hroof.units import MemoryLevel, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = 12
_BESIDE = 4.0


class Drawing(Canvas):
    """A chart in the making.

    Args:
        scene: What to show.
        axes: Where; nothing else of the figure is touched.
        renderer: Measures texts.
        style: The colours.
        strip: Axes for work without FLOP; None: the caption names it.
    """

    roof_font = 8.5
    """Size of the names of roofs."""

    def __init__(
        self,
        scene: Scene,
        axes: Axes,
        renderer: Any,
        style: Style = LIGHT,
        strip: Axes | None = None,
    ) -> None:
        super().__init__(axes, renderer, style)
        self.scene = scene if strip is None else with_strip(scene)
        self.strip = strip
        everything = (*scene.spots, *self._below())
        self.colours, self.areas = colours(everything), areas(everything)

    @property
    def manners(self) -> Mapping[str, Manner]:
        """Sign and line of each group."""
        return manners(self.colours)

    def draw(self, title: str, subtitle: str) -> Artists:
        """Draw everything, in an order that gives roofs the first choice of room for labels."""
        self._frame()
        self.heading(title, subtitle)
        self._zones()
        roofs = {roof.key: self._roof(roof) for roof in self.scene.roofs}
        joins = {one.name: self._join(one) for one in self.scene.spots if len(one.levels) > 1}
        markers = self._markers()
        self._alarms()
        for roof in sorted(self.scene.roofs, key=lambda roof: roof.sloped):
            if roof.label:
                self._roof_label(roof)
        # No name of a spot lies on a line.
        self.layout.take(*(box for roof in self.scene.roofs for box in self._line(roof)))
        self._ridge()
        labels = self._labels()
        self._legend()
        strip = self._strip()
        return Artists(
            figure=self.figure,
            axes=self.axes,
            roofs=roofs,
            markers={level: tuple(m for _, m in found) for level, found in markers.items()},
            names={level: tuple(name for name, _ in found) for level, found in markers.items()},
            joins={name: line for name, line in joins.items() if line is not None},
            labels=labels,
            not_drawn=self.scene.not_drawn,
            above=self.scene.above,
            caption=self._caption(),
            strip=strip,
        )

    def _frame(self) -> None:
        labels = ("Arithmetic intensity [FLOP/byte]", "Performance [FLOP/s]")
        self.log_axes(self.scene.xlim, self.scene.ylim, *labels)
        self.ticks(plain_tick, si_tick)

    # Roofs

    def _zones(self) -> None:
        """Shade what lies under the roof of the slowest memory and under the peak."""
        if self.scene.ridge is None:
            return
        (x, y), (x0, x1), floor = self.scene.ridge, self.scene.xlim, self.scene.ylim[0]
        plain: dict[str, Any] = {"linewidth": 0, "zorder": 0.2}
        self.axes.fill(
            [x0, x0, x, x], [floor, y * x0 / x, y, floor], color=self.shade(MEMORY_ZONE), **plain
        )
        self.axes.fill(
            [x, x, x1, x1], [floor, y, y, floor], color=self.shade(COMPUTE_ZONE), **plain
        )

    def _roof(self, roof: Roof) -> Any:
        x0, x1 = self.scene.xlim
        ends = (x0, roof.ridge or x1) if roof.sloped else (max(roof.ridge or x0, x0), x1)
        (line,) = self.axes.plot(
            ends,
            [roof.at(x) for x in ends],
            color=self.shade(INK if roof.used else FAINT),
            linewidth=1.3 if roof.used else 1.0,
            linestyle="-" if roof.measured else "--",
            zorder=2,
            gid=f"roof-{roof.key}",
        )
        return line

    def _ridge(self) -> None:
        """Mark every ridge point, and the one of the slowest memory and the peak with its intensity."""
        for x, y in self.scene.ridges:
            self.axes.plot(
                [x], [y], "o", color=self.shade(MUTED), mfc=self.shade(PAPER), markersize=3.5,
                zorder=2.5, gid="ridge-point",
            )  # fmt: skip
        if self.scene.ridge is None:
            return
        x, y = self.scene.ridge
        self.axes.plot(
            [x, x], [self.scene.ylim[0], y],
            color=self.shade(FAINT), linewidth=0.9, ls=":", zorder=1,
        )  # fmt: skip
        self.axes.plot(
            [x], [y], "o", color=self.shade(INK), mfc=self.shade(PAPER), markersize=5, zorder=3,
            gid="ridge",
        )  # fmt: skip
        name = self.text(
            f"ridge {number(x)} FLOP/byte", (x, self.scene.ylim[0]), (4, 6), color=self.shade(MUTED)
        )
        extent = name.get_window_extent(self.renderer)
        self.layout.take(Box(extent.x0, extent.y0, extent.x1, extent.y1))

    def _roof_label(self, roof: Roof) -> None:
        look: dict[str, Any] = {"fontsize": self.roof_font, "fontweight": "bold"}
        text = self.text(roof.label, (1, 1), (0, 0), zorder=6, **look)
        text.set_color(self.shade(INK if roof.used else MUTED))
        extent = text.get_window_extent(self.renderer)
        width, height = extent.width + 4, extent.height
        crossing = [
            box
            for other in self.scene.roofs
            if other.sloped != roof.sloped
            for box in self._line(other)
        ]
        layout = Layout(self.layout.frame, [*self.layout.taken, *crossing])
        choices = list(self._roof_places(roof, width, height))
        x, y, angle, lift = next(
            (c for c in choices if layout.free(along(c[0], c[1], width, height, c[2]))), choices[0]
        )
        # Without room anywhere, at least not beyond the right edge.
        x = x if roof.sloped else min(x, self.layout.frame.x1 - width)
        self.layout.take(*along(x, y, width, height, angle))
        self.move(text, (x, y))
        text.set(rotation=math.degrees(angle), rotation_mode="anchor", ha="left", va="bottom")
        if lift > _BESIDE:
            cos, sin = math.cos(angle), math.sin(angle)
            start = (x + 4 * cos, y + 4 * sin)
            self._pointer(start, (start[0] + lift * sin, start[1] - lift * cos))

    def _roof_places(
        self, roof: Roof, width: float, height: float
    ) -> Iterator[tuple[float, float, float, float]]:
        """Lower left corners, angles and distances from the line, along the visible part.

        Slopes from the left and peaks from the right: above the line and then below it where no
        parallel roof is in the way, then in two rows above all parallel roofs.
        """
        (px, py), end, angle = self._visible(roof)
        room = max(math.dist((px, py), end) - width, 0.0)
        apart = self._parallel(roof, (px, py), angle)
        beside = [
            lift
            for lift in (_BESIDE, -height - 3.0)
            if not any(lift - 2 < other < lift + height for other in apart)
        ]
        top = max([0.0, *apart]) + _BESIDE
        for lift in (*beside, top, top + height + 2.0):
            for step in range(9):
                reach = room * (0.02 + 0.11 * step if roof.sloped else 0.99 - 0.12 * step)
                yield (
                    px + reach * math.cos(angle) - lift * math.sin(angle),
                    py + reach * math.sin(angle) + lift * math.cos(angle),
                    angle,
                    lift,
                )

    def _parallel(self, roof: Roof, start: tuple[float, float], angle: float) -> list[float]:
        """Pixels from a roof to each parallel one, above it positive."""
        others = [o for o in self.scene.roofs if o is not roof and o.sloped == roof.sloped]
        starts = [self._visible(other)[0] for other in others]
        return [
            (y - start[1]) * math.cos(angle) - (x - start[0]) * math.sin(angle) for x, y in starts
        ]

    def _pointer(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """A thin line from a label to its roof, with a dot on it."""
        self.stroke(
            start, end, color=self.shade(INK), linewidth=0.7, marker=".", markevery=[1],
            markersize=4, zorder=3,
        )  # fmt: skip

    def _visible(self, roof: Roof) -> tuple[tuple[float, float], tuple[float, float], float]:
        """Ends of the line within the axes, in pixels, and its angle."""
        x0, x1 = self.scene.xlim
        start = max(x0, self.scene.ylim[0] / roof.rate if roof.sloped else roof.ridge or x0)
        end = max((roof.ridge or x1) if roof.sloped else x1, start)
        p, q = self.pixel(start, roof.at(start)), self.pixel(end, roof.at(end))
        return p, q, math.atan2(q[1] - p[1], q[0] - p[0])

    def _line(self, roof: Roof) -> list[Box]:
        """Boxes along the line."""
        start, end, angle = self._visible(roof)
        return along(*start, math.dist(start, end), 4.0, angle)

    # Spots

    def _join(self, one: Spot) -> Any:
        """The line that joins the levels of one spot: its length is the reuse between them."""
        xs = [one.intensity[level] for level in one.levels]
        (start, y), (end, _) = self.pixel(min(xs), one.rate), self.pixel(max(xs), one.rate)
        self.layout.take(Box(start, y - 1, end, y + 1))
        (line,) = self.axes.plot(
            [min(xs), max(xs)],
            [one.rate] * 2,
            color=self._colour(one),
            linestyle=self.manners[one.group].line,
            linewidth=1,
            alpha=0.6,
            zorder=3,
        )
        return line

    def _colour(self, one: Spot) -> str:
        return self.shade(self.colours[one.group])

    def _markers(self) -> dict[MemoryLevel, list[tuple[str, Any]]]:
        found: dict[MemoryLevel, list[tuple[str, Any]]] = {level: [] for level in self.scene.levels}
        for index, one in enumerate(self.scene.spots):
            for level in one.levels:
                found[level].append((one.name, self._marker(index, one, level)))
        return found

    def _marker(self, index: int, one: Spot, level: MemoryLevel) -> Any:
        """One marker; short ones lie above long ones."""
        colour, paper, hollow = self._colour(one), self.shade(PAPER), self._hollow(one, level)
        x, y = self.pixel(one.intensity[level], one.rate)
        half = self._radius(index)
        self.layout.take(Box(x - half, y - half, x + half, y + half))
        height = 4 + index / (10 * len(self.scene.spots))
        at = ([one.intensity[level]], [one.rate])
        marker = self.axes.scatter(
            *at,
            s=self.areas[index],
            marker=SHAPES[level],
            facecolors=[(paper, 0.55) if hollow else (colour, 0.85)],
            edgecolors=colour if hollow else paper,
            linewidths=min(1.4, half / 5) if hollow else 0.6,
            zorder=height,
            gid=f"point-{index}-{level}",
        )
        sign = self.manners[one.group].mark
        if sign and self.areas[index] >= MARKED_AREA:
            # Within the marker, so that the group can be told in black and white.
            self.axes.scatter(
                *at, s=0.36 * self.areas[index], marker=sign, linewidths=0.9,
                c=[colour if hollow else paper], zorder=height + 1e-4, gid=f"sign-{index}-{level}",
            )  # fmt: skip
        return marker

    def _hollow(self, one: Spot, level: MemoryLevel) -> bool:
        """Whether a marker is not filled."""
        return is_open(one, level)

    def _radius(self, index: int) -> float:
        """Half the width of a marker in pixels."""
        return math.sqrt(self.areas[index]) / 2 * float(self.figure.dpi) / 72

    def _alarms(self) -> None:
        """Warning signs at points above a roof that should hold them."""
        for index, one in enumerate(self.scene.spots):
            if one.name not in self.scene.above:
                continue
            anchor = (one.intensity[one.levels[-1]], one.rate)
            x, y = self.pixel(*anchor)
            lift = self._radius(index) + 1
            self.layout.take(Box(x - 7, y + lift, x + 7, y + lift + 14))
            sign = self.text(
                "⚠", anchor, (0, 0), fontsize=11, color=self.shade(ALARM), zorder=7, ha="center"
            )
            self.move(sign, (x, y + lift))
            sign.set_gid(f"alarm-{index}")

    def _labels(self) -> dict[str, Any]:
        """Labels for the longest spots, as long as there is room; each text once."""
        first: dict[str, tuple[int, Spot]] = {}
        for index, one in enumerate(self.scene.spots):
            first.setdefault(one.label or one.name, (index, one))
        chosen = list(first.values())[:_LABELS]
        labels = {one.name: self._label(index, one) for index, one in chosen}
        return {name: text for name, text in labels.items() if text is not None}

    def _label(self, index: int, one: Spot) -> Any:
        anchors = [self.pixel(one.intensity[level], one.rate) for level in reversed(one.levels)]
        return self.label(one.label or one.name, anchors, self._radius(index) + 2)

    def _keys(self) -> list[Key]:
        shown = dataclasses.replace(self.scene, spots=(*self.scene.spots, *self._below()))
        return [*legend(shown), *roof_keys(self.scene)]

    def _below(self) -> Sequence[Spot]:
        """What is drawn in the strip."""
        return () if self.strip is None else self.scene.zero

    def _legend(self) -> None:
        self.legend(self._keys())

    def _strip(self) -> StripArtists | None:
        if self.strip is None or not self.scene.zero:
            return None
        shades = {name: self.shade(colour) for name, colour in self.colours.items()}
        sizes = self.areas[len(self.scene.spots) :]
        return StripDrawing(self.scene, self.strip, self.renderer, self.style).draw(shades, sizes)

    def _caption(self) -> str:
        text = caption(self.scene)
        self.note(text, self.strip if self.scene.zero else None)
        return text
