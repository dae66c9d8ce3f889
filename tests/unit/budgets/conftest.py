"""The small run of the unit tests, held against budgets."""

from __future__ import annotations

from typing import Any

import pytest

from hroof.budgets import Budget, Check, Reading, Row, check
from hroof.machine import Machine
from hroof.profile import Profile


class Checking:
    """Holds one run against budgets that are written as mappings.

    Attributes:
        profile: The run.
        machine: Its ceilings.
    """

    def __init__(self, profile: Profile, machine: Machine | None) -> None:
        self.profile = profile
        self.machine = machine

    def __call__(self, data: dict[str, Any], **more: Any) -> Check:
        return check(self.profile, Budget.read(data), **{"machine": self.machine, **more})

    def row(self, data: dict[str, Any], **more: Any) -> Row:
        """The only row."""
        (row,) = self(data, **more).rows
        return row

    def readings(self, *quantities: str, **more: Any) -> dict[str, Reading]:
        """Numbers of the step."""
        found = self({"step": {name: {"max": 0.5} for name in quantities}}, **more)
        return {row.limit.quantity.name: row.reading for row in found.rows}

    def value(self, quantity: str, **more: Any) -> float:
        """A number of the step."""
        return self.readings(quantity, **more)[quantity].value


@pytest.fixture
def checking(profile: Profile, machine: Machine) -> Checking:
    """The small run with its ceilings."""
    return Checking(profile, machine)


@pytest.fixture
def of_run() -> type[Checking]:
    """For other runs."""
    return Checking
