"""Why nothing was captured: the causes, by what the program left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hroof.cli.nothing import nothing_captured
from hroof.cli.results import Results


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    monkeypatch.delenv("HROOF", raising=False)
    return Results.prepare(tmp_path / "out")


def note(run: Results, number: int = 1, **facts: str) -> None:
    given = {"executable": "/bin/py", "framework": "", "problem": "", **facts}
    (run.folder / f"start-{number}.json").write_text(json.dumps(given))


def said(run: Results) -> str:
    error = nothing_captured(run, skip=7, steps=2)
    assert error.exit_code == 5
    return str(error)


def test_it_says_what_was_asked_for(run: Results) -> None:
    text = said(run)
    assert text.startswith("No kernels")
    assert "filter" in text
    assert "--skip 7 --steps 2" in text


def test_the_hook_never_ran(run: Results) -> None:
    text = said(run)
    assert text.index("another one that has no hroof") < text.index("-I, -S or -E")
    assert text.index("-I, -S or -E") < text.index("PYTHONPATH")


def test_a_program_that_was_killed_within_the_region(run: Results) -> None:
    note(run, framework="torch")
    (run.folder / "progress-7.json").write_text(json.dumps({"doing": "counting a step"}))
    text = said(run)
    assert "ended after the region had begun (counting a step)" in text
    assert "Lower --skip or --steps" in text
    assert "opened no region" not in text


def test_too_few_steps_come_first(run: Results) -> None:
    note(run, framework="torch")
    (run.folder / "empty.json").write_text(json.dumps({"reason": "It did 2 steps.", "status": "e"}))
    text = said(run)
    assert "1. It did 2 steps." in text
    assert "opened no region" not in text


def test_another_interpreter(run: Results) -> None:
    note(run, problem="no hroof")
    assert "1. /bin/py has no hroof: install it there" in said(run)


def test_no_framework(run: Results) -> None:
    note(run)
    text = said(run)
    assert text.index("The program never imported ") < text.index("child process")


def test_nothing_to_see(run: Results) -> None:
    note(run, framework="torch")
    text = said(run)
    assert "opened no region, took no optimizer step" in text
    assert text.index("opened no region") < text.index("child process")


def test_one_interpreter_of_several_lacks_hroof(run: Results) -> None:
    note(run, 1, problem="no hroof")
    note(run, 2, framework="torch")
    text = said(run)
    assert "has no hroof" in text
    assert "never imported" not in text
