"""Styles of charts: what each colour of the light style is in another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hroof.report.charts import choice
from hroof.report.charts.choice import Choice
from hroof.report.look import (
    ALARM,
    COMPUTE_ZONE,
    FAINT,
    GRID,
    INK,
    MEMORY_ZONE,
    MUTED,
    PAPER,
)


@dataclass(frozen=True)
class Style:
    """How a chart looks.

    Attributes:
        name: What a user types.
        shades: Colour of the light style → colour of this one; others stay.
    """

    name: str
    shades: Mapping[str, str] = field(default_factory=dict)

    def shade(self, colour: str) -> str:
        """The colour that stands for one of the light style."""
        return self.shades.get(colour, colour)

    def settings(self) -> dict[str, Any]:
        """What matplotlib has to know before anything is made."""
        ink, muted, paper = self.shade(INK), self.shade(MUTED), self.shade(PAPER)
        return {
            "font.family": "DejaVu Sans",
            "font.size": 9.0,
            "text.color": ink,
            "axes.edgecolor": self.shade(FAINT),
            "axes.labelcolor": ink,
            "axes.facecolor": paper,
            "figure.facecolor": paper,
            "xtick.color": muted,
            "ytick.color": muted,
            "svg.hashsalt": "hroof",
            "svg.fonttype": "path",
            "pdf.fonttype": 42,
            "path.simplify": False,
        }


LIGHT = Style(choice.LIGHT)
DARK = Style(
    choice.DARK,
    {
        INK: "#e6e9ee",
        MUTED: "#a9b2bf",
        FAINT: "#6b7482",
        GRID: "#2c333d",
        PAPER: "#171b21",
        MEMORY_ZONE: "#162433",
        COMPUTE_ZONE: "#2a2118",
        ALARM: "#ff8a7a",
        "#0072b2": "#4ba3e3",
        "#d55e00": "#f58442",
        "#009e73": "#2fcf9f",
        "#cc79a7": "#e8a6cb",
        "#e69f00": "#f4c04f",
        "#7f7f7f": "#a3a3a3",
        "#56b4e9": "#b9b1ff",
        "#a6761d": "#cfa75a",
    },
)
"""The colours of the page in the dark, and lighter ones for phases and layer groups."""
AS_PAPER = Style(choice.PAPER)
"""The figures of arXiv 2009.05257: black roofs, open circles, blue L1, red L2, green DRAM."""
STYLES = {style.name: style for style in (LIGHT, DARK, AS_PAPER)}


def style_of(name: str) -> Style:
    """The style of a name.

    Raises:
        UsageError: There is none.
    """
    return STYLES[Choice(style=name).style]
