"""Recorded text and JSON of a comparison of two small runs; update them with --snapshot-update."""

from __future__ import annotations

import json
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from hroof.compare import Comparison, compare
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.compared.export import to_frame, to_json
from hroof.report.compared.text import render


def rounded(value: Any) -> Any:
    """Twelve digits, and zero for what is only rounding: the last bits of a sum may differ between processors."""
    if isinstance(value, float):
        return float(f"{value:.12g}") if abs(value) > 1e-15 else 0.0
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


@pytest.fixture
def compared(profile: Profile, other: Profile, machine: Machine) -> Comparison:
    """Half as fast in one layer, twice as fast in a renamed one, one op gone."""
    return compare(profile, other, base_machine=machine, new_machine=machine)


@pytest.mark.parametrize("width", [160, 70])
def test_text(compared: Comparison, snapshot: SnapshotAssertion, width: int) -> None:
    assert render(compared, width=width) == snapshot


def test_everything(compared: Comparison, snapshot: SnapshotAssertion) -> None:
    assert render(compared, full=True, top=2, width=200) == snapshot


def test_without_ceilings(profile: Profile, other: Profile, snapshot: SnapshotAssertion) -> None:
    assert render(compare(profile, other), width=120) == snapshot


def test_nothing_changed(profile: Profile, machine: Machine, snapshot: SnapshotAssertion) -> None:
    same = compare(profile, profile, base_machine=machine, new_machine=machine)
    assert render(same, width=120) == snapshot


def test_json(compared: Comparison, snapshot: SnapshotAssertion) -> None:
    assert json.dumps(rounded(to_json(compared)), indent=1, ensure_ascii=False) == snapshot


def test_columns_of_the_table(compared: Comparison, snapshot: SnapshotAssertion) -> None:
    assert list(to_frame(compared).columns) == snapshot
