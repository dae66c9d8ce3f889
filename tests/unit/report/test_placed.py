"""How the layers were found: one line in every report of a run that tells, whatever its file holds."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report import brief, html, text
from hroof.report.placed import placed

BY = {"own": 0.2, "scope": 0.08, "neighbour": 0.58, "split": 0.09, "none": 0.05}
SAID = "28.0 % by name, 58.0 % by neighbours, 9.0 % split over layers, 5.0 % not placed"

HOSTILE: list[Any] = [
    *(None, 3, "split", [], [["own", 1.0]], {}, {"own": None}, {"own": "much"}, {"own": [1.0]}),
    *({"own": math.nan}, {"own": math.inf}, {"own": -1.0}, {"own": 10**400}, {"own": True}),
    {"own": {"own": 1.0}},
]


def test_shares_by_rule() -> None:
    assert placed({"placed_by": BY}) == SAID


def test_what_would_print_as_nothing_is_left_out() -> None:
    assert placed({"placed_by": {"own": 0.9999, "split": 0.0001}}) == "100.0 % by name"


@pytest.mark.parametrize("value", HOSTILE)
def test_what_is_no_share_says_nothing(value: Any) -> None:
    assert placed({"placed_by": value}) == ""


def test_an_unknown_rule_is_never_shown_by_its_name() -> None:
    said = placed({"placed_by": {"own": 0.5, "\x1b[31m<script>": 0.25, "x": 0.25, "split": "<b>"}})
    assert said == "50.0 % by name, 50.0 % otherwise"


def test_shares_that_add_up_to_more_than_all_are_no_shares() -> None:
    assert placed({"placed_by": {"own": 0.9, "scope": 0.9, "split": 0.1}}) == (
        "10.0 % split over layers"
    )


def reports(profile: Profile, machine: Machine) -> list[str]:
    return [
        brief.render(profile, machine, width=200),
        text.render(profile, machine, width=200),
        html.render(profile, machine),
    ]


def with_shares(profile: Profile, shares: Any) -> Profile:
    return profile.replace(run={**profile.run, "placed_by": shares})


def test_every_report_says_it(profile: Profile, machine: Machine) -> None:
    pytest.importorskip("jinja2")
    short, full, page = reports(with_shares(profile, BY), machine)
    assert f"Layers: {SAID}." in short.splitlines()
    assert f"Layers: {SAID}." in full.splitlines()
    assert SAID in page


def test_no_report_says_it_of_other_runs(profile: Profile, machine: Machine) -> None:
    pytest.importorskip("jinja2")
    assert not any(
        "Layers: " in said or "by neighbours" in said for said in reports(profile, machine)
    )


@pytest.mark.parametrize("value", [[["own", 1.0]], {"own": {"a": 1}}, {"\x1b]0;x\x07": 0.5}])
def test_no_report_breaks_over_it(profile: Profile, machine: Machine, value: Any) -> None:
    pytest.importorskip("jinja2")
    plain = reports(with_shares(profile, value), machine)
    assert not any("\x1b" in said or "\x07" in said for said in plain)
