"""Where the tables of ncu are in a text, and what ncu said around them.

A header is known by its columns, never by its place: ncu prints it after its own lines and those of
the program, which may hold tables too. A text can hold several tables.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hroof.errors import ProfileError
from hroof.readers.ncu_csv.text import Text

METRIC = re.compile(r"(?:[a-z]+:)?[a-z][a-z0-9]*__[A-Za-z0-9_.:]+|flop_count_\w+\.\w+")
"""What the name of a metric looks like, as opposed to a label like ``SM Frequency``."""

NAME = re.compile(rf"{METRIC.pattern}|[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?:\.\w+)*")
"""The same, with the names of before 2019 that some sections still have, like ``inst_executed``."""

_SIGNS = (b"Kernel Name", b"Metric Name")
_DELIMITERS = (",", ";", "\t")
_CHATTER = re.compile(rb"^==(PROF|WARNING|ERROR)==", re.MULTILINE)
_BOX = re.compile(
    rb"^ {2,}(?:Section: |NVTX )|^ {2,}\S.*, Context \d+, Stream \d+|^-{10,} +-{5,}", re.MULTILINE
)
_GLUED = re.compile(r'[^"]*(?="(?:ID|Process ID|Kernel Name)",)')
"""What a program wrote in front of a header without ending its line."""
_AROUND = 1 << 18
"""Bytes at either end of a long file in which words of ncu are looked for."""
_SAID = re.compile(r"^==(ERROR|WARNING)== +(.*\S)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a text.

    Attributes:
        name: The name of its file.
        header: The columns.
        data: The text.
        start: Where the rows begin in it.
        stop: Where the next table begins, or the text ends.
        line: The line of the header, the first line being 1.
        delimiter: Between fields.
        quoted: The fields stand in quotes.
    """

    name: str
    header: tuple[str, ...]
    data: bytes
    start: int
    stop: int
    line: int
    delimiter: str
    quoted: bool

    @property
    def body(self) -> bytes:
        """What follows the header, up to the next table."""
        return self.data[self.start : self.stop]

    def where(self, row: int) -> str:
        """The place of a row, the first below the header being 0, for a message."""
        return f"{self.name}, line {self.line + 1 + row}"


def tables(text: Text) -> list[Table]:
    """The tables of a text.

    Raises:
        ProfileError: There is none; the message has what ncu said instead.
    """
    heads = list(_heads(text.data))
    if not heads:
        raise _nothing(text)
    ends = [start for start, *_ in heads[1:]] + [len(text.data)]
    return [
        Table(
            name=text.path.name,
            header=header,
            data=text.data,
            start=stop,
            stop=end,
            line=text.data.count(b"\n", 0, start) + 1,
            delimiter=delimiter,
            quoted=text.data[start : start + 1] == b'"',
        )
        for (start, stop, header, delimiter), end in zip(heads, ends, strict=True)
    ]


def said(text: Text, kind: str = "ERROR") -> tuple[str, ...]:
    """What ncu wrote into the text as errors, or as warnings, each once."""
    data, sign = text.data, b"==" + kind.encode()
    if max(data.find(sign, 0, _AROUND), data.find(sign, max(0, len(data) - _AROUND))) < 0:
        return ()
    if len(data) > 2 * _AROUND:
        data = data[:_AROUND] + b"\n" + data[-_AROUND:]
    found = _SAID.findall(data.decode("utf-8", "replace"))
    return tuple(dict.fromkeys(words for which, words in found if which == kind))


def cut_before(text: Text) -> ProfileError:
    """The error for a packed file that ends before its first launch."""
    return ProfileError(
        f"{text.path} is a packed file that is cut off before its first launch.",
        "Copy or pack it again.",
    )


def chatter(data: bytes) -> bool:
    """Whether ncu's own lines are in a text."""
    return _CHATTER.search(data) is not None


def boxes(data: bytes) -> bool:
    """Whether ncu's tables for the console are in a text."""
    return _BOX.search(data) is not None or data.startswith(b"Launch Settings\n---")


def has_header(data: bytes) -> bool:
    """Whether a text has the header of a table."""
    return next(_heads(data), None) is not None


def is_header(fields: tuple[str, ...]) -> bool:
    """Whether these fields are the columns of a table of ncu, or of one that someone made from it."""
    columns = set(fields)
    measured = "Metric Name" in columns or any(map(METRIC.fullmatch, fields))
    if "Kernel Name" in columns:
        return measured
    return len(fields) > 2 and fields[0] == "Metric Name" and any(map(METRIC.fullmatch, fields))


def _heads(data: bytes) -> Iterator[tuple[int, int, tuple[str, ...], str]]:
    """Start, end and columns of every header line, and what stands between its fields."""
    for sign in _SIGNS:
        heads = list(_heads_with(data, sign))
        if heads:
            yield from heads
            return


def _heads_with(data: bytes, sign: bytes) -> Iterator[tuple[int, int, tuple[str, ...], str]]:
    at = data.find(sign)
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        stop = data.find(b"\n", at)
        stop = len(data) if stop < 0 else stop + 1
        glued = _GLUED.match(data[start:stop].decode("latin-1"))
        start += glued.end() if glued else 0
        line = data[start:stop].decode("utf-8", "replace")
        for delimiter in _DELIMITERS:
            fields = _fields(line, delimiter)
            if is_header(fields):
                yield start, stop, fields, delimiter
                break
        at = data.find(sign, stop)


def _fields(line: str, delimiter: str) -> tuple[str, ...]:
    """The fields of a line; none where a carriage return is in the midst of it."""
    try:
        return tuple(next(csv.reader([line], delimiter=delimiter), []))
    except csv.Error:
        return ()


def _nothing(text: Text) -> ProfileError:
    """Why there is no table in a text."""
    name, data = text.path, text.data
    if text.cut:
        return cut_before(text)
    if not data.strip():
        return ProfileError(
            f"{name} is empty.",
            "ncu prints nothing when its filters (NVTX range, kernel name) match no kernel; check them.",
        )
    if boxes(data):
        return ProfileError(
            f"{name} holds ncu's tables for the console, which leave out and round numbers.",
            "Print again with: ncu --import REPORT --page raw --csv --print-units base",
        )
    if chatter(data):
        sentences = said(text) + said(text, "WARNING")
        words = " ".join(f'ncu says: "{sentence}".' for sentence in sentences[:3])
        return ProfileError(
            f"{name} holds lines of ncu but no kernel. {words}".strip(),
            "Check that the program launched kernels, and the filters given to ncu.",
        )
    first = data.split(b"\n", 1)[0][:60].decode("utf-8", "replace")
    return ProfileError(
        f'{name} holds no table of ncu; it begins with "{first}".',
        "hroof needs a table with the columns of ncu --csv, with metric names and units.",
    )
