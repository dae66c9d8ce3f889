"""Artists: what a drawn Roofline is made of, for who wants to change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hroof.report.scene import NotDrawn
from hroof.units import MemoryLevel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Drawn:
    """A chart that was drawn; a notebook shows it.

    Attributes:
        figure: The matplotlib figure.
    """

    figure: Figure

    def save(self, path: str | Path) -> Path:
        """Write it into a file; the ending says the format.

        Raises:
            UsageError: The ending is none of png, svg and pdf.
            OutputError: It cannot be written there.
        """
        from hroof.report.chart import save

        return save(self.figure, path)

    def _repr_svg_(self) -> str:
        from hroof.report.chart import svg

        return svg(self)


@dataclass(frozen=True)
class StripArtists:
    """What the strip of work without FLOP is made of.

    Attributes:
        axes: Its axes: B/s, and one row per group.
        roofs: Vertical lines by level, e.g. ``dram``.
        markers: Per level, one marker for each name in ``names``.
        names: Per level, the groups that are drawn, longest time first.
        joins: Name → the line that joins its levels.
        labels: Name → its label.
    """

    axes: Axes
    roofs: Mapping[str, Any]
    markers: Mapping[MemoryLevel, tuple[Any, ...]]
    names: Mapping[MemoryLevel, tuple[str, ...]]
    joins: Mapping[str, Any]
    labels: Mapping[str, Any]


@dataclass(frozen=True)
class Artists(Drawn):
    """What a chart is made of.

    Attributes:
        figure: The matplotlib figure.
        axes: Its axes.
        roofs: Lines by ceiling, e.g. ``dram`` or ``matrix_fp32``.
        markers: Per level, one marker for each name in ``names``.
        names: Per level, the groups that are drawn, longest time first.
        joins: Name → the line that joins its levels.
        labels: Name → its label, where there was room for one.
        not_drawn: What is left out, and why.
        above: Name → why it may lie above a roof; each has a warning sign.
        caption: The notes under the chart.
        strip: What the strip of work without FLOP is made of; None where there is none.
    """

    figure: Figure
    axes: Axes
    roofs: Mapping[str, Any]
    markers: Mapping[MemoryLevel, tuple[Any, ...]]
    names: Mapping[MemoryLevel, tuple[str, ...]]
    joins: Mapping[str, Any]
    labels: Mapping[str, Any]
    not_drawn: tuple[NotDrawn, ...]
    above: Mapping[str, str]
    caption: str
    strip: StripArtists | None = None
