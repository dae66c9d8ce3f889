"""``hroof doctor``: each thing that can be missing, and its remedy."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

import pytest

from hroof import integration
from hroof.cli import doctor
from hroof.cli.doctor import Check, examine
from hroof.errors import MissingError
from hroof.integration import Device
from hroof.machine import Machine
from hroof.units import MemoryLevel


class Fake:
    """An integration without a framework."""

    FRAMEWORK = "torch"
    gpu = False

    def device(self, name: str | None = None) -> Device:
        if name == "cuda:0" and not self.gpu:
            raise MissingError("There is no device.")
        return Device(name or "cpu", "small chip", {MemoryLevel.L1: 1000})


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    made = Fake()
    monkeypatch.setattr(integration, "load", lambda name: made)
    monkeypatch.setenv("HROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HROOF", raising=False)
    return made


def find(name: str) -> Check:
    (found,) = (check for check in examine() if check.name == name)
    return found


def test_all_is_well_on_a_cpu(fake: Fake, hroof: Any) -> None:
    done = hroof("doctor")
    assert (done.status, done.err) == (0, "")
    assert "MISS" not in done.out


def test_json_is_one_object(fake: Fake, hroof: Any) -> None:
    found = json.loads(hroof("doctor", "--json").out)
    assert found["works"] is True
    assert {"name", "state", "fact", "remedy"} == set(found["checks"][0])


def test_without_a_framework_nothing_works(
    fake: Fake, hroof: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str) -> None:
        raise MissingError("It is not there.", "pip install 'hroof[torch]'.")

    monkeypatch.setattr(integration, "load", load)
    done = hroof("doctor")
    assert done.status == 6
    assert "MISS  PyTorch: It is not there." in done.out
    assert "→ pip install 'hroof[torch]'." in done.out


def test_everything_that_is_not_ok_has_a_remedy(fake: Fake) -> None:
    assert all(bool(check.remedy) == (check.state != "ok") for check in examine())


def test_a_gpu(fake: Fake) -> None:
    assert find("CUDA").state == "note"
    fake.gpu = True
    assert find("CUDA") == Check("CUDA", "ok", "small chip")


def test_the_switch_is_named(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HROOF", "off")
    assert "'off'" in find("HROOF").fact


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no affinity")
def test_fewer_cores_than_there_are(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert "2 of 8 cores" in find("CPU").fact


def test_unknown_caches(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("caches").fact == "L1 1.00 kB"
    monkeypatch.setattr(Fake, "device", lambda self, name=None: Device("cpu", "chip"))
    assert find("caches").state == "note"


def test_a_cache_folder_that_cannot_be_written(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert find("cache folder").state == "ok"
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("HROOF_CACHE", str(tmp_path / "file" / "cache"))
    assert "HROOF_CACHE" in find("cache folder").remedy


def test_ceilings_absent_measured_damaged(fake: Fake, machine: Machine) -> None:
    from hroof.ceilings.cache import cache_path

    assert "not measured" in find("ceilings").fact
    path = cache_path(fake, fake.device("cpu"))  # type: ignore[arg-type]
    dataclasses.replace(machine, facts={"measured_at": "2024-05-06", "quick": True}).save(path)
    assert find("ceilings").fact == "measured 2024-05-06, quickly, for small cpu"
    path.write_text("{")
    assert "--refresh" in find("ceilings").remedy


def test_no_charts(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert "pip install matplotlib" in find("matplotlib").remedy


def test_a_tool_that_listens(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no tool" in find("NVTX").fact
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/tool.so")
    monkeypatch.delenv("NVTX_DISABLE", raising=False)
    assert "a tool listens" in find("NVTX").fact


@pytest.mark.parametrize(
    ("text", "user", "state"),
    [
        ("RmProfilingAdminOnly: 1\n", 1000, "note"),
        ("Other: 0\nRmProfilingAdminOnly: 1\n", 0, None),
        ("RmProfilingAdminOnly: 0\n", 1000, None),
        (None, 1000, None),
    ],
)
def test_counters_for_administrators_only(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    text: str | None, user: int, state: str | None,
) -> None:  # fmt: skip
    assert find("Nsight Compute").state == "note"
    tool = tmp_path / "ncu"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    if text is not None:
        (tmp_path / "params").write_text(text)
    monkeypatch.setattr(doctor, "NVIDIA_PARAMETERS", tmp_path / "params")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert find("Nsight Compute") == Check("Nsight Compute", "ok", str(tool))
    states = [check.state for check in examine() if check.name == "GPU counters"]
    assert states == ([state] if state else [])
