"""Regions that a program opens itself: what they save and what they say."""

from __future__ import annotations

import atexit
import json
from pathlib import Path
from typing import Any

import pytest

import hroof
import hroof.run as run_module
from hroof import ceilings, integration, regions
from hroof.collect import nvtx
from hroof.errors import CaptureError, MissingError, OutputError
from hroof.integration import Stage
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.run import OUT_VARIABLE, Run, ceilings_of

REPORT, MACHINE = Run.report, Run.machine


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

    def cached(chosen: object, device: str, *, quick: bool) -> Machine:
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


def test_rough_ceilings_are_enough_only_where_that_was_said(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rough = Machine("rough", facts={"quick": True})
    monkeypatch.setattr(ceilings, "known", lambda chosen, device: rough)
    said: list[str] = []
    assert ceilings_of(PROFILE, said.append, quick=True) is rough
    assert ceilings_of(PROFILE, said.append).name == "measured"
    assert len(said) == len(asked) == 1


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


# --- marks for a tool outside -------------------------------------------------------------------

MARKS = {"time": "marks only: a tool outside measures"}


class Marking(Capture):
    """Marks steps, and knows which."""

    whole = 2

    def profile(self) -> Profile | None:
        steps = [{"step": n, "number": 1 + n, "wall": None} for n in range(self.whole)]
        run = {"how": MARKS, "steps": steps, "framework": "fake", "device": "cpu"}
        return Profile.from_rows([], run) if self.timed else None


@pytest.fixture
def marking(captured: None, monkeypatch: pytest.MonkeyPatch) -> type[Marking]:
    """Regions that only mark, with the real report."""
    monkeypatch.setenv("HROOF", "marks")
    monkeypatch.setattr(Run, "_begin_capture", lambda region: Marking())
    monkeypatch.setattr(Run, "report", REPORT)
    monkeypatch.setattr(Run, "machine", MACHINE)
    monkeypatch.setattr(regions.marks, "_listeners", ())
    monkeypatch.setattr(nvtx, "_names", nvtx.Names())  # other tests have named ranges
    return Marking


def test_under_hroof_run_what_is_known_is_saved(
    marking: type[Marking], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OUT_VARIABLE, str(tmp_path / "out"))
    work(hroof.region("train", skip=1, steps=2), 3)
    loaded = Profile.load(tmp_path / "out")
    assert (loaded.name, loaded.run["status"], loaded.run["how"]) == ("train", "complete", MARKS)
    assert loaded.launches.empty
    assert regions.only_marked(loaded)


def test_the_true_names_of_the_ranges_are_kept(
    marking: type[Marking], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"S1|1": {"id": "S1", "kind": "step", "name": "1", "phase": "", "recompute": False}}
    monkeypatch.setattr(nvtx, "names", lambda: table)
    region = hroof.region("train", skip=1, steps=2, out=tmp_path / "own")
    work(region, 3)
    run = Profile.load(tmp_path / "own").run
    assert run["nvtx"] == table
    assert "warnings" not in run


def test_that_nobody_listened_is_a_warning(marking: type[Marking], tmp_path: Path) -> None:
    work(hroof.region("train", skip=1, steps=2, out=tmp_path / "own"), 3)
    run = Profile.load(tmp_path / "own").run
    assert run["nvtx"] == {}
    assert run["warnings"] == ["No tool listened to NVTX in this process: no range was emitted."]


def test_on_its_own_nothing_is_saved_and_one_sentence_is_said(
    marking: type[Marking], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    region = hroof.region("train", skip=1, steps=2)
    work(region, 3)
    sentence = (
        "Region 'train' only marked steps 1 to 2 for the tool that measures from outside "
        "(HROOF=marks): it has no times and counts of its own."
    )
    assert capsys.readouterr().err == sentence + "\n"
    assert region.report() == sentence
    assert region.folder is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_asked_for_is_said_to_be_missing(
    marking: type[Marking], tmp_path: Path
) -> None:
    """A program that writes its report must not fail under the tool."""
    region = hroof.region("train", skip=1, steps=2, show=False)
    work(region, 3)
    assert region.report(tmp_path / "r.html").endswith("r.html was not written.")
    assert not (tmp_path / "r.html").exists()


def test_save_writes_what_was_not_saved(marking: type[Marking], tmp_path: Path) -> None:
    region = hroof.region("train", skip=1, steps=2, show=False)
    work(region, 3)
    assert region.save() == region.folder == Path("hroof-runs/train")
    assert Profile.load("hroof-runs/train").run["nvtx"] == {}
    assert region.save(tmp_path / "other") == tmp_path / "other"
    with pytest.raises(OutputError, match="holds a profile already"):
        region.save(tmp_path / "other")
    assert region.save(tmp_path / "other", force=True) == tmp_path / "other"


def test_save_without_a_result_is_an_error(marking: type[Marking]) -> None:
    region = hroof.region("train", show=False)
    work(region, 1)
    with pytest.raises(CaptureError, match="has no profile"):
        region.save()


@pytest.mark.parametrize("known", [None, Machine("known", "cpu")])
def test_no_ceilings_are_measured_under_a_tool(
    marking: type[Marking],
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    known: Machine | None,
) -> None:
    monkeypatch.setattr(ceilings, "known", lambda chosen, device: known)
    region = hroof.region("train", skip=1, steps=2)
    work(region, 3)
    assert region.machine() is known
    assert asked == []


def test_too_few_steps_to_mark_are_told(
    marking: type[Marking], capsys: pytest.CaptureFixture[str]
) -> None:
    work(hroof.region("train", skip=5, steps=2), 1)
    assert "needs 7 (5 skipped, 2 marked)" in capsys.readouterr().err


def test_the_note_of_progress_says_marking(
    marking: type[Marking], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OUT_VARIABLE, str(tmp_path))
    with hroof.region(skip=1, steps=1) as region:
        region.boundary()
        (note,) = tmp_path.glob("progress-*.json")
        assert json.loads(note.read_text())["doing"] == "marking 1 steps"


def test_marks_become_ranges_by_themselves(
    marking: type[Marking], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a tool listens is found out by trying: some leave no trace in the environment."""
    monkeypatch.setattr(nvtx, "active", lambda: False)
    with hroof.region(show=False):
        assert regions.listeners() == (nvtx.shared_listener(),)


def test_under_hroof_run_the_command_gets_it_wherever_the_region_saves_otherwise(
    marking: type[Marking], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OUT_VARIABLE, str(tmp_path / "out"))
    region = hroof.region("train", skip=1, steps=2, out=tmp_path / "own")
    work(region, 3)
    assert region.folder == tmp_path / "out"
    assert not (tmp_path / "own").exists()


def test_a_report_without_ceilings_where_nothing_can_measure_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For example Keras on JAX, without TensorFlow: the rest of the report stands."""

    def missing(region: Run) -> Machine:
        raise MissingError("No kernels here.", "Install some.")

    monkeypatch.setattr(Run, "report", REPORT)
    monkeypatch.setattr(Run, "machine", missing)
    work(run := hroof.region(skip=0, steps=1, out="kept"), 3)
    err = capsys.readouterr().err
    assert err.count("No kernels here. Install some.") == 1
    assert "Verdict: region" in err
    assert "Verdict: region" in run.report()
    assert not Path("kept/machine.json").exists()
