"""Atomic writing: whole files or none, whatever happens in between."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.errors import OutputError, ProfileError
from hroof.files import (
    Write,
    check_free,
    json_ready,
    read_json,
    text_writer,
    write_atomic,
    write_json,
    write_together,
)

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def writes(text: str) -> Write:
    def write(path: Path) -> None:
        path.write_text(text)

    return write


def half_then_full_disk(path: Path) -> None:
    path.write_text("half")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_written_file_is_there_alone(tmp_path: Path) -> None:
    write_atomic(tmp_path / "deep" / "er" / "a.txt", writes("whole"))
    assert (tmp_path / "deep" / "er" / "a.txt").read_text() == "whole"
    assert names(tmp_path / "deep" / "er") == ["a.txt"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(OutputError, match="No space left") as caught:
        write_atomic(target, half_then_full_disk)
    assert str(target) in caught.value.fact
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_an_error_of_the_writer_passes_and_leaves_nothing(tmp_path: Path) -> None:
    def broken(path: Path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "a.txt", broken)
    assert names(tmp_path) == []


def test_a_file_in_place_of_the_folder_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match="Cannot write"):
        write_json(tmp_path / "taken" / "a.json", {})


def test_a_folder_in_place_of_the_file_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(OutputError, match=r"a\.json"):
        write_json(tmp_path / "a.json", {})
    assert names(tmp_path) == ["a.json"]


def test_a_read_only_folder_is_an_output_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(self: Path, *args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "write_bytes", denied)
    with pytest.raises(OutputError, match="Permission denied") as caught:
        write_json(tmp_path / "a.json", {})
    assert "writable" in caught.value.remedy


def test_a_failing_move_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match="No space left"):
        write_json(tmp_path / "a.json", {})
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
def test_a_really_full_device_is_an_output_error(tmp_path: Path) -> None:
    def onto_the_full_device(path: Path) -> None:
        path.symlink_to("/dev/full")
        path.write_text("does not fit")

    with pytest.raises(OutputError, match="No space left"):
        write_atomic(tmp_path / "a.txt", onto_the_full_device)
    assert names(tmp_path) == []


def test_files_that_belong_together_appear_together_or_not_at_all(tmp_path: Path) -> None:
    old = tmp_path / "one"
    old.write_text("old")
    with pytest.raises(OutputError, match="two"):
        write_together(
            {old: writes("new"), tmp_path / "two": half_then_full_disk},
            stale=[old],
        )
    assert names(tmp_path) == ["one"]
    assert old.read_text() == "old"


def test_stale_files_go_when_the_new_ones_come(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    write_together(
        {tmp_path / "new": writes("n")},
        stale=[tmp_path / "old", tmp_path / "never was"],
    )
    assert names(tmp_path) == ["new"]


def test_new_files_obey_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_json(tmp_path / "a.json", {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o640


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    write_json(target, {"age": "old"})
    program = (
        "import os, signal, sys; from pathlib import Path; from hroof.files import write_atomic\n"
        "def write(path):\n"
        '    path.write_text(\'{"age": "ne\')\n'
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomic(Path(sys.argv[1]), write)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(target)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert read_json(target, "a run") == {"age": "old"}


def test_numbers_that_json_lacks_become_null(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": [float("nan"), float("inf"), 1.5], 3: (1, 2)})
    assert (tmp_path / "a.json").read_text().count("null") == 2
    assert read_json(tmp_path / "a.json", "it") == {"x": [None, None, 1.5], "3": [1, 2]}


def test_json_is_written_in_a_fixed_order(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": 1, "a": 2})
    write_json(tmp_path / "b.json", {"a": 2, "b": 1})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_numpy_scalars_and_paths_are_plain_in_json() -> None:
    value = {"n": np.int64(3), "x": np.float32("nan"), "flag": np.bool_(True), "path": Path("a/b")}
    assert json_ready(value) == {"n": 3, "x": None, "flag": True, "path": str(Path("a/b"))}


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_plain_values_are_ready_as_they_are(value: dict[str, object]) -> None:
    assert json_ready(value) == value == json.loads(json.dumps(json_ready(value), allow_nan=False))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"a": 1} x', b"[" * 100_000])
def test_damaged_json_is_a_profile_error_with_the_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(ProfileError, match="damaged or not a run") as caught:
        read_json(path, "a run")
    assert str(path) in caught.value.fact


@pytest.mark.parametrize("content", ["[]", "3", "null", '"text"'])
def test_json_that_is_no_object_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(ProfileError, match="is not a run"):
        read_json(tmp_path / "a.json", "a run")


def test_absent_json_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="does not exist") as caught:
        read_json(tmp_path / "a.json", "a run")
    assert caught.value.remedy == "Give the file of a run."
    with pytest.raises(ProfileError, match="the folder of a run"):
        read_json(tmp_path / "run.json", "a run")


def test_a_folder_is_no_json(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="damaged"):
        read_json(tmp_path, "a run")


def test_what_is_there_is_replaced_only_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    check_free(path, force=False)
    path.touch()
    check_free(path, force=True)
    with pytest.raises(OutputError, match="exists already"):
        check_free(path, force=False)


def test_text_is_utf_8_and_half_characters_are_escapes(tmp_path: Path) -> None:
    write_atomic(tmp_path / "text", text_writer("µs \udcff\n"))
    assert (tmp_path / "text").read_bytes() == "µs \\udcff\n".encode()
