"""Roofline charts as PNG, SVG and PDF."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hroof.machine import Machine
from hroof.report.artists import Artists, Drawn, StripArtists
from hroof.report.charts import panels
from hroof.report.charts.backend import (
    FORMATS,
    axes_at,
    kind_of,
    new_figure,
    renderer_of,
    save_as,
    styled,
)
from hroof.report.charts.choice import PHASES, TIME, USUAL, Choice
from hroof.report.charts.panels import PANELS, PanelArtists
from hroof.report.charts.paper import SIZE, PaperDrawing
from hroof.report.charts.strip import height as strip_height
from hroof.report.charts.style import AS_PAPER, LIGHT, Style, style_of
from hroof.report.charts.time_drawing import TimeArtists, TimeDrawing
from hroof.report.charts.timed import compose_times
from hroof.report.charts.zero_flop import zero_flop_spots
from hroof.report.drawing import Drawing
from hroof.report.look import printable, subtitle, told_apart
from hroof.report.machine_drawing import MachineDrawing, SweepArtists, SweepDrawing
from hroof.report.machine_scene import sweep_scene
from hroof.report.scene import Scene, Spot, compose, spot
from hroof.roofline import Point, points
from hroof.units import MemoryLevel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hroof.profile import Profile

__all__ = [
    "FORMATS",
    "Artists",
    "Choice",
    "Drawn",
    "PanelArtists",
    "Spot",
    "StripArtists",
    "SweepArtists",
    "TimeArtists",
    "composed",
    "draw",
    "draw_file",
    "figure",
    "machine_figure",
    "machine_roofline",
    "phases",
    "roofline",
    "save",
    "svg",
    "sweep",
    "times",
]

_BETWEEN = 0.85
"""Inches between a chart and its strip, for the ticks and names of both."""


def roofline(
    points: Sequence[Point | Spot],
    machine: Machine | None,
    *,
    levels: Sequence[MemoryLevel] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
    strip: Axes | None = None,
    style: str = "light",
) -> Artists:
    """Draw a hierarchical Roofline.

    Args:
        points: Groups of launches. Those without FLOP are in the strip below; without a strip the caption names them.
        machine: Its ceilings; None: no roofs.
        levels: Show only these memory levels.
        title: Heading; None: the name of the machine.
        ax: Draw here instead of on a figure of its own.
        strip: Draw the work without FLOP here; a figure of its own has such a strip where there is such work.
        style: ``light``, ``dark`` or ``paper``.

    Raises:
        MissingError: matplotlib is not installed.
        UsageError: There is no such style.
    """
    look = style_of(style)
    spots = [one if isinstance(one, Spot) else spot(one) for one in points]
    scene = compose(told_apart(spots), machine, levels)
    with styled(look):
        if ax is None:
            ax, strip = _own(scene, look)
        if look is AS_PAPER:
            drawing: Drawing = PaperDrawing(scene, ax, renderer_of(ax), look)
        else:
            drawing = Drawing(scene, ax, renderer_of(ax), look, strip)
        return drawing.draw(title or "Hierarchical Roofline", subtitle(machine))


def times(
    points: Sequence[Point],
    machine: Machine | None,
    *,
    levels: Sequence[MemoryLevel] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
    style: str = "light",
) -> TimeArtists:
    """Draw a time-based Roofline: work and measured time of each group, as bytes and FLOP and as seconds.

    Args:
        points: Groups of launches.
        machine: Its ceilings; without them there is nothing to draw, and the caption says why.
        levels: Choose the level of the bytes among these; None: the farthest that holds most of the time.
        title: Heading; None: what it is.
        ax: Draw here instead of on a figure of its own.
        style: ``light`` or ``dark``.

    Raises:
        MissingError: matplotlib is not installed.
        UsageError: There is no such style.
    """
    look = style_of(Choice(TIME, style).style)
    with styled(look):
        axes = axes_at(new_figure(14.2, 7.6, look), 0.95, 1.25, 8.0, 5.2) if ax is None else ax
        drawing = TimeDrawing(compose_times(points, machine, levels), axes, renderer_of(axes), look)
        return drawing.draw(title or "Time-based Roofline", subtitle(machine))


def phases(
    points: Sequence[Point],
    machine: Machine | None,
    *,
    levels: Sequence[MemoryLevel] | None = None,
    title: str | None = None,
    style: str = "light",
) -> PanelArtists:
    """Draw one Roofline each for forward, backward and optimizer, side by side on the same axes.

    Args:
        points: Groups of launches by phase and, as a rule, by layer.
        machine: Its ceilings; None: no roofs.
        levels: Show only these memory levels.
        title: Heading of all.
        style: ``light`` or ``dark``.

    Raises:
        MissingError: matplotlib is not installed.
        UsageError: There is no such style.
    """
    look = style_of(Choice(PHASES, style).style)
    with styled(look):
        whole = new_figure(17.6, 7.0, look)
        axes = [axes_at(whole, 0.85 + 4.75 * i, 1.2, 4.6, 4.75) for i in range(len(PANELS))]
        heading = (title or "Hierarchical Roofline by phase", subtitle(machine))
        return panels.draw(
            panels.split(points, machine, levels), axes, renderer_of(axes[0]), *heading, look
        )


def composed(
    spots: Sequence[Spot],
    machine: Machine | None,
    make: Callable[[Scene, Axes, Any], Drawing],
    title: str,
    about: str,
) -> Artists:
    """Draw a Roofline in another manner, on a figure of its own.

    Args:
        spots: Groups of launches.
        machine: Its ceilings; None: no roofs.
        make: Makes the drawing from the scene, the axes and a renderer.
        title: Heading.
        about: What stands below it.

    Raises:
        MissingError: matplotlib is not installed.
    """
    with styled():
        axes = _axes()
        return make(compose(spots, machine), axes, renderer_of(axes)).draw(title, about)


def machine_roofline(machine: Machine, *, ax: Axes | None = None) -> Artists:
    """Draw the Roofline of a machine alone: every bandwidth, every floating-point peak, every ridge point.

    What was measured is solid; peaks of counters and of the vendor's data sheet are dashed.

    Args:
        machine: Its ceilings.
        ax: Draw here instead of on a figure of its own.

    Raises:
        MissingError: matplotlib is not installed.
    """
    with styled():
        axes = _axes() if ax is None else ax
        drawing = MachineDrawing(machine, axes, renderer_of(axes))
        return drawing.draw("Roofline of the machine", subtitle(machine))


def sweep(machine: Machine, *, ax: Axes | None = None) -> SweepArtists:
    """Draw the bandwidth over the working set, with its plateaus and the caches that the system tells.

    Args:
        machine: Without a sweep the figure says so.
        ax: Draw here instead of on a figure of its own.

    Raises:
        MissingError: matplotlib is not installed.
    """
    with styled():
        drawing = SweepDrawing(sweep_scene(machine), _axes() if ax is None else ax)
        return drawing.draw("Bandwidth over the working set", printable(machine.name))


def svg(artists: Drawn, *, text: bool = False) -> str:
    """The chart as SVG, the same bytes for the same chart.

    Args:
        artists: The chart.
        text: Keep text as text, for a page that sets the font; else as outlines.
    """
    stream = io.BytesIO()
    with styled(LIGHT, {"svg.fonttype": "none"} if text else {}):
        artists.figure.savefig(stream, format="svg", metadata={"Date": None}, facecolor="auto")
    return stream.getvalue().decode("utf-8")


def draw(
    profile: Profile,
    machine: Machine | None,
    by: Sequence[str] = ("layer", "phase"),
    choice: Choice = USUAL,
) -> Artists | TimeArtists | PanelArtists:
    """Draw a run.

    Args:
        profile: What was collected.
        machine: Its ceilings, or None.
        by: Grouping keys, e.g. ``("block",)``, ``("kernel",)`` or ``("phase",)``.
        choice: Kind, style and levels.

    Raises:
        UsageError: A grouping key is unknown.
        MissingError: matplotlib is not installed.
    """
    if choice.kind == PHASES and "phase" not in by:
        by = (*by, "phase")
    shown = points(profile, machine, by)
    how: dict[str, Any] = {
        "levels": choice.levels, "title": profile.name, "style": choice.style,
    }  # fmt: skip
    if choice.kind == TIME:
        return times(shown, machine, **how)
    if choice.kind == PHASES:
        return phases(shown, machine, **how)
    return roofline([*shown, *zero_flop_spots(profile, machine, by, shown)], machine, **how)


def draw_file(
    profile: Profile,
    machine: Machine | None,
    path: str | Path,
    by: Sequence[str] = ("layer", "phase"),
    choice: Choice = USUAL,
) -> Path:
    """Draw a run into a file; the ending says the format.

    Raises:
        UsageError: The ending is none of png, svg and pdf, or a grouping key is unknown.
        MissingError: matplotlib is not installed.
        OutputError: It cannot be written there.
    """
    kind = kind_of(path)
    return save_as(draw(profile, machine, by, choice).figure, Path(path), kind)


def figure(machine: Machine, path: str | Path) -> Path:
    """Draw a machine into a file: its Roofline, and below it its sweep where it has one.

    Args:
        machine: Its ceilings.
        path: The ending says the format.

    Raises:
        UsageError: The ending is none of png, svg and pdf.
        MissingError: matplotlib is not installed.
        OutputError: It cannot be written there.
    """
    kind = kind_of(path)
    return save_as(machine_figure(machine).figure, Path(path), kind)


def machine_figure(machine: Machine) -> Artists:
    """The Roofline of a machine, and on the same figure below it its sweep where it has one.

    Raises:
        MissingError: matplotlib is not installed.
    """
    if machine.sweep is None:
        return machine_roofline(machine)
    with styled():
        both = new_figure(height=12.6)
        roofs = machine_roofline(machine, ax=both.add_axes((0.068, 0.5, 0.725, 0.44)))
        sweep(machine, ax=both.add_axes((0.068, 0.09, 0.725, 0.3)))
    return roofs


def save(drawn: Figure, path: str | Path) -> Path:
    """Write a figure in hroof's look into a file.

    Raises:
        UsageError: The ending is none of png, svg and pdf.
        OutputError: It cannot be written there.
    """
    return save_as(drawn, Path(path), kind_of(path))


def _axes() -> Axes:
    return new_figure().add_axes((0.068, 0.17, 0.725, 0.745))


def _own(scene: Scene, look: Style) -> tuple[Axes, Axes | None]:
    """Axes on a figure of their own, and below them others for the strip where there is work without FLOP."""
    if look is AS_PAPER:
        width, height = SIZE
        return axes_at(
            new_figure(width, height + 0.5, look), 1.25, 1.4, width - 1.5, height - 1.4
        ), None
    strip = strip_height(scene)
    if not strip:
        return new_figure(look=look).add_axes((0.068, 0.17, 0.725, 0.745)), None
    whole = new_figure(12.0, 7.2 + strip + _BETWEEN, look)
    below = axes_at(whole, 0.816, 1.15, 8.7, strip)
    return axes_at(whole, 0.816, 1.224 + strip + _BETWEEN, 8.7, 5.364), below
