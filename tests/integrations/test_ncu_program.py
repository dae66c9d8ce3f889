"""The real ncu, which needs no GPU for these: its filters against the model, its options, its words.

They run where ``HROOF_NCU`` names the program or it is on PATH. Some also want ``HROOF_CORPUS``, a folder of reports.
"""

from __future__ import annotations

import csv
import ctypes
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hroof import readers
from hroof.collect import nsight
from hroof.collect.nsight import Condition, NoProgramError, Program, Request, escape, matches
from hroof.errors import UsageError
from hroof.kernels import COMMUNICATION, WITHOUT_COMMUNICATION
from hroof.profile import Profile
from hroof.readers import Raw

REPORT = "rep/NVIDIA-nsight-training__cuda_nsight_compute_sample_reports_manual_nvtx.ncu-rep"


@pytest.fixture(scope="module")
def ncu(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program, with a home folder that it can write to."""
    try:
        found = nsight.find()
    except NoProgramError as error:
        pytest.skip(f"no Nsight Compute (HROOF_NCU or PATH): {error.fact}")
    return found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def report() -> Path:
    """A report with nested push/pop ranges of the default domain: run_test around three others."""
    folder = os.environ.get("HROOF_CORPUS")
    if not folder:
        pytest.skip("HROOF_CORPUS does not name the folder of reports")
    return Path(folder) / REPORT


def asked(ncu: Program, report: Path, *options: str) -> tuple[int, list[int], str]:
    """Exit status, numbers of the launches that are kept, and the text."""
    done = subprocess.run(
        [*nsight.printing(ncu, report), "--metrics", "gpu__time_duration.sum", *options],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    rows = [row for row in csv.reader(io.StringIO(done.stdout)) if row and row[0].isdigit()]
    return done.returncode, [int(row[0]) for row in rows], done.stdout + done.stderr


def raw(ncu: Program, report: Path, folder: Path) -> Raw:
    """All launches, by way of the table that ncu prints."""
    table = folder / "table.csv"
    with table.open("wb") as file:
        subprocess.run(nsight.printing(ncu, report), stdout=file, check=True)
    return readers.read([table])


# --- filters ------------------------------------------------------------------------------------

EXPRESSIONS = [
    "run_test/", "run_test", "daxpy/", "run_test/daxpy", "run_test/*/daxpy", "run_test/+/daxpy", "[run_test", "[daxpy",
    "daxpy]", "run_test]", "[run_test/daxpy]", "run_test/+", "daxpy/+", "<default domain>@daxpy/", "hroof@daxpy/",
    "daxpy/,run_test/", "regex:dax/", "regex:^dax$/", "regex:default@dax/", "regex:[a-z]/", "regex:/[a-z]+/",
    "regex:run_test/d.*y/", "regex:run_test/dax/", "regex:daxpy]/", nsight.STEPS,
    # refused
    "@daxpy/", "a@b@c/", "hroof@", "hroof@*/", "*/daxpy", "regex:(/", "regex:hroof@step[0-9]",
]  # fmt: skip


def test_filter_model_and_program_agree(ncu: Program, report: Path, tmp_path: Path) -> None:
    launches = raw(ncu, report, tmp_path)
    states = [launches.ranges[number] for number in launches.launches["ranges"]]
    assert len(states) == 3
    differences, refused = {}, 0
    for expression in EXPRESSIONS:
        status, kept, _ = asked(ncu, report, "--nvtx-include", expression)
        try:
            model: list[int] | None = [
                n for n, state in enumerate(states) if matches(expression, state)
            ]
        except UsageError:
            model, refused = None, refused + 1
        program = kept if status == 0 else None
        if model != program:
            differences[expression] = (model, program)
    assert differences == {}
    assert refused == 7


@pytest.mark.parametrize("name", ["[a/b]", "a*b+c", "x, y@", "a\\b\\c", "café"])
def test_filter_an_escaped_name_finds_its_range(
    ncu: Program, report: Path, tmp_path: Path, name: str
) -> None:
    """The name of a range in the report is written over with one of the same length."""
    path = tmp_path / "renamed.ncu-rep"
    new = name.encode()
    assert len(new) == 5
    path.write_bytes(report.read_bytes().replace(b"\x05daxpy", b"\x05" + new))
    assert asked(ncu, path, "--nvtx-include", f"{escape(name)}/")[:2] == (0, [1])
    assert asked(ncu, path, "--nvtx-include", f"run_test/{escape(name)}")[:2] == (0, [1])


def test_filter_of_kernels_leaves_collectives_out(ncu: Program, report: Path) -> None:
    every = ("--kernel-name-base", "demangled", "--kernel-name")
    assert asked(ncu, report, *every, f"regex:{WITHOUT_COMMUNICATION}")[:2] == (0, [0, 1, 2])
    other = WITHOUT_COMMUNICATION.replace(COMMUNICATION, "daxpy")
    assert asked(ncu, report, *every, f"regex:{other}")[:2] == (0, [0, 2])


# --- options and words --------------------------------------------------------------------------

Collect = Callable[..., nsight.Outcome]


@pytest.fixture
def collect(ncu: Program, tmp_path: Path) -> Collect:
    """Run a program under it as ``hroof run --counters`` does; what it said."""

    def run(*command: str, **changes: object) -> nsight.Outcome:
        fields = {
            "metrics": ("gpu__time_duration.sum",),
            "report": tmp_path / "r.ncu-rep",
            "log": tmp_path / "log",
        }
        request = Request(**fields | changes)  # type: ignore[arg-type]
        words = nsight.collecting(ncu, request, command)
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        log = request.log.read_text() if request.log.exists() else ""
        lines = (log + done.stdout + done.stderr).splitlines()
        return nsight.judge(done.returncode, lines, report=request.report.exists())

    return run


@pytest.mark.parametrize(
    "changes", [{}, {"cold": True}, {"collectives": False}, {"include": ("a", "b@c/")}]
)
def test_options_are_all_known(collect: Collect, changes: dict[str, object]) -> None:
    found = collect(sys.executable, "-c", "pass", **changes)
    assert found.condition in (Condition.NO_DRIVER, Condition.NOTHING_CAPTURED)


def test_options_of_its_help_are_found(ncu: Program) -> None:
    assert {"nvtx-include", "kernel-name", "export", "import", "metrics", "log-file"} <= ncu.options
    assert ("config-file" in ncu.options) or not ncu.since(2024, 1)


def test_words_for_a_filter_that_is_malformed(collect: Collect) -> None:
    assert collect("true", include=("a@b@c",)).condition is Condition.REFUSED


def test_words_for_a_program_that_is_not_there(collect: Collect) -> None:
    assert collect("./no-such-program").condition is Condition.NOT_STARTED


def test_words_for_a_log_that_cannot_be_written(collect: Collect, tmp_path: Path) -> None:
    assert collect("true", log=tmp_path / "no" / "log").condition is Condition.NOT_WRITTEN


def test_words_for_a_report_that_does_not_load(ncu: Program, tmp_path: Path) -> None:
    (tmp_path / "empty.ncu-rep").touch()
    status, kept, text = asked(ncu, tmp_path / "empty.ncu-rep")
    assert status != 0
    assert kept == []
    assert "Failed to load report file" in text


def test_a_report_is_printed_for_the_reader(ncu: Program, report: Path, tmp_path: Path) -> None:
    found = raw(ncu, report, tmp_path)
    assert [name.partition("(")[0] for name in found.launches["kernel"]] == [
        "init_data_kernel", "daxpy_kernel", "check_results_kernel",
    ]  # fmt: skip
    durations = found.counters["gpu__time_duration.sum"]
    assert durations.tolist() == pytest.approx([84480e-9, 249216e-9, 88512e-9])


# --- hroof run ----------------------------------------------------------------------------------


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="there is a driver here: counters may be had")
def test_without_a_driver_a_run_falls_back(ncu: Program, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import os\nfrom hroof.profile import Profile\n"
        "print('once')\n"
        "Profile.from_rows([], {'name': os.environ.get('HROOF', 'plain')}).save(os.environ['HROOF_OUT'])\n"
    )
    command = [sys.executable, "-m", "hroof", "run", "--counters", "--no-report", "--out", "o"]
    env = {key: value for key, value in os.environ.items() if key != "HROOF"}
    done = subprocess.run(
        [*command, "--", sys.executable, str(program)],
        cwd=tmp_path, env=env | {"HROOF_NCU": ncu.path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "once\n"
    assert "no counters, running without: There is no NVIDIA driver here" in done.stderr
    assert Profile.load(tmp_path / "o").run["name"] == "plain"
    named = subprocess.run(
        [*command, "--force", "--ncu", ncu.path, "--", sys.executable, str(program)],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (named.returncode, named.stdout) == (6, "")
