"""Grid: rows and columns of text that fit any terminal without losing a cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hroof.report.plain import clipped, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_ANY_WIDTH = 100_000


@dataclass(frozen=True)
class Grid:
    """A table before it is laid out.

    Attributes:
        headers: One per column.
        rows: Cells, one list per row.
        names: How many leading columns name the row; the others are numbers or facts about it.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1


def show(console: Console, grid: Grid) -> None:
    """Print a grid: as a table where it fits, else every row as a name and a paragraph of facts.

    A table clips long names in the middle; a paragraph has them whole.
    """
    table = _table(grid)
    needed = _natural_width(console, table)
    if needed <= console.width:
        console.print(table)
        return
    from rich.text import Text

    note = f"(narrow terminal: {console.width} columns; as a table this needs {needed})"
    console.print(Text(note, style="dim"))
    for row in grid.rows:
        _paragraph(console, grid, row)


def fits(console: Console, grid: Grid) -> bool:
    """Whether the terminal is wide enough for a grid as a table."""
    return _natural_width(console, _table(grid)) <= console.width


def without(grid: Grid, left_out: Sequence[str]) -> Grid:
    """A grid without some of its columns."""
    kept = [i for i, header in enumerate(grid.headers) if header not in left_out]
    rows = [[row[i] for i in kept] for row in grid.rows]
    return Grid([grid.headers[i] for i in kept], rows, grid.names)


def _table(grid: Grid) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for number, header in enumerate(grid.headers):
        left = number < grid.names
        table.add_column(Text(header), justify="left" if left else "right", no_wrap=True)
    for row in grid.rows:
        names = [clipped(visible(cell)) for cell in row[: grid.names]]
        table.add_row(*map(Text, [*names, *map(visible, row[grid.names :])]))
    return table


def _natural_width(console: Console, table: Table) -> int:
    from rich.measure import Measurement

    options = console.options.update(width=_ANY_WIDTH)
    return Measurement.get(console, options, table).maximum


def _paragraph(console: Console, grid: Grid, row: Sequence[str]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    name = visible(" · ".join(row[: grid.names]))
    facts = zip(grid.headers[grid.names :], row[grid.names :], strict=True)
    console.print(Text(name, style="bold", overflow="fold"))
    for line in _packed([visible(f"{header} {cell}") for header, cell in facts], console.width - 2):
        console.print(Padding(Text(line, overflow="fold"), (0, 0, 0, 2)))


def _packed(facts: Sequence[str], width: int) -> list[str]:
    """Facts joined to lines that fit; a fact is never broken unless it is wider than a line."""
    lines: list[str] = []
    for fact in facts:
        joined = f"{lines[-1]} · {fact}" if lines else fact
        if lines and len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(fact)
    return lines
