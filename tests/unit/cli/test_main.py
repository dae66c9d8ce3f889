"""The one place that turns errors into exit statuses."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import hroof as package
from hroof.cli import main
from hroof.cli.main import VERBS, commands
from hroof.errors import (
    CaptureError,
    HroofError,
    MissingError,
    OutputError,
    ProfileError,
    UsageError,
)

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


def test_every_verb_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in commands():
        assert main([command.name, "--help"]) == 0
        text = capsys.readouterr().out
        assert "examples:" in text
        assert f"hroof {command.name}" in text
        assert all(line.startswith(f"hroof {command.name}") for line in command.examples)


def test_the_overview_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(command.help in text for command in commands())
    names = [command.name for command in commands()]
    assert names == [
        "run", "report", "compare", "check", "import", "ceilings", "count", "doctor", "demo",
    ]  # fmt: skip
    assert len(VERBS) == len(names)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"hroof {package.__version__}\n"


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fly"],
        ["report"],
        ["report", "x", "--nonsense"],
        ["report", "x", "--top", "-1"],
        ["run", "--steps", "0", "--", "x"],
        ["run", "--skip", "many", "--", "x"],
        ["run", "--nonsense", "1", "--", "x"],
        ["run", "--ski", "1", "--", "x"],
        ["run"],
        ["run", "--"],
        ["run", "--by", "colour", "--", "x"],
        pytest.param(["count", "x.py"], marks=needs_torch),
        pytest.param(["count", "absent.py:build"], marks=needs_torch),
        ["demo", "--steps", "0"],
    ],
)
def test_wrong_usage_is_status_2_and_no_traceback(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "hroof" in err
    assert "Traceback" not in err


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    def fail(error: BaseException) -> int:
        from hroof.cli import doctor

        def run(arguments: Any) -> int:
            raise error

        command = doctor.COMMAND
        monkeypatch.setattr(doctor, "COMMAND", type(command)(**{**vars(command), "run": run}))
        return main(["doctor"])

    return fail


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (HroofError, 1),
        (UsageError, 2),
        (ProfileError, 3),
        (OutputError, 4),
        (CaptureError, 5),
        (MissingError, 6),
    ],
)
def test_each_error_has_its_status_and_says_fact_then_remedy(
    failing: Any, kind: type[HroofError], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failing(kind("It is so.", "Do that.")) == status
    assert capsys.readouterr() == ("", "hroof: It is so. Do that.\n")


def test_ctrl_c_is_130_and_quiet(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(KeyboardInterrupt()) == 130
    assert capsys.readouterr() == ("", "")


def test_a_bug_is_not_hidden(failing: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError())


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """``hroof --help | head``: a pipe that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "hroof", "doctor", "--json"],
        stdout=write, stderr=subprocess.PIPE, text=True, check=False,
        env={**os.environ, "HROOF_CACHE": str(tmp_path)},
    )  # fmt: skip
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == 141


def test_without_a_verb_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    err = capsys.readouterr().err
    assert all(command.help in err for command in commands())


def shell(line: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m hroof {line}"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "HROOF_CACHE": str(tmp_path), **env},
    )  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output(tmp_path: Path, unbuffered: str) -> None:
    done = shell("doctor --json > /dev/full", tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 4
    assert done.stderr == (
        "hroof: Cannot write to standard output: No space left on device. Redirect it elsewhere.\n"
    )


@pytest.mark.skipif(os.name != "posix", reason="closes a stream with a POSIX shell")
def test_closed_streams(tmp_path: Path) -> None:
    done = shell("doctor --json >&-", tmp_path)
    assert done.returncode == 4
    assert done.stderr.startswith("hroof: Standard output is closed.")
    assert shell("doctor --json >&- 2>&-", tmp_path).returncode == 4


def test_an_error_of_the_system_elsewhere_is_not_taken_for_the_output(failing: Any) -> None:
    with pytest.raises(FileNotFoundError):
        failing(FileNotFoundError(errno.ENOENT, "absent", "file"))


@needs_torch
def test_a_poor_encoding_costs_only_characters(tmp_path: Path) -> None:
    done = shell("run -- sh -c 'exit 0'", tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 5
    done = shell("doctor", tmp_path, PYTHONIOENCODING="ascii")
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


def test_a_verb_loads_neither_framework_nor_chart(tmp_path: Path) -> None:
    code = (
        "import sys; from hroof.cli import main; main(['--help']); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'pandas', 'matplotlib', 'rich')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0
