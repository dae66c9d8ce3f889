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


def test_without_pytorch_it_is_status_6(hroof: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else find(name)
    )
    done = hroof("demo")
    assert done.status == 6
    assert "pip install 'hroof[torch]'" in done.err


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
