"""Which chart of a run is drawn: its kind, its style, its memory levels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hroof.errors import UsageError
from hroof.units import MemoryLevel

ROOFLINE, TIME, PHASES = "roofline", "time", "phases"
KINDS = (ROOFLINE, TIME, PHASES)
LIGHT, DARK, PAPER = "light", "dark", "paper"
STYLE_NAMES = (LIGHT, DARK, PAPER)
CHARTS = (".png", ".svg", ".pdf")
"""Suffixes of files that are a chart."""


@dataclass(frozen=True)
class Choice:
    """What a user wants to see of a run.

    Attributes:
        kind: ``roofline``; ``time``, the same bounds as times; ``phases``, one Roofline per phase side by side.
        style: ``light``, ``dark`` or ``paper``.
        levels: Only these memory levels; None: all. Of a chart of times the first that is there.

    Raises:
        UsageError: There is no such kind, style or level, or no such kind in that style.
    """

    kind: str = ROOFLINE
    style: str = LIGHT
    levels: tuple[MemoryLevel, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"There is no chart {self.kind!r}.", f"Known: {', '.join(KINDS)}.")
        if self.style not in STYLE_NAMES:
            raise UsageError(
                f"There is no style {self.style!r}.", f"Known: {', '.join(STYLE_NAMES)}."
            )
        if self.style == PAPER and self.kind != ROOFLINE:
            raise UsageError(
                f"A chart of kind {self.kind!r} has no style 'paper'.",
                "The paper's style is one for the plain Roofline: leave the kind out.",
            )


USUAL = Choice()


def levels_of(names: Iterable[str]) -> tuple[MemoryLevel, ...]:
    """Memory levels by their names, in the order of the machine.

    Raises:
        UsageError: There is no such level, or no name.
    """
    chosen = [name.strip().lower() for name in names if name.strip()]
    known = {str(level) for level in MemoryLevel}
    wrong = [name for name in chosen if name not in known]
    if wrong or not chosen:
        fact = f"There is no memory level {wrong[0]!r}." if wrong else "No memory level is named."
        raise UsageError(fact, f"Known: {', '.join(MemoryLevel)}.")
    return tuple(level for level in MemoryLevel if level in chosen)
