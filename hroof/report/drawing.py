"""Drawing of one Roofline on axes that somebody else made; only their methods are used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hroof.report.artists import Artists
from hroof.report.look import (
    ALARM,
    COMPUTE_ZONE,
    FAINT,
    GRID,
    INK,
    MEMORY_ZONE,
    MUTED,
    PAPER,
    SHAPES,
    Key,
    areas,
    caption,
    colours,
    is_open,
    legend,
    printable,
    short,
)
from hroof.report.place import Box, Layout, along, around
from hroof.report.scene import Roof, Scene, Spot
from hroof.units import MemoryLevel, number, si

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = 12
_BESIDE = 4.0


class Drawing:
    """A chart in the making.

    Args:
        scene: What to show.
        axes: Where; nothing else of the figure is touched.
        renderer: Measures texts. Of its own, since a figure that a user gave may have any canvas.
    """

    def __init__(self, scene: Scene, axes: Axes, renderer: Any) -> None:
        self.scene, self.axes = scene, axes
        self.figure: Any = axes.get_figure()
        self.colours, self.areas = colours(scene.spots), areas(scene.spots)
        self.renderer = renderer
        self.layout = Layout(Box(0, 0, 0, 0))

    def draw(self, title: str, subtitle: str) -> Artists:
        """Draw everything, in an order that gives roofs the first choice of room for labels."""
        self._frame()
        self._heading(title, subtitle)
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
        return Artists(
            figure=self.figure,
            axes=self.axes,
            roofs=roofs,
            markers={level: tuple(m for _, m in found) for level, found in markers.items()},
            names={level: tuple(name for name, _ in found) for level, found in markers.items()},
            joins=joins,
            labels=labels,
            not_drawn=self.scene.not_drawn,
            above=self.scene.above,
            caption=self._caption(),
        )

    def _frame(self) -> None:
        axes = self.axes
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(*self.scene.xlim)
        axes.set_ylim(*self.scene.ylim)
        axes.set_xlabel("Arithmetic intensity [FLOP/byte]", fontsize=10)
        axes.set_ylabel("Performance [FLOP/s]", fontsize=10)
        for axis, tick in ((axes.xaxis, _plain_tick), (axes.yaxis, si_tick)):
            axis.set_major_formatter(tick)
            axis.set_minor_formatter("")
        axes.grid(which="major", color=GRID, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        box = axes.get_window_extent(self.renderer)
        self.layout = Layout(Box(box.x0 + 2, box.y0 + 2, box.x1 - 2, box.y1 - 2))

    def _pixel(self, x: float, y: float) -> tuple[float, float]:
        px, py = self.axes.transData.transform((x, y))
        return float(px), float(py)

    def _heading(self, title: str, subtitle: str) -> None:
        place: dict[str, Any] = {"transform": self.axes.transAxes, "parse_math": False}
        self.axes.text(0, 1.055, printable(title), fontsize=14, fontweight="bold", **place)
        self.axes.text(0, 1.02, subtitle, fontsize=9.5, color=MUTED, **place)

    # Roofs

    def _zones(self) -> None:
        """Shade what lies under the roof of the slowest memory and under the peak."""
        if self.scene.ridge is None:
            return
        (x, y), (x0, x1), floor = self.scene.ridge, self.scene.xlim, self.scene.ylim[0]
        plain: dict[str, Any] = {"linewidth": 0, "zorder": 0.2}
        self.axes.fill([x0, x0, x, x], [floor, y * x0 / x, y, floor], color=MEMORY_ZONE, **plain)
        self.axes.fill([x, x, x1, x1], [floor, y, y, floor], color=COMPUTE_ZONE, **plain)

    def _roof(self, roof: Roof) -> Any:
        x0, x1 = self.scene.xlim
        ends = (x0, roof.ridge or x1) if roof.sloped else (max(roof.ridge or x0, x0), x1)
        (line,) = self.axes.plot(
            ends,
            [roof.at(x) for x in ends],
            color=INK if roof.used else FAINT,
            linewidth=1.3 if roof.used else 1.0,
            linestyle="-" if roof.measured else "--",
            zorder=2,
            gid=f"roof-{roof.key}",
        )
        return line

    def _ridge(self) -> None:
        """Mark where the slowest memory meets the peak."""
        if self.scene.ridge is None:
            return
        x, y = self.scene.ridge
        self.axes.plot(
            [x, x], [self.scene.ylim[0], y], color=FAINT, linewidth=0.9, ls=":", zorder=1
        )
        self.axes.plot([x], [y], "o", color=INK, mfc=PAPER, markersize=5, zorder=3, gid="ridge")
        self._text(f"ridge {number(x)} FLOP/byte", (x, self.scene.ylim[0]), (4, 6), color=MUTED)

    def _roof_label(self, roof: Roof) -> None:
        text = self._text(roof.label, (1, 1), (0, 0), zorder=6, fontsize=8.5, fontweight="bold")
        text.set_color(INK if roof.used else MUTED)
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
        self.layout.take(*along(x, y, width, height, angle))
        self._move(text, (x, y))
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
        xs, ys = zip(*self.axes.transData.inverted().transform((start, end)), strict=True)
        self.axes.plot(
            xs, ys, color=INK, linewidth=0.7, marker=".", markevery=[1], markersize=4, zorder=3
        )

    def _visible(self, roof: Roof) -> tuple[tuple[float, float], tuple[float, float], float]:
        """Ends of the line within the axes, in pixels, and its angle."""
        x0, x1 = self.scene.xlim
        start = max(x0, self.scene.ylim[0] / roof.rate if roof.sloped else roof.ridge or x0)
        end = max((roof.ridge or x1) if roof.sloped else x1, start)
        p, q = self._pixel(start, roof.at(start)), self._pixel(end, roof.at(end))
        return p, q, math.atan2(q[1] - p[1], q[0] - p[0])

    def _line(self, roof: Roof) -> list[Box]:
        """Boxes along the line."""
        start, end, angle = self._visible(roof)
        return along(*start, math.dist(start, end), 4.0, angle)

    # Spots

    def _join(self, one: Spot) -> Any:
        """The line that joins the levels of one spot: its length is the reuse between them."""
        xs = [one.intensity[level] for level in one.levels]
        colour = self.colours[one.group]
        (start, y), (end, _) = self._pixel(min(xs), one.rate), self._pixel(max(xs), one.rate)
        self.layout.take(Box(start, y - 1, end, y + 1))
        (line,) = self.axes.plot(
            [min(xs), max(xs)], [one.rate] * 2, color=colour, linewidth=1, alpha=0.45, zorder=3
        )
        return line

    def _markers(self) -> dict[MemoryLevel, list[tuple[str, Any]]]:
        found: dict[MemoryLevel, list[tuple[str, Any]]] = {level: [] for level in self.scene.levels}
        for index, one in enumerate(self.scene.spots):
            for level in one.levels:
                found[level].append((one.name, self._marker(index, one, level)))
        return found

    def _marker(self, index: int, one: Spot, level: MemoryLevel) -> Any:
        """One marker; short ones lie above long ones."""
        colour, hollow = self.colours[one.group], self._hollow(one, level)
        x, y = self._pixel(one.intensity[level], one.rate)
        half = self._radius(index)
        self.layout.take(Box(x - half, y - half, x + half, y + half))
        return self.axes.scatter(
            [one.intensity[level]],
            [one.rate],
            s=self.areas[index],
            marker=SHAPES[level],
            facecolors=[(PAPER, 0.55) if hollow else (colour, 0.85)],
            edgecolors=colour if hollow else PAPER,
            linewidths=min(1.4, half / 5) if hollow else 0.6,
            zorder=4 + index / (10 * len(self.scene.spots)),
            gid=f"point-{index}-{level}",
        )

    def _hollow(self, one: Spot, level: MemoryLevel) -> bool:
        """Whether a marker is not filled."""
        return is_open(one, level)

    def _radius(self, index: int) -> float:
        """Half the width of a marker in pixels."""
        return math.sqrt(self.areas[index]) / 2 * float(self.figure.dpi) / 72

    def _alarms(self) -> None:
        for index, one in enumerate(self.scene.spots):
            if one.name not in self.scene.above:
                continue
            anchor = (one.intensity[one.levels[-1]], one.rate)
            x, y = self._pixel(*anchor)
            lift = self._radius(index) + 1
            self.layout.take(Box(x - 7, y + lift, x + 7, y + lift + 14))
            sign = self._text("⚠", anchor, (0, 0), fontsize=11, color=ALARM, zorder=7, ha="center")
            self._move(sign, (x, y + lift))
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
        anchors = [self._pixel(one.intensity[level], one.rate) for level in reversed(one.levels)]
        text = self._text(short(one.label or one.name), (1, 1), (0, 0), fontsize=8.5, zorder=6)
        extent = text.get_window_extent(self.renderer)
        size = (extent.width + 4, extent.height + 2)
        gap = self._radius(index) + 2
        rounds = zip(*(around(*anchor, *size, gap) for anchor in anchors), strict=True)
        choices = ((a, box) for boxes in rounds for a, box in zip(anchors, boxes, strict=True))
        anchor, box = next((c for c in choices if self.layout.free([c[1]])), (None, None))
        if anchor is None or box is None:
            text.remove()
            return None
        self.layout.take(box)
        self._move(text, (box.x0 + 2, box.y0 + 1))
        self._leader(anchor, box, gap)
        return text

    def _leader(self, anchor: tuple[float, float], box: Box, gap: float) -> None:
        """A thin line from a label to its marker where the two lie apart."""
        nearest = min(max(anchor[0], box.x0), box.x1), min(max(anchor[1], box.y0), box.y1)
        if math.dist(anchor, nearest) < gap + 6:
            return
        xs, ys = zip(*(self.axes.transData.inverted().transform((anchor, nearest))), strict=True)
        self.axes.plot(xs, ys, color=FAINT, linewidth=0.6, zorder=3.5)

    # Text

    def _text(
        self, text: str, at: tuple[float, float], offset: tuple[float, float], **more: Any
    ) -> Any:
        """Text at data coordinates, shifted by points, so that any resolution looks the same."""
        style: dict[str, Any] = {"fontsize": 8, "parse_math": False, "annotation_clip": False}
        return self.axes.annotate(text, at, offset, textcoords="offset points", **style | more)

    def _move(self, text: Any, pixel: tuple[float, float]) -> None:
        """Put the lower left corner of a text at a pixel."""
        text.xy = tuple(self.axes.transData.inverted().transform(pixel))
        text.set(va="bottom")

    def _handle(self, key: Key) -> Any:
        (line,) = self.axes.plot([], [], key.shape or "none", markersize=math.sqrt(key.area))
        line.set(
            linestyle="none",
            markerfacecolor=PAPER if key.open else key.colour,
            markeredgecolor=key.colour if key.open else PAPER,
        )
        line.remove()
        return line

    def _keys(self) -> list[Key]:
        return legend(self.scene)

    def _legend(self) -> None:
        keys = self._keys()
        if not keys:
            return
        box = self.axes.legend(
            [self._handle(key) for key in keys],
            [key.text for key in keys],
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            frameon=False,
            fontsize=8.5,
            labelspacing=0.7,
            handletextpad=0.6,
            borderaxespad=0.0,
        )
        for key, text in zip(keys, box.get_texts(), strict=True):
            text.set(parse_math=False, fontweight="normal" if key.shape else "bold")

    def _caption(self) -> str:
        text = caption(self.scene)
        place: dict[str, Any] = {"transform": self.axes.transAxes, "parse_math": False}
        self.axes.text(-0.06, -0.105, text, fontsize=7.5, color=MUTED, va="top", **place)
        return text


def _plain_tick(value: float, _position: float | None) -> str:
    return f"{value:g}"


def si_tick(value: float, _position: float | None) -> str:
    """A power of ten with an SI prefix: ``100 G``."""
    return si(value, "", 1 + round(math.log10(value)) % 3)
