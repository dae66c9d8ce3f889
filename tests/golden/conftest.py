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
