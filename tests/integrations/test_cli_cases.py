"""Known traps of command lines: odd plotting environments, nothing captured, arguments that pass through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hroof.profile import Profile

HROOF = [sys.executable, "-m", "hroof"]


def run(*command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HROOF_CACHE": str(folder / "cache"), **variables}
    return subprocess.run(
        command, cwd=folder, env=environment,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture
def case() -> Any:
    """The files of one case, by its number."""
    folder = os.environ.get("HROOF_CASES")
    if not folder:
        pytest.skip("HROOF_CASES does not name the folder of the cases")

    def find(number: int) -> tuple[Path, dict[str, Any]]:
        (found,) = Path(folder).glob(f"{number:02}-*")
        expected = json.loads((found / "expected.json").read_text())["expect"]
        return found, expected

    return find


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A small run to report."""
    row = {"layer": "fc", "phase": "forward", "op": "mm", "duration": 1e-3, "step": 0,
           "flop_nominal_matrix_fp32": 1e6, "flop_least_matrix_fp32": 1e6, "bytes_l1": 1e5,
           "source_time": "measured", "source_flop": "counted", "source_l1": "counted",
           "launches": 1.0, "launch_id": 0, "device": "cpu"}  # fmt: skip
    return Profile.from_rows([row], {"name": "small", "steps": [{"step": 0, "wall": 1e-3}]}).save(
        tmp_path / "run"
    )


# --- 77: charts without a screen -----------------------------------------------------------------


@pytest.mark.parametrize(
    "variables",
    [
        {"MPLBACKEND": "TkAgg"},
        {"MPLBACKEND": "module://no.such.backend"},
        {"MPLBACKEND": ""},
        {"MPLCONFIGDIR": "/nonexistent/readonly", "HOME": "/nonexistent"},
    ],
)
def test_a_chart_is_drawn_without_a_screen(
    saved: Path, tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    done = run(*HROOF, "report", str(saved), "-o", "chart.png", folder=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_the_backend_of_the_process_stays(saved: Path, tmp_path: Path) -> None:
    code = (
        "import matplotlib; matplotlib.use('svg'); from hroof.cli import main; "
        f"assert main(['report', {str(saved)!r}, '-o', 'chart.png']) == 0; "
        "print(matplotlib.get_backend(), 'matplotlib.pyplot' in __import__('sys').modules)"
    )
    done = run(sys.executable, "-c", code, folder=tmp_path)
    assert done.stdout == "svg False\n", done.stderr


def test_without_matplotlib_tables_are_still_written(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')\n")
    common = {"folder": tmp_path, "PYTHONPATH": str(tmp_path)}
    table = run(*HROOF, "report", str(saved), "-o", "t.csv", **common)  # type: ignore[arg-type]
    assert table.returncode == 0, table.stderr
    chart = run(*HROOF, "report", str(saved), "-o", "c.png", **common)  # type: ignore[arg-type]
    assert chart.returncode == 6
    assert "matplotlib" in chart.stderr
    assert "Traceback" not in chart.stderr


def test_case_77(case: Any, saved: Path, tmp_path: Path) -> None:
    folder, expected = case(77)
    command = ["sh", str(folder / "input.sh"), *HROOF, "report", str(saved), "--force"]
    done = run(*command, "-o", "chart.png", folder=tmp_path)
    assert done.returncode == expected["exit_status"], done.stdout + done.stderr
    assert done.stderr.count("Wrote chart.png") == expected["runs"]


# --- 80: nothing captured ------------------------------------------------------------------------


def test_nothing_captured_is_a_condition_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("print('done')\n")
    done = run(*HROOF, "run", "--skip", "4", "--", sys.executable, "idle.py", folder=tmp_path)
    assert done.returncode == 5
    for words in ("No kernels", "filter", "--skip 4 --steps 3", "child process"):
        assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_case_80(case: Any, tmp_path: Path) -> None:
    """The tool of the case, as the program: it succeeds and captures nothing."""
    folder, expected = case(80)
    command = [sys.executable, str(folder / "input.ncu")]
    done = run(*HROOF, "run", "--", *command, folder=tmp_path)
    assert (done.returncode != 0) == expected["exit_status_nonzero"]
    assert all(words in done.stderr for words in expected["message_mentions"])
    assert ("--skip 5 --steps 3" in done.stderr) == expected["shows_filter"]
    assert ("Traceback" in done.stderr) == expected["traceback"]


# --- 82: arguments and output --------------------------------------------------------------------

ARGUMENTS = ["--csv", "-o", "out", "--name", "a b", "--", "x"]


def test_case_82(case: Any, tmp_path: Path) -> None:
    folder, expected = case(82)
    command = [sys.executable, str(folder / "input_target.py"), *ARGUMENTS]
    done = run(*HROOF, "run", "--", *command, folder=tmp_path)
    assert done.returncode == expected["exit_status"]
    assert done.stdout.splitlines()[0] == f"ARGS {expected['target_argv']!r}"
    assert len(done.stdout.splitlines()) == 2  # the program's own two lines, and no report
    assert not (tmp_path / "out").exists()


def test_case_82_with_json(case: Any, tmp_path: Path) -> None:
    """What the program prints, CSV or not, never reaches the machine-readable output."""
    folder, expected = case(82)
    command = [sys.executable, str(folder / "input_target.py"), *ARGUMENTS]
    done = run(*HROOF, "run", "--json", "--", *command, folder=tmp_path)
    assert done.returncode == expected["exit_status"]
    assert len(done.stdout) == expected["kernels_from_stdout"]
    assert "Kernel Name" in done.stderr


def test_case_82_an_existing_report(case: Any, saved: Path, tmp_path: Path) -> None:
    folder, expected = case(82)
    before = (saved / "run.json").read_bytes()
    command = [sys.executable, str(folder / "input_target.py")]
    done = run(*HROOF, "run", "--out", str(saved), "--", *command, folder=tmp_path)
    assert expected["overwrite_without_force"] == "refused"
    assert (done.returncode, done.stdout) == (4, "")
    assert (saved / "run.json").read_bytes() == before
