"""The list of known machines: ages, kinds, staleness, and frameworks that are not here."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hroof import integration
from hroof.cli.kept import said_age, show_list
from hroof.errors import MissingError
from hroof.integration import Device
from hroof.machine import Machine

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("HROOF_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One framework with one CPU of eight threads; notes what is asked."""
    asked: list[str] = []

    class Fake:
        def device(self, name: str) -> Device:
            asked.append(name)
            if name != "cpu":
                raise MissingError(f"There is no device {name!r} here.")
            return Device("cpu", "chip", facts={"threads": 8, "driver": "2"})

    def load(name: str) -> Fake:
        if name != "torch":
            raise MissingError(f"The {name} integration is not installed.")
        return Fake()

    monkeypatch.setattr(integration, "load", load)
    return asked


def keep(folder: Path, file: str, age: timedelta | None, device: str = "cpu", **facts: Any) -> Path:
    """Put a machine into the cache."""
    when = {} if age is None else {"measured_at": (NOW - age).isoformat()}
    machine = Machine("chip", device, facts={"framework": "torch", "quick": False, **when, **facts})
    return machine.save(folder / f"ceilings-torch-{file}.json")


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The list as text."""
    show_list(as_json=False, now=NOW)
    return capsys.readouterr().out.splitlines()


def test_an_empty_cache_says_where_it_is_and_what_to_do(
    folder: Path, here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (only,) = lines(capsys)
    assert str(folder) in only and only.endswith("Measure them with: hroof ceilings")


def test_a_machine_that_holds_has_two_lines(
    folder: Path, here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = keep(folder, "a", timedelta(hours=3), threads=8)
    assert lines(capsys) == ["chip (cpu): torch, full, 3 hours old, 8 threads", f"  {path}"]


@pytest.mark.parametrize(
    ("facts", "kind"), [({"quick": True}, "quick"), ({"only": ["dram", "l1"]}, "only dram, l1")]
)
def test_what_kind_of_measurement_it_was(
    folder: Path,
    here: list[str],
    capsys: pytest.CaptureFixture[str],
    facts: dict[str, Any],
    kind: str,
) -> None:
    keep(folder, "a", timedelta(0), **facts)
    assert lines(capsys)[0] == f"chip (cpu): torch, {kind}, new"


def test_every_change_is_a_line(
    folder: Path, here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    keep(folder, "a", None, threads=4, driver="1")
    _, _, *stale = lines(capsys)
    assert stale == [
        "  stale: driver was 1 when they were measured and is 2 now.",
        "  stale: threads was 4 when they were measured and is 8 now.",
    ]


@pytest.mark.parametrize(
    ("facts", "device", "why"),
    [
        ({"framework": "abacus"}, "cpu", "The abacus integration is not installed."),
        ({}, "cuda:0", "There is no device 'cuda:0' here."),
    ],
)
def test_what_cannot_be_compared_says_why(
    folder: Path,
    here: list[str],
    capsys: pytest.CaptureFixture[str],
    facts: dict[str, Any],
    device: str,
    why: str,
) -> None:
    keep(folder, "a", None, device=device, **facts)
    assert lines(capsys)[-1] == f"  It cannot be told whether it is stale: {why}"


def test_a_device_is_asked_for_once(
    folder: Path, here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b", "c"):
        keep(folder, name, None)
    lines(capsys)
    assert here == ["cpu"]


def test_json_holds_the_same_with_ages_in_seconds(
    folder: Path, here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    keep(folder, "old", timedelta(days=2), threads=4)
    keep(folder, "new", timedelta(seconds=5), threads=8)
    keep(folder, "gone", None, device="cuda:0")
    show_list(as_json=True, now=NOW)
    found = json.loads(capsys.readouterr().out)
    assert found["folder"] == str(folder)
    new, old, gone = found["machines"]
    assert (new["age"], new["stale"]) == (5.0, [])
    assert old["age"] == 172_800.0 and len(old["stale"]) == 1
    assert (gone["age"], gone["stale"]) == (None, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "of unknown age"),
        (0.0, "new"),
        (59.0, "new"),
        (60.0, "1 minute old"),
        (7_199.0, "1 hour old"),
        (90_000.0, "1 day old"),
        (864_000.0, "10 days old"),
    ],
)
def test_ages_in_words(seconds: float | None, text: str) -> None:
    assert said_age(seconds) == text


@pytest.mark.parametrize("when", ["yesterday", "2026-01-01T00:00:00", None, 5])
def test_a_date_that_is_none_has_no_age(
    folder: Path, here: list[str], capsys: pytest.CaptureFixture[str], when: object
) -> None:
    keep(folder, "a", None, measured_at=when)
    assert "of unknown age" in lines(capsys)[0]
