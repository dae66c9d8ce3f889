"""The command lines of ncu: everything explicit, the program's own arguments untouched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hroof.collect.nsight import Program, Request, collecting, printing, several_processes

OLD = Program("ncu", (2022, 3, 0))
NEW = Program(
    "/tools/ncu", (2026, 1, 0),
    frozenset({"config-file", "rename-kernels", "graph-profiling", "disable-extra-suffixes", "pipeline-boost-state"}),
)  # fmt: skip
COMMAND = ["python", "train.py", "--csv", "-o", "out", "--name", "a b", "--", "x", ""]


def request(**changes: object) -> Request:
    fields = {
        "metrics": ("a.sum", "b.avg"),
        "report": Path("/r/c.ncu-rep"),
        "log": Path("/r/c.log"),
    }
    return Request(**fields | changes)  # type: ignore[arg-type]


def value(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def test_whatever_has_changed_its_default_is_said() -> None:
    words = collecting(OLD, request(), COMMAND)
    assert words[0] == "ncu"
    assert value(words, "--target-processes") == "all"
    assert value(words, "--replay-mode") == "kernel"
    assert value(words, "--cache-control") == "none"
    assert value(words, "--clock-control") == "none"
    assert value(words, "--metrics") == "a.sum,b.avg"
    assert value(words, "--log-file") == "/r/c.log"
    assert value(words, "-o") == "/r/c.ncu-rep"
    assert "--apply-rules=no" in words


def test_the_programs_own_arguments_come_last_byte_for_byte() -> None:
    words = collecting(NEW, request(), COMMAND)
    assert words[-len(COMMAND) :] == COMMAND
    assert words[-len(COMMAND) - 1] == "/r/c.ncu-rep"  # ncu knows no -- in front of a program


def test_an_option_goes_only_to_a_version_that_knows_it() -> None:
    of_some = [
        "--config-file=off",
        "--rename-kernels=off",
        "--graph-profiling=node",
        "--disable-extra-suffixes",
    ]
    assert not {*of_some} & {*collecting(OLD, request(), COMMAND), *printing(OLD, Path("r"))}
    assert {*of_some} <= {*collecting(NEW, request(), COMMAND)}
    assert {*of_some[:2]} <= {*printing(NEW, Path("r"))}


def test_cold() -> None:
    words = collecting(NEW, request(cold=True), COMMAND)
    assert (value(words, "--cache-control"), value(words, "--clock-control")) == ("all", "base")
    assert "--pipeline-boost-state=stable" in words
    assert "--pipeline-boost-state=stable" not in collecting(NEW, request(), COMMAND)


def test_the_filter_holds_for_work_of_other_threads() -> None:
    """Start/end ranges, which are process-wide: no slash, and no bracket at an end."""
    words = collecting(NEW, request(), COMMAND)
    assert "--nvtx" in words
    assert value(words, "--nvtx-include") == "regex:^hroof$@^S"


def test_several_ranges_are_several_filters() -> None:
    words = collecting(OLD, request(include=("a", "b")), COMMAND)
    at = words.index("--nvtx-include")
    assert words[at : at + 4] == ["--nvtx-include", "a", "--nvtx-include", "b"]


def test_paths_are_absolute_and_nothing_in_them_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = collecting(OLD, request(report=Path("50%p/c.ncu-rep")), COMMAND)
    assert value(words, "-o") == f"{tmp_path}/50%%p/c.ncu-rep"


def test_a_report_is_printed_whole_in_base_units() -> None:
    words = printing(OLD, Path("/r/c.ncu-rep"))
    assert value(words, "--import") == "/r/c.ncu-rep"
    assert value(words, "--page") == "raw"
    assert value(words, "--print-units") == "base"
    assert "--nvtx" not in words


# --- collectives --------------------------------------------------------------------------------


def test_collectives_are_left_out_where_they_would_hang() -> None:
    words = collecting(OLD, request(collectives=False), COMMAND)
    assert value(words, "--kernel-name-base") == "demangled"
    prefix, _, pattern = value(words, "--kernel-name").partition(":")
    assert prefix == "regex"
    assert re.search(pattern, "ampere_sgemm_128x64_nn")
    assert not re.search(
        pattern, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    )
    assert "--kernel-name" not in collecting(OLD, request(), COMMAND)


@pytest.mark.parametrize(
    ("command", "env", "several"),
    [
        (["python", "t.py"], {}, False),
        (["python", "t.py"], {"WORLD_SIZE": "1"}, False),
        (["python", "t.py"], {"WORLD_SIZE": "8"}, True),
        (["python", "t.py"], {"WORLD_SIZE": "many"}, False),
        (["python", "t.py"], {"OMPI_COMM_WORLD_SIZE": "2"}, True),
        (["python", "t.py"], {"SLURM_NTASKS": "4"}, True),
        (["/usr/bin/torchrun", "--nproc-per-node=2", "t.py"], {}, True),
        (["mpirun", "-n", "2", "python", "t.py"], {}, True),
        (["srun", "python", "t.py"], {}, True),
        (["accelerate", "launch", "t.py"], {}, True),
        (["accelerate", "env"], {}, False),
        (["python", "-m", "torch.distributed.run", "t.py"], {}, True),
        (["python", "-u", "-m", "mine", "torchrun"], {}, False),
    ],
)
def test_programs_of_several_processes(
    command: list[str], env: dict[str, str], several: bool
) -> None:
    assert several_processes(command, env) is several


def test_by_default_the_environment_of_this_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    assert not several_processes(["python"])
    monkeypatch.setenv("PMI_SIZE", "2")
    assert several_processes(["python"])
