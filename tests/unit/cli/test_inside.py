"""The region that stands in, its end, and what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from hroof import integration
from hroof.cli import inside
from hroof.cli.inside import StandIn
from hroof.integration import Stage
from hroof.profile import Profile
from hroof.regions import Region, Status


class Capture:
    """Gives a prepared profile, or none."""

    def __init__(self, profile: Profile | None) -> None:
        self._profile = profile
        self.stages: list[Stage] = []

    def stage(self, stage: Stage) -> None:
        self.stages.append(stage)

    def step_ended(self, number: int) -> None:
        pass

    def profile(self) -> Profile | None:
        return self._profile

    def flush(self) -> None:
        pass

    def release(self) -> None:
        pass

    def seen(self) -> str:
        return "It saw things."


@pytest.fixture
def capture(profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Capture:
    made = Capture(profile)
    monkeypatch.setattr(Region, "_begin_capture", lambda region: made)
    monkeypatch.setenv("HROOF_OUT", str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    return made


def steps(region: Region, count: int) -> None:
    for _ in range(count):
        region.boundary()


def test_it_is_saved_as_soon_as_it_is_complete(capture: Capture, tmp_path: Path) -> None:
    region = StandIn(skip=1, steps=1)
    region.__enter__()
    steps(region, 3)
    assert region.outcome.status is Status.COMPLETE
    assert Profile.load(tmp_path / "out").run["status"] == "complete"
    region.close()


def test_dropping_it_takes_the_saved_result_away(capture: Capture, tmp_path: Path) -> None:
    region = StandIn(skip=1, steps=1)
    region.__enter__()
    steps(region, 3)
    region.drop()
    assert list((tmp_path / "out").iterdir()) == []
    with Region(skip=1, steps=1) as own:
        steps(own, 3)
    assert own.outcome.status is Status.COMPLETE


def test_dropping_it_early_saves_nothing(capture: Capture, tmp_path: Path) -> None:
    region = StandIn(skip=1, steps=3)
    region.__enter__()
    steps(region, 2)
    region.drop()
    assert capture.stages == [Stage.COUNT, Stage.TIME, Stage.DONE]
    assert list((tmp_path / "out").iterdir()) == []
    region.close()
    assert list((tmp_path / "out").iterdir()) == []


def test_the_end_of_the_program_is_its_end(capture: Capture, tmp_path: Path) -> None:
    region = StandIn(skip=1, steps=3)
    region.__enter__()
    steps(region, 2)
    region.close()
    run = Profile.load(tmp_path / "out").run
    assert run["status"] == "partial"
    assert "The program did 2 steps and needs 5" in run["status_reason"]


def test_an_exception_of_the_program_is_named(
    capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "last_value", ZeroDivisionError("x"), raising=False)
    region = StandIn(skip=1, steps=3)
    region.__enter__()
    steps(region, 2)
    region.close()
    assert "ZeroDivisionError" in Profile.load(tmp_path / "out").run["status_reason"]


@pytest.mark.parametrize(
    ("skip", "seen", "said"),
    [
        (5, 6, "hroof run --skip 2 --steps 3"),
        (5, 5, "hroof run --skip 1 --steps 3"),
        (5, 4, "hroof run --skip 1 --steps 2"),
        (5, 3, "hroof run --skip 1 --steps 1"),
        (5, 2, "Let it do at least 3 steps"),
        (5, 1, "did 1 step and needs 9"),
        (1, 4, "hroof run --skip 1 --steps 2"),
    ],
)
def test_too_few_steps_get_the_call_that_would_fit(
    capture: Capture, skip: int, seen: int, said: str
) -> None:
    region = StandIn(skip=skip, steps=3)
    region.__enter__()
    steps(region, seen)
    region.close()
    assert said in region.outcome.reason
    assert "It saw things." in region.outcome.reason


@pytest.mark.parametrize(
    ("skip", "seen", "said"),
    [
        (5, 6, "hroof run --counters --skip 3 --steps 3"),
        (5, 3, "hroof run --counters --skip 1 --steps 2"),
        (5, 2, "hroof run --counters --skip 1 --steps 1"),
        (5, 1, "at least 2 steps, and call hroof run --counters --skip 1 --steps 1"),
        (5, 4, "The program did 4 steps and needs 8 (5 skipped, 3 marked)"),
    ],
)
def test_too_few_steps_to_mark_get_the_call_that_would_fit(
    capture: Capture, monkeypatch: pytest.MonkeyPatch, skip: int, seen: int, said: str
) -> None:
    monkeypatch.setenv("HROOF", "marks")
    region = StandIn(skip=skip, steps=3)
    region.__enter__()
    steps(region, seen)
    region.close()
    assert said in region.outcome.reason


# --- the start ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "watched"), [("off", False), ("marks", True), ("", True)])
def test_which_switch_keeps_the_program_unwatched(
    monkeypatch: pytest.MonkeyPatch, value: str, watched: bool
) -> None:
    """Also a program that is only marked needs a region."""
    begun: list[StandIn] = []

    class Fake:
        def watch_program(self, begin: Any) -> None:
            begun.append(begin())

    monkeypatch.setenv("HROOF", value)
    monkeypatch.setattr(integration, "load", lambda name: Fake())
    monkeypatch.setattr(inside, "_end_regions_on_terminate", lambda: None)
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: None)
    inside.watch("fake", {"skip": 2, "steps": 1, "name": "mine"})
    assert [(region.name, region.skip, region.steps) for region in begun] == (
        [("mine", 2, 1)] if watched else []
    )


# --- the end by a signal ------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys
from hroof.cli import inside
from hroof.regions import Region

def end(region, outcome):
    print(outcome.status, outcome.reason, flush=True)

{before}
inside._end_regions_on_terminate()
region = Region(on_end=end)
region.__enter__()
{then}
os.kill(os.getpid(), signal.SIGTERM)
print("still here", flush=True)
"""


def program(before: str = "", then: str = "") -> Any:
    code = textwrap.dedent(PROGRAM).format(before=before, then=then)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_told_to_end_a_region_is_ended_first() -> None:
    done = program()
    assert done.stdout == "empty The region ended with _Terminated after 0 steps.\n"
    assert done.returncode == -signal.SIGTERM
    assert done.stderr == ""


def test_the_programs_own_handler_is_left_alone() -> None:
    done = program(before="signal.signal(signal.SIGTERM, lambda *given: print('mine'))")
    assert done.stdout == "mine\nstill here\n"


def test_a_handler_that_comes_later_wins() -> None:
    done = program(then="signal.signal(signal.SIGTERM, lambda *given: print('mine'))")
    assert done.stdout == "mine\nstill here\n"


def test_a_forked_child_just_ends() -> None:
    done = program(
        before="os.register_at_fork(after_in_child=inside._abandon)",
        then=(
            "if os.fork():\n    print(os.wait()[1], flush=True)\n    region.drop()\n"
            "    signal.signal(signal.SIGTERM, signal.SIG_IGN)"
        ),
    )
    assert done.stdout == f"{int(signal.SIGTERM)}\nstill here\n"
    assert os.WTERMSIG(int(done.stdout.split()[0])) == signal.SIGTERM
