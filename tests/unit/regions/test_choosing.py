"""Several frameworks in one program: the one whose steps come first is measured."""

from __future__ import annotations

import pytest

from hroof import integration
from hroof.integration import Capture, Integration, Stage, StepSink
from hroof.profile import Profile
from hroof.regions import Region, Status


class Noted:
    """A capture that writes down what it is told."""

    def __init__(self, name: str, steps: StepSink) -> None:
        self.name, self.steps = name, steps
        self.log: list[str] = []

    def stage(self, stage: Stage) -> None:
        self.log.append(str(stage))

    def step_ended(self, number: int) -> None:
        self.log.append(f"step {number}")

    def profile(self) -> Profile | None:
        return Profile.from_rows([{"op": self.name}], {"framework": self.name, "warnings": ["old"]})

    def flush(self) -> None:
        self.log.append("flush")

    def release(self) -> None:
        self.log.append("release")

    def seen(self) -> str:
        return f"No step of {self.name}."


class Framework:
    """An integration."""

    def __init__(self, name: str, *, used: bool = False, covers: tuple[str, ...] = ()) -> None:
        self.FRAMEWORK = name
        self._used, self._covers = used, covers
        self.captures: list[Noted] = []

    def capture(self, steps: StepSink) -> Capture:
        self.captures.append(Noted(self.FRAMEWORK, steps))
        return self.captures[-1]

    def in_use(self) -> bool:
        return self._used

    def measures_for(self) -> tuple[str, ...]:
        return self._covers

    @property
    def steps(self) -> StepSink:
        return self.captures[0].steps

    @property
    def log(self) -> list[str]:
        return self.captures[0].log


def imported(monkeypatch: pytest.MonkeyPatch, *found: Framework) -> None:
    def active() -> list[Integration]:
        return list(found)  # type: ignore[arg-type]

    monkeypatch.delenv("HROOF", raising=False)
    monkeypatch.setattr(integration, "active", active)


def test_the_framework_whose_steps_come_first_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Framework("abacus"), Framework("zeta")
    imported(monkeypatch, one, other)
    with Region(skip=1, steps=1) as region:
        for _ in range(3):
            other.steps.boundary()
    assert one.log == ["done", "release", "release"]
    assert other.log == ["count", "time", "done", "release"]
    profile = region.outcome.profile
    assert profile is not None
    assert profile.run["framework"] == "zeta"
    assert profile.run["warnings"] == ["old"]  # the other one was only imported


def test_the_short_way_is_open_once_the_choice_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Framework("abacus"), Framework("zeta")
    imported(monkeypatch, one, other)
    with Region(skip=9, steps=1) as region:
        assert not one.steps.let_pass()
        one.steps.boundary()
        assert one.steps.let_pass()
    assert region.finished_steps == 2
    assert (one.steps.skip, one.steps.name) == (9, "region")


def test_where_both_compute_the_choice_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Framework("abacus", used=True), Framework("zeta", used=True)
    imported(monkeypatch, one, other)
    with Region(skip=0, steps=1) as region:
        region.boundary(explicit=True)
        region.boundary(explicit=True)
    profile = region.outcome.profile
    assert profile is not None
    said = profile.run["warnings"][-1]
    assert said.startswith("abacus and zeta are in use; abacus was measured alone, since no step")
    assert "hroof.region(framework='zeta')" in said


def test_where_no_step_was_seen_the_one_that_computes_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = Framework("abacus"), Framework("zeta", used=True)
    imported(monkeypatch, one, other)
    with Region(skip=0, steps=1) as region:
        region.boundary(explicit=True)
        region.boundary(explicit=True)
    assert other.log[0] == "count"
    assert region.outcome.profile is not None
    assert region.outcome.profile.run["framework"] == "zeta"


def test_a_region_without_any_step_says_what_each_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = Framework("abacus"), Framework("zeta")
    imported(monkeypatch, one, other)
    with Region() as region:
        pass
    assert region.outcome.status is Status.EMPTY
    assert "No step of abacus. No step of zeta." in region.outcome.reason
    assert one.log == other.log == ["flush", "done", "release"]


def test_a_framework_that_is_measured_through_another_is_no_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = Framework("abacus"), Framework("zeta", covers=("abacus",))
    imported(monkeypatch, one, other)
    assert [one.FRAMEWORK for one in integration.candidates()] == ["zeta"]


def test_a_framework_that_is_asked_for_is_the_only_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = Framework("abacus"), Framework("zeta", used=True)
    imported(monkeypatch, one, other)
    monkeypatch.setattr(integration, "load", lambda name: {"abacus": one, "zeta": other}[name])
    with Region(framework="abacus", skip=0, steps=1):
        pass
    assert len(one.captures) == 1
    assert other.captures == []
