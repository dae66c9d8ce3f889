"""Drawing of a time-based Roofline on axes that somebody else made; only their methods are used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hroof.report.artists import Drawn
from hroof.report.charts.canvas import Canvas, si_tick
from hroof.report.charts.style import LIGHT, Style
from hroof.report.charts.timed import Balance, Timed, TimeScene, launches_text
from hroof.report.look import (
    ALARM,
    COMPUTE_ZONE,
    FAINT,
    INK,
    MEMORY_ZONE,
    MUTED,
    NO_MARKER,
    PAPER,
    PHASE_COLOURS,
    Key,
    caption_of,
    colours,
    group_keys,
    heading_of,
    manners,
    some,
)
from hroof.report.place import Box, along
from hroof.report.scene import NotDrawn
from hroof.units import MemoryLevel, number, si

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELS = 12
_RIGHT_AXES = 3
_APART = 0.1
"""Distance of the axes of FLOP time from one another, in widths of the chart."""
_HALF = 5.0
"""Half the width of a marker in pixels."""
_AREA = 52.0
_SHAPES = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class TimeArtists(Drawn):
    """What a time-based Roofline is made of.

    Attributes:
        figure: The matplotlib figure.
        axes: Its axes, in bytes and FLOP.
        level: The memory level whose bytes are drawn.
        names: The groups that are drawn, longest time first.
        complexity: Open markers: bytes and FLOP of each group.
        times: Filled markers: the measured time of each group.
        joins: Name → the line from complexity to time; its length is the slowdown.
        boxes: Name → the dashed lines of its launch box.
        balances: Diagonals by unit, e.g. ``matrix_fp32``.
        byte_time: The axis at the top, in seconds; None where nothing is drawn.
        flop_times: The axes at the right by unit, in seconds.
        labels: Name → its label, where there was room for one.
        not_drawn: What is left out, and why.
        above: Name → why it may be faster than its bound.
        caption: The notes under the chart.
    """

    figure: Figure
    axes: Axes
    level: MemoryLevel | None
    names: tuple[str, ...]
    complexity: tuple[Any, ...]
    times: tuple[Any, ...]
    joins: Mapping[str, Any]
    boxes: Mapping[str, Any]
    balances: Mapping[str, Any]
    byte_time: Any
    flop_times: Mapping[str, Any]
    labels: Mapping[str, Any]
    not_drawn: tuple[NotDrawn, ...]
    above: Mapping[str, str]
    caption: str


class TimeDrawing(Canvas):
    """A time-based Roofline in the making.

    Args:
        scene: What to show.
        axes: Where; nothing else of the figure is touched.
        renderer: Measures texts.
        style: The colours.
    """

    def __init__(self, scene: TimeScene, axes: Axes, renderer: Any, style: Style = LIGHT) -> None:
        super().__init__(axes, renderer, style)
        self.scene = scene
        self.colours = colours(scene.spots)
        self.manners = manners(self.colours)

    def draw(self, title: str, subtitle: str) -> TimeArtists:
        """Draw everything."""
        scene = self.scene
        self._frame()
        self.heading(title, subtitle, lift=26.0)
        self._zones()
        byte_time, flop_times = self._byte_axis(), self._flop_axes()
        balances = {one.key: self._balance(one) for one in scene.balances}
        joins = {one.name: self._join(one) for one in scene.spots}
        complexity = tuple(self._marker(i, one, False) for i, one in enumerate(scene.spots))
        times = tuple(self._marker(i, one, True) for i, one in enumerate(scene.spots))
        self._alarms()
        boxes = {one.name: self._box(one) for one in scene.boxes}
        for one in scene.balances:
            self._balance_label(one)
        for group in scene.boxes:
            self._box_label(group)
        labels = self._labels()
        self.legend(self._keys(), right=1.01 + _APART * max(len(flop_times), 1) + 0.02)
        return TimeArtists(
            figure=self.figure,
            axes=self.axes,
            level=scene.level,
            names=tuple(one.name for one in scene.spots),
            complexity=complexity,
            times=times,
            joins=joins,
            boxes=boxes,
            balances=balances,
            byte_time=byte_time,
            flop_times=flop_times,
            labels=labels,
            not_drawn=scene.not_drawn,
            above=scene.above,
            caption=self._caption(),
        )

    # --- axes

    def _frame(self) -> None:
        level = self.scene.level.label if self.scene.level else "memory"
        labels = (f"Bytes through {level} [B]", "FLOP that must be executed [FLOP]")
        self.log_axes(self.scene.xlim, self.scene.ylim, *labels)
        self.ticks(si_tick, si_tick)

    def _byte_axis(self) -> Any:
        """Bytes as seconds at the bandwidth."""
        rate = self.scene.bandwidth
        if not math.isfinite(rate):
            return None
        axis = self.axes.secondary_xaxis("top", functions=_per(rate))
        level = self.scene.level.label if self.scene.level else ""
        axis.set_xlabel(f"Byte time [s] at {level} {si(rate, 'B/s')}", fontsize=9)
        return self._as_seconds(axis, axis.xaxis)

    def _flop_axes(self) -> dict[str, Any]:
        """FLOP as seconds at the peak of each unit that is used here, not at the highest of all."""
        found = {}
        for place, one in enumerate(self.scene.balances[:_RIGHT_AXES]):
            axis = self.axes.secondary_yaxis(1 + _APART * place, functions=_per(one.peak))
            axis.set_ylabel(f"FLOP time [s] at {one.label} {si(one.peak, 'FLOP/s')}", fontsize=9)
            found[one.key] = self._as_seconds(axis, axis.yaxis)
        return found

    def _as_seconds(self, axis: Any, ticked: Any) -> Any:
        ticked.set_major_formatter(_seconds)
        ticked.set_minor_formatter("")
        axis.tick_params(labelsize=8, which="both", color=self.shade(FAINT))
        axis.spines[:].set_color(self.shade(FAINT))
        return axis

    # --- what the machine says

    def _zones(self) -> None:
        """Shade where the memory and where the unit that does most FLOP needs longer."""
        if not self.scene.balances:
            return
        (x0, x1), (y0, y1) = self.scene.xlim, self.scene.ylim
        left, right = (self.scene.balances[0].flop_per_byte * x for x in (x0, x1))
        low, high = min(y0, left), max(y1, right)
        plain: dict[str, Any] = {"linewidth": 0, "zorder": 0.2}
        memory, compute = self.shade(MEMORY_ZONE), self.shade(COMPUTE_ZONE)
        self.axes.fill([x0, x1, x1, x0], [left, right, low, low], color=memory, **plain)
        self.axes.fill([x0, x1, x1, x0], [left, right, high, high], color=compute, **plain)

    def _balance(self, one: Balance) -> Any:
        """The diagonal on which FLOP time and byte time are equal."""
        xs = self.scene.xlim
        (line,) = self.axes.plot(
            xs, [one.flop_per_byte * x for x in xs], color=self.shade(INK), linewidth=1.3,
            linestyle="-" if one.measured else "--", zorder=2, gid=f"balance-{one.key}",
        )  # fmt: skip
        return line

    def _balance_label(self, one: Balance) -> None:
        """Along the diagonal, where there is room."""
        name = f"{one.label}: {number(one.flop_per_byte)} FLOP/byte"
        (px, py), (qx, qy) = self._visible(one)
        angle, length = math.atan2(qy - py, qx - px), math.dist((px, py), (qx, qy))
        text = self.text(name, (1, 1), (0, 0), zorder=6, fontsize=8.5, fontweight="bold")
        extent = text.get_window_extent(self.renderer)
        width, height = extent.width + 4, extent.height
        shares = (0.04, *(step / 12 for step in range(1, 12)))
        places = [
            (
                px + reach * math.cos(angle) - lift * math.sin(angle),
                py + reach * math.sin(angle) + lift * math.cos(angle),
            )
            for lift in (4.0, -height - 3.0)
            for reach in (max(length - width, 0.0) * share for share in shares)
        ]
        x, y = next(
            (at for at in places if self.layout.free(along(*at, width, height, angle))), places[0]
        )
        self.layout.take(*along(x, y, width, height, angle))
        self.layout.take(*along(px, py, length, 4.0, angle))
        self.move(text, (x, y))
        text.set(rotation=math.degrees(angle), rotation_mode="anchor", ha="left", va="bottom")

    def _visible(self, one: Balance) -> tuple[tuple[float, float], tuple[float, float]]:
        """Ends in pixels of the part of a diagonal that lies within the axes."""
        (x0, x1), (y0, y1) = self.scene.xlim, self.scene.ylim
        start = min(max(x0, y0 / one.flop_per_byte), x1)
        end = max(min(x1, y1 / one.flop_per_byte), start * 1.001)
        return (
            self.pixel(start, one.flop_per_byte * start),
            self.pixel(end, one.flop_per_byte * end),
        )

    def _box(self, one: Timed) -> Any:
        """Work in here takes less time than starting its launches."""
        x, y = one.corner or (math.nan, math.nan)
        (line,) = self.axes.plot(
            [self.scene.xlim[0], x, x], [y, y, self.scene.ylim[0]], linestyle=(0, (4, 3)),
            color=self._colour(one), linewidth=1.1, zorder=2.5, gid="launch-box",
        )  # fmt: skip
        left, up = self.pixel(self.scene.xlim[0], y)
        right, low = self.pixel(x, self.scene.ylim[0])
        self.layout.take(Box(left, up - 1, right, up + 1), Box(right - 1, low, right + 1, up))
        return line

    def _box_label(self, one: Timed) -> None:
        """At the upper side of the box, from the left, where there is room."""
        left, up = self.pixel(self.scene.xlim[0], (one.corner or (0, self.scene.ylim[0]))[1])
        text = self.text(launches_text(one), (1, 1), (0, 0), color=self._colour(one), fontsize=7.5)
        extent = text.get_window_extent(self.renderer)
        room = self.pixel((one.corner or (0, 0))[0], 1)[0] - left - extent.width
        places = [
            Box(left + shift, up + lift, left + shift + extent.width, up + lift + extent.height)
            for shift in (4.0, 80.0, 160.0, 240.0, 320.0)
            for lift in (2.0, -extent.height - 2.0)
            if shift == 4.0 or shift <= room
        ]
        free = next((place for place in places if self.layout.free([place])), None)
        if free is None:
            text.remove()
            return
        self.layout.take(free)
        self.move(text, (free.x0, free.y0))

    # --- groups

    def _colour(self, one: Timed) -> str:
        return self.shade(self.colours[one.group])

    def _shape(self, one: Timed) -> str:
        """Of its group: there is one memory level here, so shape is free to say what colour says."""
        order = list(PHASE_COLOURS) if set(self.colours) <= set(PHASE_COLOURS) else self.colours
        place = list(order).index(one.group)
        return _SHAPES[min(place, len(_SHAPES) - 1)]

    def _join(self, one: Timed) -> Any:
        (x0, y0), (x1, y1) = one.complexity, one.at_time
        start, end = self.pixel(x0, y0), self.pixel(x1, y1)
        angle = math.atan2(end[1] - start[1], end[0] - start[0])
        self.layout.take(*along(*start, math.dist(start, end), 3.0, angle))
        (line,) = self.axes.plot(
            [x0, x1], [y0, y1], color=self._colour(one), linewidth=1, alpha=0.6, zorder=3,
            linestyle=self.manners[one.group].line,
        )  # fmt: skip
        return line

    def _marker(self, index: int, one: Timed, filled: bool) -> Any:
        x, y = one.at_time if filled else one.complexity
        px, py = self.pixel(x, y)
        self.layout.take(Box(px - _HALF, py - _HALF, px + _HALF, py + _HALF))
        colour, paper = self._colour(one), self.shade(PAPER)
        return self.axes.scatter(
            [x],
            [y],
            s=_AREA,
            marker=self._shape(one),
            facecolors=[(colour, 0.85) if filled else (paper, 0.7)],
            edgecolors=paper if filled else colour,
            linewidths=0.6 if filled else 1.2,
            zorder=4 + filled + index / (10 * len(self.scene.spots)),
            gid=f"{'time' if filled else 'complexity'}-{index}",
        )

    def _alarms(self) -> None:
        """Warning signs at groups that are faster than their bound."""
        for one in self.scene.spots:
            if one.name in self.scene.above:
                x, y = self.pixel(*one.at_time)
                self.layout.take(Box(x - 7, y + _HALF, x + 7, y + _HALF + 15))
                sign = self.text(
                    "⚠", (1, 1), (0, 0), fontsize=11, color=self.shade(ALARM), zorder=7, ha="center"
                )
                self.move(sign, (x, y + _HALF))
                sign.set_gid("alarm")

    def _labels(self) -> dict[str, Any]:
        """Names of the longest groups at their times, with how many times slower than the bound each is."""
        found = {}
        for one in self.scene.spots[:_LABELS]:
            at, slower = [self.pixel(*one.at_time)], f"  {number(one.slowdown, 2)}×"
            text = self.label(one.label or one.name, at, _HALF + 2, slower)
            if text is not None:
                found[one.name] = text
        return found

    # --- words

    def _keys(self) -> list[Key]:
        if not self.scene.spots:
            return []
        shapes = {one.group: self._shape(one) for one in self.scene.spots}
        keys = [Key(heading_of(self.colours))]
        for group, key in zip(self.colours, group_keys(self.colours), strict=False):
            keys.append(Key(key.text, shapes[group], key.colour, line=key.line))
        keys += [
            Key("Markers"),
            Key("work: bytes and FLOP", "o", MUTED, True),
            Key("measured time", "o", MUTED),
            Key("between, and ×: time ÷ bound", NO_MARKER, MUTED, line="-"),
        ]
        if self.scene.boxes:
            cost = si(self.scene.launch_cost, "s")
            keys.append(
                Key(
                    f"within: launches alone\ntake longer ({cost} each)",
                    NO_MARKER,
                    line=(0, (4, 3)),
                )
            )
        if any(not one.measured for one in self.scene.balances):
            keys.append(Key("Dashed diagonal:\nnot measured", NO_MARKER, line="--"))
        if self.scene.above:
            keys.append(Key("⚠ faster than its bound:\nevidence of a fault", NO_MARKER))
        return keys

    def _caption(self) -> str:
        scene = self.scene
        parts = []
        if scene.level is not None and scene.spots:
            kinds = sorted({str(one.source) for one in scene.spots})
            parts.append(f"Bytes at {scene.level.label}: {', '.join(kinds)}.")
        for said, found in (
            ("Their launches alone take longer than their work", _launch_bound(scene)),
            (
                "FLOP or bytes known for a part of the time only",
                [s for s in scene.spots if s.partial],
            ),
        ):
            if found:
                parts.append(f"{said}: {some([one.name for one in found])}.")
        mixed = sum(one.mixed for one in scene.spots)
        if mixed:
            whole = f"{mixed} of {len(scene.spots)} groups use several units"
            parts[0:1] = [f"{parts[0]} {whole}: each has a balance of its own."]
        text = caption_of(scene.not_drawn, scene.above, parts)
        self.note(text)
        return text


def _per(rate: float) -> tuple[Any, Any]:
    """A quantity as seconds at a rate, and back."""
    return (lambda amount: amount / rate), (lambda seconds: seconds * rate)


def _launch_bound(scene: TimeScene) -> list[Timed]:
    return [one for one in scene.spots if one.bound == "launch"]


def _seconds(value: float, position: float | None) -> str:
    """A time as a power of ten; below a nanosecond without a prefix."""
    return si_tick(value, position) if value > 0.9e-9 else f"{value:.0e}"
