"""The figures of arXiv 2009.05257 as a style: open circles whose colour is the level and whose width is the time."""

from __future__ import annotations

import math
from typing import Any

from hroof.report.drawing import Drawing
from hroof.report.look import INK, Key, caption, printable
from hroof.report.scene import Roof, Spot
from hroof.units import MemoryLevel, si

LEVEL_COLOURS = {
    MemoryLevel.L1: "#0000ff",
    MemoryLevel.L2: "#ff0000",
    MemoryLevel.L3: "#8c00c8",
    MemoryLevel.DRAM: "#008000",
}
"""The paper's three, and one for a level that its machine lacks."""
SIZE = (10.67, 6.6)
FONT = 15.0
_PER_SECOND, _LEAST, _MOST = 260.0, 3.0, 60.0
_BLACK = "#000000"
_WIDTH = 150
"""Characters of a line of the caption: the figure is smaller than others."""


def diameter(seconds: float) -> float:
    """Width of a circle in points: 260 × the time in seconds, never below 3, and bounded for very long times."""
    return min(max(_PER_SECOND * seconds, _LEAST), _MOST) if seconds > 0 else _LEAST


class PaperDrawing(Drawing):
    """A Roofline in the paper's style: no names, no zones; limits come from the data."""

    roof_font = 11.0

    def _frame(self) -> None:
        labels = ("Arithmetic Intensity [FLOP/Byte]", "Performance [GFLOP/s]")
        self.log_axes(self.scene.xlim, self.scene.ylim, *labels)
        self.axes.grid(False)
        self.axes.spines[["top", "right"]].set_visible(True)
        for axis in (self.axes.xaxis, self.axes.yaxis):
            axis.label.set_fontsize(FONT)
        self.ticks(_power, lambda value, _: _power(value / 1e9, None))
        self.axes.tick_params(labelsize=FONT, color=_BLACK, labelcolor=_BLACK)
        self.axes.spines[:].set_color(_BLACK)

    def heading(self, title: str, subtitle: str, lift: float = 0.0) -> None:
        """The title alone."""
        self.axes.set_title(printable(title), fontsize=FONT, parse_math=False)

    def _zones(self) -> None:
        """None."""

    def _ridge(self) -> None:
        """Not marked."""

    def _roof(self, roof: Roof) -> Any:
        line = super()._roof(roof)
        line.set(color=_BLACK, linewidth=2)
        return line

    def _roof_label(self, roof: Roof) -> None:
        super()._roof_label(roof)
        self.axes.texts[-1].set(color=_BLACK, fontweight="normal")

    def _join(self, one: Spot) -> Any:
        """None: the triplet stands at one height."""

    def _marker(self, index: int, one: Spot, level: MemoryLevel) -> Any:
        return self.axes.scatter(
            [one.intensity[level]],
            [one.rate],
            s=diameter(one.time) ** 2,
            marker="o",
            facecolors="none",
            edgecolors=LEVEL_COLOURS[level],
            linewidths=1.5,
            zorder=4,
            gid=f"point-{index}-{level}",
        )

    def _radius(self, index: int) -> float:
        return diameter(self.scene.spots[index].time) / 2 * float(self.figure.dpi) / 72

    def _labels(self) -> dict[str, Any]:
        return {}

    def _keys(self) -> list[Key]:
        keys = [
            Key(level.label, "o", LEVEL_COLOURS[level], open=True, area=81.0)
            for level in self.scene.levels
        ]
        longest = max((one.time for one in self.scene.spots if one.time > 0), default=math.nan)
        if math.isfinite(longest):
            area = min(diameter(longest), 20.0) ** 2
            keys.append(Key(f"width: time, largest {si(longest, 's', 2)}", "o", INK, True, area))
        return keys

    def _legend(self) -> None:
        self.legend(self._keys(), bbox_to_anchor=None, loc="upper left", fontsize=11, frameon=True)

    def _caption(self) -> str:
        text = caption(self.scene, _WIDTH)
        self.note(text, drop=52.0)
        return text


def _power(value: float, _position: float | None) -> str:
    """Powers of ten as numbers."""
    return f"{value:g}"
