"""``hroof check``: statuses for CI, budgets and baselines, files and the page of a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from hroof.budgets import Budget, check, losses
from hroof.cli import main
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.checked import export, markdown, text

OK, USAGE, FOREIGN, OUTPUT, CAPTURE, OVER, UNKNOWN = 0, 2, 3, 4, 5, 7, 8


@pytest.fixture
def runs(profile: Profile, machine: Machine, build: Any, tmp_path: Path) -> tuple[Path, Path]:
    """A run and a slower one, with their ceilings."""
    base = profile.save(tmp_path / "base")
    new = build.other({"fc1": 3.0}, name="changed").save(tmp_path / "new")
    for folder in (base, new):
        machine.save(folder / "machine.json")
    return base, new


@pytest.fixture(autouse=True)
def no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may themselves run in a job on GitHub."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def budget(tmp_path: Path, content: str, name: str = "budget.toml") -> Path:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ("[step]\nlaunches.max = 11", OK),
        ("[step]\nlaunches.max = 10", OVER),
        ("[step]\npeak_memory.max = '1 GB'", UNKNOWN),
        ("[step]\npeak_memory.max = '1 GB'\nlaunches.max = 10", OVER),
        ("[layer.absent]\nlaunches.max = 10", UNKNOWN),
        ("[step]\ntime.max = '350 us'", OK),
        ("[step]\nheadroom.max = 2", OK),
        ("[step]\ntime.max = '3 GB'", USAGE),
        ("[step", USAGE),
        ("", USAGE),
        ("[step]\ntime.rise = '5 %'", USAGE),
    ],
)
def test_statuses(
    hroof: Any, runs: tuple[Path, Path], tmp_path: Path, content: str, status: int
) -> None:
    done = hroof("check", runs[0], "--budget", budget(tmp_path, content))
    assert done.status == status
    assert ("budget.toml" in done.err) is (status == USAGE)
    assert bool(done.out) is not (status == USAGE)
    assert "Traceback" not in done.err


@pytest.mark.parametrize("option", ["--markdown", "--write"])
def test_no_run_is_written_over(hroof: Any, runs: tuple[Path, Path], option: str) -> None:
    done = hroof("check", runs[0], option, runs[0] / "run.json", "--force")
    assert (done.status, done.out) == (OUTPUT, "")
    done = hroof(
        "check", runs[1], "--baseline", runs[0], "--markdown", runs[0] / "run.json", "--force"
    )
    assert (done.status, done.out) == (OUTPUT, "")
    assert Profile.load(runs[0]).step_count == 3


def test_noise_is_no_excuse_when_strict(
    hroof: Any, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    path = budget(tmp_path, "[step]\ntime.max = '350 us'")
    assert hroof("check", runs[0], "--budget", path, "--strict").status == OVER


def test_text_goes_to_standard_output(
    hroof: Any, runs: tuple[Path, Path], tmp_path: Path, profile: Profile, machine: Machine
) -> None:
    path = budget(tmp_path, "[step]\nlaunches.max = 11\nheadroom.max = 1")
    done = hroof("check", runs[0], "--budget", path)
    expected = check(profile, Budget.load(path), machine=machine)
    assert (done.status, done.out, done.err) == (OVER, text.render(expected), "")


def test_rows_on_request(hroof: Any, runs: tuple[Path, Path], tmp_path: Path) -> None:
    path = budget(tmp_path, '[layer."*"]\nlaunches.max = 0')
    assert "more over budget" not in hroof("check", runs[0], "--budget", path).out
    assert "and 2 more over budget" in hroof("check", runs[0], "--budget", path, "--top", 1).out
    assert hroof("check", runs[0], "--budget", path, "--top", "-1").status == USAGE


def test_several_budgets(hroof: Any, runs: tuple[Path, Path], tmp_path: Path) -> None:
    one = budget(tmp_path, "[step]\nlaunches.max = 11", "a.toml")
    other = budget(tmp_path, "[step]\nlaunches.max = 10", "b.toml")
    done = hroof("check", runs[0], "--budget", one, "--budget", other)
    assert done.status == OVER
    assert "1 of 2 limits over budget" in done.out


def test_json_is_one_object(
    hroof: Any, runs: tuple[Path, Path], tmp_path: Path, profile: Profile, machine: Machine
) -> None:
    path = budget(tmp_path, "[step]\nlaunches.max = 10")
    done = hroof("check", runs[0], "--budget", path, "--json")
    said = json.loads(done.out)
    jsonschema.validate(said, export.JSON_SCHEMA)
    assert said == export.to_json(check(profile, Budget.load(path), machine=machine))
    assert (done.status, done.err) == (OVER, "")


class TestBaseline:
    def test_a_run_with_itself(self, hroof: Any, runs: tuple[Path, Path]) -> None:
        done = hroof("check", runs[0], "--baseline", runs[0])
        assert done.status == OK
        assert "Within budget: 10 limits kept." in done.out
        assert "baseline ± 5 %" in done.out

    def test_a_slower_run(self, hroof: Any, runs: tuple[Path, Path], build: Any) -> None:
        done = hroof("check", runs[1], "--baseline", runs[0])
        profiles = [Profile.load(folder) for folder in runs]
        machines = {"machine": build.machine(), "baseline_machine": build.machine()}
        expected = check(profiles[1], losses(0.05), baseline=profiles[0], **machines)
        assert (done.status, done.out) == (OVER, text.render(expected))
        assert hroof("check", runs[0], "--baseline", runs[1]).status == OK

    @pytest.mark.parametrize(("share", "status"), [("300%", OK), ("2", USAGE), ("0.5", OVER)])
    def test_tolerance(self, hroof: Any, runs: tuple[Path, Path], share: str, status: int) -> None:
        done = hroof("check", runs[1], "--baseline", runs[0], "--tolerance", share)
        assert done.status == status

    def test_beside_a_budget_it_is_what_limits_are_relative_to(
        self, hroof: Any, runs: tuple[Path, Path], tmp_path: Path
    ) -> None:
        path = budget(tmp_path, "[layer.fc2]\ntime.rise = '5 %'")
        words = ["check", runs[1], "--baseline", runs[0], "--budget", path]
        assert hroof(*words).status == OK
        assert hroof(*words, "--tolerance", "5%").status == OVER

    def test_runs_that_cannot_be_compared(
        self, hroof: Any, runs: tuple[Path, Path], build: Any, tmp_path: Path
    ) -> None:
        without = Profile.from_rows([row | {"step": -1} for row in build.rows()], build.run())
        done = hroof("check", runs[0], "--baseline", without.save(tmp_path / "without"))
        assert done.status == USAGE
        assert "belong to no step" in done.err


class TestFirstBudget:
    def test_a_budget_that_the_run_keeps(self, hroof: Any, runs: tuple[Path, Path]) -> None:
        done = hroof("check", runs[0], "--write", "b.toml", "--tolerance", "10%")
        assert (done.status, done.out, done.err) == (OK, "", "Wrote b.toml\n")
        assert "10 % to spare" in Path("b.toml").read_text(encoding="utf-8")
        assert hroof("check", runs[0], "--budget", "b.toml").status == OK
        assert hroof("check", runs[1], "--budget", "b.toml").status == OVER

    def test_a_file_that_is_there_is_kept(self, hroof: Any, runs: tuple[Path, Path]) -> None:
        Path("b.toml").write_text("mine")
        done = hroof("check", runs[0], "--write", "b.toml")
        assert (done.status, Path("b.toml").read_text()) == (OUTPUT, "mine")
        assert hroof("check", runs[0], "--write", "b.toml", "--force").status == OK

    @pytest.mark.parametrize("more", [["--json"], ["--baseline", "base"], ["--markdown", "-"]])
    def test_nothing_is_checked_beside(
        self, hroof: Any, runs: tuple[Path, Path], more: list[str]
    ) -> None:
        done = hroof("check", runs[0], "--write", "b.toml", *more)
        assert (done.status, Path("b.toml").exists()) == (USAGE, False)


class TestCeilings:
    def test_are_missed_only_where_a_limit_needs_them(
        self, hroof: Any, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hroof.ceilings.suite.measure", lambda *given: pytest.fail("measured"))
        profile.save(tmp_path / "run")
        counts = hroof("check", "run", "--budget", budget(tmp_path, "[step]\nlaunches.max = 11"))
        assert (counts.status, counts.err) == (OK, "")
        assert "no ceilings" not in counts.out
        headroom = hroof("check", "run", "--budget", budget(tmp_path, "[step]\nheadroom.max = 9"))
        assert headroom.status == UNKNOWN
        assert "no ceilings are known" in headroom.err
        assert "no ceilings are known" in headroom.out

    def test_as_asked(
        self, hroof: Any, runs: tuple[Path, Path], machine: Machine, tmp_path: Path
    ) -> None:
        elsewhere = Machine(**{**vars(machine), "name": "big gpu", "device": "cuda:0"})
        elsewhere.save(tmp_path / "m.json")
        path = budget(tmp_path, "[step]\nheadroom.max = 9")
        done = hroof("check", runs[0], "--budget", path, "--machine", "m.json")
        assert done.status == UNKNOWN
        assert "big gpu" in done.out


class TestMarkdown:
    @pytest.fixture
    def expected(self, profile: Profile, machine: Machine, tmp_path: Path) -> str:
        """What is written for ``budget.toml``."""
        path = budget(tmp_path, "[step]\nlaunches.max = 10")
        return markdown.render(check(profile, Budget.load(path), machine=machine))

    def words(self, runs: tuple[Path, Path], *more: str) -> list[Any]:
        return ["check", runs[0], "--budget", runs[0].parent / "budget.toml", "--markdown", *more]

    def test_into_a_file(self, hroof: Any, runs: tuple[Path, Path], expected: str) -> None:
        done = hroof(*self.words(runs, "check.md"))
        assert (done.status, done.err) == (OVER, "Wrote check.md\n")
        assert Path("check.md").read_text(encoding="utf-8") == expected
        assert "1 of 1 limit over budget" in done.out
        again = hroof(*self.words(runs, "check.md"))
        assert again.status == OUTPUT
        assert "--force" in again.err
        assert hroof(*self.words(runs, "check.md", "--force", "--quiet")).err == ""

    def test_onto_standard_output(self, hroof: Any, runs: tuple[Path, Path], expected: str) -> None:
        done = hroof(*self.words(runs, "-"))
        assert (done.status, done.out) == (OVER, expected)

    def test_onto_the_page_of_a_job(
        self,
        hroof: Any,
        runs: tuple[Path, Path],
        expected: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        page = tmp_path / "page"
        page.write_text("before\n")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
        done = hroof(*self.words(runs, "-", "--json"))
        assert page.read_text(encoding="utf-8") == f"before\n{expected}\n"
        assert json.loads(done.out)["verdict"]["verdict"] == "over budget"
        assert done.err == f"Added to {page}\n"

    def test_one_standard_output_is_not_enough_for_two(
        self, hroof: Any, runs: tuple[Path, Path], expected: str
    ) -> None:
        done = hroof(*self.words(runs, "-", "--json"))
        assert (done.status, done.out) == (USAGE, "")
        assert "both take standard output" in done.err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], USAGE, "nothing to check"),
        (["--tolerance", "5%"], USAGE, "--baseline"),
        (["--tolerance", "much", "--baseline", "base"], USAGE, "no share"),
        (["--tolerance", "-5%", "--baseline", "base"], USAGE, "--tolerance"),
        (["--budget", "absent.toml"], USAGE, "absent.toml"),
        (["--baseline", "absent"], FOREIGN, "absent"),
        (["--baseline", "base", "--machine", "absent.json"], FOREIGN, "absent.json"),
    ],
)
def test_what_is_refused(
    hroof: Any, runs: tuple[Path, Path], words: list[str], status: int, said: str
) -> None:
    done = hroof("check", runs[0], *words)
    assert (done.status, done.out) == (status, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_no_run(hroof: Any, tmp_path: Path) -> None:
    path = budget(tmp_path, "[step]\nlaunches.max = 10")
    assert hroof("check", "absent", "--budget", path).status == FOREIGN


@pytest.mark.parametrize("side", ["RUN", "RUN2"])
def test_a_run_that_only_marked(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], side: str
) -> None:
    run = {"name": "train", "how": {"time": "marks only, for a tool outside"}, "steps": []}
    marked = Profile.from_rows([], run).save(tmp_path / "marked")
    both = [marked, runs[1]] if side == "RUN" else [runs[0], marked]
    assert main(["check", str(both[0]), "--baseline", str(both[1])]) == CAPTURE
    assert f"{side}: " in capsys.readouterr().err
