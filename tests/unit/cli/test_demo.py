"""``hroof demo``: what it starts; the run itself is tested with PyTorch."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hroof.cli import run as run_verb

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


def without(monkeypatch: pytest.MonkeyPatch, *absent: str) -> None:
    """Let some modules seem not to be installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in absent else find(name)
    )


def test_without_a_framework_it_is_status_6(hroof: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "torch", "tensorflow")
    done = hroof("demo")
    assert done.status == 6
    assert "a model of PyTorch or TensorFlow, which is not installed" in done.err
    assert "pip install 'hroof[torch]', or pip install 'hroof[keras]' tensorflow" in done.err


@pytest.mark.parametrize(("absent", "program"), [("torch", "keras"), ("tensorflow", "torch")])
def test_the_framework_that_is_there_is_taken(
    hroof: Any, monkeypatch: pytest.MonkeyPatch, absent: str, program: str
) -> None:
    pytest.importorskip({"keras": "tensorflow"}.get(program, program))
    seen: list[Any] = []
    monkeypatch.setattr(run_verb, "run", noting(seen))
    without(monkeypatch, absent)
    assert hroof("demo").status == 0
    path = Path(seen[0].command[1])
    assert path.parts[-2:] == (f"hroof_{program}", "demo.py")
    assert path.is_file()


def test_the_framework_that_is_asked_for(hroof: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "tensorflow")
    done = hroof("demo", "--framework", "keras")
    assert done.status == 6
    assert "a model of TensorFlow, which is not installed" in done.err
    assert hroof("demo", "--framework", "abacus").status == 6


@needs_torch
def test_it_is_an_ordinary_run(hroof: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(run_verb, "run", noting(seen))
    done = hroof("demo", "--steps", "4", "--out", "o", "--html", "d.html", "--json")
    assert done.status == 0
    (arguments,) = seen
    python, program, steps = arguments.command
    assert python == sys.executable
    assert Path(program).is_file()
    assert int(steps) == arguments.skip + 1 + 4
    assert arguments.files == [Path("d.html")]
    assert "torch" not in Path(program).name


@needs_torch
def test_every_argument_of_run_is_given(hroof: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(run_verb, "run", noting(seen))
    hroof("demo")
    monkeypatch.setattr(
        run_verb, "COMMAND", dataclasses.replace(run_verb.COMMAND, run=noting(seen))
    )
    hroof("run", "--", "x")
    demo, run = (set(vars(arguments)) for arguments in seen)
    assert run - {"verb"} == demo


def noting(seen: list[Any]) -> Any:
    """Instead of running: keeps the arguments."""

    def run(arguments: Any) -> int:
        seen.append(arguments)
        return 0

    return run
