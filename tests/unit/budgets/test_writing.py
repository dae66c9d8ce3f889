"""A first budget: the numbers of a run, which the run itself keeps."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.budgets import QUANTITIES, Budget, Kind, Verdict, check, first_budget
from hroof.budgets.writing import WRITTEN, _text
from hroof.errors import UsageError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.units import parse, parse_share


def written(profile: Profile, machine: Machine | None, tolerance: float) -> Budget:
    return Budget.read(tomllib.loads(first_budget(profile, machine, tolerance)))


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_the_run_keeps_it(profile: Profile, machine: Machine, tolerance: float) -> None:
    budget = written(profile, machine, tolerance)
    found = check(profile, budget, machine=machine)
    assert {row.verdict for row in found.rows} == {Verdict.OK}
    assert {limit.tolerance for limit in budget.limits if limit.quantity.timed} == {tolerance}


def test_what_it_says(profile: Profile, machine: Machine) -> None:
    known = profile.replace(run={**profile.run, "peak_memory": 2**31})
    assert first_budget(known, machine, 0.05) == (
        '# The numbers of run "small" (3 steps), with 5 % to spare.\n\n[step]\n'
        'time = { max = "374.0 µs", tolerance = "5 %" }\n'
        'wall = { max = "440.0 µs", tolerance = "5 %" }\n'
        'headroom = { max = "2.012", tolerance = "5 %" }\n'
        "launches.max = 11\n"
        "flop.max = 15_111_000\n"
        'bytes_l1 = { max = "1.745 MB", tolerance = "5 %" }\n'
        'bytes_dram = { max = "1.030 MB", tolerance = "5 %" }\n'
        'peak_memory = { max = "2.149 GB", tolerance = "5 %" }\n'
        'share_zero_flop = { max = "4.71 %", tolerance = "5 %" }\n'
        'share_unattributed = { max = "1.77 %", tolerance = "5 %" }\n'
        'share_with_flop = { min = "94.01 %", tolerance = "5 %" }\n'
    )


def test_work_that_is_wholly_known_is_to_stay_what_it_is(of_run: Any, build: Any) -> None:
    rows = [row for row in build.rows() if row["op"] != "sort"]
    budget = written(Profile.from_rows(rows, build.run()), None, 0.1)
    kinds = {limit.quantity.name: limit.kind for limit in budget.limits}
    assert kinds["flop"] is Kind.EQUALS
    assert kinds["launches"] is Kind.MAX
    assert "headroom" not in kinds


def test_what_nothing_could_miss_is_left_out(build: Any) -> None:
    rows = [
        {k: v for k, v in row.items() if not k.startswith("flop_")} | {"layer": None}
        for row in build.rows()
    ]
    names = {
        limit.quantity.name
        for limit in written(Profile.from_rows(rows, build.run()), None, 0.1).limits
    }
    assert not {"share_unattributed", "share_with_flop", "flop"} & names
    assert {"time", "wall", "share_zero_flop"} <= names


def test_a_hostile_name_stays_in_its_comment(profile: Profile) -> None:
    named = profile.replace(run={**profile.run, "name": "x\n[step]\ntime = 3\x1b[2J"})
    text = first_budget(named, None, 0.1)
    assert text.count("\n[step]") == 1
    assert all(line.isprintable() for line in text.splitlines())
    tomllib.loads(text)


def test_a_run_without_launches(build: Any) -> None:
    with pytest.raises(UsageError, match="holds no launch"):
        first_budget(Profile.from_rows([], build.run()), None, 0.1)


@given(st.floats(1e-9, 1e15), st.sampled_from(["time", "peak_memory", "headroom"]))
def test_a_limit_is_on_the_side_of_the_number(value: float, name: str) -> None:
    quantity = QUANTITIES[name]
    text = _text(quantity, value, Kind.MAX)
    assert value * (1 - 1e-9) <= parse(text, quantity.unit) <= value * 1.01


@given(st.floats(0, 1))
def test_a_share_is_on_the_side_of_the_number(value: float) -> None:
    quantity = QUANTITIES["share_with_flop"]
    least = parse_share(_text(quantity, value, Kind.MIN))
    most = parse_share(_text(quantity, value, Kind.MAX))
    assert least - 1e-9 <= value <= most + 1e-9
    assert math.isclose(least, most, abs_tol=1e-3)


def test_it_knows_its_quantities() -> None:
    assert set(WRITTEN) <= set(QUANTITIES)
