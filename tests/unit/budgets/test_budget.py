"""Reading budgets: what they may say, and what is refused with which words."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.budgets import KEYS, QUANTITIES, Budget, Kind, Scope, losses, merged
from hroof.errors import UsageError

WHOLE = """
[step]
wall = { max = "150 ms", tolerance = "5 %" }
headroom.max = 4
share_unattributed = { max = "5 %" }
flop = { equals = "7.5 GFLOP" }
launches = { min = 10, max = "1.5k" }

[phase.backward]
time.rise = "10 %"

[layer."blocks.*.attn"]
headroom.max = 6
backward.time.max = "3 ms"

[op."aten::copy_*"]
together = true
share_of_step.max = 0.02
forward.launches.max = 3
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "budget.toml"
    path.write_text(text, encoding="utf-8")
    return path


def read(**tables: Any) -> Budget:
    return Budget.read(tables)


def limit_of(value: Any, quantity: str = "time", key: str = "max") -> float:
    (limit,) = read(step={quantity: {key: value}}).limits
    return limit.value


def refused(data: dict[str, Any]) -> UsageError:
    with pytest.raises(UsageError) as caught:
        Budget.read(data, name="b.toml")
    return caught.value


def test_a_whole_file(tmp_path: Path) -> None:
    budget = Budget.load(written(tmp_path, WHOLE))
    found = [
        (limit.scope, limit.quantity.name, limit.kind, limit.value, limit.tolerance)
        for limit in budget.limits
    ]
    attention = Scope("layer", "blocks.*.attn")
    copies = Scope("op", "aten::copy_*", together=True)
    assert found == [
        (Scope(), "wall", Kind.MAX, 0.15, 0.05),
        (Scope(), "headroom", Kind.MAX, 4.0, 0.0),
        (Scope(), "share_unattributed", Kind.MAX, 0.05, 0.0),
        (Scope(), "flop", Kind.EQUALS, 7.5e9, 0.0),
        (Scope(), "launches", Kind.MIN, 10.0, 0.0),
        (Scope(), "launches", Kind.MAX, 1500.0, 0.0),
        (Scope("phase", "backward"), "time", Kind.RISE, 0.1, 0.0),
        (attention, "headroom", Kind.MAX, 6.0, 0.0),
        (Scope("layer", "blocks.*.attn", "backward"), "time", Kind.MAX, 3e-3, 0.0),
        (copies, "share_of_step", Kind.MAX, 0.02, 0.0),
        (Scope("op", "aten::copy_*", "forward", together=True), "launches", Kind.MAX, 3.0, 0.0),
    ]
    assert budget.name == str(tmp_path / "budget.toml")
    assert budget.relative
    assert budget.ceilings


def test_what_needs_nothing_says_so() -> None:
    budget = read(step={"time": {"max": 1}})
    assert not budget.relative
    assert not budget.ceilings


@pytest.mark.parametrize(
    ("value", "quantity", "expected"),
    [
        ("12 ms", "time", 0.012),
        ("12ms", "time", 0.012),
        ("0.5", "time", 0.5),
        (2, "time", 2.0),
        ("1,500", "launches", 1500.0),
        ("4 GB", "peak_memory", 4e9),
        ("2 TFLOP/s", "flop_rate", 2e12),
        ("3 kOP", "flop_matrix_int8", 3e3),
        ("5 %", "share_zero_flop", 0.05),
        ("5%", "mfu", 0.05),
        (0.05, "share_with_flop", 0.05),
        (1, "share_with_flop", 1.0),
        (0, "zero_flop_launches", 0.0),
    ],
)
def test_values_in_their_units(value: Any, quantity: str, expected: float) -> None:
    assert limit_of(value, quantity) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "quantity", "said"),
    [
        ("12 GB", "time", "in B"),
        ("12 ms", "peak_memory", "in s"),
        ("3 FLOP", "flop_rate", "in FLOP"),
        ("5 s", "launches", "in s"),
        ("12 parsecs", "time", "no quantity"),
        ("", "time", "not a quantity"),
        ("5 %", "time", "not a quantity"),
        ("5", "share_zero_flop", "no share"),
        (5, "share_zero_flop", "no share"),
        ("5 ms", "share_zero_flop", "no share"),
        ("-1 ms", "time", "below 0"),
        (-1, "time", "below 0"),
        ("-5 %", "mfu", "below 0"),
        (True, "time", "no number"),
        (math.nan, "time", "no number"),
        (math.inf, "time", "no number"),
        (10**400, "time", "no number"),
        ([1], "time", "no number"),
        (None, "mfu", "no number"),
    ],
)
def test_values_that_are_refused(value: Any, quantity: str, said: str) -> None:
    error = refused({"step": {quantity: {"max": value}}})
    assert said.replace("no quantity", "not a quantity") in str(error)
    assert f"b.toml, [step.{quantity}.max]" in error.fact
    assert error.remedy


@pytest.mark.parametrize(
    ("data", "said", "remedy"),
    [
        ({}, "holds no limit", "[step]"),
        ({"step": {}}, "holds no limit", "[step]"),
        ({"steps": {}}, "no table 'steps'", "'step'"),
        ({"wall": {"max": 1}}, "no table 'wall'", "Known: step, layer"),
        ({"step": 3}, "3 is no table", "[step]"),
        ({"layer": {"fc1": 3}}, "3 is no table", "[layer.fc1]"),
        ({"step": {"tme": {"max": 1}}}, "no quantity 'tme'", "'time'"),
        ({"step": {"time": 3}}, "3 is no limit", "max = "),
        ({"step": {"time": {}}}, "no limit in it", "max, min"),
        ({"step": {"time": {"maximum": 3}}}, "no limit 'maximum'", "'max'"),
        ({"step": {"time": {"tolerance": 0.1}}}, "no limit in it", "max, min"),
        ({"step": {"time": {"equals": 1, "max": 2}}}, "equals stands beside", "Leave"),
        ({"step": {"time": {"rise": 0.1, "tolerance": 0.1}}}, "beside rise", "itself"),
        ({"step": {"time": {"max": 1, "tolerance": "5 ms"}}}, "no share", "5 %"),
        ({"layer": {"fc1": {"wall": {"max": 1}}}}, "whole step only", "[step]"),
        ({"layer": {"fc1": {"together": 1}}}, "together is 1", "true or false"),
        ({"step": {"together": True}}, "one thing already", "Leave"),
        ({"step": {"backward": {"time": {"max": 1}}}}, "no quantity 'backward'", "Known"),
        ({"phase": {"data": {"loss": {"time": {"max": 1}}}}}, "no quantity 'loss'", ""),
        ({"layer": {"a": {"loss": {"loss": {}}}}}, "no quantity 'loss'", ""),
        ({"layer": {"blocks": {"0": {"time": {"max": 1}}}}}, "no quantity '0'", '"blocks.0"'),
    ],
)
def test_tables_that_are_refused(data: dict[str, Any], said: str, remedy: str) -> None:
    error = refused(data)
    assert said in error.fact
    assert remedy in error.remedy
    assert "b.toml" in error.fact


def test_hostile_names_do_no_harm_in_errors() -> None:
    error = refused({"layer": {"\x1b[2J\n\u202eevil": {"time": 3}}})
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("text", "said"),
    [("[step", "no TOML"), ("a = 1\na = 2", "no TOML"), ("[step]\n\x00", "no TOML")],
)
def test_files_that_are_no_toml(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Budget.load(written(tmp_path, text))


@pytest.mark.parametrize("name", ["fwd", "Forward", "x*", "(no phase)", ""])
def test_a_phase_that_cannot_be_is_refused(name: str) -> None:
    error = refused({"phase": {name: {"time": {"max": 1}}}})
    assert f"there is no phase {name!r}" in error.fact
    read = Budget.read({"phase": {known: {"time": {"max": 1}} for known in ("forward", "*ward")}})
    assert [limit.scope.pattern for limit in read.limits] == ["forward", "*ward"]


def test_a_mark_that_editors_put_in_front_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "marked.toml"
    path.write_text("[step]\nlaunches.max = 3", encoding="utf-8-sig")
    assert [limit.value for limit in Budget.load(path).limits] == [3]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        Budget.load(tmp_path / "absent.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        Budget.load(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"[step]\n# \xe9")
    with pytest.raises(UsageError, match="cannot be read"):
        Budget.load(tmp_path / "latin.toml")


def test_every_quantity_can_be_limited() -> None:
    for name, quantity in QUANTITIES.items():
        budget = read(step={name: {"max": 0.5}})
        assert budget.limits[0].quantity is quantity
        assert quantity.meaning


def test_the_losses_of_a_baseline() -> None:
    budget = losses(0.05)
    assert budget.relative
    kinds = {limit.quantity.name: limit.kind for limit in budget.limits}
    assert kinds["time"] is kinds["flop"] is kinds["share_unattributed"] is Kind.RISE
    assert kinds["share_with_flop"] is Kind.FALL
    assert {limit.value for limit in budget.limits} == {0.05}
    assert all(limit.where_known and not limit.scope.key for limit in budget.limits)


def test_several_as_one() -> None:
    one = Budget.read({"step": {"time": {"max": 1}}}, name="a.toml")
    both = merged(one, losses(0.1))
    assert both.name == "a.toml and baseline ± 10 %"
    assert both.limits == (*one.limits, *losses(0.1).limits)


def test_the_budget_of_the_readme_is_one() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(# budget\.toml\n.*?)```", readme, re.DOTALL)
    budget = Budget.read(tomllib.loads(block))
    assert len(budget.limits) == 10
    assert not budget.relative
    section = readme[readme.index("## Budgets") : readme.index("## Ceilings")]
    told = {name for name in QUANTITIES if not name.startswith(("flop_m", "flop_v", "bytes_"))}
    assert [name for name in told if f"`{name}`" not in section] == []
    assert [key for key in KEYS if f"[{key}." not in section] == []


_KEYS = st.sampled_from(
    [
        "step",
        "layer",
        "op",
        "time",
        "flop",
        "wall",
        "max",
        "min",
        "rise",
        "tolerance",
        "together",
        "backward",
        "x",
        "",
    ]
)
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["5 %", "3 ms", "2 GB", "x", ""]),
)


@given(
    st.dictionaries(
        _KEYS,
        st.recursive(
            _VALUES, lambda inner: st.dictionaries(_KEYS, inner, max_size=3), max_leaves=8
        ),
        max_size=3,
    )
)
def test_whatever_a_file_holds_it_is_read_or_refused(data: dict[str, Any]) -> None:
    try:
        budget = Budget.read(data)
    except UsageError as error:
        assert error.fact
        assert error.remedy
    else:
        assert budget.limits
        assert all(limit.value >= 0 and math.isfinite(limit.value) for limit in budget.limits)
