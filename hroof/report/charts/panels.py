"""Small multiples: one Roofline each for forward, backward and optimizer, with the same axes, roofs and areas."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hroof.machine import Machine
from hroof.report.artists import Artists, Drawn
from hroof.report.charts.style import LIGHT, Style
from hroof.report.drawing import Drawing
from hroof.report.labels import group_of
from hroof.report.look import (
    MUTED,
    Key,
    areas,
    caption_of,
    colours,
    legend,
    printable,
    roof_keys,
    some,
    told_apart,
)
from hroof.report.scene import NotDrawn, Scene, Spot, compose, spot
from hroof.roofline import Point
from hroof.units import MemoryLevel, Phase, si

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


@dataclass(frozen=True)
class Panels:
    """What small multiples show.

    Attributes:
        whole: Everything on one chart: the common limits, roofs and areas.
        parts: Phase → what its panel shows.
        times: Phase → its time in seconds, drawn or not.
        others: Names of groups of other phases.
    """

    whole: Scene
    parts: Mapping[Phase, Scene]
    times: Mapping[Phase, float]
    others: tuple[str, ...]


@dataclass(frozen=True)
class PanelArtists(Drawn):
    """What small multiples are made of.

    Attributes:
        figure: The matplotlib figure.
        panels: Phase → the artists of its panel.
        not_drawn: What is left out of all, and why.
        caption: The notes under the panels.
    """

    figure: Figure
    panels: Mapping[Phase, Artists]
    not_drawn: tuple[NotDrawn, ...]
    caption: str


def split(
    points: Sequence[Point],
    machine: Machine | None,
    levels: Sequence[MemoryLevel] | None = None,
) -> Panels:
    """Work out the panels; the colour is the layer group or the kind of work, since the phase is the panel.

    Args:
        points: Groups of launches by phase and whatever else.
        machine: Its ceilings; None: no roofs.
        levels: Show only these memory levels.
    """
    spots: dict[str, list[Spot]] = {}
    times: dict[Phase, float] = {}
    regrouped = [_within_phase(point) for point in points]
    for point, one in zip(points, told_apart(regrouped), strict=True):
        phase = point.key.get("phase", "")
        spots.setdefault(phase, []).append(one)
        if phase in PANELS and point.time > 0:
            times[Phase(phase)] = times.get(Phase(phase), 0.0) + point.time
    whole = compose([one for phase in PANELS for one in spots.get(phase, ())], machine, levels)
    parts = {phase: _part(whole, {one.name for one in spots.get(phase, ())}) for phase in PANELS}
    others = tuple(one.name for key, found in spots.items() if key not in PANELS for one in found)
    return Panels(whole, _labelled(parts), times, others)


def _within_phase(point: Point) -> Spot:
    """A point in the group that it has apart from its phase."""
    rest = {key: value for key, value in point.key.items() if key != "phase"}
    return dataclasses.replace(spot(point), group=group_of(rest))


def _part(whole: Scene, names: set[str]) -> Scene:
    """The groups of one panel on the axes and under the roofs of all."""
    kept = tuple(one for one in whole.spots if one.name in names)
    return dataclasses.replace(
        whole,
        spots=kept,
        levels=tuple(level for level in MemoryLevel if any(level in s.levels for s in kept)),
        not_drawn=(),
        above={name: reason for name, reason in whole.above.items() if name in names},
        zero=(),
    )


def _labelled(parts: Mapping[Phase, Scene]) -> dict[Phase, Scene]:
    """Slopes are named in the first panel, peaks in the last: the roofs are the same in all."""
    first, last = PANELS[0], PANELS[-1]
    return {
        phase: dataclasses.replace(
            scene,
            roofs=tuple(
                roof
                if phase == (first if roof.sloped else last)
                else dataclasses.replace(roof, label="")
                for roof in scene.roofs
            ),
        )
        for phase, scene in parts.items()
    }


class PanelDrawing(Drawing):
    """One of several Rooflines side by side.

    Args:
        scene: What this one shows.
        axes: Where.
        renderer: Measures texts.
        style: The colours.
        whole: What all of them show: the colours, the areas and the legend are its.
        place: Which one from the left this is.
    """

    roof_font = 7.0

    def __init__(
        self, scene: Scene, axes: Axes, renderer: Any, style: Style, whole: Scene, place: int
    ) -> None:
        super().__init__(scene, axes, renderer, style)
        sizes = dict(zip((one.name for one in whole.spots), areas(whole.spots), strict=True))
        self.colours = colours(whole.spots)
        self.areas = [sizes[one.name] for one in scene.spots]
        self.whole, self.place = whole, place

    def _frame(self) -> None:
        super()._frame()
        if self.place > 0:
            self.axes.set_ylabel("")
            self.axes.tick_params(labelleft=False)
        self.frame_labels()

    def heading(self, title: str, subtitle: str, lift: float = 0.0) -> None:
        """The phase and its time, above the middle."""
        self.axes.set_title(printable(title), fontsize=11, fontweight="bold", parse_math=False)

    def _keys(self) -> list[Key]:
        """Once for all, beside the last one."""
        if self.place < len(PANELS) - 1:
            return []
        return [*legend(self.whole), *roof_keys(self.whole)]

    def _caption(self) -> str:
        return ""


def draw(
    panels: Panels,
    axes: Sequence[Axes],
    renderer: Any,
    title: str,
    subtitle: str,
    style: Style = LIGHT,
) -> PanelArtists:
    """Draw the panels.

    Args:
        panels: What to show.
        axes: One for each phase, from the left.
        renderer: Measures texts.
        title: Heading of all.
        subtitle: What stands below it.
        style: The colours.
    """
    found = {}
    for place, (phase, scene) in enumerate(panels.parts.items()):
        drawing = PanelDrawing(scene, axes[place], renderer, style, panels.whole, place)
        time = f" · {si(panels.times[phase], 's')}" if phase in panels.times else ""
        found[phase] = drawing.draw(f"{phase}{time}", "")
        if place == 0:
            Drawing.heading(drawing, title, subtitle, lift=26.0)
        if not scene.spots:
            _say_empty(axes[place], style.shade(MUTED))
    more = [f"In no panel: {some(panels.others)}."] if panels.others else []
    text = caption_of(panels.whole.not_drawn, panels.whole.above, more)
    PanelDrawing(panels.whole, axes[0], renderer, style, panels.whole, 0).note(text)
    figure: Any = axes[0].get_figure()
    return PanelArtists(figure, found, panels.whole.not_drawn, text)


def _say_empty(axes: Axes, colour: str) -> None:
    axes.text(
        0.5, 0.5, "nothing to draw", transform=axes.transAxes, ha="center", fontsize=9, color=colour
    )
