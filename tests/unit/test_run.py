"""Regions that a program opens itself: what they save and what they say."""

from __future__ import annotations

import atexit
import json
from pathlib import Path
from typing import Any

import pytest

import hroof
import hroof.run as run_module
from hroof import ceilings, integration
from hroof.errors import OutputError
from hroof.integration import Stage
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.run import OUT_VARIABLE, Run, ceilings_of


class Capture:
    """Collects one row as soon as a step is timed."""

    timed = False

    def stage(self, stage: Stage) -> None:
        self.timed = self.timed or stage is Stage.TIME

    def step_ended(self, number: int) -> None:
        pass

    def profile(self) -> Profile | None:
        return Profile.from_rows([{"op": "aten::mm"}]) if self.timed else None

    def flush(self) -> None:
        pass

    def release(self) -> None:
        pass

    def seen(self) -> str:
        return "It saw nothing else."


@pytest.fixture(autouse=True)
def captured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HROOF", raising=False)
    monkeypatch.delenv(OUT_VARIABLE, raising=False)
    monkeypatch.setattr(Run, "_begin_capture", lambda region: Capture())
    monkeypatch.setattr(Run, "report", lambda region: "THE REPORT")
    monkeypatch.setattr(Run, "machine", lambda region: None)


def work(region: Any, steps: int) -> None:
    with region:
        for _ in range(steps):
            region.boundary()


# --- what is said -------------------------------------------------------------------------------


def test_a_report_and_where_it_is_saved(capsys: pytest.CaptureFixture[str]) -> None:
    work(hroof.region("train", skip=1, steps=1), 4)
    err = capsys.readouterr().err
    assert err.count("THE REPORT") == 1
    assert "Saved in hroof-runs/train." in err


def test_a_result_that_cannot_be_saved_is_not_said_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: Profile, folder: Path) -> Path:
        raise OutputError("Cannot write 'x': full.", "Use --out.")

    monkeypatch.setattr(Profile, "save", refuse)
    work(hroof.region(skip=1, steps=1), 4)
    err = capsys.readouterr().err
    assert "THE REPORT" in err
    assert "Saved in" not in err
    assert "--out" not in err
    assert "Cannot write 'x': full. The result is kept in memory only." in err
    assert "out=" in err


def test_an_inner_region_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with hroof.region("outer", show=False), hroof.region("inner"):
        pass
    assert capsys.readouterr().err == ""


def test_a_decorated_function_with_too_few_steps_says_so_at_exit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_exit: list[Any] = []
    monkeypatch.setattr(atexit, "register", lambda call, *given: at_exit.append((call, given)))
    region = hroof.region(skip=5, steps=3)

    @region
    def train() -> None:
        region.boundary()

    train()
    train()
    assert capsys.readouterr().err == ""
    call, given = at_exit[-1]
    call(*given)
    call(*given)
    assert capsys.readouterr().err.count("The region saw 2 steps and needs 9") == 1


# --- ceilings -----------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []

    def cached(chosen: object, device: str) -> Machine:
        made.append(device)
        return Machine("measured", device)

    monkeypatch.setattr(integration, "load", lambda name: object())
    monkeypatch.setattr(ceilings, "cached", cached)
    return made


PROFILE = Profile.from_rows([{"op": "aten::mm"}], {"framework": "fake", "device": "cpu"})


def test_known_ceilings_are_taken_as_they_are(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "known", lambda chosen, device: Machine("known", device))
    said: list[str] = []
    assert ceilings_of(PROFILE, said.append).name == "known"
    assert (said, asked) == ([], [])


def test_a_measurement_is_announced(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "known", lambda chosen, device: None)
    said: list[str] = []
    assert ceilings_of(PROFILE, said.append).name == "measured"
    assert said == ["hroof: measuring this machine's ceilings (once) …"]
    assert asked == ["cpu"]


# --- notes for hroof run ------------------------------------------------------------------------


def test_the_note_of_progress_goes_when_there_is_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OUT_VARIABLE, str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    with hroof.region(skip=1, steps=1) as region:
        seen = []
        for _ in range(3):
            seen += [path.read_text() for path in (tmp_path / "out").glob("progress-*.json")]
            region.boundary()
    said = [json.loads(text)["doing"] for text in seen]
    assert said == ["skipping 1 steps", "counting a step", "timing 1 steps"]
    assert not list((tmp_path / "out").glob("*progress-*"))


def test_a_value_of_the_switch_that_means_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HROOF", "garbage")
    run_module._warn_of_unknown_value.cache_clear()
    for _ in range(2):
        with hroof.region(show=False):
            pass
    run_module._warn_of_unknown_value.cache_clear()
    assert capsys.readouterr().err.count("HROOF=garbage is ignored") == 1
