"""A checked run as text: the verdict, one line per limit, what a reader has to know of them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from hroof.budgets import Check, Row, summary
from hroof.report.checked.cells import NAMES, against, facts_of, headers, names_of, noise_rule
from hroof.report.checked.choice import TOP, chosen, left_out, notes
from hroof.report.grid import Grid, show
from hroof.report.page import console_for, heading, line, panel

if TYPE_CHECKING:
    from rich.console import Console


def render(
    found: Check,
    *,
    top: int = TOP,
    width: int | None = None,
    color: bool = False,
    framed: bool = True,
) -> str:
    """Write a checked run as text.

    Args:
        found: What came out.
        top: How many limits of each outcome; 0 for all. The others are counted.
        width: Columns of the terminal; None for that of this terminal.
        color: Use terminal colours.
        framed: Begin with the verdict in a frame.
    """
    stream = io.StringIO()
    console = console_for(stream, width, color)
    if framed:
        panel(console, f"Check: {against(found)}", summary(found))
    rows = chosen(found, top)
    heading(console, f"Limits: {found.budget.name}")
    cells = [[*names_of(row), *facts_of(row)] for row in rows]
    show(console, Grid(headers(found), cells, len(NAMES)))
    if left := left_out(found, rows):
        line(console, f"{left} (--top 0 shows all).")
    _notes(console, rows)
    _caveats(console, found)
    return "\n".join(text.rstrip() for text in stream.getvalue().splitlines()) + "\n"


def _notes(console: Console, rows: list[Row]) -> None:
    for text in notes(rows):
        line(console, f"• {text}")


def _caveats(console: Console, found: Check) -> None:
    heading(console, "Caveats")
    for text in [*found.caveats, noise_rule(found)]:
        line(console, f"• {text}")
