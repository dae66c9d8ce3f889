"""A file of ncu output as text: unpacked, decoded, and whether it was cut off.

Programs redirect ncu's output in every way that shells know: gzipped, as UTF-16 by PowerShell, with a
byte order mark, with Windows line ends, with bytes of an older encoding in a kernel or process name,
with the progress bar of the program between the lines.
"""

from __future__ import annotations

import codecs
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from hroof.errors import ProfileError

_GZIP = b"\x1f\x8b"
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ESCAPED = re.compile("[\udc80-\udcff]")
"""What stands for a byte that is not UTF-8."""
_BAR_BEFORE = re.compile(rb'^[^"\n]*\r(?="[^",\n]*","|ID[,;\t])', re.MULTILINE)
"""A progress bar in front of a row or a header, up to the carriage return that should hide it."""
_BAR_BEHIND = re.compile(rb'(?<=[^,]")\r[^"\n]*$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Text:
    """The text of one file.

    Attributes:
        path: The file.
        data: The text as UTF-8, lines ended by a line feed.
        cut: The packed file ends early.
        problems: What was done to read it and may be wrong.
    """

    path: Path
    data: bytes
    cut: bool = False
    problems: tuple[str, ...] = ()


def load(path: Path) -> Text:
    """Read a file, whatever its encoding.

    Raises:
        ProfileError: The file cannot be read or unpacked.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror}.", "Check the path.") from None
    raw, cut = _unpacked(raw, path) if raw.startswith(_GZIP) else (raw, False)
    data, problems = _decoded(raw, path)
    return Text(path, _lines(data), cut, problems)


def start(path: Path, size: int = 1 << 16) -> bytes:
    """The first bytes of a file as UTF-8, unpacked; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(size)
        if raw.startswith(_GZIP):
            raw = zlib.decompressobj(wbits=31).decompress(raw, 8 * size)
        return _lines(_decoded(raw, path)[0])
    except (OSError, zlib.error, UnicodeDecodeError):
        return b""


def _lines(data: bytes) -> bytes:
    """The text with lines ended by a line feed and without the progress bars beside its rows."""
    if b"\r" not in data:
        return data
    data = data.replace(b"\r\n", b"\n")
    if b"\n" not in data.rstrip():
        return data.replace(b"\r", b"\n")
    return _BAR_BEHIND.sub(b"", _BAR_BEFORE.sub(b"", data)) if b"\r" in data else data


def _unpacked(raw: bytes, path: Path) -> tuple[bytes, bool]:
    """What a gzip file holds, all its members, and whether it ends before their end."""
    parts = []
    while raw.startswith(_GZIP):
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(raw))
        except zlib.error as error:
            raise ProfileError(
                f"{path} is a damaged gzip file: {error}.", "Copy or pack it again."
            ) from None
        if not member.eof:
            return b"".join(parts), True
        raw = member.unused_data.lstrip(b"\0")
    return b"".join(parts), False


def _decoded(raw: bytes, path: Path) -> tuple[bytes, tuple[str, ...]]:
    marked = next(((mark, name) for mark, name in _BOMS if raw.startswith(mark)), None)
    mark, encoding = marked or (b"", _guessed(raw))
    raw = raw[len(mark) :]
    if encoding.startswith("utf-16"):
        raw = raw[: len(raw) & ~1].decode(encoding, "replace").encode()
    if raw.isascii():
        return raw, ()
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.end == len(raw) and error.reason == "unexpected end of data":
            return raw[: error.start], ()
        note = f"{path.name}: bytes that are not UTF-8 were read as Latin-1."
        return _with_latin(raw), (note,)
    return raw, ()


def _with_latin(raw: bytes) -> bytes:
    """As UTF-8; only the bytes that are not are taken for Latin-1."""
    text = raw.decode("utf-8", "surrogateescape")
    return _ESCAPED.sub(lambda found: chr(ord(found[0]) - 0xDC00), text).encode()


def _guessed(raw: bytes) -> str:
    """UTF-16 shows itself without a mark: every second byte of plain text is zero."""
    head = raw[:4096]
    odd, even = head[1::2].count(0), head[0::2].count(0)
    if odd > len(head) // 4:
        return "utf-16-le"
    return "utf-16-be" if even > len(head) // 4 else "utf-8"
