"""``hroof doctor``: each thing that can be missing, and its remedy."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

from hroof import integration
from hroof.cli.doctor import Check, examine
from hroof.collect import nsight
from hroof.collect.nsight import Permission
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

    lets_seem(monkeypatch, installed={"torch"})
    monkeypatch.setattr(integration, "load", load)
    done = hroof("doctor")
    assert done.status == 6
    assert "MISS  PyTorch: It is not there." in done.out
    assert "→ pip install 'hroof[torch]'." in done.out


def test_one_framework_is_enough(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    lets_seem(monkeypatch, installed={"torch"})
    assert find("PyTorch").state == "ok"
    absent = find("TensorFlow")
    assert (absent.state, absent.fact) == ("note", "is not installed")
    assert absent.remedy.startswith("Only needed for programs that use it. Install it with: pip")


def test_keras_needs_a_framework_that_computes(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"1.0 of {name}")
    lets_seem(monkeypatch, installed={"torch"})
    assert find("Keras").fact == "1.0 of keras, without TensorFlow"
    assert "KERAS_BACKEND=torch" in find("Keras").remedy
    lets_seem(monkeypatch, installed={"torch", "tensorflow"})
    assert find("Keras") == Check("Keras", "ok", "1.0 of keras")


def test_without_any_both_are_missing(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    lets_seem(monkeypatch, installed=set())
    assert (find("PyTorch").state, find("TensorFlow").state) == ("missing", "missing")
    assert "pip install 'hroof[keras]' tensorflow" in find("TensorFlow").remedy


def test_a_broken_framework_beside_one_that_works_is_a_note(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str) -> Fake:
        if name == "torch":
            raise MissingError("It is broken.", "Mend it.")
        return fake

    lets_seem(monkeypatch, installed={"torch", "tensorflow"})
    monkeypatch.setattr(integration, "load", load)
    assert find("PyTorch") == Check(
        "PyTorch", "note", "It is broken.", "Only needed for programs that use it. Mend it."
    )
    assert find("TensorFlow").state == "ok"


def lets_seem(monkeypatch: pytest.MonkeyPatch, installed: set[str]) -> None:
    """Let exactly these frameworks seem to be installed."""
    find_spec = importlib.util.find_spec

    def found(name: str, *rest: Any) -> Any:
        if name in ("torch", "tensorflow"):
            return object() if name in installed else None
        return find_spec(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", found)


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


def test_ceilings_of_other_conditions_are_no_ok(fake: Fake, machine: Machine) -> None:
    from hroof.ceilings.cache import cache_path

    known = dataclasses.replace(machine, name="another chip")
    known.save(cache_path(fake, fake.device("cpu")))  # type: ignore[arg-type]
    found = find("ceilings")
    assert found.state == "note"
    assert "another chip" in found.fact
    assert "--refresh" in found.remedy


def test_ceilings_absent_measured_damaged(fake: Fake, machine: Machine) -> None:
    from hroof.ceilings.cache import cache_path

    assert "not measured" in find("ceilings").fact
    path = cache_path(fake, fake.device("cpu"))  # type: ignore[arg-type]
    name = fake.device("cpu").name
    facts = {"measured_at": "2024-05-06", "quick": True}
    dataclasses.replace(machine, name=name, facts=facts).save(path)
    assert find("ceilings").fact == f"measured 2024-05-06, quickly, for {name}"
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


NCU = """#!/bin/sh
echo "NVIDIA (R) Nsight Compute Command Line Profiler"
echo "Version 2024.1.1.0 (build 1)"
"""


def put_ncu(folder: Path, text: str = NCU) -> Path:
    tool = folder / "ncu"
    tool.write_text(text)
    tool.chmod(0o755)
    return tool


def test_nsight_compute(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HROOF_NCU", raising=False)
    monkeypatch.setattr("hroof.collect.nsight.program._FOLDERS", ())
    absent = find("Nsight Compute")
    assert (absent.state, "ncu is not found" in absent.fact) == ("note", True)
    assert "Only needed for counters" in absent.remedy
    tool = put_ncu(tmp_path)
    assert find("Nsight Compute") == Check("Nsight Compute", "ok", f"2024.1.1 ({tool})")
    put_ncu(tmp_path, NCU.replace("2024", "2020"))
    assert "older than 2022.3" in find("Nsight Compute").fact
    put_ncu(tmp_path, "#!/bin/sh\necho 16.14\n")
    assert "is not Nsight Compute" in find("Nsight Compute").fact


@pytest.mark.parametrize(
    ("permission", "state"),
    [
        (Permission.EVERYBODY, "ok"),
        (Permission.ADMINISTRATOR, "ok"),
        (Permission.REFUSED, "note"),
        (Permission.UNKNOWN, None),
    ],
)
def test_who_may_read_counters(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hroof: Any,
    permission: Permission, state: str | None,
) -> None:  # fmt: skip
    monkeypatch.delenv("HROOF_NCU", raising=False)
    put_ncu(tmp_path)
    monkeypatch.setattr(nsight, "permission", lambda: permission)
    found = [check for check in examine() if check.name == "GPU counters"]
    assert [check.state for check in found] == ([state] if state else [])
    printed = hroof("doctor").out
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in printed) is (state == "note")
    assert ("\n          2. Run as root" in printed) is (state == "note")


def test_the_package_of_ranges(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("nvtx package").state == "ok"

    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert "pip install 'nvtx" in find("nvtx package").remedy
