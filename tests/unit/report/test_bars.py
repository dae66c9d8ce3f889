"""The step as bars: one scale, what is known only, and three kinds of time side by side."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.bars import bars, gaps, launch_cost
from hroof.report.html import _collect
from hroof.report.sections import Report


@pytest.fixture
def report(profile: Profile, machine: Machine) -> Report:
    return _collect(profile, machine, ("layer",))


def timed(report: Report, **times: Any) -> Report:
    return dataclasses.replace(report, totals=dataclasses.replace(report.totals, **times))


def widths(line: dict[str, Any]) -> list[float]:
    return [float(part["width"].rstrip("%")) for part in line["parts"]]


def named(lines: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(line for line in lines if line["name"] == name)


def test_the_longest_bar_fills_the_scale(report: Report) -> None:
    lines = bars(timed(report, wall=1e-3, union_time=3e-4, undisturbed=8e-4))
    assert [line["name"] for line in lines] == [
        "launch time", "wall time", "undisturbed step", "launches × launch cost",
    ]  # fmt: skip
    assert sum(widths(named(lines, "wall time"))) == pytest.approx(100)
    assert sum(widths(named(lines, "undisturbed step"))) == pytest.approx(80)
    whole = sum(point.time for point in report.phases)
    assert sum(widths(named(lines, "launch time"))) == pytest.approx(100 * whole / 1e-3, abs=0.02)


def test_wall_time_is_divided_where_launches_ran_and_where_none_did(report: Report) -> None:
    line = named(bars(timed(report, wall=1e-3, union_time=3e-4)), "wall time")
    assert [part["name"] for part in line["parts"]] == ["busy", "idle"]
    assert widths(line) == pytest.approx([30, 70])
    assert line["parts"][1]["title"] == "idle 700 µs, 70.0 %"
    assert line["time"] == "1.00 ms"


@pytest.mark.parametrize("union", [None, 1e-3, 2e-3])
def test_no_idle_time_is_made_up(report: Report, union: float | None) -> None:
    line = named(bars(timed(report, wall=1e-3, union_time=union)), "wall time")
    assert [part["name"] for part in line["parts"]] == ["wall"]


def test_phases_have_their_colours_and_say_themselves(report: Report) -> None:
    line = named(bars(report), "launch time")
    assert [part["name"] for part in line["parts"]] == [
        "forward", "loss", "backward", "optimizer", "data",
    ]  # fmt: skip
    assert line["parts"][0]["class"] == "hue-forward"
    assert all(part["title"] in line["label"] for part in line["parts"])
    assert [part["wide"] for part in line["parts"]] == [True, False, True, True, False]


def test_what_launching_costs(report: Report, profile: Profile, machine: Machine) -> None:
    assert launch_cost(report) == pytest.approx(report.totals.launches * 2e-6)
    free = dataclasses.replace(machine, launch_cost=None)
    assert launch_cost(_collect(profile, free, ("layer",))) is None
    names = [line["name"] for line in bars(_collect(profile, free, ("layer",)))]
    assert "launches × launch cost" not in names


def test_an_empty_run_has_neither_bars_nor_gaps(machine: Machine) -> None:
    nothing = _collect(Profile.from_rows([]), machine, ("layer",))
    assert bars(nothing) == []
    assert gaps(nothing) == []


def test_gaps_in_words(report: Report) -> None:
    idle, launches = gaps(timed(report, wall=1e-3, union_time=3e-4))
    assert idle.startswith("No launch ran in 700 µs of the 1.00 ms of a captured step (70.0 %)")
    assert launches.startswith("11 launches a step cost 22.0 µs where they serialise")
    assert [text for text in gaps(timed(report, wall=None)) if "No launch" in text] == []
