"""``hroof compare``: text, JSON, files; which ceilings; what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hroof.cli import main, show
from hroof.compare import compare
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.compared import export, text


@pytest.fixture
def runs(profile: Profile, machine: Machine, build: Any, tmp_path: Path) -> tuple[Path, Path]:
    """Two runs with their ceilings."""
    base = profile.save(tmp_path / "base")
    new = build.other({"fc1": 2.0}, name="changed").save(tmp_path / "new")
    for folder in (base, new):
        machine.save(folder / "machine.json")
    return base, new


def compared(runs: tuple[Path, Path]) -> Any:
    profiles = [Profile.load(folder) for folder in runs]
    machines = [Machine.load(folder / "machine.json") for folder in runs]
    return compare(*profiles, base_machine=machines[0], new_machine=machines[1])


def test_text_goes_to_standard_output(hroof: Any, runs: tuple[Path, Path]) -> None:
    done = hroof("compare", *runs)
    assert (done.status, done.err) == (0, "")
    assert done.out == text.render(compared(runs))
    assert "small (BASE) → changed (NEW)" in done.out


def test_runs_of_one_name_are_told_apart_by_their_folders(
    hroof: Any, runs: tuple[Path, Path], profile: Profile
) -> None:
    profile.save(Path("again"))
    done = hroof("compare", "base", "again")
    assert "base (BASE) → again (NEW)" in done.out
    assert "\nBASE base · " in done.out and "\nNEW again · " in done.out


def test_rows_on_request(hroof: Any, runs: tuple[Path, Path]) -> None:
    done = hroof("compare", *runs, "--top", "1", "--full")
    assert done.out == text.render(compared(runs), top=1, full=True)


def test_json_is_one_object(hroof: Any, runs: tuple[Path, Path]) -> None:
    done = hroof("compare", *runs, "--json")
    assert done.err == ""
    assert json.loads(done.out) == export.to_json(compared(runs))


def test_files_by_their_suffix(hroof: Any, runs: tuple[Path, Path], tmp_path: Path) -> None:
    names = ("a.html", "b.csv", "c.json", "d.svg", "e.txt")
    done = hroof("compare", *runs, *(word for name in names for word in ("-o", name)))
    assert (done.status, done.out) == (0, "")
    assert [line.split()[0] for line in done.err.splitlines()] == ["Wrote"] * len(names)
    assert all((tmp_path / name).stat().st_size for name in names)


def test_neither_run_is_written_over(hroof: Any, runs: tuple[Path, Path]) -> None:
    for folder in runs:
        done = hroof("compare", *runs, "-o", folder / "run.json", "--force")
        assert (done.status, done.out) == (4, "")
        assert Profile.load(folder).step_count == 3


def test_quiet(hroof: Any, runs: tuple[Path, Path]) -> None:
    assert hroof("compare", *runs, "-o", "a.csv", "--quiet").err == ""


def test_a_run_with_itself(hroof: Any, runs: tuple[Path, Path]) -> None:
    done = hroof("compare", runs[0], runs[0])
    assert done.status == 0
    assert "No difference beyond noise" in done.out
    assert "Only in" not in done.out


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["-o", "a.docx"], 2, "a.docx"),
        (["-o", "there.csv"], 4, "--force"),
        (["-o", "there.csv/below.csv"], 4, "there.csv"),
        (["--top", "-1"], 2, "--top"),
    ],
)
def test_what_is_refused(
    hroof: Any, runs: tuple[Path, Path], arguments: list[str], status: int, said: str
) -> None:
    there = runs[0].parent / "there.csv"
    there.write_text("mine")
    done = hroof("compare", *runs, *arguments)
    assert done.status == status
    assert said in done.err
    assert "Traceback" not in done.err
    assert there.read_text() == "mine"


def test_a_file_is_replaced_with_force(hroof: Any, runs: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("mine")
    assert hroof("compare", *runs, "-o", "a.csv", "--force").status == 0
    assert (tmp_path / "a.csv").read_text() != "mine"


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("name", "status"), [("absent", 3), ("file", 3)])
def test_no_folder(
    hroof: Any, runs: tuple[Path, Path], tmp_path: Path, side: int, name: str, status: int
) -> None:
    (tmp_path / "file").write_text("x")
    words: list[Any] = list(runs)
    words[side] = name
    done = hroof("compare", *words)
    assert done.status == status
    assert name in done.err


def test_one_run_alone_is_a_wrong_call(hroof: Any, runs: tuple[Path, Path]) -> None:
    assert hroof("compare", runs[0]).status == 2


def test_runs_that_cannot_be_compared(
    hroof: Any, runs: tuple[Path, Path], build: Any, tmp_path: Path
) -> None:
    without = Profile.from_rows([row | {"step": -1} for row in build.rows()], build.run())
    done = hroof("compare", runs[0], without.save(tmp_path / "without"))
    assert done.status == 2
    assert "NEW belong to no step" in done.err
    assert "Mark the steps" in done.err


@pytest.mark.parametrize("side", ["BASE", "NEW"])
def test_a_run_that_only_marked(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], side: str
) -> None:
    run = {"name": "train", "how": {"time": "marks only, for a tool outside"}, "steps": []}
    marked = Profile.from_rows([], run).save(tmp_path / "marked")
    words = [marked, runs[1]] if side == "BASE" else [runs[0], marked]
    assert main(["compare", *map(str, words)]) == 5
    said = capsys.readouterr().err
    assert f"{side}: " in said
    assert "only marked" in said


class TestCeilings:
    def test_without_them_it_says_for_which_run(
        self, hroof: Any, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hroof.ceilings.suite.measure", lambda *given: pytest.fail("measured"))
        profile.save(tmp_path / "run")
        done = hroof("compare", "run", "run")
        assert done.status == 0
        assert [line.rsplit(" ", 1)[1] for line in done.err.splitlines()] == ["(BASE)", "(NEW)"]
        assert "no ceilings are known" in done.err
        assert done.out == text.render(compare(profile, profile))

    def test_that_were_measured_here_before(
        self,
        hroof: Any,
        profile: Profile,
        machine: Machine,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(show, "known_machine", lambda profile: machine)
        profile.save(tmp_path / "run")
        done = hroof("compare", "run", "run")
        assert "measured here before. (NEW)" in done.err
        assert "headroom" in done.out
