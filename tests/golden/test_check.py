"""Recorded text, Markdown and JSON of a checked run; update them with --snapshot-update."""

from __future__ import annotations

import json
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from hroof.budgets import Budget, Check, check, losses
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.checked.export import to_json
from hroof.report.checked.markdown import render as as_markdown
from hroof.report.checked.text import render

BUDGET = {
    "step": {
        "time": {"max": "350 us"},
        "headroom": {"max": 4},
        "launches": {"max": 5},
        "flop": {"equals": "15 MFLOP"},
        "peak_memory": {"max": "4 GB"},
    },
    "layer": {"fc*": {"bytes_l1": {"max": "1 MB"}, "backward": {"time": {"max": "1 ms"}}}},
    "op": {"mm": {"together": True, "share_of_step": {"max": "70 %", "tolerance": "5 %"}}},
}


def rounded(value: Any) -> Any:
    """Twelve digits, and zero for what is only rounding: the last bits of a sum may differ between processors."""
    if isinstance(value, float):
        return float(f"{value:.12g}") if abs(value) > 1e-15 else 0.0
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


@pytest.fixture
def checked(profile: Profile, machine: Machine) -> Check:
    """Limits of every outcome."""
    return check(profile, Budget.read(BUDGET, name="budget.toml"), machine=machine)


@pytest.fixture
def regressed(profile: Profile, other: Profile) -> Check:
    """Another run against the small one as baseline."""
    return check(other, losses(0.05), baseline=profile)


@pytest.mark.parametrize("width", [160, 70])
def test_text(checked: Check, snapshot: SnapshotAssertion, width: int) -> None:
    assert render(checked, width=width) == snapshot


def test_text_against_a_baseline(regressed: Check, snapshot: SnapshotAssertion) -> None:
    assert render(regressed, width=120) == snapshot


def test_markdown(regressed: Check, snapshot: SnapshotAssertion) -> None:
    assert as_markdown(regressed) == snapshot


def test_json(checked: Check, snapshot: SnapshotAssertion) -> None:
    assert json.dumps(rounded(to_json(checked)), indent=1, ensure_ascii=False) == snapshot
