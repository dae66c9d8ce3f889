"""Running the command line in this process, in a folder of its own."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from hroof.cli import main


@dataclass(frozen=True)
class Done:
    """What a command line left."""

    status: int
    out: str
    err: str


Hroof = Callable[..., Done]
Script = Callable[..., list[str]]


@pytest.fixture
def hroof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Hroof:
    """Run one command line; programs that it starts print to the same places."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HROOF", raising=False)

    def run(*arguments: object) -> Done:
        capfd.readouterr()
        status = main([str(word) for word in arguments])
        out, err = capfd.readouterr()
        return Done(status, out, err)

    return run


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Write a program; the command that runs it."""

    def write(text: str, name: str = "target.py", *options: str) -> list[str]:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return [sys.executable, *options, str(path)]

    return write
