"""Which reader a file is for, and why some are refused."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest

from hroof.errors import ProfileError, UsageError
from hroof.profile import Profile
from hroof.readers import read

TABLE = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Metric Name",'
    '"Metric Unit","Metric Value"\n'
    '"0","7","python","host","gemm(float *)","1","7","gpu__time_duration.sum","ns","5,000"\n'
)


def refused(path: Path, error: type[Exception] = ProfileError) -> str:
    with pytest.raises(error, match=re.escape(str(path))) as caught:
        read([path])
    return str(caught.value)


def test_a_table_is_read_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "out.sqlite"
    path.write_text(TABLE)
    raw = read([path])
    assert raw.launches["kernel"].tolist() == ["gemm(float *)"]
    assert raw.counters["gpu__time_duration.sum"].tolist() == [pytest.approx(5e-6)]


def test_a_table_that_is_packed(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(gzip.compress(TABLE.encode()))
    assert len(read([path]).launches) == 1


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("x.sqlite", b"SQLite format 3\0 and pages", "nsys"),
        ("x.nsys-rep", b"whatever it holds", "Nsight Systems"),
        ("trace.json", b' {"schemaVersion": 1, "traceEvents": []}', "hroof run"),
        ("events.json", b'[ {"ph": "X"}]', "hroof run"),
        ("trace.json.gz", gzip.compress(b'{"traceEvents": []}'), "hroof run"),
        ("launches-0.parquet", b"PAR1....PAR1", "hroof report"),
    ],
)
def test_formats_that_are_not_read_are_named(
    tmp_path: Path, name: str, content: bytes, word: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert word in refused(path)


def test_a_text_without_a_table(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("epoch 1 loss 0.3\n")
    refused(path)


def test_an_empty_file_and_one_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.touch()
    refused(path)
    assert "does not exist" in refused(tmp_path / "absent.csv")


def test_a_folder_and_a_run_of_hroof(tmp_path: Path) -> None:
    assert "*.csv" in refused(tmp_path)
    folder = Profile.from_rows([{"op": "a"}]).save(tmp_path / "run")
    assert "hroof report" in refused(folder)


def test_a_broken_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"no table here " * 50)[:-9] + b"damaged!!")
    refused(path)


def test_no_file_at_all() -> None:
    with pytest.raises(UsageError, match="no file"):
        read([])


def test_reports_and_tables_are_not_mixed(tmp_path: Path) -> None:
    report, table = tmp_path / "a.ncu-rep", tmp_path / "b.csv"
    report.write_bytes(b"NVR\0" + bytes(64))
    table.write_text(TABLE)
    with pytest.raises(UsageError, match="apart"):
        read([report, table])


def test_a_console_page_that_begins_with_a_bracket_is_no_json(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text(
        "[42] python@127.0.0.1\n  gemm(float *), Context 1, Stream 7\n"
        "    ---------------- ------ ----\n    dram__bytes.sum  Mbyte  3\n"
    )
    words = refused(path)
    assert "JSON" not in words
    assert "console" in words


def test_pipes_and_devices_are_refused_and_never_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    assert "Save what it gives in a file" in refused(path)
    assert "not a regular file" in refused(Path(os.devnull))


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="too long") as caught:
        read([tmp_path / f"{'x' * 300}.csv"])
    assert len(str(caught.value)) < 300
    with pytest.raises(ProfileError, match="cannot be read"):
        read([tmp_path / "zero\0byte.csv"])


def test_a_link_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "loop.csv"
    path.symlink_to(path)
    assert "cannot be read" in refused(path)


def test_the_same_report_twice_is_refused(tmp_path: Path) -> None:
    one, same, other = (tmp_path / f"{name}.ncu-rep" for name in "abc")
    one.write_bytes(b"NVR\0" + bytes(64))
    same.write_bytes(one.read_bytes())
    other.write_bytes(b"NVR\0" + bytes(63) + b"x")
    with pytest.raises(ProfileError, match="holds the same as") as caught:
        read([other, one, same])
    assert "a.ncu-rep" in str(caught.value) and "b.ncu-rep" in str(caught.value)
    with pytest.raises(ProfileError, match="holds the same as"):
        read([one, one])


def test_impossible_values_of_a_table_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text(TABLE.replace('"5,000"', '"-5"'))
    raw = read([path])
    assert raw.counters["gpu__time_duration.sum"].isna().all()
    assert "negative" in raw.problems[0]
