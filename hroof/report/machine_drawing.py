"""Drawing of a machine's own figures on axes that somebody else made; only their methods are used."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hroof.report.artists import Drawn
from hroof.report.charts.canvas import si_tick
from hroof.report.drawing import Drawing
from hroof.report.look import ALARM, FAINT, GRID, INK, MUTED, PAPER, Key, printable
from hroof.report.machine_scene import (
    REACHABLE,
    SweepScene,
    machine_scene,
    ridge_lines,
    ridge_points,
    sheet_lines,
)
from hroof.units import MemoryLevel, si

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hroof.machine import Machine

_PLATEAU = "#d55e00"
_WIDTH, _COLUMN = 170, 31


@dataclass(frozen=True)
class SweepArtists(Drawn):
    """What the figure of a sweep is made of.

    Attributes:
        figure: The matplotlib figure.
        axes: Its axes.
        curve: The line through the measured points; None where there are none.
        plateaus: Lines by name, e.g. ``l2``.
        ceilings: Lines by level: what the best kernel reached.
        caches: Vertical lines by level: the sizes that the system tells.
        caption: The notes under the figure.
    """

    figure: Figure
    axes: Axes
    curve: Any
    plateaus: Mapping[str, Any]
    ceilings: Mapping[str, Any]
    caches: Mapping[MemoryLevel, Any]
    caption: str


class MachineDrawing(Drawing):
    """The Roofline of a machine alone.

    Args:
        machine: The machine.
        axes: Where.
        renderer: Measures texts.
    """

    def __init__(self, machine: Machine, axes: Axes, renderer: Any) -> None:
        super().__init__(machine_scene(machine), axes, renderer)
        self._machine = machine

    def _ridge(self) -> None:
        """Mark every ridge point, and the main one with its intensity."""
        for x, y in ridge_points(self._machine):
            self.axes.plot([x], [y], "o", color=MUTED, mfc=PAPER, markersize=3.5, zorder=2.5)
        super()._ridge()

    def _keys(self) -> list[Key]:
        sheet = sheet_lines(self._machine)
        blocks = [
            ("Ridge points in FLOP/byte", ridge_lines(self._machine)),
            ("Dashed: data sheet", sheet),
        ]
        if any("≥" in roof.label for roof in self.scene.roofs):
            blocks.append((REACHABLE, []))
        keys = []
        for heading, lines in blocks:
            if lines or heading == REACHABLE:
                keys += [
                    Key("\n".join(textwrap.wrap(heading, _COLUMN)), "None" if not lines else "")
                ]
            keys += [Key(_hanging(line), "None") for line in lines]
        return keys


def _hanging(line: str) -> str:
    """A text in several lines, never broken between a name and its number."""
    name, _, values = line.partition(": ")
    kept = values.replace(" ", "\u00a0").replace(",\u00a0", ", ")
    text = f"{name}: {kept}" if kept else name
    return "\n".join(textwrap.wrap(text, _COLUMN, subsequent_indent="   "))


class SweepDrawing:
    """A sweep in the making.

    Args:
        scene: What to show; None: a machine without a sweep, and the figure says so.
        axes: Where; nothing else of the figure is touched.
    """

    def __init__(self, scene: SweepScene | None, axes: Axes) -> None:
        self.scene, self.axes = scene, axes
        self.figure: Any = axes.get_figure()

    def draw(self, title: str, subtitle: str) -> SweepArtists:
        """Draw everything."""
        place: dict[str, Any] = {"transform": self.axes.transAxes, "parse_math": False}
        self.axes.text(0, 1.085, printable(title), fontsize=14, fontweight="bold", **place)
        self.axes.text(0, 1.03, subtitle, fontsize=9.5, color=MUTED, **place)
        scene = self.scene
        if scene is None:
            self.axes.set_axis_off()
            self.axes.text(0, 0.9, "No sweep was measured.", fontsize=10, va="top", **place)
            return SweepArtists(self.figure, self.axes, None, {}, {}, {}, "")
        self._frame(scene)
        caches = {level: self._cache(level, size) for level, size in scene.caches.items()}
        (curve,) = self.axes.plot(
            scene.sizes, scene.rates, color=INK, linewidth=1, marker="o", markersize=3.5, zorder=3,
            gid="sweep", label="best of all samples",
        )  # fmt: skip
        plateaus = {step.key: self._plateau(scene, step.key) for step in scene.steps}
        ceilings = {step.key: self._ceiling(scene, step.key) for step in scene.ceilings}
        self._legend(scene)
        caption = "\n".join(
            textwrap.wrap(printable(" ".join([scene.about, *scene.doubts])), _WIDTH)
        )
        self.axes.text(-0.06, -0.15, caption, fontsize=7.5, color=MUTED, va="top", **place)
        return SweepArtists(self.figure, self.axes, curve, plateaus, ceilings, caches, caption)

    def _frame(self, scene: SweepScene) -> None:
        axes = self.axes
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(*scene.xlim)
        axes.set_ylim(*scene.ylim)
        axes.set_xlabel(f"Working set per {scene.each} [B]", fontsize=10)
        axes.set_ylabel("Bandwidth [B/s]", fontsize=10)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(si_tick)
            axis.set_minor_formatter("")
        axes.grid(which="major", color=GRID, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)

    def _cache(self, level: MemoryLevel, size: int) -> Any:
        """Where the system says that a cache ends."""
        line = self.axes.axvline(size, color=FAINT, linewidth=1, linestyle="--", zorder=1)
        line.set_gid(f"cache-{level}")
        self.axes.annotate(
            f"{level.label} {si(size, 'B')}", (size, 1), (-3, -3), xycoords=("data", "axes fraction"),
            textcoords="offset points", rotation=90, ha="right", va="top", fontsize=8, color=MUTED,
        )  # fmt: skip
        return line

    def _plateau(self, scene: SweepScene, key: str) -> Any:
        step = next(one for one in scene.steps if one.key == key)
        (line,) = self.axes.plot(
            [step.first, step.last], [step.rate] * 2, color=_PLATEAU, linewidth=3, alpha=0.55,
            solid_capstyle="butt", zorder=2, gid=f"plateau-{key}",
        )  # fmt: skip
        self.axes.annotate(
            step.label, (step.first, step.rate), (4, -14), textcoords="offset points",
            fontsize=8.5, fontweight="bold", color=_PLATEAU, zorder=5,
        )  # fmt: skip
        return line

    def _ceiling(self, scene: SweepScene, key: str) -> Any:
        step = next(one for one in scene.ceilings if one.key == key)
        (line,) = self.axes.plot(
            [max(step.first, scene.xlim[0]), step.last], [step.rate] * 2, color=ALARM,
            linewidth=1, linestyle=":", zorder=2.2, gid=f"ceiling-{key}",
        )  # fmt: skip
        return line

    def _legend(self, scene: SweepScene) -> None:
        samples: list[Any] = []
        styles: tuple[dict[str, Any], ...] = (
            {"color": INK, "marker": "o", "markersize": 3.5, "linewidth": 1},
            {"color": _PLATEAU, "linewidth": 3, "alpha": 0.55},
            {"color": ALARM, "linewidth": 1, "linestyle": ":"},
            {"color": FAINT, "linewidth": 1, "linestyle": "--"},
        )
        for style in styles:
            (line,) = self.axes.plot([], [], **style)
            samples.append(line)
            line.remove()
        texts = [
            "best of all samples",
            "plateau",
            "ceiling: best kernel",
            f"cache per {scene.each},\nas the system tells",
        ]
        self.axes.legend(
            samples, texts, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False,
            fontsize=8.5, borderaxespad=0.0,
        )  # fmt: skip
