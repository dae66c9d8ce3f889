"""``hroof ceilings``: cached, measured, printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hroof import ceilings, integration
from hroof.ceilings.cache import cache_path
from hroof.integration import CeilingKernel, Device
from hroof.machine import Machine


class Fake:
    """An integration with nothing to measure."""

    FRAMEWORK = "torch"

    def device(self, name: str | None = None) -> Device:
        return Device(name or "cpu", "small chip")

    def ceiling_kernels(self, device: Device) -> Iterator[CeilingKernel]:
        return iter(())


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> list[dict[str, Any]]:
    """What was measured, instead of measuring."""
    calls: list[dict[str, Any]] = []

    def measure(chosen: Any, device: str | None, **how: Any) -> Machine:
        calls.append({"device": device, **how})
        machine.save(cache_path(chosen, chosen.device(device)))
        return machine

    monkeypatch.setattr(integration, "load", lambda name: Fake())
    monkeypatch.setattr("hroof.ceilings.cache.measure", measure)
    return calls


def test_measured_once_then_cached(
    hroof: Any, measured: list[Any], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hroof("ceilings", "--quick")
    assert "measuring" in first.err
    second = hroof("ceilings", "--quick")
    assert second.err == ""
    assert sorted(second.out.splitlines()) == sorted(first.out.splitlines())
    assert measured == [{"device": None, "quick": True}]


def test_refresh_measures_again(hroof: Any, measured: list[Any]) -> None:
    hroof("ceilings", "--quick")
    done = hroof("ceilings", "--quick", "--refresh", "--device", "cpu", "--quiet")
    assert done.err == ""
    assert measured[1:] == [{"device": "cpu", "quick": True}]


def test_the_text_names_every_ceiling(hroof: Any, measured: list[Any], machine: Machine) -> None:
    rows = {" ".join(line.split()) for line in hroof("ceilings").out.splitlines()}
    assert "matrix fp32 100 GFLOP/s framework-reachable, mm 1024 spread 3.0 %" in rows
    assert "matrix int8 500 GOP/s framework-reachable, int mm spread 3.0 %" in rows
    assert "DRAM 10.0 GB/s framework-reachable, add spread 3.0 %" in rows
    assert "launch cost 2.00 µs measured, empty add" in rows


def test_doubts_are_printed(
    hroof: Any, measured: list[Any], build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubtful = build.machine(warnings=("It was busy.",))
    monkeypatch.setattr(ceilings, "cached", lambda *given, **how: doubtful)
    assert "! It was busy." in hroof("ceilings").out


def test_json_is_the_machine(hroof: Any, measured: list[Any], machine: Machine) -> None:
    done = hroof("ceilings", "--json")
    assert Machine.from_json(json.loads(done.out)).peaks == machine.peaks


def test_an_unknown_framework_is_status_6(hroof: Any) -> None:
    done = hroof("ceilings", "--framework", "abacus")
    assert done.status == 6
    assert "abacus" in done.err
