"""The rows of an irregular table, one by one: lines of the program between them, cut rows, stray quotes.

A row can go over several lines, since a line feed in the name of an NVTX range is printed as it is;
and a quote in such a name is not doubled, which breaks the row for every reader of CSV. The columns
left and right of the NVTX columns are then read from either end, and what remains is theirs.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from hroof.readers.ncu_csv import ranges
from hroof.readers.ncu_csv.lines import Table

_ROW = re.compile(r'"?\d+"?\s*[,;\t]|(?:"")?[,;\t]')
_NEXT = re.compile(r'"\d+","\d+",')
_GLUED = re.compile(rf'^[^"]+(?={_NEXT.pattern})')
"""What a program wrote in front of a row without ending its line."""
_FIELD = re.compile(r'"(?:[^"]|"")*"(?:,|$)|[^",]*(?:,|$)')
_LINES = 50
"""The most lines of one row."""
_LIMIT = 1 << 30
"""Characters of one field: the instances of a metric can fill megabytes."""


class Records:
    """The whole rows of a table, padded to its header, without what is no row.

    Iterate once; the other attributes are right after that.

    Args:
        table: The table.

    Attributes:
        lines: The line of each row below the header, the first being 0.
        cut: The file ends within a row.
    """

    def __init__(self, table: Table) -> None:
        self.lines: list[int] = []
        self.cut = False
        self._table = table
        self._width = len(table.header)
        self._text = table.body.decode("utf-8", "replace").split("\n")
        self._broken: list[int] = []
        self._unplaced: list[int] = []
        last = "Metric Value" if "Metric Value" in table.header else table.header[-1]
        self._needed = table.header.index(last) + 1
        self._numbered = table.header[0] in ("ID", "Process ID")
        self._places = [at for at in ranges.columns(table.header) if at is not None]

    @property
    def problems(self) -> tuple[str, ...]:
        """What was left out."""
        return (*self._about_rows(), *self._about_ranges())

    def _about_rows(self) -> Iterator[str]:
        if not self._broken:
            return
        where, count = self._table.where(self._broken[0]), len(self._broken)
        if count > 1:
            yield f"{where}: {count} rows are not whole and are left out, this is the first."
        elif self.cut:
            yield f"{where}: the file ends within a row, which is left out."
        else:
            yield f"{where}: the row is not whole and is left out."

    def _about_ranges(self) -> Iterator[str]:
        if not self._unplaced:
            return
        where, count = self._table.where(self._unplaced[0]), len(self._unplaced)
        if count > 1:
            what = f"of {count} rows cannot be read, this is the first; these launches count"
        else:
            what = "of the row cannot be read; the launch counts"
        yield f"{where}: the NVTX ranges {what} as outside every range."

    def __iter__(self) -> Iterator[list[str]]:
        csv.field_size_limit(_LIMIT)
        at = 0
        while at < len(self._text):
            fields, end = self._row(at)
            if fields is not None:
                self.lines.append(at)
                yield fields + [""] * (self._width - len(fields))
            at = end

    def _row(self, at: int) -> tuple[list[str] | None, int]:
        """The fields of the row that begins in a line, if one does; and the line behind it."""
        if self._numbered and self._table.quoted:
            self._text[at] = _GLUED.sub("", self._text[at], count=1)
        if not self._begins(at):
            return self._unnumbered(at), at + 1
        fields, end = self._record(at)
        if fields is None and end < len(self._text):
            fields = self._without_ranges(self._text[at])
            self._unplaced += [] if fields is None else [at]
        if fields is None:
            self._broken.append(at)
            self.cut |= end >= len(self._text)
        return fields, end

    def _unnumbered(self, at: int) -> list[str] | None:
        """The fields of a line that is a row in all but its ID."""
        line = self._text[at]
        alike = self._numbered and self._table.quoted and line.startswith('"')
        return self._fields(line, at + 1) if alike and line.count('"') >= 2 * self._needed else None

    def _begins(self, at: int) -> bool:
        """Whether a line begins a row, or is all that there is of the last one."""
        line = self._text[at]
        if self._table.quoted and not line.startswith('"'):
            return False
        numbered = self._numbered
        if at == len(self._text) - 1:
            return bool(line) and (self._table.quoted or not numbered or line[0].isdecimal())
        return bool(_ROW.match(line)) if numbered else bool(line.strip())

    def _record(self, at: int) -> tuple[list[str] | None, int]:
        """The fields of the row that begins in a line, None if it is not whole; and the line behind it."""
        text, end = self._text[at], at + 1
        fields = self._fields(text, end)
        while fields is None and text.count('"') % 2 and self._continues(end) and end < at + _LINES:
            text, end = f"{text}\n{self._text[end]}", end + 1
            fields = self._fields(text, end)
        # A row that never ends must not swallow what comes after its first line.
        return fields, end if fields is not None or end >= len(self._text) else at + 1

    def _continues(self, at: int) -> bool:
        return at < len(self._text) and not _NEXT.match(self._text[at])

    def _fields(self, text: str, end: int) -> list[str] | None:
        """The fields of a whole row."""
        open_ended = end >= len(self._text)  # no line feed behind it
        if open_ended and not (self._table.quoted and text.endswith(('"', ","))):
            return None
        if text.count('"') % 2 == 0:
            fields = self._split(text)
            if open_ended and text.endswith(",") and len(fields) <= self._needed:
                return None
            if self._needed <= len(fields) <= self._width and self._ranges_readable(fields):
                return fields
        return self._repaired(text)

    def _split(self, text: str) -> list[str]:
        """The fields of a text; none where a carriage return is in the midst of it."""
        try:
            return next(csv.reader([text], delimiter=self._table.delimiter), [])
        except csv.Error:
            return []

    def _ranges_readable(self, fields: list[str]) -> bool:
        return all(ranges.readable(fields[at]) for at in self._places)

    def _repaired(self, text: str) -> list[str] | None:
        """The fields of a row whose NVTX cells have stray quotes."""
        for width, left, middle, right in self._ends(text):
            cells = _cells(middle, len(self._places))
            fields = [*left, *cells, *right]
            if cells and len(fields) == width and self._ranges_readable(fields):
                return fields
        return None

    def _without_ranges(self, text: str) -> list[str] | None:
        """The fields of a row whose NVTX cells cannot be read, these cells empty."""
        for width, left, _, right in self._ends(text):
            fields = [*left, *[""] * len(self._places), *right]
            if len(left) == self._places[0] and len(fields) == width:
                return fields
        return None

    def _ends(self, text: str) -> Iterator[tuple[int, list[str], str, list[str]]]:
        """The fields left of the NVTX columns, the text of these, the fields right of them; by width."""
        if not self._places or not self._table.quoted:
            return
        left = _span(text, self._places[0])
        for width in sorted({min(self._needed + 1, self._width), self._needed, self._width}):
            right = len(text) - _span(text[::-1], width - self._places[-1] - 1)
            if left < right:
                ends = self._split(text[:left])[: self._places[0]], self._split(text[right + 1 :])
                yield width, ends[0], text[left:right], ends[1]


def _span(text: str, count: int) -> int:
    """How many characters the first fields of a row take, with the comma behind each."""
    end = 0
    for _ in range(count):
        field = _FIELD.match(text, end)
        if field is None:
            return 0
        end = field.end()
    return end


def _cells(text: str, count: int) -> list[str]:
    """The NVTX cells in what is left between the other columns; empty where they cannot be told apart."""
    if count == 1:
        return [_plain(text)]
    for split in (_span(text, 1), len(text) - _span(text[::-1], 1)):
        cells = [_plain(text[:split].removesuffix(",")), _plain(text[split:].removeprefix(","))]
        if all(map(ranges.readable, cells)):
            return cells
    return []


def _plain(field: str) -> str:
    return field.removeprefix('"').removesuffix('"').replace('""', '"')
