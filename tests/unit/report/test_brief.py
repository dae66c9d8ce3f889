"""The short report: nothing important is missing, and it fits a terminal."""

from __future__ import annotations

import pytest

from hroof.errors import UsageError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report import brief


def test_it_has_every_section(profile: Profile, machine: Machine) -> None:
    text = brief.render(profile, machine, width=110)
    for part in (
        "Verdict",
        "What to change first",
        "By layer",
        "How far to trust it",
        "Phases:",
        "Coverage:",
    ):
        assert part in text
    assert "Ceilings (" in text


def test_every_layer_is_ranked_or_counted(profile: Profile, machine: Machine) -> None:
    layers = set(profile.launches["layer"].dropna().astype(str))
    everything = brief.render(profile, machine, top=0, width=200)
    assert all(layer in everything for layer in layers)
    short = brief.render(profile, machine, top=1, width=200)
    assert "more rows" in short and "--top 0 shows all" in short


@pytest.mark.parametrize("width", [20, 60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(profile: Profile, machine: Machine, width: int) -> None:
    text = brief.render(profile, machine, width=width)
    assert max(len(line) for line in text.splitlines()) <= width


def test_it_fits_a_terminal_of_110_columns_as_a_table(profile: Profile, machine: Machine) -> None:
    assert "narrow terminal" not in brief.render(profile, machine, width=110)


def test_without_ceilings_there_are_times_only(profile: Profile) -> None:
    text = brief.render(profile, None, width=110)
    assert "Measured times only" in text
    assert "headroom" not in text.split("How far")[0].split("By layer")[1].splitlines()[3]
    assert "hroof ceilings" in text


def test_nothing_captured(machine: Machine) -> None:
    empty = Profile.from_rows([], {"name": "none"})
    text = brief.render(empty, machine, width=100)
    assert "No launch was captured." in text


def test_ops_without_a_rule_are_named(profile: Profile, machine: Machine) -> None:
    assert "no FLOP rule:" in brief.render(profile, machine, width=110)


def test_where_the_numbers_come_from_is_explained(profile: Profile, machine: Machine) -> None:
    text = brief.render(profile, machine, width=110)
    assert "≥ counted, at least · ~ predicted" in text
    assert "nan" not in text.lower().replace("domi", "")


def test_the_undisturbed_step_stands_beside_the_wall_time(
    profile: Profile, machine: Machine
) -> None:
    run = dict(profile.run) | {"undisturbed_step": 3e-4}
    assert "wall 440 µs ·" in brief.render(profile, machine, width=200)
    known = brief.render(profile.replace(run=run), machine, width=200)
    assert "wall 440 µs (undisturbed 300 µs) ·" in known


def test_any_grouping(profile: Profile, machine: Machine) -> None:
    text = brief.render(profile, machine, by=("phase", "op"), width=160)
    assert "By phase, op" in text


def test_an_unknown_key_is_refused(profile: Profile, machine: Machine) -> None:
    with pytest.raises(UsageError):
        brief.render(profile, machine, by=("colour",))


def test_it_is_deterministic(profile: Profile, machine: Machine) -> None:
    assert brief.render(profile, machine, width=100) == brief.render(profile, machine, width=100)
