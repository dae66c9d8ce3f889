"""``hroof run --counters`` with a made-up ncu: what it is asked, what becomes of what it says, what is kept."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hroof.cli import counters, results, show, target
from hroof.cli import run as run_verb
from hroof.collect import nsight, tsl
from hroof.collect.nsight import Watch
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.units import Phase

# Isolated, so that the start-up hook waits for the program.
NCU = """#!{python} -I
import json, os, signal, subprocess, sys, time
from pathlib import Path

here = Path(__file__).parent
argv = sys.argv[1:]
does = json.loads((here / "does.json").read_text())
with (here / "asked.txt").open("a") as file:
    print(json.dumps(argv), file=file)
if "--version" in argv:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion %s.0 (build 1)" % does["version"])
    print("  --config-file arg (=1)   Read it." if "--help" in argv else "")
    sys.exit()
if "--import" in argv:
    time.sleep(does["print_seconds"])
    sys.stdout.write(does["table"])
    sys.exit(does["print_status"])
log, report = (argv[argv.index(name) + 1] for name in ("--log-file", "-o"))
child = None

def stop(number, frame):
    child.send_signal(signal.SIGTERM)

signal.signal(signal.SIGINT, stop)
status = does["status"]
if does["starts"]:
    child = subprocess.Popen(argv[argv.index("-o") + 2 :])
    status = child.wait() or status
    if status < 0:
        status = 130
for line in does["stderr"]:
    print(line, file=sys.stderr)
if does["log"] is not None:
    Path(log).write_text("\\n".join(does["log"]) + "\\n")
if does["reports"]:
    Path(report).write_text("report\\n")
sys.exit(status)
"""

# What a region leaves that only marked; without ncu, what it measures by itself.
TARGET = """
import os, shutil, sys, time
from pathlib import Path

marks = os.environ.get("HROOF") == "marks"
out = os.environ["HROOF_OUT"]
print("program", "marks" if marks else "plain", sys.argv[1:], flush=True)
with open("ran.txt", "a") as file:
    print(marks, file=file)
for name in {regions!r} if marks else [""]:
    prepared = {prepared!r} + ("/marks" if marks else "/plain")
    if os.path.exists(prepared + "/run.json"):
        shutil.copytree(prepared, out + name, dirs_exist_ok=True)
Path({prepared!r}, "ready").touch()
time.sleep({seconds!r} if marks else 0)
sys.exit({status!r} if marks else 0)
"""

RANGES = {
    "S1|6": {"id": "S1", "kind": "step", "name": "6", "phase": "", "recompute": False},
    "L1|p=forward|a": {
        "id": "L1",
        "kind": "layer",
        "name": "the a",
        "phase": "forward",
        "recompute": False,
    },
}
LAYERS = [{"name": "the a", "type": "Linear", "depth": 1, "parameters": 3}]
KERNELS = ("gemm(float *)", "copy(float *)")


def table() -> str:
    """Two launches of one step and layer, as ncu prints them."""
    names = ["ID", "Process ID", "Process Name", "Host Name",
             "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
             "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
             "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC",
             "dram__bytes.sum", "gpu__time_duration.sum"]  # fmt: skip
    units = [""] * 13 + ["byte", "nsecond"]
    layer = '77  "hroof:L1|p=forward|a:none:none:none:none:none:none" '
    step = ' "5:hroof:S1|6:none:none:none:none:none:none" '
    rows = [
        [
            number,
            77,
            "python",
            "host",
            layer,
            step,
            kernel,
            1,
            7,
            "(32, 1, 1)",
            "(4, 1, 1)",
            0,
            "8.6",
            4096,
            1000,
        ]
        for number, kernel in enumerate(KERNELS)
    ]
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([names, units, *rows])
    return text.getvalue()


class Ncu:
    """The made-up ncu: what it is to do, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ncu"
        self._folder = folder
        self.path.write_text(NCU.format(python=sys.executable))
        self.path.chmod(0o755)
        self.does()

    def does(self, **changes: Any) -> None:
        usual = {"version": "2024.1.1", "starts": True, "reports": True, "log": [], "stderr": [], "status": 0,
                 "table": table(), "print_status": 0, "print_seconds": 0}  # fmt: skip
        (self._folder / "does.json").write_text(json.dumps(usual | changes))

    def fails(self, line: str, **changes: Any) -> None:
        self.does(**{"reports": False, "log": [line]} | changes)

    def asked(self) -> list[list[str]]:
        path = self._folder / "asked.txt"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def collecting(self) -> list[str]:
        (words,) = (words for words in self.asked() if "-o" in words)
        return words


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ncu:
    """The made-up ncu on PATH, and nothing else of NVIDIA's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(nsight, "permission", lambda: nsight.Permission.UNKNOWN)
    for name in ("HROOF_NCU", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    return Ncu(folder)


Program = Callable[..., list[str]]


@pytest.fixture
def program(script: Any, profile: Profile, tmp_path: Path) -> Program:
    """A program with regions, in a folder of prepared results."""
    prepared = tmp_path / "prepared"
    facts = {"name": "train", "framework": "none", "schedule": {"skip": 5, "steps": 3}, "status": "complete",
             "device": "cuda:0", "device_name": "GPU of the marks", "nvtx": RANGES, "layers": LAYERS}  # fmt: skip
    Profile.from_rows([], facts).save(prepared / "marks")
    row = {"layer": "the a", "phase": "forward", "duration": 3e-6, "step": 0, "source_time": "measured",
           "launches": 1.0, "device": "cuda:0"}  # fmt: skip
    rows = [row | {"launch_id": number, "kernel": kernel} for number, kernel in enumerate(KERNELS)]
    Profile.from_rows(rows, {"name": "plain"}).save(prepared / "plain")

    def write(regions: tuple[str, ...] = ("",), status: int = 0, seconds: float = 0) -> list[str]:
        return script(
            TARGET.format(prepared=str(prepared), regions=regions, status=status, seconds=seconds)
        )

    return write


def ran(tmp_path: Path) -> list[str]:
    """How often the program was started, and whether only to mark."""
    path = tmp_path / "ran.txt"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


# --- a result -----------------------------------------------------------------------------------


def test_the_report_becomes_the_result(
    hroof: Any, ncu: Ncu, program: Program, tmp_path: Path
) -> None:
    ncu.does(log=['==PROF== Profiling "gemm" - 0: 0%....50%....100% - 4 passes'])
    done = hroof("run", "--counters", "--out", "o", "--", *program(), "--csv", "a b")
    assert done.status == 0, done.err
    assert done.out.startswith("program marks ['--csv', 'a b']\n")
    assert "Verdict" in done.out
    saved = Profile.load("o")
    assert saved.launches["layer"].tolist() == ["the a"] * 2
    assert saved.launches["phase"].tolist() == ["forward"] * 2
    assert saved.launches["duration"].tolist() == pytest.approx([1e-6] * 2)
    assert saved.launches["bytes_dram"].tolist() == [4096.0] * 2
    assert saved.launches["layer_type"].tolist() == ["Linear"] * 2
    assert saved.counters is not None
    assert saved.counters["gpu__time_duration.sum"].tolist() == pytest.approx([1e-6] * 2)
    assert (saved.run["name"], saved.run["nvtx"]) == ("train", RANGES)
    mode = saved.run["counters_mode"]
    assert mode.pop("command") == [str(ncu.path), *ncu.collecting()]
    assert mode == {
        "cache": "none",
        "clock": "none",
        "replay": "kernel",
        "passes": 4,
        "ncu": "2024.1.1",
    }
    assert {"counters.ncu-rep", "counters.csv", "counters.log"} <= {
        path.name for path in Path("o").iterdir()
    }
    assert ran(tmp_path) == ["True"]


def test_what_ncu_is_asked(hroof: Any, ncu: Ncu, program: Program, tmp_path: Path) -> None:
    command = program()
    hroof("run", "--counters", "--cold", "--skip", "2", "--out", "o", "--", *command, "--", "x")
    version, options, collecting, printing = ncu.asked()
    assert (version, options) == (["--version"], ["--version", "--help"])
    assert collecting[-len(command) - 2 :] == [*command, "--", "x"]
    assert collecting[collecting.index("-o") + 1] == f"{tmp_path}/o/counters.ncu-rep"
    assert collecting[collecting.index("--cache-control") + 1] == "all"
    assert "gpu__time_duration.sum" in collecting[collecting.index("--metrics") + 1].split(",")
    assert collecting[0] == printing[0] == "--config-file=off"
    assert printing[printing.index("--import") + 1] == "o/counters.ncu-rep"


def test_metrics_are_those_of_the_chip(
    hroof: Any, ncu: Ncu, program: Program, tmp_path: Path
) -> None:
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, GPU-1, 9.0, NVIDIA H100 PCIe'\n")
    smi.chmod(0o755)
    hroof("run", "--counters", "--", *program())
    assert (
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
        in ncu.collecting()[ncu.collecting().index("--metrics") + 1]
    )


def test_an_unknown_chip_is_told(hroof: Any, ncu: Ncu, program: Program, tmp_path: Path) -> None:
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, GPU-1, 99.0, NVIDIA Future'\n")
    smi.chmod(0o755)
    done = hroof("run", "--counters", "--", *program())
    assert done.status == 0
    assert "the chip of NVIDIA Future is not known" in done.err


def test_several_regions_become_one_result(hroof: Any, ncu: Ncu, program: Program) -> None:
    done = hroof("run", "--counters", "--out", "o", "--", *program(("", "-2", "-rank1")))
    assert done.status == 0
    assert not Path("o-2").exists()
    assert not Path("o-rank1").exists()
    assert any("3 regions or processes" in text for text in Profile.load("o").run["warnings"])


def test_places_of_several_regions_are_joined(
    hroof: Any, ncu: Ncu, program: Program, tmp_path: Path
) -> None:
    prepared = tmp_path / "prepared" / "marks"
    known = tsl.Places({"net/fc/MatMul": (tsl.Share(Phase.FORWARD, "fc"),)})
    marks = Profile.load(prepared)
    marks.replace(run={**marks.run, "places": known.table()}).save(prepared, force=True)
    ncu.does(table=table().replace("hroof:L1|p=forward|a:", "TSL:net/fc/MatMul:MatMul:"))
    done = hroof("run", "--counters", "--out", "o", "--", *program(("", "-2")))
    assert done.status == 0, done.err
    saved = Profile.load("o")
    assert tsl.read(saved.run["places"]) == known
    assert saved.launches["layer"].tolist() == ["fc"] * 2
    assert saved.launches["op"].tolist() == ["MatMul"] * 2


def test_without_names_ranges_speak_for_themselves(hroof: Any, ncu: Ncu, program: Program) -> None:
    done = hroof("run", "--counters", "--name", "mine", "--out", "o", "--", *program(()))
    assert done.status == 0
    saved = Profile.load("o")
    assert saved.run["name"] == "mine"
    assert saved.launches["layer"].tolist() == ["a"] * 2
    assert any("left no names" in text for text in saved.run["warnings"])


def test_without_measured_ceilings_the_counters_peaks_hold(
    profile: Profile, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    nameless = profile.replace(run={})
    measured = dataclasses.replace(machine, name="measured")
    monkeypatch.setattr(show, "ceilings_of", lambda profile, say, quick=False: measured)
    assert run_verb._machine(profile, tmp_path, said.append) == measured
    machine.save(tmp_path / "machine.json")
    assert run_verb._machine(profile, tmp_path, said.append) == measured
    assert said == []
    assert run_verb._machine(nameless, tmp_path, said.append) == machine
    assert said == ["hroof: the ceilings are the peaks that the counters carry."]


def test_json_is_one_object(hroof: Any, ncu: Ncu, program: Program) -> None:
    done = hroof("run", "--counters", "--json", "--out", "o", "--", *program())
    assert json.loads(done.out)["run"]["counters_mode"]["ncu"] == "2024.1.1"
    assert "program marks" in done.err


def test_a_failed_program_with_a_report(hroof: Any, ncu: Ncu, program: Program) -> None:
    ncu.does(log=["==ERROR== The application returned an error code (3)."])
    done = hroof("run", "--counters", "--out", "o", "--", *program(status=3))
    assert done.status == 3
    assert "exit status 3. What it did until then" in done.err
    assert len(Profile.load("o").launches) == 2


def test_what_ncu_complains_about_is_a_warning_of_the_run(
    hroof: Any, ncu: Ncu, program: Program
) -> None:
    ncu.does(log=["==WARNING== The lock file is old.", "==ERROR== Failed to profile one kernel."])
    done = hroof("run", "--counters", "--out", "o", "--", *program())
    assert done.status == 0
    warnings = Profile.load("o").run["warnings"]
    assert "ncu: The lock file is old." in warnings
    assert "ncu: Failed to profile one kernel." in warnings


def test_a_result_that_is_not_whole_is_reported_and_told(
    hroof: Any, ncu: Ncu, program: Program
) -> None:
    ncu.does(log=["==ERROR== Failed to save profile results: No space left on device"])
    done = hroof("run", "--counters", "--out", "o", "--", *program())
    assert done.status == 4
    assert "Verdict" in done.out
    assert "Make room" in done.err


def test_a_report_that_cannot_be_printed_is_kept(hroof: Any, ncu: Ncu, program: Program) -> None:
    ncu.does(print_status=1, table="==ERROR== Failed to load report file\n")
    done = hroof("run", "--counters", "--out", "o", "--", *program())
    assert done.status == 3
    assert "Failed to load report file" in done.err
    assert "hroof import o/counters.ncu-rep" in done.err
    assert Path("o/counters.ncu-rep").exists()


def test_a_table_that_cannot_be_written(
    hroof: Any, ncu: Ncu, program: Program, tmp_path: Path
) -> None:
    command = program()
    in_the_way = "import os; os.mkdir(os.environ['HROOF_OUT'] + '/counters.csv')\n"
    Path(command[1]).write_text(in_the_way + Path(command[1]).read_text())
    done = hroof("run", "--counters", "--out", "o", "--", *command)
    assert done.status == 4
    assert "counters.csv" in done.err
    assert "hroof import o/counters.ncu-rep" in done.err


def test_an_empty_table_is_told_and_the_report_kept(hroof: Any, ncu: Ncu, program: Program) -> None:
    """A full disk: ncu prints nothing and says nothing."""
    ncu.does(table="")
    done = hroof("run", "--counters", "--out", "o b", "--", *program())
    assert done.status == 3
    assert "printed nothing of its report into 'o b/counters.csv': the disk is full" in done.err
    assert "filter" not in done.err
    assert "The report is kept: hroof import 'o b/counters.ncu-rep'" in done.err
    assert Path("o b/counters.ncu-rep").exists()


def test_a_table_that_cannot_be_read_leaves_the_report(
    hroof: Any, ncu: Ncu, program: Program
) -> None:
    ncu.does(table="\0\1 no table")
    done = hroof("run", "--counters", "--out", "o", "--", *program())
    assert done.status == 3
    assert "The report is kept: hroof import o/counters.ncu-rep" in done.err


def test_a_report_that_cannot_be_printed_is_kept_beside_the_one_it_was_to_replace(
    hroof: Any, ncu: Ncu, program: Program
) -> None:
    command = program()
    assert hroof("run", "--counters", "--out", "o", "--", *command).status == 0
    Path("o/counters.ncu-rep").write_text("old")
    ncu.does(print_status=1, table="==ERROR== Failed to load report file\n")
    done = hroof("run", "--counters", "--out", "o", "--force", "--", *command)
    assert done.status == 3
    assert "hroof import o/unread-counters.ncu-rep" in done.err
    assert Path("o/unread-counters.ncu-rep").read_text() == "report\n"
    assert Path("o/counters.ncu-rep").read_text() == "old"
    assert len(Profile.load("o").launches) == 2


def test_printing_that_hangs_is_ended(
    hroof: Any, ncu: Ncu, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "_LEAST_TO_PRINT", 1.0)
    monkeypatch.setattr(nsight, "Watch", lambda seconds: Watch(None))  # the program has its time
    ncu.does(print_seconds=60)
    done = hroof("run", "--counters", "--timeout", "0.5", "--out", "o", "--", *program())
    assert done.status == 3
    assert "ncu was ended after 1 s (--timeout) while it printed its report" in done.err
    assert "The report is kept: hroof import o/counters.ncu-rep" in done.err


def test_the_machine_of_a_run_that_is_replaced_goes(
    hroof: Any, ncu: Ncu, program: Program, machine: Machine
) -> None:
    command = program()
    assert hroof("run", "--counters", "--out", "o", "--", *command).status == 0
    machine.save(Path("o/machine.json"))
    done = hroof("run", "--counters", "--out", "o", "--force", "--", *command)
    assert done.status == 0
    assert not Path("o/machine.json").exists()


def test_without_framework_and_peaks_it_is_told_why_there_are_no_ceilings(
    hroof: Any, ncu: Ncu, program: Program
) -> None:
    done = hroof("run", "--counters", "--out", "o b", "--", *program(()))
    assert done.status == 0
    assert "integration" not in done.err
    assert "no ceilings: no framework that could measure them was seen" in done.err
    assert "hroof report 'o b' --machine FILE" in done.err
    assert "See it again with: hroof report 'o b'\n" in done.err


# --- times of their own --------------------------------------------------------------------------


def test_times_of_a_run_without_counters(
    hroof: Any, ncu: Ncu, program: Program, tmp_path: Path
) -> None:
    done = hroof("run", "--counters", "--times", "--out", "o", "--", *program())
    assert done.status == 0
    assert ran(tmp_path) == ["True", "False"]
    assert "start-up hook failed" not in done.err
    assert "100.0 % of the time has times of the run without counters" in done.err
    saved = Profile.load("o")
    assert saved.launches["duration"].tolist() == pytest.approx([3e-6] * 2)
    assert saved.launches["bytes_dram"].tolist() == [4096.0] * 2
    assert not list(Path("o").glob(".times-*"))


def test_times_that_do_not_fit_do_no_harm(
    hroof: Any, ncu: Ncu, program: Program, tmp_path: Path
) -> None:
    command = program()
    (tmp_path / "prepared" / "plain" / "launches-0.parquet").write_bytes(b"damaged")
    done = hroof("run", "--counters", "--times", "--out", "o", "--", *command)
    assert done.status == 0
    assert "no times of their own: " in done.err
    assert len(Profile.load("o").launches) == 2


def test_a_second_run_that_leaves_nothing_does_no_harm(
    hroof: Any, ncu: Ncu, program: Program, tmp_path: Path
) -> None:
    command = program()
    (tmp_path / "prepared" / "plain" / "run.json").unlink()
    done = hroof("run", "--counters", "--times", "--out", "o", "--", *command)
    assert done.status == 0
    assert "no times of their own" in done.err
    assert Profile.load("o").launches["duration"].tolist() == pytest.approx([1e-6] * 2)


# --- no counters here ----------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["absent", "old", "no driver", "no driver, unheard"])
def test_where_there_cannot_be_counters_it_runs_without(
    hroof: Any,
    ncu: Ncu,
    program: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
) -> None:
    monkeypatch.setattr(nsight, "has_driver", lambda: False)
    said = "There is no Nsight Compute here"
    if reason == "absent":
        ncu.path.unlink()
    elif reason == "old":
        ncu.does(version="2021.3.1")
        said = "older than 2022.3"
    else:
        message = "==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?)."
        heard = [] if reason.endswith("unheard") else [message]
        ncu.fails("==WARNING== No kernels were profiled.", stderr=heard, starts=False, status=1)
        said = "There is no NVIDIA driver here"
    done = hroof("run", "--counters", "--out", "o", "--", *program())
    assert done.status == 0
    assert done.err.count("no counters, running without") == 1
    assert said in done.err
    assert ran(tmp_path) == ["False"]
    assert len(Profile.load("o").launches) == 2
    assert not list(Path("o").glob("counters.*"))


def test_a_named_ncu_has_to_do(hroof: Any, ncu: Ncu, program: Program, tmp_path: Path) -> None:
    done = hroof("run", "--counters", "--ncu", "/no/ncu", "--", *program())
    assert (done.status, done.out) == (6, "")
    assert "/no/ncu is not found" in done.err
    ncu.fails("==ERROR== Failed to load the driver.", starts=False, status=1)
    done = hroof("run", "--counters", "--ncu", ncu.path, "--", *program())
    assert done.status == 6
    assert "no NVIDIA driver" in done.err
    assert ran(tmp_path) == []
    assert not Path("hroof-runs").exists()


def test_a_program_that_has_run_is_not_run_again(
    hroof: Any, ncu: Ncu, script: Any, tmp_path: Path
) -> None:
    """The start-up hook leaves a note wherever Python starts."""
    ncu.fails("==ERROR== Failed to load the driver.", status=1)
    done = hroof("run", "--counters", "--", *script("open('ran.txt', 'a').write('once ')"))
    assert done.status == 6
    assert "no NVIDIA driver" in done.err
    assert (tmp_path / "ran.txt").read_text() == "once "


@pytest.mark.parametrize("late", ["heard", "unheard"])
def test_a_late_run_without_a_driver_is_not_started_again(
    hroof: Any, ncu: Ncu, script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """Isolated, so that it leaves no note."""
    monkeypatch.setattr(nsight, "has_driver", lambda: False)

    class Late(Watch):
        def wait(self, child: subprocess.Popen[bytes]) -> int:
            self.late = True
            return child.wait()

    monkeypatch.setattr(nsight, "Watch", Late)
    ncu.fails("==ERROR== Failed to load the driver." if late == "heard" else "", status=1)
    command = script("open('ran.txt', 'a').write('once ')", "target.py", "-I")
    done = hroof("run", "--counters", "--timeout", "9", "--", *command)
    assert done.status == (6 if late == "heard" else 5)
    assert "running without" not in done.err
    assert (tmp_path / "ran.txt").read_text() == "once "


@pytest.mark.parametrize("message", ["==ERROR== Failed to load the driver.", "", "No kernels"])
def test_a_program_that_notes_nothing_is_not_started_again(
    hroof: Any, ncu: Ncu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    monkeypatch.setattr(nsight, "has_driver", lambda: False)
    ncu.fails(message and message.replace("No", "==WARNING== No"))
    command = ["sh", "-c", "echo once >> ran.txt; exit 4"]
    done = hroof("run", "--counters", "--out", "o", "--", *command)
    heard = "Failed" in message
    assert done.status == (6 if heard else 4)
    assert done.err.count("There is no NVIDIA driver here") == 1
    assert "No kernels were profiled, though" not in done.err
    assert ("leave --counters out" in done.err) is heard
    assert (tmp_path / "ran.txt").read_text() == "once\n"


@pytest.mark.parametrize("switch", ["off", "0"])
def test_switched_off(
    hroof: Any, ncu: Ncu, script: Any, monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    monkeypatch.setenv("HROOF", switch)
    done = hroof("run", "--counters", "--", *script("print('fine')"))
    assert (done.status, done.out) == (0, "fine\n")
    assert "nothing was measured" in done.err
    assert ncu.asked() == []


# --- no result ----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["log", "stderr"])
def test_no_permission(hroof: Any, ncu: Ncu, program: Program, where: str) -> None:
    line = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission."
    ncu.fails("", **{where: [line]})
    done = hroof("run", "--counters", "--out", "o", "--", *program())
    assert done.status == 5
    for words in ("permission", "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0", "--cap-add=SYS_ADMIN",
                  "ask the provider", "without counters"):  # fmt: skip
        assert words in done.err.lower() or words in done.err
    assert "Traceback" not in done.err
    assert not Path("o").exists()


def test_a_refusal_that_can_be_foreseen_is_said_before(
    hroof: Any, ncu: Ncu, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsight, "permission", lambda: nsight.Permission.REFUSED)
    done = hroof("run", "--counters", "--", *program())
    assert done.status == 0
    assert done.err.startswith("hroof: the counters of this machine are for administrators only")


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("==ERROR== Failed to save profile results: No space left on device", 4, "Make room"),
        ("==ERROR== a driver resource was unavailable. Ensure that no other tool", 5, "dcgmi"),
        ("==ERROR== Error: InterprocessLockFailed", 5, "TMPDIR"),
        ("==ERROR== Failed to find metric a.sum", 5, "newer"),
    ],
)
def test_other_troubles(
    hroof: Any, ncu: Ncu, program: Program, line: str, status: int, said: str
) -> None:
    ncu.fails(line, status=1)
    done = hroof("run", "--counters", "--out", "o", "--", *program())
    assert done.status == status
    assert said in done.err
    assert not Path("o").exists()


def test_nothing_captured(hroof: Any, ncu: Ncu, program: Program) -> None:
    ncu.fails("==WARNING== No kernels were profiled.")
    done = hroof("run", "--counters", "--skip", "7", "--out", "o", "--", *program())
    assert done.status == 5
    assert "No kernels were profiled, though the program ran" in done.err
    assert "--nvtx-include 'regex:^hroof$@^S' (--skip 7 --steps 3)" in done.err
    assert "S1|6, L1|p=forward|a" in done.err
    causes = ["name or scope", "cudaProfilerStop", "--skip 7.", "on the CPU", "child process"]
    places = [done.err.index(cause) for cause in causes]
    assert places == sorted(places)
    assert not Path("o").exists()


def test_nothing_captured_by_a_program_that_knows_why(hroof: Any, ncu: Ncu, script: Any) -> None:
    ncu.fails("==WARNING== No kernels were profiled.")
    done = hroof("run", "--counters", "--", *script("""
        import json, os
        from pathlib import Path
        Path(os.environ["HROOF_OUT"], "empty.json").write_text(json.dumps({"reason": "It saw 2 steps."}))
    """))  # fmt: skip
    assert done.status == 5
    assert "1. It saw 2 steps." in done.err
    assert "No range of the domain hroof" in done.err


def test_a_region_that_ended_before_its_first_step(
    hroof: Any, ncu: Ncu, program: Program, tmp_path: Path
) -> None:
    command = program()
    marks = tmp_path / "prepared" / "marks"
    profile = Profile.load(marks)
    profile.replace(
        run=profile.run | {"nvtx": {"R1|train": RANGES["S1|6"] | {"kind": "region"}}}
    ).save(marks, force=True)
    ncu.fails("==WARNING== No kernels were profiled.")
    done = hroof("run", "--counters", "--", *command)
    assert "None of these ranges is a step" in done.err


def test_an_interpreter_without_hroof_is_named_as_a_shell_takes_it(
    hroof: Any, ncu: Ncu, script: Any
) -> None:
    ncu.fails("==WARNING== No kernels were profiled.")
    done = hroof("run", "--counters", "--", *script("""
        import json, os
        from pathlib import Path
        note = {"executable": "/my env/python", "problem": "no hroof"}
        Path(os.environ["HROOF_OUT"], "start-1.json").write_text(json.dumps(note))
    """))  # fmt: skip
    assert "'/my env/python' -m pip install hroof." in done.err


def test_a_failed_program_without_a_report(hroof: Any, ncu: Ncu, script: Any) -> None:
    ncu.fails("==ERROR== An odd thing.")
    done = hroof("run", "--counters", "--", *script("raise SystemExit(9)"))
    assert done.status == 9
    assert "ncu: An odd thing." in done.err
    assert "exit status 9" in done.err
    assert not Path("hroof-runs").exists()


def test_a_failed_program_that_captured_nothing_is_told_once(
    hroof: Any, ncu: Ncu, program: Program
) -> None:
    ncu.fails("==WARNING== No kernels were profiled.")
    done = hroof("run", "--counters", "--", *program(status=3))
    assert done.status == 3
    assert done.err.count("No kernels") == 1
    assert "exit status 3" in done.err


@pytest.mark.parametrize(("name", "status"), [("no-such-program", 127), ("./target.py", 126)])
def test_a_program_that_cannot_be_started(
    hroof: Any, ncu: Ncu, script: Any, name: str, status: int
) -> None:
    script("")
    done = hroof("run", "--counters", "--", name)
    assert done.status == status
    assert all("-o" not in words for words in ncu.asked())
    assert not Path("hroof-runs").exists()


# --- the end ------------------------------------------------------------------------------------


def wait_until_ready(tmp_path: Path) -> None:
    """The program is under way, and ncu ready for an interrupt."""
    until = time.monotonic() + 20
    while not (tmp_path / "prepared" / "ready").exists() and time.monotonic() < until:
        time.sleep(0.02)


def test_a_run_that_hangs_is_ended_and_kept(
    hroof: Any, ncu: Ncu, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LateWatch(Watch):
        def wait(self, child: subprocess.Popen[bytes]) -> int:
            wait_until_ready(tmp_path)
            return super().wait(child)

    monkeypatch.setattr(nsight, "Watch", LateWatch)
    command = program(seconds=60)
    done = hroof("run", "--counters", "--timeout", "0.05", "--out", "o", "--", *command)
    assert done.status == 5
    assert "ended after 0.05 s (--timeout)" in done.err
    assert "lockstep" in done.err
    assert len(Profile.load("o").launches) == 2


def test_a_run_that_hangs_without_a_report(hroof: Any, ncu: Ncu, program: Program) -> None:
    ncu.does(reports=False)
    done = hroof("run", "--counters", "--timeout", "0.5", "--", *program(seconds=60))
    assert done.status == 5
    assert "ended after 0.5 s" in done.err


def test_an_interrupt_reaches_the_program_and_what_there_is_stays(
    hroof: Any, ncu: Ncu, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "_typed_at_terminal", lambda: False)
    monkeypatch.setattr(target, "_PATIENCE", 0.1)
    command = program(seconds=60)

    def interrupt() -> None:
        wait_until_ready(tmp_path)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    done = hroof("run", "--counters", "--out", "o", "--", *command)
    thread.join()
    assert done.status == 130
    assert len(Profile.load("o").launches) == 2


# --- several processes ---------------------------------------------------------------------------


def test_collectives_are_left_out(
    hroof: Any, ncu: Ncu, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = hroof("run", "--counters", "--", *program())
    assert done.status == 0
    assert "kernels that communicate between processes are left out" in done.err
    assert "--timeout S" in done.err
    assert "--kernel-name" in ncu.collecting()


# --- what is there already -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.json", "counters.ncu-rep", "counters.csv"])
def test_what_is_there_is_not_overwritten(
    hroof: Any, ncu: Ncu, program: Program, tmp_path: Path, name: str
) -> None:
    Path("o").mkdir()
    Path("o", name).write_text("mine")
    command = program()
    done = hroof("run", "--counters", "--out", "o", "--", *command)
    assert (done.status, done.out) == (4, "")
    assert "--force" in done.err
    assert Path("o", name).read_text() == "mine"
    assert hroof("run", "--counters", "--out", "o", "--force", "--", *command).status == 0
    assert Path("o", "counters.ncu-rep").read_text() == "report\n"


def test_what_was_to_be_replaced_stays_where_nothing_comes(
    hroof: Any, ncu: Ncu, program: Program
) -> None:
    command = program()
    assert hroof("run", "--counters", "--out", "o", "--", *command).status == 0
    before = {path.name: path.read_bytes() for path in Path("o").iterdir()}
    ncu.fails("==WARNING== No kernels were profiled.")
    assert hroof("run", "--counters", "--out", "o", "--force", "--", *command).status == 5
    assert {path.name: path.read_bytes() for path in Path("o").iterdir()} == before


# --- the command line ----------------------------------------------------------------------------


def test_a_dry_run_prints_and_starts_nothing(hroof: Any, ncu: Ncu, tmp_path: Path) -> None:
    options = ["--skip", "2", "--out", "a b"]
    command = ["python", "train.py", "--name", "it's"]
    done = hroof("run", "--counters", "--dry-run", *options, "--", *command)
    assert done.status == 0
    env, *words = shlex.split(done.out)
    assert env == "env"
    variables = dict(word.split("=", 1) for word in words[: words.index(str(ncu.path))])
    assert (variables["HROOF"], variables["HROOF_OUT"]) == ("marks", f"{tmp_path}/a b")
    assert json.loads(variables["HROOF_START"])["skip"] == 2
    assert words[-4:] == command
    assert words[words.index("-o") + 1] == f"{tmp_path}/a b/counters.ncu-rep"
    assert all("--version" in asked for asked in ncu.asked())
    assert {path.name for path in tmp_path.iterdir()} == {"bin"}


def test_a_dry_run_names_the_folder_of_a_real_run(hroof: Any, ncu: Ncu, program: Program) -> None:
    command = program()
    assert hroof("run", "--counters", "--", *command).status == 0
    done = hroof("run", "--counters", "--dry-run", "--", *command)
    assert "/hroof-runs/target.2/counters.ncu-rep " in done.out
    assert not Path("hroof-runs/target.2").exists()
    assert hroof("run", "--counters", "--", *command).status == 0
    assert Path("hroof-runs/target.2/counters.ncu-rep").exists()


def test_a_dry_run_without_ncu(hroof: Any, ncu: Ncu) -> None:
    ncu.path.unlink()
    done = hroof("run", "--counters", "--dry-run", "--", "python", "train.py")
    assert done.status == 0
    assert " ncu --target-processes all" in done.out
    assert "oldest version" in done.err
    assert hroof("run", "--counters", "--dry-run", "--ncu", "no", "--", "python").status == 6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cold"], "--cold is about counters"),
        (["--times"], "--times is about counters"),
        (["--dry-run"], "--dry-run is about counters"),
        (["--ncu", "x"], "--ncu is about counters"),
        (["--timeout", "3"], "--timeout is about counters"),
        (["--counters", "--cold", "--times"], "do not go together"),
        (["--counters", "--timeout", "0"], "not a number of seconds"),
        (["--counters", "--timeout", "nan"], "not a number of seconds"),
        (["--counters", "--timeout", "soon"], "not a number of seconds"),
    ],
)
def test_options_that_cannot_be(hroof: Any, ncu: Ncu, options: list[str], said: str) -> None:
    done = hroof("run", *options, "--", "python", "-c", "")
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert ncu.asked() == []


def test_a_read_only_report_is_still_replaced_by_force(
    hroof: Any, ncu: Ncu, program: Program
) -> None:
    Path("o").mkdir()
    Path("o", results.REPORT).write_text("old")
    Path("o", results.REPORT).chmod(stat.S_IRUSR)
    assert hroof("run", "--counters", "--out", "o", "--force", "--", *program()).status == 0
    assert Path("o", results.REPORT).read_text() == "report\n"
