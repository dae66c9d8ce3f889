"""What a run with counters is going to start: the plan, its line, and what contradicts itself."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from hroof.cli import planned
from hroof.collect import nsight
from hroof.collect.nsight import Gpu, Program
from hroof.errors import UsageError

NCU = Program("/tools/my ncu", (2024, 1, 1))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process, and no GPU."""
    monkeypatch.setattr(nsight, "first_gpu", lambda: None)
    for name in (
        "HROOF",
        "HROOF_OUT",
        "WORLD_SIZE",
        "OMPI_COMM_WORLD_SIZE",
        "PMI_SIZE",
        "SLURM_NTASKS",
    ):
        monkeypatch.delenv(name, raising=False)


def arguments(**changes: Any) -> argparse.Namespace:
    usual = {"command": ["python", "train.py"], "out": None, "skip": 5, "steps": 3, "name": None, "counters": True,
             "cold": False, "times": False, "dry_run": False, "ncu": None, "timeout": None}  # fmt: skip
    return argparse.Namespace(**(usual | changes))


def test_the_plan_holds_what_differs_from_here(tmp_path: Path) -> None:
    made = planned.plan(NCU, arguments(skip=2, name="it's"), tmp_path / "o", print)
    assert made.words[0] == NCU.path
    assert made.words[-2:] == ["python", "train.py"]
    assert made.request.report == tmp_path / "o" / "counters.ncu-rep"
    assert made.request.log == tmp_path / "o" / "counters.log"
    assert (made.request.cache, made.request.clock) == ("none", "none")
    env, *words = shlex.split(made.line())
    changed = dict(word.split("=", 1) for word in words[: words.index(NCU.path)])
    assert env == "env"
    assert set(changed) == {"HROOF", "HROOF_OUT", "HROOF_START", "PYTHONPATH"}
    assert (changed["HROOF"], changed["HROOF_OUT"]) == ("marks", str(tmp_path / "o"))
    assert json.loads(changed["HROOF_START"])["name"] == "it's"
    assert words[words.index(NCU.path) :] == made.words


@pytest.mark.parametrize("timeout", [None, 9.0])
def test_of_several_processes_what_communicates_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeout: float | None
) -> None:
    said: list[str] = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    made = planned.plan(NCU, arguments(timeout=timeout), tmp_path, said.append)
    assert not made.request.collectives
    assert len(said) == 1
    assert ("--timeout S" in said[0]) is (timeout is None)


@pytest.mark.parametrize(
    ("gpu", "paths", "told"),
    [
        (Gpu("0", "GPU-1", "9.0", "NVIDIA H100 PCIe"), True, False),
        (Gpu("0", "GPU-1", "", "NVIDIA H100 PCIe"), True, False),
        (Gpu("0", "GPU-1", "99.0", "NVIDIA Future"), False, True),
        (None, False, False),
    ],
)
def test_the_metrics_are_those_of_the_chip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: Gpu | None, paths: bool, told: bool
) -> None:
    said: list[str] = []
    monkeypatch.setattr(nsight, "first_gpu", lambda: gpu)
    metrics = planned.plan(NCU, arguments(), tmp_path, said.append).request.metrics
    assert "gpu__time_duration.sum" in metrics
    assert any("ops_path_tensor_src_fp8" in metric for metric in metrics) is paths
    assert ["is not known" in text for text in said] == [True] * told
    old = Program("ncu", nsight.OLDEST)
    metrics = planned.plan(old, arguments(), tmp_path, said.append).request.metrics
    assert not any("ops_path_tensor" in metric for metric in metrics)


def test_a_dry_run_names_the_next_free_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nsight, "find", lambda named, say: NCU)
    for taken in ("", "/train", "/train.2"):
        Path(f"hroof-runs{taken}").mkdir()
    assert planned.dry_run(arguments(), print) == 0
    assert f"{tmp_path}/hroof-runs/train.3/counters.ncu-rep " in capsys.readouterr().out
    assert planned.dry_run(arguments(out=Path("o")), print) == 0
    assert f"{tmp_path}/o/counters.ncu-rep " in capsys.readouterr().out
    assert sorted(path.name for path in Path("hroof-runs").iterdir()) == ["train", "train.2"]


def test_a_dry_run_without_any_ncu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(named: str | None, say: object) -> Program:
        raise nsight.NoProgramError("There is none.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nsight, "find", absent)
    said: list[str] = []
    assert planned.dry_run(arguments(), said.append) == 0
    assert " ncu --target-processes all" in capsys.readouterr().out
    assert "oldest version" in said[0]
    with pytest.raises(nsight.NoProgramError):
        planned.dry_run(arguments(ncu="x"), said.append)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"counters": False, "cold": True}, "--cold is about counters"),
        ({"counters": False, "timeout": 3.0}, "--timeout is about counters"),
        ({"cold": True, "times": True}, "do not go together"),
    ],
)
def test_what_contradicts_itself(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        planned.check(arguments(**changes))


def test_what_goes_together() -> None:
    planned.check(arguments(counters=False))
    planned.check(arguments(cold=True, timeout=3.0, ncu="x", dry_run=True))
