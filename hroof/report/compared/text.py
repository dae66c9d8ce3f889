"""The text of a comparison: verdict, what can be compared, the largest changes, what is new or gone."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hroof.compare import Change, Comparison, Difference, Side, conditions, summary
from hroof.compare.noise import RULE
from hroof.compare.summary import signed
from hroof.findings import Verdict, warnings
from hroof.report.compared import cells
from hroof.report.grid import Grid, fits, show, without
from hroof.report.page import console_for, heading, line, panel
from hroof.units import si

if TYPE_CHECKING:
    from rich.console import Console

TOP = 12
_NARROWER = ((), ("work",), ("work", "× as fast"), ("work", "× as fast", "headroom"))
"""Columns to leave out, one after the other, until the table fits."""
CONVENTIONS = (
    "Numbers are those of the median step of each run, the same step for every row, so that rows add up (hroof report "
    "takes the median row by row). Δ is NEW − BASE; × as fast is BASE ÷ NEW; – is not known, never zero."
)


def render(
    found: Comparison,
    *,
    top: int = TOP,
    full: bool = False,
    width: int | None = None,
    color: bool = False,
) -> str:
    """Write a comparison as text.

    Args:
        found: What was compared.
        top: How many rows of layers and of kernels to show; 0 for all. The rest is named by number and time. What is
            new or gone is named in any case.
        full: Show FLOP and bytes at every level, and the warnings of both runs.
        width: Columns of the terminal; None for that of this terminal.
        color: Use terminal colours.
    """
    stream = io.StringIO()
    console = console_for(stream, width, color)
    _head(console, found)
    for kind, rows in found.tables().items():
        _table(console, found, kind, rows, top=0 if kind == "phase" else top, full=full)
    _foot(console, found, full)
    return "\n".join(text.rstrip() for text in stream.getvalue().splitlines()) + "\n"


def _head(console: Console, found: Comparison) -> None:
    said = summary(found)
    panel(
        console,
        f"Verdict: {found.base.name} (BASE) → {found.new.name} (NEW)",
        Verdict(said.text, said.why, said.next, said.supported),
    )
    for name, card in zip(("BASE", "NEW"), cards(found), strict=True):
        line(console, f"{name} {card}")
    about = conditions(found)
    if about:
        heading(console, "What differs beside the times")
    for text in about:
        line(console, f"• {text}")


def cards(found: Comparison) -> list[str]:
    """Each run in one line: what, where, how much."""
    sides = zip(
        (found.base, found.new), found.total.times, found.walls, found.total.flops, strict=True
    )
    return [_card(*facts) for facts in sides]


def _card(side: Side, time: float, wall: float, flop: float) -> str:
    run, count = side.profile.run, side.profile.step_count
    device = f"{run.get('device_name') or ''} ({run.get('device') or 'unknown device'})".strip()
    steps = f"{count} captured step{'' if count == 1 else 's'}"
    times = f"launches {si(time, 's')}, wall {si(wall, 's')}"
    framework = str(run.get("framework") or "unknown framework")
    return " · ".join([side.name, framework, device, steps, times, si(flop, "FLOP")])


def _table(
    console: Console,
    found: Comparison,
    kind: str,
    rows: Sequence[Difference],
    *,
    top: int,
    full: bool,
) -> None:
    heading(console, f"By {kind}, largest change first")
    shown = list(rows[:top] if top > 0 else rows)
    names = dict(zip(map(id, rows), cells.named(rows), strict=True))
    if kind == "phase":
        shown, names = [found.total, *shown], names | {id(found.total): "whole step"}
    grid = cells.full if full else cells.brief
    if shown:
        _show(console, grid(kind, shown, [names[id(row)] for row in shown]))
    _left_out(console, rows[top:] if top > 0 else [])
    text = cells.sums(found, rows)
    if text:
        line(console, f"All: {text}")
    for change, title in ((Change.GONE, "Only in BASE"), (Change.NEW, "Only in NEW")):
        alone = [names[id(row)] for row in rows if row.change is change]
        if alone:
            line(console, f"{title}: {', '.join(alone)}.")


def _show(console: Console, grid: Grid) -> None:
    """The table, on a narrow terminal without its last columns; where these are not enough, as paragraphs."""
    for left_out in _NARROWER:
        narrow = without(grid, left_out)
        if fits(console, narrow):
            show(console, narrow)
            there = [name for name in left_out if name in grid.headers]
            if there:
                line(console, f"(narrow terminal: without {', '.join(there)})")
            return
    show(console, grid)


def _left_out(console: Console, rows: Sequence[Difference]) -> None:
    if rows:
        time = math.fsum(row.time for row in rows if not math.isnan(row.time))
        kinds = ", ".join(_counted(rows))
        line(console, f"and {len(rows)} more ({kinds}), Δ {signed(time)}; --top 0 shows all.")


def _counted(rows: Iterable[Difference]) -> list[str]:
    counts: dict[Change, int] = {}
    for row in rows:
        counts[row.change] = counts.get(row.change, 0) + 1
    return [f"{counts[change]} {cells.SIGNS[change]}" for change in Change if change in counts]


def _foot(console: Console, found: Comparison, full: bool) -> None:
    heading(console, "How to read it")
    for text in (RULE, CONVENTIONS):
        line(console, f"• {text}")
    if not full:
        line(console, "--full shows FLOP and bytes at every level, and the warnings of both runs.")
        return
    heading(console, "Caveats")
    sides = (found.base, found.new)
    for text in caveats(*(warnings(side.profile, side.machine) for side in sides)):
        line(console, f"• {text}")


def caveats(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """The warnings of both runs, each once, with whose it is."""
    both = [text for text in before if text in after]
    said = [f"Both: {text}" for text in both]
    said += [f"BASE: {text}" for text in before if text not in both]
    said += [f"NEW: {text}" for text in after if text not in both]
    return said or ["None."]
