"""What a run can be asked, while the program is still there and after it was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hroof
from hroof import ceilings, integration
from hroof.errors import CaptureError, MissingError, OutputError, ProfileError, UsageError
from hroof.integration import Stage
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report import brief, tables, text
from hroof.report.artists import Artists
from hroof.report.charts.time_drawing import TimeArtists
from hroof.report.notebook import Shown
from hroof.results import Results, Saved
from hroof.run import Run
from hroof.units import MemoryLevel


@pytest.fixture
def saved(profile: Profile, machine: Machine, tmp_path: Path) -> Path:
    """The small run with its ceilings."""
    folder = profile.save(tmp_path / "run")
    machine.save(folder / "machine.json")
    return folder


# --- a run that was saved -----------------------------------------------------------------------


def test_a_saved_run_has_its_ceilings(saved: Path, profile: Profile, machine: Machine) -> None:
    run = hroof.load(saved)
    assert isinstance(run, Results)
    assert run.profile.launches.equals(profile.launches)
    assert run.machine() == machine
    assert repr(run) == f"hroof.load({str(saved)!r})"
    assert run.folder == saved
    assert hroof.load(str(saved)).folder == saved


def test_tables_are_those_of_the_profile(saved: Path, profile: Profile, machine: Machine) -> None:
    run = hroof.load(saved)
    assert run.layers.equals(tables.layers(profile, machine))
    assert run.kernels.equals(tables.kernels(profile, machine))
    assert run.points().equals(tables.points(profile, machine))
    assert run.points(["op", "phase"]).equals(tables.points(profile, machine, ("op", "phase")))


@pytest.mark.parametrize("by", ["layer,phase", "layer, phase", ("layer", "phase")])
def test_keys_may_be_written_as_on_the_command_line(saved: Path, by: Any) -> None:
    assert list(hroof.load(saved).points(by))[:3] == ["layer", "phase", "launches"]


def test_one_word_is_one_key(saved: Path) -> None:
    assert hroof.load(saved).points("op")["op"].notna().all()
    with pytest.raises(UsageError, match="no grouping key 'colour'"):
        hroof.load(saved).points("colour")


def test_the_report_is_text_that_a_notebook_shows_as_the_page(
    saved: Path, profile: Profile, machine: Machine
) -> None:
    shown = hroof.load(saved).report()
    assert isinstance(shown, Shown)
    assert shown == brief.render(profile, machine)
    assert (shown.profile, shown.by) == (shown.profile, ("layer",))
    assert shown.machine == machine
    full = hroof.load(saved).report(full=True, by=("phase",))
    assert full == text.render(profile, machine, by=("phase",))
    assert full.by == ("phase",)


def test_a_file_is_written_once(saved: Path, tmp_path: Path) -> None:
    run, path = hroof.load(saved), tmp_path / "rows.csv"
    run.report(path)
    assert path.read_text().startswith("layer,")
    with pytest.raises(OutputError, match="exists already"):
        run.report(path)
    run.report(path, by=("phase",), force=True)
    assert path.read_text().startswith("phase,")


def test_kernels_are_ranked_where_no_layer_is_known(tmp_path: Path) -> None:
    Profile.from_rows([{"kernel": "gemm", "duration": 1e-3}]).save(tmp_path / "bare")
    run = hroof.load(tmp_path / "bare")
    assert run.report().by == ("kernel",)
    assert "gemm" in run.report()


def test_a_chart_that_a_notebook_shows(saved: Path, tmp_path: Path) -> None:
    drawn = hroof.load(saved).chart("time", by="phase", levels=["l1"])
    assert isinstance(drawn, TimeArtists)
    assert set(drawn.names) == {"forward", "backward", "optimizer", "loss"}
    assert drawn._repr_svg_().lstrip().startswith("<?xml")
    assert drawn.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_chart_is_of_layers_or_else_of_kernels(saved: Path, tmp_path: Path) -> None:
    drawn = hroof.load(saved).chart()
    assert isinstance(drawn, Artists)
    assert set(drawn.names[MemoryLevel.L1]) == {"fc1", "fc2", "Net"}
    row = {"kernel": "gemm", "duration": 1e-3, "flop_nominal_matrix_fp32": 1e9, "bytes_l1": 1e6}
    Profile.from_rows([row]).save(tmp_path / "bare")
    drawn = hroof.load(tmp_path / "bare").chart(style="dark")
    assert isinstance(drawn, Artists)
    assert drawn.names[MemoryLevel.L1] == ("gemm",)


def test_a_chart_that_there_is_not(saved: Path) -> None:
    with pytest.raises(UsageError, match="no chart 'pie'"):
        hroof.load(saved).chart("pie")
    with pytest.raises(UsageError, match="no memory level 'hbm'"):
        hroof.load(saved).chart(levels=("hbm",))


def test_ceilings_can_be_given(saved: Path) -> None:
    other = Machine("other", "cpu")
    run = hroof.load(saved, machine=other)
    assert run.machine() is other
    assert run.layers["headroom"].isna().all()


def test_without_ceilings_there_are_times_only(profile: Profile, tmp_path: Path) -> None:
    run = hroof.load(profile.save(tmp_path / "bare"))
    assert run.machine() is None
    assert run.layers["attainable_time"].isna().all()
    assert run.layers["time"].notna().all()


def test_ceilings_that_were_measured_here_before(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    monkeypatch.setattr(integration, "load", lambda name: object())
    monkeypatch.setattr(ceilings, "known", lambda chosen, device: machine)
    assert hroof.load(profile.save(tmp_path / "bare")).machine() is machine


def test_ceilings_are_those_of_the_clock_of_the_run(
    profile: Profile, machine: Machine, tmp_path: Path
) -> None:
    folder = profile.replace(run=profile.run | {"clock": 1e9}).save(tmp_path / "slow")
    fast = Machine(**vars(machine) | {"facts": {"clock": 2e9}, "device": "cuda:0"})
    found = hroof.load(folder, machine=fast).machine()
    assert found is not None
    for pair, ceiling in found.peaks.items():
        assert ceiling.rate == pytest.approx(fast.peaks[pair].rate / 2)


def test_damaged_ceilings_are_an_error(saved: Path) -> None:
    (saved / "machine.json").write_text("{}")
    with pytest.raises(ProfileError, match="is not a machine"):
        hroof.load(saved).report()


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="does not exist"):
        hroof.load(tmp_path / "none")


def test_a_run_that_only_marked(tmp_path: Path) -> None:
    run = {"how": {"time": "marks only: a tool outside measures"}, "steps": [{"number": 6}]}
    Profile.from_rows([], run).save(tmp_path / "marks")
    with pytest.raises(CaptureError, match="only marked step 6") as error:
        hroof.load(tmp_path / "marks")
    assert "--counters" in error.value.remedy


def test_two_loaded_runs_are_two(saved: Path) -> None:
    assert hroof.load(saved) != hroof.load(saved)
    assert len({hroof.load(saved), hroof.load(saved)}) == 2


# --- a run that has just ended ------------------------------------------------------------------


class Capture:
    """Collects the small run as soon as a step is timed."""

    def __init__(self, collected: Profile) -> None:
        self.collected = collected
        self.timed = False

    def stage(self, stage: Stage) -> None:
        self.timed = self.timed or stage is Stage.TIME

    def step_ended(self, number: int) -> None:
        pass

    def profile(self) -> Profile | None:
        return self.collected if self.timed else None

    def flush(self) -> None:
        pass

    def release(self) -> None:
        pass

    def seen(self) -> str:
        return "It saw nothing else."


@pytest.fixture
def ended(profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HROOF", raising=False)
    monkeypatch.delenv("HROOF_OUT", raising=False)
    monkeypatch.setattr(Run, "_begin_capture", lambda region: Capture(profile))
    with hroof.region(skip=1, steps=1, show=False) as region:
        for _ in range(4):
            region.boundary()
    return region


def test_a_region_has_the_same_tables_as_what_it_saved(
    ended: Run, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "machine", lambda region: machine)
    assert isinstance(ended, Results)
    assert ended.folder is not None
    again = hroof.load(ended.folder, machine=machine)
    assert isinstance(again, Saved)
    assert ended.layers.equals(again.layers)
    assert ended.kernels.equals(again.kernels)
    assert ended.points("phase").equals(again.points("phase"))
    assert ended.report() == again.report()
    assert ended.report().machine is machine


def test_tables_stand_where_nothing_can_measure_the_ceilings(
    ended: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(region: Run) -> Machine:
        raise MissingError("No kernels here.", "Install some.")

    monkeypatch.setattr(Run, "machine", missing)
    assert ended.layers["headroom"].isna().all()
    assert capsys.readouterr().err == "hroof: No kernels here. Install some.\n"


def test_a_region_that_collected_nothing_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    region = hroof.region("train", show=False)
    for ask in (lambda: region.layers, lambda: region.kernels, region.points, region.report):
        with pytest.raises(CaptureError, match="Region 'train' has no profile"):
            ask()
