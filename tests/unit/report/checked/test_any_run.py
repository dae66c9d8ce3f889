"""Whatever a run holds: a check ends with a verdict of each limit, and can be written in every form."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hroof.budgets import KEYS, QUANTITIES, Budget, Verdict, check, losses
from hroof.profile import Profile
from hroof.report.checked import export, markdown, text

NUMBERS = st.one_of(st.sampled_from([math.nan, 0.0]), st.floats(1e-9, 1e9))
NAMES = st.one_of(st.none(), st.sampled_from(["fc1", "a.b", "|`<b>\x1b[2J", ""]))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "step": st.integers(-1, 2),
            "phase": st.sampled_from(["forward", "backward", "data"]),
            "layer": NAMES,
            "op": NAMES,
            "kernel": NAMES,
            "duration": st.one_of(st.just(-1.0), NUMBERS),
            "launches": st.sampled_from([0.5, 1.0, 3.0]),
        },
        optional={
            "flop_nominal_matrix_fp32": NUMBERS,
            "flop_least_matrix_fp32": NUMBERS,
            "bytes_dram": NUMBERS,
            "source_flop": st.sampled_from(["counted", "counter", "missing"]),
        },
    ),
    max_size=6,
)
RUNS = st.fixed_dictionaries(
    {"name": st.sampled_from(["run", "<b>|\x1b"])},
    optional={
        "steps": st.lists(st.fixed_dictionaries({"wall": st.one_of(st.none(), st.floats(0, 1))})),
        "peak_memory": st.one_of(st.none(), NUMBERS),
        "undisturbed_step": NUMBERS,
    },
)
WHOLE = {"step": {name: {"max": 0.5} for name in QUANTITIES}}
PARTS = {
    key: {"*": {name: {"min": 0.5} for name, one in QUANTITIES.items() if not one.whole}}
    for key in KEYS
}
BUDGET = Budget.read(WHOLE | PARTS)
FEW = settings(max_examples=10, phases=[Phase.generate])
"""To make a run that fails smaller takes minutes; it is small as it is."""


def written(found: Any) -> None:
    """Every form; the JSON as its schema says."""
    assert all(line.isprintable() for line in text.render(found, width=100).splitlines())
    assert markdown.render(found)
    said = json.loads(json.dumps(export.to_json(found), allow_nan=False))
    jsonschema.validate(said, export.JSON_SCHEMA)


@FEW
@given(ROWS, RUNS)
def test_against_a_budget(build: Any, rows: list[dict[str, Any]], run: dict[str, Any]) -> None:
    found = check(Profile.from_rows(rows, run), BUDGET, machine=build.machine())
    assert len(found.rows) >= len(QUANTITIES)
    for row in found.rows:
        known = math.isfinite(row.reading.value)
        assert known or row.verdict is Verdict.UNKNOWN
        assert row.judged.note or row.verdict in (Verdict.OK, Verdict.OVER)
    written(found)


@FEW
@given(ROWS, RUNS)
def test_against_a_baseline(build: Any, rows: list[dict[str, Any]], run: dict[str, Any]) -> None:
    base = build.profile()
    profile = Profile.from_rows([row | {"step": max(row["step"], 0)} for row in rows], run)
    if profile.launches.empty:
        return
    written(check(profile, losses(0.05), baseline=base))
