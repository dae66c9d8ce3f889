"""``hroof ceilings``: cached, measured, printed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hroof import ceilings, integration
from hroof.cli.ceilings import Steps
from hroof.integration import CeilingKernel, Device
from hroof.machine import Machine
from hroof.report import ceilings as report


class Fake:
    """An integration with nothing to measure."""

    FRAMEWORK = "torch"

    def device(self, name: str | None = None) -> Device:
        return Device(name or "cpu", "small cpu", facts={"threads": 4})

    def ceiling_kernels(self, device: Device) -> Iterator[CeilingKernel]:
        return iter(())


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> list[dict[str, Any]]:
    """What was measured, instead of measuring."""
    calls: list[dict[str, Any]] = []

    def measure(chosen: Any, device: str | None, **how: Any) -> Machine:
        how.pop("progress")("looking for kernels")
        calls.append({"device": device, **how})
        facts = {
            "framework": "torch",
            "measured_at": datetime.now(UTC).isoformat(),
            "quick": how.get("quick", False),
            "threads": 2,
            "candidates": {},
            "only": sorted(how.get("only", ())),
        }
        return dataclasses.replace(machine, facts=facts)

    monkeypatch.setattr(integration, "load", lambda name: Fake())
    monkeypatch.setattr("hroof.ceilings.cache.measure", measure)
    return calls


def test_measured_once_then_cached(hroof: Any, measured: list[Any]) -> None:
    first = hroof("ceilings", "--quick")
    assert "measuring" in first.err
    second = hroof("ceilings", "--quick")
    assert second.err == ""
    assert second.out.splitlines()[0] == first.out.splitlines()[0]
    assert [(call["device"], call["quick"]) for call in measured] == [(None, True)]


def test_refresh_measures_again(hroof: Any, measured: list[Any]) -> None:
    hroof("ceilings", "--quick")
    done = hroof("ceilings", "--quick", "--refresh", "--device", "cpu", "--quiet")
    assert done.err == ""
    assert [(call["device"], call["quick"]) for call in measured[1:]] == [("cpu", True)]


def test_the_text_is_the_report_of_the_machine(
    hroof: Any, measured: list[Any], machine: Machine
) -> None:
    hroof("ceilings")
    chosen: Any = Fake()
    cached = ceilings.known(chosen)
    assert cached is not None
    assert hroof("ceilings").out.rstrip() == report.text(cached).rstrip()


def test_doubts_are_printed(
    hroof: Any, measured: list[Any], build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubtful = build.machine(warnings=("It was busy.",))
    monkeypatch.setattr(ceilings, "cached", lambda *given, **how: doubtful)
    assert "It was busy." in hroof("ceilings").out


def test_json_is_the_machine(hroof: Any, measured: list[Any], machine: Machine) -> None:
    done = hroof("ceilings", "--json")
    assert Machine.from_json(json.loads(done.out)).peaks == machine.peaks


def test_an_unknown_framework_is_status_6(hroof: Any) -> None:
    done = hroof("ceilings", "--framework", "abacus")
    assert done.status == 6
    assert "abacus" in done.err


# --- progress -----------------------------------------------------------------------------------

PLAN = [
    "1 of 4: L1: bag 8 KiB",
    "2 of 4: L1: bag 9 KiB",
    "3 of 4: L2: expand",
    "again: L1: bag 8 KiB",
    "sweep: expand 4 kB",
    "sweep: expand 5 kB",
]


def test_progress_is_a_line_for_each_ceiling() -> None:
    said: list[str] = []
    steps = Steps(said.append, live=False)
    for text in PLAN:
        steps(text)
    steps.end()
    assert said == [
        "hroof: measuring this machine's ceilings …",
        "  1 of 4: L1: bag 8 KiB",
        "  3 of 4: L2: expand",
        "  again: L1: bag 8 KiB",
        "  sweep: expand 4 kB",
    ]


def test_on_a_terminal_progress_is_one_line_that_goes_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = Steps(lambda text: None, live=True)
    for text in (*PLAN, "x" * 200):
        steps(text)
    steps.end()
    err = capsys.readouterr().err
    assert "\n" not in err and err.count("\r") == len(PLAN) + 2
    assert "3 of 4: L2: expand" in err and "x" * 79 not in err
    assert err.endswith("\r\x1b[K")


def test_where_nothing_was_measured_nothing_is_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    Steps(lambda text: None, live=True).end()
    assert capsys.readouterr().err == ""


# --- only some ----------------------------------------------------------------------------------


def test_only_some_are_measured_and_put_beside_the_others(hroof: Any, measured: list[Any]) -> None:
    hroof("ceilings")
    done = hroof("ceilings", "--only", "L1, matrix_bf16,Launch", "--json")
    assert measured[1]["only"] == {"l1", "matrix_bf16", "launch"}
    assert json.loads(done.out)["bandwidths"]
    assert done.status == 0


@pytest.mark.parametrize("more", ["--quick", "--refresh"])
def test_only_stands_alone(hroof: Any, measured: list[Any], more: str) -> None:
    done = hroof("ceilings", "--only", "l1", more)
    assert done.status == 2 and "--only" in done.err
    assert measured == []


# --- files --------------------------------------------------------------------------------------


def test_files_by_their_suffix(hroof: Any, measured: list[Any], tmp_path: Path) -> None:
    names = ["m.png", "m.svg", "m.html", "m.json", "m.txt"]
    done = hroof("ceilings", *(word for name in names for word in ("-o", name)))
    assert (done.status, done.out) == (0, "")
    assert [line for line in done.err.splitlines() if line.startswith("Wrote")] == [
        f"Wrote {name}" for name in names
    ]
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "m.svg").read_text(encoding="utf-8")
    assert "<html" in (tmp_path / "m.html").read_text(encoding="utf-8")
    assert Machine.load(tmp_path / "m.json").peaks
    assert "small cpu" in (tmp_path / "m.txt").read_text(encoding="utf-8")


def test_a_file_that_exists_is_refused_before_anything_is_measured(
    hroof: Any, measured: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "m.json").write_text("mine")
    done = hroof("ceilings", "-o", "m.json")
    assert done.status == 4 and "--force" in done.err
    assert measured == [] and (tmp_path / "m.json").read_text() == "mine"
    assert hroof("ceilings", "-o", "m.json", "--force").status == 0
    assert Machine.load(tmp_path / "m.json").peaks


def test_an_unknown_suffix_is_refused_before_anything_is_measured(
    hroof: Any, measured: list[Any]
) -> None:
    done = hroof("ceilings", "-o", "m.docx")
    assert done.status == 2 and ".png" in done.err
    assert measured == []


# --- the list -----------------------------------------------------------------------------------


def test_the_list_measures_nothing(hroof: Any, measured: list[Any]) -> None:
    done = hroof("ceilings", "--list")
    assert done.status == 0 and measured == []
    assert done.out.startswith("No ceilings are known in ")


def test_the_list_names_machines_and_what_has_changed(
    hroof: Any, measured: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hroof("ceilings")
    done = hroof("ceilings", "--list")
    assert "small cpu (cpu): torch, full, new, 2 threads" in done.out
    assert "stale: threads was 2 when they were measured and is 4 now." in done.out
