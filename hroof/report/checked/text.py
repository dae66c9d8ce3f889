"""A checked run as text: the verdict, one line per limit, what a reader has to know of them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from hroof.budgets import Check, Row, Verdict, summary
from hroof.budgets.summary import title
from hroof.report.checked.cells import HEADERS, against, facts_of, noise_rule
from hroof.report.grid import Grid, show
from hroof.report.page import console_for, heading, line, panel

if TYPE_CHECKING:
    from rich.console import Console

ORDER = (Verdict.OVER, Verdict.UNKNOWN, Verdict.NOISE, Verdict.OK)


def render(
    found: Check, *, width: int | None = None, color: bool = False, framed: bool = True
) -> str:
    """Write a checked run as text.

    Args:
        found: What came out.
        width: Columns of the terminal; None for that of this terminal.
        color: Use terminal colours.
        framed: Begin with the verdict in a frame.
    """
    stream = io.StringIO()
    console = console_for(stream, width, color)
    if framed:
        panel(console, f"Check: {against(found)}", summary(found))
    rows = ordered(found)
    heading(console, f"Limits: {found.budget.name}")
    show(console, Grid(["what", *HEADERS], [[title(row), *facts_of(row)] for row in rows]))
    _notes(console, rows)
    _caveats(console, found)
    return "\n".join(text.rstrip() for text in stream.getvalue().splitlines()) + "\n"


def ordered(found: Check) -> list[Row]:
    """The rows, those that fail first."""
    return [row for verdict in ORDER for row in found.of(verdict)]


def notes(rows: list[Row]) -> list[str]:
    """What a reader has to know of rows, each note once with those that it is about."""
    about: dict[str, list[str]] = {}
    for row in rows:
        if row.judged.note:
            about.setdefault(row.judged.note, []).append(title(row))
    return [f"{_some(names)}: {note}." for note, names in about.items()]


def _some(names: list[str], most: int = 3) -> str:
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


def _notes(console: Console, rows: list[Row]) -> None:
    for text in notes(rows):
        line(console, f"• {text}")


def _caveats(console: Console, found: Check) -> None:
    heading(console, "Caveats")
    for text in [*found.caveats, noise_rule(found)]:
        line(console, f"• {text}")
