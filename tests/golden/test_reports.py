"""Recorded text and JSON reports of the small run; update them with --snapshot-update."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report import brief
from hroof.report.export import to_frame, to_json
from hroof.report.text import render

BUILDERS = Path(__file__).parent.parent / "unit" / "conftest.py"


def rounded(value: Any) -> Any:
    """Twelve digits: the last bits of a sum may differ between processors."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def dumped(value: Any) -> str:
    return json.dumps(rounded(value), indent=1, ensure_ascii=False)


class TestText:
    @pytest.mark.parametrize("width", [200, 70])
    def test_by_layer(
        self, profile: Profile, machine: Machine, snapshot: SnapshotAssertion, width: int
    ) -> None:
        assert render(profile, machine, width=width) == snapshot

    def test_by_layer_and_phase(
        self, profile: Profile, machine: Machine, snapshot: SnapshotAssertion
    ) -> None:
        assert render(profile, machine, by=("layer", "phase"), top=4, width=200) == snapshot

    def test_without_ceilings(self, profile: Profile, snapshot: SnapshotAssertion) -> None:
        assert render(profile, None, width=120) == snapshot

    def test_nothing_captured(self, machine: Machine, snapshot: SnapshotAssertion) -> None:
        assert render(Profile.from_rows([]), machine, width=120) == snapshot


class TestBrief:
    @pytest.mark.parametrize("width", [110, 60])
    def test_by_layer(
        self, profile: Profile, machine: Machine, snapshot: SnapshotAssertion, width: int
    ) -> None:
        assert brief.render(profile, machine, width=width) == snapshot


class TestJson:
    def test_by_layer(
        self, profile: Profile, machine: Machine, snapshot: SnapshotAssertion
    ) -> None:
        assert dumped(to_json(profile, machine)) == snapshot

    def test_by_op_without_ceilings(self, profile: Profile, snapshot: SnapshotAssertion) -> None:
        assert dumped(to_json(profile, None, ("op",))["rows"]) == snapshot

    def test_columns_of_the_table(
        self, profile: Profile, machine: Machine, snapshot: SnapshotAssertion
    ) -> None:
        assert list(to_frame(profile, machine).columns) == snapshot


PROGRAM = """
import json, runpy, sys
small = runpy.run_path(sys.argv[1])
from hroof.report import brief
from hroof.report.export import to_json
from hroof.report.text import render
profile, machine = small["build_profile"](), small["build_machine"]()
for by in (("layer",), ("op", "phase"), ("block", "recompute")):
    sys.stdout.buffer.write(json.dumps(to_json(profile, machine, by)).encode())
    sys.stdout.buffer.write(render(profile, machine, by=by, width=150).encode())
"""


def test_the_hash_seed_changes_nothing() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(BUILDERS)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(outputs) == 1
