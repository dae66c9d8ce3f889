"""Canvas: texts, labels, headings and legends on axes that somebody else made; only their methods are used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hroof.report.charts.style import LIGHT, Style
from hroof.report.look import FAINT, GRID, MUTED, PAPER, Key, printable, short
from hroof.report.place import Box, Layout, around
from hroof.units import si

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NO_LINE = "none"


class Canvas:
    """Axes, and what is taken on them.

    Args:
        axes: Where; nothing else of the figure is touched.
        renderer: Measures texts. Of its own, since a figure that a user gave may have any canvas.
        style: The colours.
    """

    def __init__(self, axes: Axes, renderer: Any, style: Style = LIGHT) -> None:
        self.axes, self.renderer, self.style = axes, renderer, style
        self.figure: Any = axes.get_figure()
        self.layout = Layout(Box(0, 0, 0, 0))

    def shade(self, colour: str) -> str:
        """The colour of this style that stands for one of the light style."""
        return self.style.shade(colour)

    def log_axes(
        self, xlim: tuple[float, float], ylim: tuple[float, float], xlabel: str, ylabel: str
    ) -> None:
        """Logarithmic axes with limits and labels, a grid, and room for labels inside."""
        axes = self.axes
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(*xlim)
        axes.set_ylim(*ylim)
        axes.set_xlabel(xlabel, fontsize=10)
        axes.set_ylabel(ylabel, fontsize=10)
        axes.grid(which="major", color=self.shade(GRID), linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        if self.style is not LIGHT:
            axes.set_facecolor(self.shade(PAPER))
        self.frame_labels()

    def frame_labels(self) -> None:
        """Labels stay within the axes as they are now."""
        box = self.axes.get_window_extent(self.renderer)
        self.layout = Layout(Box(box.x0 + 2, box.y0 + 2, box.x1 - 2, box.y1 - 2))

    def ticks(self, x: Any, y: Any) -> None:
        """Functions that write the ticks of the two axes."""
        for axis, tick in ((self.axes.xaxis, x), (self.axes.yaxis, y)):
            axis.set_major_formatter(tick)
            axis.set_minor_formatter("")

    def pixel(self, x: float, y: float) -> tuple[float, float]:
        """Where data coordinates lie on the figure."""
        px, py = self.axes.transData.transform((x, y))
        return float(px), float(py)

    def heading(self, title: str, subtitle: str, lift: float = 0.0) -> None:
        """Title and subtitle above the axes, ``lift`` points higher than usual."""
        place: dict[str, Any] = {
            "xycoords": "axes fraction",
            "textcoords": "offset points",
            "parse_math": False,
            "annotation_clip": False,
        }
        self.axes.annotate(
            printable(title), (0, 1), (0, 21 + lift), fontsize=14, fontweight="bold", **place
        )
        self.axes.annotate(
            subtitle, (0, 1), (0, 8 + lift), fontsize=9.5, color=self.shade(MUTED), **place
        )

    def note(self, text: str, below: Axes | None = None, drop: float = 40.0) -> None:
        """Small text under the axes (or under others), that many points below them."""
        (below or self.axes).annotate(
            text, (0, 0), (-37, -drop), xycoords="axes fraction", textcoords="offset points",
            fontsize=7.5, color=self.shade(MUTED), va="top", parse_math=False,
            annotation_clip=False,
        )  # fmt: skip

    # --- texts and labels

    def text(
        self, text: str, at: tuple[float, float], offset: tuple[float, float], **more: Any
    ) -> Any:
        """Text at data coordinates, shifted by points, so that any resolution looks the same."""
        style: dict[str, Any] = {"fontsize": 8, "parse_math": False, "annotation_clip": False}
        return self.axes.annotate(text, at, offset, textcoords="offset points", **style | more)

    def move(self, text: Any, pixel: tuple[float, float]) -> None:
        """Put the lower left corner of a text at a pixel."""
        text.xy = tuple(self.axes.transData.inverted().transform(pixel))
        text.set(va="bottom")

    def label(
        self, name: str, anchors: Sequence[tuple[float, float]], gap: float, after: str = ""
    ) -> Any:
        """A short name, and what comes after it, beside one of its anchors (pixels); None where there is no room."""
        text = self.text(short(name) + after, (1, 1), (0, 0), fontsize=8.5, zorder=6)
        extent = text.get_window_extent(self.renderer)
        size = (extent.width + 4, extent.height + 2)
        rounds = zip(*(around(*anchor, *size, gap) for anchor in anchors), strict=True)
        choices = ((a, box) for boxes in rounds for a, box in zip(anchors, boxes, strict=True))
        anchor, box = next((c for c in choices if self.layout.free([c[1]])), (None, None))
        if anchor is None or box is None:
            text.remove()
            return None
        self.layout.take(box)
        self.move(text, (box.x0 + 2, box.y0 + 1))
        self._leader(anchor, box, gap)
        return text

    def _leader(self, anchor: tuple[float, float], box: Box, gap: float) -> None:
        """A thin line from a label to its marker where the two lie apart."""
        nearest = min(max(anchor[0], box.x0), box.x1), min(max(anchor[1], box.y0), box.y1)
        if math.dist(anchor, nearest) < gap + 6:
            return
        self.stroke(anchor, nearest, color=self.shade(FAINT), linewidth=0.6, zorder=3.5)

    def stroke(self, start: tuple[float, float], end: tuple[float, float], **more: Any) -> Any:
        """A line between two pixels."""
        xs, ys = zip(*self.axes.transData.inverted().transform((start, end)), strict=True)
        (line,) = self.axes.plot(xs, ys, **more)
        return line

    # --- legend

    def legend(self, keys: Sequence[Key], right: float = 1.01, **more: Any) -> None:
        """What shapes, colours, signs and areas mean, to the right of the axes."""
        if not keys:
            return
        usual: dict[str, Any] = {
            "loc": "upper left",
            "bbox_to_anchor": (right, 1.0),
            "frameon": False,
            "fontsize": 8.5,
            "labelspacing": 0.7,
            "handletextpad": 0.6,
            "borderaxespad": 0.0,
        }
        box = self.axes.legend(
            [self._handle(key) for key in keys], [key.text for key in keys], **usual | more
        )
        for key, text in zip(keys, box.get_texts(), strict=True):
            text.set(parse_math=False, fontweight="normal" if key.shape else "bold")

    def _handle(self, key: Key) -> Any:
        colour, paper = self.shade(key.colour), self.shade(PAPER)
        outer = self._sample(key.shape or _NO_LINE, math.sqrt(key.area))
        outer.set(
            color=colour,
            linestyle=key.line or _NO_LINE,
            linewidth=1,
            markerfacecolor=paper if key.open else colour,
            markeredgecolor=colour if key.open else paper,
        )
        if not key.mark:
            return outer
        inner = self._sample(key.mark, 0.6 * math.sqrt(key.area))
        inner.set(linestyle=_NO_LINE, markeredgecolor=colour if key.open else paper)
        return outer, inner

    def _sample(self, marker: str, size: float) -> Any:
        (line,) = self.axes.plot([], [], marker=marker, markersize=size)
        line.remove()
        return line


def plain_tick(value: float, _position: float | None) -> str:
    """A number as it is: ``0.01``."""
    return f"{value:g}"


def si_tick(value: float, _position: float | None) -> str:
    """A power of ten with an SI prefix: ``100 G``."""
    return si(value, "", 1 + round(math.log10(value)) % 3)
