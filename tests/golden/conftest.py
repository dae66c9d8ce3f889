"""The small run of the unit tests, for recorded reports."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from hroof.machine import Machine
from hroof.profile import Profile

BUILDERS = Path(__file__).parent.parent / "unit" / "conftest.py"


def _builders() -> ModuleType:
    spec = importlib.util.spec_from_file_location("small_run", BUILDERS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def profile() -> Profile:
    """Three steps of a two-layer net, with every odd kind of row."""
    made: Profile = _builders().build_profile()
    return made


@pytest.fixture
def machine() -> Machine:
    """A small CPU."""
    made: Machine = _builders().build_machine()
    return made


@pytest.fixture
def other(profile: Profile) -> Profile:
    """The small run another time: slower in one layer, faster in a renamed one, without its loss."""
    made: Profile = _builders().build_other(
        {"fc1": 2.0, "fc2": 0.25}, {"fc2": "head"}, name="other"
    )
    kept = made.launches[made.launches["op"] != "nll"].reset_index(drop=True)
    return made.replace(launches=kept)
