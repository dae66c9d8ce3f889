"""Known traps of running programs under Nsight Compute, each with a made-up ncu of its own."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hroof.collect.nsight import Program, Request, collecting, escape, started
from hroof.collect.nvtx import NvtxListener
from hroof.errors import UsageError
from hroof.kernels import WITHOUT_COMMUNICATION
from hroof.regions import Kind, Mark

Case = Callable[[int], tuple[Path, Any]]


@pytest.fixture
def case() -> Case:
    """The folder of one case by its number, and what it expects."""
    folder = os.environ.get("HROOF_CASES")
    if not folder:
        pytest.skip("HROOF_CASES does not name the folder of the cases")

    def find(number: int) -> tuple[Path, Any]:
        (found,) = Path(folder).glob(f"{number:02}-*")
        return found, json.loads((found / "expected.json").read_text())["expect"]

    return find


Under = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def under(tmp_path: Path) -> Under:
    """``hroof run --counters`` with the ncu of a case first on PATH."""

    def run(
        folder: Path, *options: str, program: list[str], **variables: str
    ) -> subprocess.CompletedProcess[str]:
        tools = tmp_path / "bin"
        tools.mkdir(exist_ok=True)
        tool = tools / "ncu"
        tool.write_text((folder / "input.ncu").read_text())
        tool.chmod(0o755)
        env = {
            key: value
            for key, value in os.environ.items()
            if key not in ("HROOF", "HROOF_NCU", "WORLD_SIZE")
        }
        env |= {
            "PATH": f"{tools}:{env['PATH']}",
            "FAKE_NCU_LOG": str(tmp_path / "asked"),
        } | variables
        return subprocess.run(
            [sys.executable, "-m", "hroof", "run", "--counters", *options, "--", *program],
            cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    return run


IDLE = [sys.executable, "-c", "print('trained')"]


def test_case_38_work_of_other_threads_is_within_the_step(case: Case) -> None:
    folder, expected = case(38)
    module = runpy.run_path(str(folder / "input.py"))
    for judged in expected["argv_ok"]:
        assert module["argv_ok"](judged["argv"]) is judged["ok"]
    request = Request(("a.sum",), Path("r"), Path("l"))
    assert module["argv_ok"](collecting(Program("ncu", (2024, 1)), request, ["python", "t.py"]))

    class Domain:
        """Takes ranges: those of one thread, and those of the process."""

        def __init__(self) -> None:
            self.open: list[str] = []

        def get_event_attributes(self, message: str) -> str:
            return message

        def start_range(self, message: str) -> int:
            self.open.append(message)
            return len(self.open) - 1

        def end_range(self, number: int) -> None:
            del self.open[number]

    domain = Domain()
    listener = NvtxListener(domain)
    seen: dict[int, list[str]] = {}

    class Region:
        def __init__(self, name: str) -> None:
            self.mark = Mark(Kind.PHASE, name)

        def __enter__(self) -> None:
            self.handle = listener.start(self.mark)

        def __exit__(self, *error: object) -> None:
            listener.end(self.handle)

    module["run"](Region, lambda: seen.setdefault(threading.get_ident(), [*domain.open]))
    ((thread, open_ranges),) = seen.items()
    assert thread != threading.get_ident()
    assert [message.partition("|")[2] for message in open_ranges] == ["backward"]
    assert domain.open == []


def test_case_39_names_are_escaped(case: Case) -> None:
    folder, expected = case(39)
    for name in json.loads((folder / "input.json").read_text()):
        if name in expected["refuse"]:
            with pytest.raises(UsageError):
                escape(name)
            continue
        assert escape(name) == started(name) == expected["start_end_filter"][name]
    request = Request((), Path("r"), Path("l"), include=("a", "b"))
    assert collecting(Program("ncu", (2024, 1)), request, ["p"]).count("--nvtx-include") == 2


def test_case_79_no_permission(case: Case, under: Under) -> None:
    folder, expected = case(79)
    done = under(folder, program=IDLE)
    assert (done.returncode != 0) is expected["exit_status_nonzero"]
    assert all(words in done.stderr for words in expected["message_mentions"])
    assert all(words in done.stderr.lower() for words in expected["suggests_any_of"])
    assert ("Traceback" in done.stdout + done.stderr) is expected["traceback"]


def test_case_80_nothing_captured(case: Case, under: Under) -> None:
    folder, expected = case(80)
    done = under(folder, program=IDLE)
    assert (done.returncode != 0) is expected["exit_status_nonzero"]
    said = done.stderr[done.stderr.index("hroof: No kernels") :]
    assert all(words in said for words in expected["message_mentions"])
    assert ("regex:^hroof$@^S" in said) is expected["shows_filter"]
    assert ("Traceback" in done.stdout + done.stderr) is expected["traceback"]


def test_case_82_arguments_and_output(case: Case, under: Under, tmp_path: Path) -> None:
    folder, expected = case(82)
    arguments = expected["target_argv"]
    program = [sys.executable, str(folder / "input_target.py"), *arguments]
    done = under(folder, program=program)
    assert done.returncode == expected["exit_status"]
    target, printed, *rest = done.stdout.splitlines()
    assert target == f"TARGET={program!r}"
    assert printed == f"ARGS {arguments!r}"
    assert len(rest) == 1  # the program's own line that looks like a table
    assert not (tmp_path / "out").exists()
    as_json = under(folder, "--json", program=program)
    assert len(as_json.stdout) == expected["kernels_from_stdout"]


def test_case_82_an_existing_report(case: Case, under: Under, tmp_path: Path) -> None:
    folder, expected = case(82)
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "counters.ncu-rep").write_text("mine")
    done = under(folder, "--out", "o", program=[sys.executable, str(folder / "input_target.py")])
    assert expected["overwrite_without_force"] == "refused"
    assert (done.returncode, done.stdout) == (4, "")
    assert (tmp_path / "o" / "counters.ncu-rep").read_text() == "mine"


def test_case_84_collectives_do_not_hang(case: Case, under: Under) -> None:
    folder, expected = case(84)
    before = time.monotonic()
    done = under(folder, program=IDLE, WORLD_SIZE="2")
    assert time.monotonic() - before < expected["finishes_within_s"]
    assert "sgemm" in done.stdout
    assert "nccl" not in done.stdout
    names = json.loads((folder / "input_names.json").read_text())
    assert not [
        name for name in names[expected["excluded"]] if re.search(WITHOUT_COMMUNICATION, name)
    ]
    assert all(re.search(WITHOUT_COMMUNICATION, name) for name in names[expected["kept"]])


def test_case_84_what_hangs_all_the_same_is_ended(case: Case, under: Under) -> None:
    folder, expected = case(84)
    before = time.monotonic()
    done = under(folder, "--timeout", "2", program=IDLE)
    assert time.monotonic() - before < expected["finishes_within_s"]
    assert done.returncode == 5
    assert "--lockstep-kernel-launch" in done.stderr
