"""Finding ncu: by name, variable, PATH and place; what is not it; how old it may be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hroof.collect.nsight import NoProgramError, Program, find, program
from hroof.errors import MissingError

Tool = Callable[..., Path]
BANNER = "NVIDIA (R) Nsight Compute Command Line Profiler\\nCopyright (c) 2018-2024\\nVersion {}.0 (build 1)\\n"
HELP = """
General Options:
  -h [ --help ]                         Print this help message.
  --config-file arg (=1)                Use config.ncu-cfg.
                                        --not-an-option of its own
  -k [ --kernel-name ] arg              Filter.
Usage of --nvtx-include and --nvtx-exclude:
  ncu --nvtx --nvtx-include "A@B"
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Write a program named ncu into a folder; the first one goes on PATH."""
    monkeypatch.delenv(program.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(program, "_FOLDERS", (f"{tmp_path}/tools/*".lstrip("/"),))

    def write(folder: str = "bin", version: str = "2024.1.1", body: str = "") -> Path:
        path = tmp_path / folder / "ncu"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = body or (
            f'if [ "$2" = --help ]; then cat <<"EOF"\n{HELP}\nEOF\n'
            f"else printf '{BANNER.format(version)}'; fi"
        )
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return write


def test_the_one_on_the_path(tool: Tool) -> None:
    path = tool()
    assert find() == Program(
        str(path), (2024, 1, 1), frozenset({"help", "config-file", "kernel-name"})
    )


def test_the_one_that_is_named_comes_first(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    tool()
    variable, named = tool("variable", "2024.2.0"), tool("named", "2025.1.0")
    monkeypatch.setenv(program.VARIABLE, str(variable))
    assert find().path == str(variable)
    assert find(named).path == str(named)
    with pytest.raises(NoProgramError, match=r"/no/ncu is not found"):
        find("/no/ncu")


def test_an_installed_one_off_the_path_the_newest(tool: Tool) -> None:
    tool("tools/2023.3.1", "2023.3.1")
    newest = tool("tools/2024.10.0", "2024.10.0")
    tool("tools/2024.9.0", "2024.9.0")
    assert find().path == str(newest)


def test_there_is_none(tool: Tool) -> None:
    with pytest.raises(NoProgramError) as caught:
        find()
    assert "ncu is not found" in caught.value.fact
    assert "--ncu" in caught.value.remedy
    assert isinstance(caught.value, MissingError)


def test_another_program_of_that_name(tool: Tool) -> None:
    tool(body="echo 16.14.0")
    with pytest.raises(NoProgramError, match=r"is not Nsight Compute: .* says '16\.14\.0'"):
        find()


def test_one_that_does_not_start_or_end(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    tool().write_bytes(b"\x7fELF nothing")
    with pytest.raises(NoProgramError, match="does not say its version"):
        find()
    tool(body="exec sleep 30")
    monkeypatch.setattr(program, "_SECONDS", 0.1)
    with pytest.raises(NoProgramError, match=r"no answer in 0\.1 s"):
        find()


def test_who_waits_is_told(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    path = tool()
    find(say=said.append)
    assert said == []
    monkeypatch.setattr(program, "_UNTIL_TOLD", 0.0)
    tool(body="exec sleep 30")
    monkeypatch.setattr(program, "_SECONDS", 1.0)
    with pytest.raises(NoProgramError):
        find(say=said.append)
    assert said == [f"hroof: waiting for {path} to say its version …"]


@pytest.mark.parametrize(
    ("version", "good"), [("2022.2.1", False), ("2022.3.0", True), ("2026.2.1", True)]
)
def test_how_old_it_may_be(tool: Tool, version: str, good: bool) -> None:
    tool(version=version)
    if good:
        assert find().release == version
        return
    with pytest.raises(NoProgramError, match=r"2022\.2\.1, older than 2022\.3"):
        find()


def test_without_a_list_of_options_none_is_known(tool: Tool) -> None:
    tool(body=f"printf '{BANNER.format('2025.1.0')}'")
    assert find().options == frozenset()


def test_since() -> None:
    assert Program("ncu", (2024, 1, 0)).since(2024, 1)
    assert Program("ncu", (2024, 1, 0)).since(2022, 3)
    assert not Program("ncu", (2024, 1, 0)).since(2024, 2)
