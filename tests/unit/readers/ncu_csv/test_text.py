"""Files in the encodings that shells and packers leave behind."""

from __future__ import annotations

import codecs
import gzip
from pathlib import Path

import pytest

from hroof.errors import ProfileError
from hroof.readers.ncu_csv.text import load, start

TABLE = '"ID","Kernel Name"\r\n"0","größe"\r\n'
UNIX = TABLE.replace("\r\n", "\n").encode()


def written(folder: Path, data: bytes, name: str = "out.csv") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "data",
    [
        TABLE.encode(),
        codecs.BOM_UTF8 + TABLE.encode(),
        codecs.BOM_UTF16_LE + TABLE.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TABLE.encode("utf-16-be"),
        TABLE.encode("utf-16-le"),
        TABLE.encode("utf-16-be"),
        gzip.compress(TABLE.encode(), mtime=0),
        gzip.compress(codecs.BOM_UTF16_LE + TABLE.encode("utf-16-le"), mtime=0),
    ],
    ids=["plain", "mark", "utf-16", "big end first", "no mark", "no mark, big", "gzip", "both"],
)
def test_every_encoding_gives_the_same_text(tmp_path: Path, data: bytes) -> None:
    text = load(written(tmp_path, data))
    assert text.data == UNIX
    assert not text.cut
    assert text.problems == ()


def test_gzip_is_known_by_its_bytes_and_not_by_the_name(tmp_path: Path) -> None:
    assert load(written(tmp_path, gzip.compress(UNIX, mtime=0), "out.txt")).data == UNIX
    assert load(written(tmp_path, UNIX, "out.csv.gz")).data == UNIX


def test_gzip_members_that_were_appended_are_all_read(tmp_path: Path) -> None:
    halves = gzip.compress(b"one\n", mtime=0) + gzip.compress(b"two\n", mtime=0)
    assert load(written(tmp_path, halves)).data == b"one\ntwo\n"


def test_zeros_behind_a_gzip_file_are_padding(tmp_path: Path) -> None:
    assert load(written(tmp_path, gzip.compress(b"one\n", mtime=0) + b"\0" * 9)).data == b"one\n"


def test_a_cut_gzip_file_gives_what_is_there(tmp_path: Path) -> None:
    lines = b"".join(b"line %d of a file\n" % at for at in range(2000))
    packed = gzip.compress(lines, mtime=0)
    text = load(written(tmp_path, packed[: len(packed) // 2]))
    assert text.cut
    assert text.data and lines.startswith(text.data)


def test_a_damaged_gzip_file_is_an_error(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(bytes(range(256)) * 40, mtime=0))
    packed[len(packed) - 6] ^= 0xFF  # in the check sum
    with pytest.raises(ProfileError, match=r"damaged gzip file.*again"):
        load(written(tmp_path, bytes(packed)))


def test_latin_1_is_read_and_said(tmp_path: Path) -> None:
    text = load(written(tmp_path, UNIX.decode().encode("latin-1")))
    assert text.data == UNIX
    assert "Latin-1" in text.problems[0]


def test_a_letter_cut_in_two_at_the_end_is_no_other_encoding(tmp_path: Path) -> None:
    text = load(written(tmp_path, '"0","größe'.encode() + "ü".encode()[:1]))
    assert text.data == '"0","größe'.encode()
    assert text.problems == ()


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"none\.csv cannot be read"):
        load(tmp_path / "none.csv")


def test_an_empty_file_is_an_empty_text(tmp_path: Path) -> None:
    assert load(written(tmp_path, b"")).data == b""


def test_the_start_is_unpacked_and_decoded(tmp_path: Path) -> None:
    assert start(written(tmp_path, gzip.compress(UNIX, mtime=0))) == UNIX
    marked = codecs.BOM_UTF16_LE + UNIX.decode().encode("utf-16-le")
    assert start(written(tmp_path, marked)) == UNIX
    assert start(written(tmp_path, UNIX), size=4) == UNIX[:4]


def test_the_start_of_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert start(tmp_path / "none.csv") == b""
    assert start(tmp_path) == b""
    assert start(written(tmp_path, b"\x1f\x8b no gzip at all")) == b""


def test_only_the_bytes_that_are_not_utf_8_are_latin_1(tmp_path: Path) -> None:
    text = load(
        written(tmp_path, "größe\n".encode() + "größe\n".encode("latin-1") + "→\n".encode())
    )
    assert text.data.decode() == "größe\ngröße\n→\n"


# --- progress bars ------------------------------------------------------------------------------

HEAD, ROW, NEXT = '"ID","Process ID","Kernel Name"\n', '"0","42","a"\n', '"1","42","b"\n'
BAR = "\r 50%|#####     | 1/2 [00:01<00:01]\r"


@pytest.mark.parametrize(
    "lines",
    [
        BAR + HEAD + ROW + NEXT,
        HEAD + BAR + ROW + NEXT,
        HEAD + ROW + BAR + NEXT,
        HEAD + ROW.rstrip("\n") + BAR.rstrip("\r") + "\n" + NEXT,
        (HEAD + BAR + ROW + NEXT).replace("\n", "\r\n"),
    ],
    ids=["header", "first row", "row", "behind a row", "Windows"],
)
def test_a_progress_bar_beside_a_row_is_taken_off(tmp_path: Path, lines: str) -> None:
    path = written(tmp_path, lines.encode())
    assert load(path).data.decode() == HEAD + ROW + NEXT
    assert start(path).decode() == HEAD + ROW + NEXT


def test_a_carriage_return_in_a_name_stays(tmp_path: Path) -> None:
    for name in ("a\rb", "\r\ra", "a\n b\r"):
        row = f'"0","42","{name}"\n'
        assert (
            load(written(tmp_path, (HEAD + row + NEXT).encode())).data.decode() == HEAD + row + NEXT
        )


def test_lines_that_end_with_a_carriage_return_alone(tmp_path: Path) -> None:
    text = (HEAD + ROW + NEXT).replace("\n", "\r")
    assert load(written(tmp_path, text.encode())).data.decode() == HEAD + ROW + NEXT
