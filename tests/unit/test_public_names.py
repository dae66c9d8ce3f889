"""The public names: locked here, sorted, real, and documented."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import hroof

# A change of these lists is a change of the interface: it belongs into the changelog.
LOCKED = {
    "hroof": [
        "CaptureError",
        "Ceiling",
        "HroofError",
        "HroofWarning",
        "Machine",
        "MissingError",
        "OutputError",
        "Profile",
        "ProfileError",
        "Run",
        "Saved",
        "UsageError",
        "__version__",
        "load",
        "region",
        "step",
    ],
    "hroof.profile": [
        "CONVENTIONS",
        "SCHEMA",
        "SCHEMA_VERSION",
        "Column",
        "Profile",
        "bytes_column",
        "conform",
        "flop_column",
        "source_column",
    ],
}
MODULES = [
    "hroof",
    *(
        module.name
        for module in pkgutil.walk_packages(hroof.__path__, "hroof.")
        if not module.name.endswith("__main__")
    ),
]


def rank(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions."""
    kind = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    return kind, name


@pytest.mark.parametrize("module", LOCKED)
def test_the_names_are_those_that_were_promised(module: str) -> None:
    assert list(getattr(importlib.import_module(module), "__all__", [])) == LOCKED[module]


@pytest.mark.parametrize("module", MODULES)
def test_names_are_sorted_and_there(module: str) -> None:
    here = importlib.import_module(module)
    names = list(getattr(here, "__all__", []))
    assert names == sorted(names, key=rank)
    assert [name for name in names if not hasattr(here, name)] == []


@pytest.mark.parametrize("module", MODULES)
def test_a_module_documents_what_it_defines(module: str) -> None:
    here = importlib.import_module(module)
    bare = [
        name
        for name, thing in vars(here).items()
        if (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__ == module
        and not name.startswith("_")
        and not thing.__doc__
    ]
    assert bare == []


def test_the_version_is_a_version() -> None:
    assert [part.isdigit() for part in hroof.__version__.split(".")] == [True] * 3
