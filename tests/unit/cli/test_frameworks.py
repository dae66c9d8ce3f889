"""Which framework a verb takes: the one that is asked for, else the first that is installed."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from importlib.metadata import PackageNotFoundError
from types import ModuleType
from typing import Any

import pytest

from hroof import integration
from hroof.cli import frameworks
from hroof.cli.frameworks import KERAS, KNOWN, TORCH
from hroof.errors import MissingError


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The modules that seem to be installed; every integration can be loaded."""
    found: set[str] = set()
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: object() if name in found else None
    )
    monkeypatch.setattr(integration, "load", lambda name: name)
    monkeypatch.setattr(integration, "known", lambda: {"torch": None, "keras": None})
    return found


def loaded(name: str | None) -> Any:
    return frameworks.load(name)


def test_the_first_that_is_installed(installed: set[str]) -> None:
    installed.add("tensorflow")
    assert frameworks.default() is KERAS
    assert loaded(None) == "keras"
    installed.add("torch")
    assert frameworks.default() is TORCH
    assert loaded(None) == "torch"


def test_where_none_is_installed_both_ways_out_are_named(installed: set[str]) -> None:
    assert frameworks.default() is TORCH
    with pytest.raises(MissingError, match="PyTorch or TensorFlow is needed") as caught:
        frameworks.load(None)
    for one in KNOWN:
        assert one.remedy in caught.value.remedy


def test_the_one_that_is_asked_for(installed: set[str]) -> None:
    installed.add("torch")
    assert loaded("keras") == "keras"  # the integration itself says what it lacks
    with pytest.raises(MissingError, match="The abacus integration is not installed"):
        frameworks.load("abacus")


def test_a_module_without_a_spec_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = ModuleType("torch")
    stand_in.__spec__ = None
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    assert TORCH.installed


def test_the_version_is_that_of_whichever_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "tensorflow-cpu":
            return "2.0"
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", version)
    assert KERAS.version == "2.0"
    assert TORCH.version == "installed, version unknown"


def test_each_has_an_integration_of_its_name() -> None:
    known: Any = integration.known()
    assert {one.name for one in KNOWN} <= set(known)


def test_the_option() -> None:
    parser = argparse.ArgumentParser()
    frameworks.add_framework(parser)
    assert parser.parse_args([]).framework is None
    assert parser.parse_args(["--framework", "keras"]).framework == "keras"
