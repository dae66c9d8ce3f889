"""The folders of a run: chosen, tried, found, cleaned."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from hroof.cli import results
from hroof.cli.results import Results, run_name
from hroof.errors import OutputError
from hroof.profile import Profile


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "--x"], "train"),
        (["python3.11", "/a/b/my script.py"], "my_script"),
        (["python", "-m", "package.train"], "package.train"),
        (["torchrun", "--nproc", "2", "train.py"], "train"),
        (["./train"], "train"),
        (["python"], "python"),
        (["python", "-m"], "m"),
        (["/"], "run"),
    ],
)
def test_a_run_is_named_after_its_script(command: list[str], name: str) -> None:
    assert run_name(command) == name


def test_fresh_folders_are_numbered() -> None:
    made = [Results.fresh(["python", "train.py"]).folder for _ in range(3)]
    assert [str(path) for path in made] == [
        "hroof-runs/train",
        "hroof-runs/train.2",
        "hroof-runs/train.3",
    ]
    assert all(path.is_dir() for path in made)


def test_the_next_free_folder_is_the_one_that_is_taken() -> None:
    for _ in range(3):
        expected = Results.next_free(["python", "train.py"])
        assert not expected.exists()
        assert Results.fresh(["python", "train.py"]).folder == expected
    Path("hroof-runs/train.4").symlink_to("nowhere")
    assert Results.next_free(["python", "train.py"]).name == "train.5"


def test_nothing_found_leaves_no_folder() -> None:
    run = Results.fresh(["train"])
    assert run.found() == []
    run.finish()
    assert not Path("hroof-runs").exists()


def test_what_was_there_stays() -> None:
    Path("out").mkdir()
    Path("out/mine.txt").write_text("mine")
    run = Results.prepare(Path("out"))
    run.finish()
    assert [path.name for path in Path("out").iterdir()] == ["mine.txt"]


def test_only_new_profiles_count_in_the_order_of_regions_and_ranks(profile: Profile) -> None:
    profile.save("out-2")
    run = Results.prepare(Path("out"))
    for name in ("out-10", "out-3", "out-rank1", "out-rank1-3", "out", "out-else", "output"):
        profile.save(name)
    found = [path.name for path in run.found()]
    assert found == ["out", "out-rank1", "out-3", "out-rank1-3", "out-10"]


def test_a_profile_is_not_replaced_unasked(profile: Profile) -> None:
    profile.save("out")
    with pytest.raises(OutputError, match="--force"):
        Results.prepare(Path("out"))
    assert Profile.load("out").launches.equals(profile.launches)


def test_with_force_the_new_one_replaces_the_old(profile: Profile) -> None:
    profile.save("out")
    (Path("out") / "machine.json").write_text("{}")
    run = Results.prepare(Path("out"), force=True)
    assert not Path("out/run.json").exists()
    profile.replace(run={**profile.run, "name": "new"}).save("out")
    assert run.found() == [Path("out")]
    run.finish()
    assert Profile.load("out").name == "new"
    assert sorted(path.name for path in Path("out").iterdir()) == ["launches-0.parquet", "run.json"]


def test_with_force_the_old_one_comes_back_when_there_is_no_new_one(profile: Profile) -> None:
    profile.save("out")
    run = Results.prepare(Path("out"), force=True)
    run.finish()
    assert Profile.load("out").launches.equals(profile.launches)


def test_counters_of_a_profile_that_is_replaced_go_unless_kept(profile: Profile) -> None:
    for keep in (True, False):
        profile.save("out", force=True)
        for name in (*results.COUNTERS, "machine.json"):
            Path("out", name).write_text("old")
        run = Results.prepare(Path("out"), force=True, keep_counters=keep)
        profile.save("out")
        run.finish()
        assert not Path("out/machine.json").exists()
        assert [Path("out", name).exists() for name in results.COUNTERS] == [keep] * 3


def test_a_file_of_a_run_that_failed_is_rescued_from_the_one_that_comes_back(
    profile: Profile,
) -> None:
    report = Path("out", results.REPORT)
    profile.save("out")
    run = Results.prepare(Path("out"), force=True)
    report.write_text("new")
    assert run.rescued(report) == report
    assert run.aside is not None
    (run.aside / results.REPORT).write_text("old")
    kept = run.rescued(report)
    run.finish()
    assert (kept.read_text(), report.read_text()) == ("new", "old")


# --- folders that cannot be written -------------------------------------------------------------


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_in_the_way(out: str) -> None:
    Path("file").write_text("x")
    with pytest.raises(OutputError, match="not a folder"):
        Results.prepare(Path(out))
    assert Path("file").read_text() == "x"


def test_a_name_that_is_too_long() -> None:
    for out in (Path("x" * 300), Path("new", "x" * 300)):
        with pytest.raises(OutputError, match="File name too long"):
            Results.prepare(out)
    assert list(Path().iterdir()) == []


def test_the_default_folder_is_a_file() -> None:
    Path("hroof-runs").write_text("x")
    with pytest.raises(OutputError, match="not a folder"):
        Results.fresh(["train"])


@pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_read_only_folder() -> None:
    Path("out").mkdir(mode=0o500)
    with pytest.raises(OutputError, match="denied"):
        Results.prepare(Path("out"))


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "No space left"), (errno.EROFS, "Read-only"),
                         (errno.EACCES, "denied")],
)  # fmt: skip
def test_a_folder_that_fails_when_written_to(
    number: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(results, "tempfile", SimpleNamespace(NamedTemporaryFile=refuse))
    with pytest.raises(OutputError, match=f"{said}.*--out"):
        Results.prepare(Path("a/b"))
    with pytest.raises(OutputError, match=f"{said}.*--out"):
        Results.fresh(["train"])
    assert list(Path().iterdir()) == []


def test_a_folder_that_fills_up_meanwhile_is_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Results.prepare(Path("out"))
    run.check()

    def refuse(*given: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(results, "tempfile", SimpleNamespace(NamedTemporaryFile=refuse))
    with pytest.raises(OutputError, match="No space left"):
        run.check()


# --- notes --------------------------------------------------------------------------------------


def test_notes_of_the_program_are_read_and_removed() -> None:
    run = Results.prepare(Path("out"))
    assert run.reason() == {}
    assert run.evidence() == []
    (run.folder / "empty.json").write_text('{"reason": "too few"}')
    (run.folder / "start-12.json").write_text('{"framework": "torch"}')
    (run.folder / "start-13.json").write_text('{"framew')
    assert run.reason() == {"reason": "too few"}
    assert run.evidence() == [{"framework": "torch"}, {}]
    run.finish()
    assert not Path("out").exists()
