"""Taking arguments apart."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.cli.command import (
    at_least,
    check_grouping,
    folder_name,
    grouping,
    print_json,
    progress,
    seconds,
    split_program,
)
from hroof.errors import UsageError

FLAGS = frozenset({"--json", "--force"})
words = st.lists(st.text(max_size=5) | st.sampled_from(["--", "-o", "--json", "--out", "a b", ""]))


@given(words)
def test_what_follows_the_dashes_arrives_byte_for_byte(program: list[str]) -> None:
    own = ["--skip", "3", "--json", "--out=x"]
    assert split_program([*own, "--", *program], FLAGS) == (own, program)


@pytest.mark.parametrize(
    ("argv", "own", "program"),
    [
        (["python", "t.py", "--", "x"], [], ["python", "t.py", "--", "x"]),
        (["--json", "python", "--json"], ["--json"], ["python", "--json"]),
        (["--skip", "3", "python"], ["--skip", "3"], ["python"]),
        (["-o", "dir", "python", "-o"], ["-o", "dir"], ["python", "-o"]),
        (["-odir", "python", "-ox"], ["-odir"], ["python", "-ox"]),
        (["-odir", "--", "-ox"], ["-odir"], ["-ox"]),
        (["--skip=3", "python"], ["--skip=3"], ["python"]),
        (["--skip", "3"], ["--skip", "3"], []),
        (["--out", "--", "--", "p"], ["--out", "--"], ["--", "p"][1:]),
        (["--"], [], []),
        ([], [], []),
        (["-", "x"], [], ["-", "x"]),
        (["--", "--", "x"], [], ["--", "x"]),
    ],
)
def test_where_the_program_begins(argv: list[str], own: list[str], program: list[str]) -> None:
    assert split_program(argv, FLAGS) == (own, program)


@pytest.mark.parametrize("text", ["-1", "x", "", "1.5", "0"])
def test_a_number_that_is_too_small_or_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="at least 1"):
        at_least(1)(text)


def test_a_number_that_fits() -> None:
    assert at_least(0)("0") == 0
    assert at_least(1)("12") == 12


def test_the_name_of_a_folder() -> None:
    assert folder_name("a b") == Path("a b")
    assert folder_name(".") == Path()
    with pytest.raises(argparse.ArgumentTypeError, match="empty"):
        folder_name("")


def test_grouping_keys() -> None:
    assert grouping("layer, phase,") == ("layer", "phase")
    check_grouping(("layer", "phase"))
    with pytest.raises(UsageError, match="no key"):
        check_grouping(())
    with pytest.raises(UsageError, match="colour"):
        check_grouping(("colour",))
    with pytest.raises(UsageError, match="layer"):
        check_grouping(("layer", "layer"))


def test_json_is_one_object_and_nan_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": float("nan"), "b": [1, (2.5,)]})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1, [2.5]]}


def test_progress_goes_to_standard_error_or_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    progress(False)("one")
    progress(True)("two")
    assert capsys.readouterr() == ("", "one\n")


@pytest.mark.parametrize(("text", "value"), [("3", 3.0), ("0.5", 0.5), ("1e3", 1000.0)])
def test_a_time(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e999", "soon", ""])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="seconds above 0"):
        seconds(text)
