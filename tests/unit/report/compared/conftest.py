"""Comparisons of the small run that the tests of its reports share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hroof.compare import Comparison, compare
from hroof.machine import Machine
from hroof.profile import Profile

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>alert(1)</script>",
    "\" onmouseover=alert(1) x='",
    "{{ 7 * 7 }}{% raw %}",
    "</title></style></svg><script>alert(1)</script>",
    "a\x00b\x1b[31mc\r\nd",
    "\u202eevil\u2066",
    "=HYPERLINK(1)",
    "$\\frac{$",
    "long" * 2500,
]


@pytest.fixture
def compared(profile: Profile, machine: Machine, build: Any) -> Comparison:
    """Slower in one layer, another one renamed, one gone and one new."""
    rows = build.other({"fc1": 2.0}).launches.to_dict("records")
    rows = [row for row in rows if row["op"] != "nll"]
    new = Profile.from_rows(rows, build.run() | {"name": "changed", "undisturbed_step": 3e-4})
    return compare(profile, new, base_machine=machine, new_machine=machine)


@pytest.fixture(params=range(len(HOSTILE)))
def name(request: pytest.FixtureRequest) -> str:
    """A hostile name."""
    return HOSTILE[request.param]


@pytest.fixture
def hostile(machine: Machine, build: Any) -> Callable[[str], Comparison]:
    """Both runs, a layer and an op of each have a hostile name."""

    def make(name: str) -> Comparison:
        def run(layer: str, other: str) -> Profile:
            rows = build.rows()
            for row in rows:
                row["layer"] = {"fc1": name, "fc2": layer}.get(row["layer"], row["layer"])
                row["op"] = {"relu": other, "mm": name}.get(row["op"], row["op"])
            run = build.run() | {"name": name, "device_name": other, "framework": name}
            return Profile.from_rows(rows, run | {"warnings": [name], "facts": {"driver": other}})

        # fc2 has no twin in the other run by name nor by type: it is gone and new.
        base, new = run(f"{name}1", f"{name}a"), run(f"{name}2", f"{name}b")
        return compare(base, new, base_machine=machine, new_machine=machine)

    return make
