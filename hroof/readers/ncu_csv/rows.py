"""The rows of a table as columns: fast where the table is regular, with care where it is not.

Regular is a table of which every line is a row in quotes: pyarrow reads it. Lines of the program
between the rows, line feeds and stray quotes in the names of NVTX ranges, and tables that people
wrote again are read row by row. Either way a row that is not whole is left out and reported.
"""

from __future__ import annotations

import csv
import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hroof.readers.ncu_csv import ranges
from hroof.readers.ncu_csv.lines import Table
from hroof.readers.ncu_csv.records import Records
from hroof.readers.ncu_csv.values import MISSING, PLAIN

if TYPE_CHECKING:
    import pyarrow as pa

IDENTIFYING = frozenset(
    {
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "Device Id", "CC", "Section Name", "Body Item Label", "Metric Name",
        "Metric Unit", "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type",
        "Estimated Speedup", "Domain", "Invocations", "Count",
    }
)  # fmt: skip
"""Columns that say which launch and which metric; what is no metric and not one of these is ignored."""

_GROUPED = re.compile(rb'"\d{1,3},\d{3}[",.]')
_NEXT = re.compile(rb'"\d+","\d+",')
_LOOK = 1 << 15
"""Bytes of a table in which numbers with separators of thousands show."""
_PIECE = 1 << 17
"""Bytes that are worked on at a time where they have to stay in the cache."""
_BLOCK = 1 << 20
"""Bytes of a table that one thread reads."""


@dataclass(frozen=True)
class Rows:
    """The rows of one table.

    Attributes:
        table: The table that they are from.
        columns: One array per column of the header, by place: texts, or numbers where all are.
        units: What the row of units says, by place; empty where there is no such row.
        lines: The line of each row below the header, the first being 0; empty where rows are lines.
        cut: The last row was not whole and is left out.
        problems: What was left out or repaired.
    """

    table: Table
    columns: tuple[pa.ChunkedArray, ...]
    units: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    cut: bool = False
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.columns[0])

    def where(self, row: int) -> str:
        """The place of a row, for a message."""
        line = self.lines[row] if self.lines else row + bool(self.units)
        return self.table.where(line)

    @functools.cached_property
    def grouped(self) -> bool:
        """Whether every comma between two digits, anywhere in the table, has exactly three digits behind it.

        Commas in numbers can then only be separators of thousands.
        """
        text = np.frombuffer(self.table.body + b"    ", np.uint8)
        digit = (text - ord("0")) < 10
        commas = (text[1:-4] == ord(",")) & digit[:-5] & digit[2:-3]
        return not (commas & ~(digit[3:-2] & digit[4:-1] & ~digit[5:])).any()

    def place(self, name: str) -> int | None:
        """The place of a column; None where the table has none of that name."""
        return self.table.header.index(name) if name in self.table.header else None

    def texts(self, at: int | None) -> list[str]:
        """A column as texts, empty where there is none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if at is None:
            return [""] * len(self)
        values = pc.fill_null(pc.cast(self.columns[at], pa.string()), "")
        result: list[str] = values.to_pylist()
        return result


def read_rows(table: Table, *, texts: bool = False) -> Rows:
    """The rows of a table.

    Args:
        table: The table.
        texts: Leave numbers as texts.
    """
    rows = None if texts else _regular(table)
    return rows if rows is not None else _careful(table)


# --- regular tables -----------------------------------------------------------------------------


def _regular(table: Table) -> Rows | None:
    """The rows of a table of which every line is a row; None for any other table."""
    data, start, stop = table.data, table.start, _end_of_rows(table)
    if not table.quoted or table.delimiter != "," or not stop:
        return None
    first = next(csv.reader([data[start : data.find(b"\n", start)].decode()]))
    width = len(first)
    if not 0 < width <= len(table.header):
        return None
    units = tuple(first) if first[0] == "" else ()
    lines = data.count(b"\n", start, stop)
    if _GROUPED.search(data, start, min(stop, start + _LOOK)):
        data = without_groups(data[start:stop])
        start, stop = 0, len(data)
    read = _arrow(data, start, stop, table.header[:width], skip=bool(units))
    if read is None or not _well_read(table, read, lines - bool(units)):
        return None
    read.pop()
    full = read + [_empty(len(read[0]))] * (len(table.header) - width)
    return Rows(table, tuple(full), units)


def _end_of_rows(table: Table) -> int:
    """Where the line of the last row ends; 0 where that row is not whole or another one is behind it."""
    last = table.data.rfind(b'\n"', table.start - 1, table.stop) + 1
    end = table.data.find(b"\n", last, table.stop) + 1
    odd = last < table.start or table.data.count(b'"', last, end) % 2
    return 0 if odd or _NEXT.search(table.data, end, table.stop) else end


def without_groups(body: bytes) -> bytes:
    """Rows without the separators of thousands in fields that begin with a number.

    Names of kernels and shapes of grids keep their commas; so does a number that has them elsewhere
    than in front of exactly three digits.
    """
    pieces, start = [], 0
    while start < len(body):  # pieces of whole lines that stay in the cache
        end = (
            body.rfind(b"\n", start, start + _PIECE) + 1 or body.find(b"\n", start) + 1 or len(body)
        )
        pieces.append(_without_groups(body[start:end]))
        start = end
    return b"".join(pieces)


def _without_groups(body: bytes) -> bytes:
    text = np.frombuffer(b"    " + body + b"    ", np.uint8)
    digit = (text - ord("0")) < 10
    quote = text == ord('"')

    def at(flags: NDArray[Any], step: int) -> NDArray[Any]:
        return flags[4 + step : len(flags) - 4 + step]

    drop = at(text == ord(","), 0) & at(digit, -1) & at(digit, 1) & at(digit, 2) & at(digit, 3)
    drop &= ~at(digit, 4)
    near = at(quote, -3) | (at(quote, -4) & at(digit, -3))
    first = drop & (at(quote, -2) | (at(digit, -2) & near))
    drop[:4] &= first[:4]
    # A number has its other separators four places behind one another.
    while (alone := drop[4:] & ~first[4:] & ~drop[:-4]).any():
        drop[4:] &= ~alone
    kept: bytes = (at(text, 0) * ~drop).tobytes()
    return kept.translate(None, b"\0")


def _arrow(
    data: bytes, start: int, stop: int, header: Sequence[str], *, skip: bool
) -> list[Any] | None:
    """The columns of rows that are lines, and how many rows were dropped: those of rules, which are longer.

    None where the other rows have not all the same length, or IDs are no numbers.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    strange: list[Any] = []

    def odd(row: Any) -> str:
        strange.append(row)
        return "skip"

    names = [str(at) for at in range(len(header))]
    handlers = arrow.ParseOptions(invalid_row_handler=odd)
    body = pa.py_buffer(data).slice(start, stop - start)
    begin = data.find(b"\n", start) + 1 if skip else start
    sample = data[begin : data.find(b"\n", begin)].decode()
    for types, size in itertools.product(_types(sample, header), (_BLOCK, stop - start)):
        strange.clear()
        how = arrow.ReadOptions(column_names=names, skip_rows=int(skip), block_size=size)
        kinds = arrow.ConvertOptions(column_types=types, null_values=sorted(MISSING))
        try:
            found = arrow.read_csv(body, how, handlers, kinds)
        except pa.ArrowInvalid:
            continue  # a metric with words or commas, or a row longer than a block
        rules = all(_is_rule(row.text, header) for row in strange)
        return [*found.combine_chunks().columns, len(strange)] if rules else None
    return None


def _types(sample: str, header: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The types of columns to try: first those that one row shows, then only those that are sure."""
    import pyarrow as pa

    words = pa.dictionary(pa.int32(), pa.string())
    sure = {
        str(at): pa.int64() if name == "ID" else words
        for at, name in enumerate(header)
        if name in IDENTIFYING or "Range:" in name
    }
    fields = enumerate(next(csv.reader([sample]), []))
    plain = {str(at): pa.float64() for at, field in fields if PLAIN.fullmatch(field)}
    return plain | sure, sure


def _is_rule(row: str, header: Sequence[str]) -> bool:
    fields = next(csv.reader([row]))
    at = header.index("Metric Name") if "Metric Name" in header else None
    return at is not None and len(fields) > len(header) and fields[at] == ""


def _well_read(table: Table, read: Sequence[Any], lines: int) -> bool:
    """Whether every line was a row, every row has an ID and the cells of NVTX are whole."""
    import pyarrow.compute as pc

    *columns, dropped = read
    if len(columns[0]) + dropped != lines or (table.header[0] == "ID" and columns[0].null_count):
        return False
    cells = (columns[at] for at in ranges.columns(table.header) if at is not None)
    return all(
        ranges.readable(cell or "") for column in cells for cell in pc.unique(column).to_pylist()
    )


def _empty(length: int) -> Any:
    import pyarrow as pa

    return pa.chunked_array([pa.nulls(length, pa.string())])


# --- all others ---------------------------------------------------------------------------------


def _careful(table: Table) -> Rows:
    """The rows of a table read one by one."""
    import pyarrow as pa

    found = Records(table)
    rows = list(found)
    lines = list(found.lines)
    units: tuple[str, ...] = ()
    if table.header[0] == "ID":
        if rows and rows[0][0] == "" and "Metric Name" not in table.header:
            units = tuple(rows[0])
        kept = [at for at, row in enumerate(rows) if row[0].strip()]
        rows, lines = [rows[at] for at in kept], [lines[at] for at in kept]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(table.header)
    arrays = tuple(pa.chunked_array([pa.array(column, pa.string())]) for column in columns)
    return Rows(table, arrays, units, tuple(lines), found.cut, found.problems)
