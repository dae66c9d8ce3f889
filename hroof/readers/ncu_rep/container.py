"""Whether a file is a report of Nsight Compute and whether it is whole.

A report is a magic number, a header with the number of the format, then blocks up to the end of the
file. A block is a header message with the length of what follows it, then that. (NVIDIA's guide to
customising Nsight Compute describes this layout, and that it may change.) Nothing else is read here.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hroof.errors import ProfileError

MAGIC = b"NVR\0"
SUFFIXES = (".ncu-rep", ".nsight-cuprof-report")
FORMAT = 7
"""The format whose layout is known; every report from 2019 to 2025 that was at hand has it."""

_PAYLOAD_FIELD = 5
_LENGTH = struct.Struct("<I")
_TOOL = re.compile(rb"20\d\d\.\d+\.\d+\.\d+ \(build \d+\)")
_AGAIN = (
    "Copy the report again in binary mode, or let ncu write it again; what is left of a report "
    "that is cut off may be had with `ncu --import FILE --csv --page raw`."
)


@dataclass(frozen=True, slots=True)
class Container:
    """What the outside of a report tells.

    Attributes:
        format: Number of the format.
        tool: Version of the ncu that wrote it; empty where it is not told.
    """

    format: int
    tool: str = ""


def looks_like(path: Path) -> bool:
    """Whether a file begins as a report does, or at least is named as one."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError:
        return False
    return magic == MAGIC or path.suffix in SUFFIXES


def check(path: Path) -> Container:
    """Look at the outside of a report.

    Raises:
        ProfileError: The file cannot be read, is no report, is cut off, or is what a failed run left.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _check(file, size, path)
    except OSError as error:
        raise ProfileError(
            f"Cannot read {str(path)!r}: {error.strerror or error}.",
            "Name a report that exists and may be read.",
        ) from error


def _check(file: BinaryIO, size: int, path: Path) -> Container:
    if file.read(len(MAGIC)) != MAGIC:
        raise _not_a_report(file, size, path)
    header = _message(file, size, path)
    version = _field(header, 1, path)
    if version != FORMAT:  # its blocks may be laid out in another way: the library has to judge
        return Container(version)
    return Container(version, _walk(file, size, path))


def _walk(file: BinaryIO, size: int, path: Path) -> str:
    """Go from block to block up to the end of the file; the version of ncu, from a header."""
    tool = ""
    blocks = 0
    while file.tell() < size:
        blocks += 1
        header = _message(file, size, path)
        found = _TOOL.search(header) if not tool else None
        tool = found[0].decode() if found else tool
        file.seek(_field(header, _PAYLOAD_FIELD, path), os.SEEK_CUR)
    if blocks == 0 or file.tell() > size:
        raise _cut_off(path, size, file.tell())
    return tool


def _message(file: BinaryIO, size: int, path: Path) -> bytes:
    """The next message behind its length."""
    prefix = file.read(_LENGTH.size)
    length = _LENGTH.unpack(prefix)[0] if len(prefix) == _LENGTH.size else _LENGTH.size
    if len(prefix) < _LENGTH.size or file.tell() + length > size:
        raise _cut_off(path, size, file.tell() + length)
    return file.read(length)


def _cut_off(path: Path, size: int, needed: int) -> ProfileError:
    return ProfileError(
        f"{str(path)!r} is cut off or damaged: it has {size:,} bytes, and its contents go on to "
        f"byte {needed:,} at least.",
        _AGAIN,
    )


def _not_a_report(file: BinaryIO, size: int, path: Path) -> ProfileError:
    file.seek(0)
    try:
        if size > 0:
            _walk(file, size, path)
            return ProfileError(
                f"Nothing was captured in {str(path)!r}: it has blocks of a report but no header, "
                "which is what ncu leaves when profiling fails.",
                "See what ncu said during the run, and collect again.",
            )
    except ProfileError:
        pass  # no blocks either, as in a file of any other kind
    what = "It is empty." if size == 0 else "It does not begin as one does."
    return ProfileError(
        f"{str(path)!r} is not a report of Nsight Compute. {what}",
        "Name a .ncu-rep file, or the text that `ncu --csv` printed.",
    )


# --- the little of a message that is needed ------------------------------------------------------


def _field(message: bytes, wanted: int, path: Path) -> int:
    """One number of a message, by its field; 0 where it is absent.

    Raises:
        ProfileError: The bytes are not a message.
    """
    found = place = 0
    try:
        while place < len(message):
            key, place = _number(message, place)
            value, place = _value(message, place, key & 7)
            if key >> 3 == wanted:
                found = value
    except IndexError:
        place = -1
    if place != len(message):
        raise ProfileError(f"{str(path)!r} is damaged: a block header is not readable.", _AGAIN)
    return found


def _value(message: bytes, place: int, kind: int) -> tuple[int, int]:
    """The value at a place, 0 for one that is no plain number, and the place behind it.

    Raises:
        IndexError: There is no such kind of value.
    """
    if kind == 0:
        return _number(message, place)
    if kind == 2:
        length, place = _number(message, place)
        return 0, place + length
    if kind in (1, 5):
        return 0, place + (8 if kind == 1 else 4)
    raise IndexError(kind)


def _number(message: bytes, place: int) -> tuple[int, int]:
    """The number at a place, seven bits a byte with the lowest first, and the place behind it.

    Raises:
        IndexError: The message ends within it.
    """
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, place
