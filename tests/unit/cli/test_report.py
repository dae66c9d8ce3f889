"""``hroof report``: text, JSON, files; which ceilings; what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hroof.cli import main, show
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report import brief, export, text
from hroof.units import Pipe, Precision


@pytest.fixture
def machine(machine: Machine, tmp_path: Path) -> Machine:
    """As it comes out of a file."""
    return Machine.load(machine.save(tmp_path / "as-saved.json"))


@pytest.fixture
def saved(profile: Profile, machine: Machine, tmp_path: Path) -> Path:
    """A run with its ceilings."""
    folder = profile.save(tmp_path / "run")
    machine.save(folder / "machine.json")
    return folder


def test_text_goes_to_standard_output(
    hroof: Any, saved: Path, profile: Profile, machine: Machine
) -> None:
    done = hroof("report", saved)
    assert (done.status, done.err) == (0, "")
    assert done.out == brief.render(profile, machine)


def test_keys_and_the_length_of_the_ranking(
    hroof: Any, saved: Path, profile: Profile, machine: Machine
) -> None:
    done = hroof("report", saved, "--by", "layer,phase", "--top", "1")
    assert done.out == brief.render(profile, machine, by=("layer", "phase"), top=1)


def test_everything_on_request(hroof: Any, saved: Path, profile: Profile, machine: Machine) -> None:
    done = hroof("report", saved, "--full")
    assert done.out == text.render(profile, machine, top=15)


def test_json_is_one_object(hroof: Any, saved: Path, profile: Profile, machine: Machine) -> None:
    done = hroof("report", saved, "--json", "--by", "phase")
    assert done.err == ""
    assert json.loads(done.out) == export.to_json(profile, machine, ("phase",))


def test_files_by_their_suffix(hroof: Any, saved: Path, tmp_path: Path) -> None:
    done = hroof("report", saved, "-o", "a.csv", "-o", "b.json", "-o", "c.txt")
    assert (done.status, done.out) == (0, "")
    assert [line.split()[0] for line in done.err.splitlines()] == ["Wrote"] * 3
    assert all((tmp_path / name).stat().st_size for name in ("a.csv", "b.json", "c.txt"))


def test_files_and_json_together(hroof: Any, saved: Path) -> None:
    done = hroof("report", saved, "-o", "a.csv", "--json", "--quiet")
    assert json.loads(done.out)["schema"] == 1
    assert done.err == ""


def test_a_file_is_replaced_only_with_force(hroof: Any, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("mine")
    done = hroof("report", saved, "-o", "a.csv")
    assert done.status == 4
    assert "--force" in done.err
    assert (tmp_path / "a.csv").read_text() == "mine"
    assert hroof("report", saved, "-o", "a.csv", "--force").status == 0
    assert (tmp_path / "a.csv").read_text() != "mine"


@pytest.mark.parametrize("name", ["run.json", "launches-0.parquet", "machine.json"])
def test_a_run_is_not_written_over_by_its_own_report(hroof: Any, saved: Path, name: str) -> None:
    before = (saved / name).read_bytes()
    suffix = Path(name).suffix
    (saved / f"link{suffix}").symlink_to(saved / name)
    for path in (saved / name, saved / f"link{suffix}", saved / ".." / saved.name / name):
        done = hroof("report", saved, "-o", path, "--force")
        assert (done.status, done.out) == (4, "")
        assert "is a file of the run itself" in done.err
    assert (saved / name).read_bytes() == before
    assert hroof("report", saved, "-o", saved / "report.json").status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["-o", "a.docx"], 2, "a.docx"),
        (["--by", "colour"], 2, "colour"),
        (["-o", "file/below.csv"], 4, "file"),
        (["--machine", "absent.json"], 3, "absent.json"),
    ],
)
def test_what_is_refused(
    hroof: Any, saved: Path, arguments: list[str], status: int, said: str
) -> None:
    (saved.parent / "file").write_text("x")
    done = hroof("report", saved, *arguments)
    assert done.status == status
    assert said in done.err
    assert "Traceback" not in done.err


# --- ceilings -----------------------------------------------------------------------------------


def test_ceilings_of_a_file(hroof: Any, profile: Profile, machine: Machine, tmp_path: Path) -> None:
    profile.save(tmp_path / "run")
    machine.save(tmp_path / "m.json")
    done = hroof("report", "run", "--machine", "m.json")
    assert done.out == brief.render(profile, machine)


def test_without_ceilings_it_says_so_and_measures_nothing(
    hroof: Any, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hroof.ceilings.suite.measure", lambda *given: pytest.fail("measured"))
    profile.save(tmp_path / "run")
    done = hroof("report", "run")
    assert done.status == 0
    assert "no ceilings are known" in done.err
    assert done.out == brief.render(profile, None)


def test_ceilings_that_were_measured_here_before(
    hroof: Any, profile: Profile, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "known_machine", lambda profile: machine)
    profile.save(tmp_path / "run")
    done = hroof("report", "run")
    assert "measured here before" in done.err
    assert done.out == brief.render(profile, machine)


# --- profiles that are none ---------------------------------------------------------------------


def damage(folder: Path, **changes: Any) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda folder: damage(folder, kind="other"), "hroof did not write"),
        (lambda folder: damage(folder, schema=99), "Upgrade hroof"),
        (lambda folder: (folder / "run.json").write_text("{"), "damaged"),
        (lambda folder: (folder / "run.json").unlink(), "does not exist"),
        (lambda folder: (folder / "launches-0.parquet").write_bytes(b"x"), "damaged"),
        (lambda folder: (folder / "machine.json").write_text("{}"), "not a machine"),
    ],
)
def test_a_foreign_damaged_or_newer_run_is_status_3(
    hroof: Any, saved: Path, how: Any, said: str
) -> None:
    how(saved)
    done = hroof("report", saved)
    assert (done.status, done.out) == (3, "")
    assert said in done.err
    assert done.err.startswith("hroof: ")


@pytest.mark.parametrize("name", ["absent", "file"])
def test_no_folder(hroof: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    assert hroof("report", name).status == 3


def test_a_run_that_only_marked_has_nothing_to_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = {"name": "train", "how": {"time": "marks only, for a tool outside"}, "steps": []}
    folder = Profile.from_rows([], run).save(tmp_path / "run")
    assert main(["report", str(folder)]) == 5
    captured = capsys.readouterr()
    assert "only marked" in captured.err
    assert "hroof run --counters" in captured.err
    assert captured.out == ""


def test_a_peak_with_sparsity_in_given_ceilings_is_told(
    hroof: Any, saved: Path, tmp_path: Path
) -> None:
    sparse = Machine("NVIDIA H200", "cuda:0", {(Pipe.MATRIX, Precision.BF16): Ceiling(1979e12)})
    path = sparse.save(tmp_path / "given.json")
    for _ in range(2):  # the same where the file holds the warning already
        done = json.loads(hroof("report", saved, "--machine", path, "--json").out)
        (warning,) = done["machine"]["warnings"]
        assert warning.startswith("The peak of matrix bf16 is twice what the data sheet gives")
        Machine.from_json(done["machine"]).save(path)
    full = hroof("report", saved, "--machine", path, "--full").out
    assert "without structured sparsity" in " ".join(full.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "Performance [FLOP/s]"),
        (("--chart", "time"), "FLOP time [s] at"),
        (("--chart", "phases", "--style", "dark"), "backward · 198 µs"),
        (("--style", "paper"), "Performance [GFLOP/s]"),
        (("--levels", "L1"), "L1 80.0 GB/s"),
    ],
)
def test_charts_of_each_kind(
    options: tuple[str, ...], said: str, hroof: Any, saved: Path, tmp_path: Path
) -> None:
    done = hroof("report", saved, "-o", "a.svg", *options)
    assert (done.status, done.out) == (0, "")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert said in " ".join(re.findall(r"<!-- (.*?) -->", text))


def test_a_chart_of_some_levels(hroof: Any, saved: Path, tmp_path: Path) -> None:
    assert hroof("report", saved, "-o", "a.svg", "--levels", "dram").status == 0
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "roof-dram" in text
    assert "roof-l1" not in text


@pytest.mark.parametrize(
    "options",
    [
        ("--chart", "time"),
        ("--style", "dark"),
        ("--levels", "l1"),
        ("-o", "a.csv", "--style", "dark"),
    ],
)
def test_a_choice_of_chart_without_a_chart_is_refused(
    options: tuple[str, ...], hroof: Any, saved: Path, tmp_path: Path
) -> None:
    done = hroof("report", saved, *options)
    assert (done.status, done.out) == (2, "")
    assert "Add -o FILE.png" in done.err
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--levels", "hbm"), "no memory level 'hbm'"),
        (("--levels", ","), "No memory level"),
        (("--chart", "time", "--style", "paper"), "no style 'paper'"),
        (("--chart", "pie"), "invalid choice"),
    ],
)
def test_a_chart_that_is_not_there_is_refused(
    options: tuple[str, ...], said: str, hroof: Any, saved: Path, tmp_path: Path
) -> None:
    done = hroof("report", saved, "-o", "a.png", *options)
    assert done.status == 2
    assert said in done.err
    assert not (tmp_path / "a.png").exists()
