"""pytest for hroof: what a test trains is held against a budget.

Importing this imports nothing of hroof: a run of tests without the fixture and the marker pays for two hooks.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from hroof_pytest.checker import Checker

MARKER = "hroof"
FIXTURE = "hroof_check"
_ABOUT = (
    f"{MARKER}(budget, *, skip=5, steps=3, strict=False, baseline=None, framework=None): what the test trains keeps to "
    f"a budget of hroof, a TOML file or a mapping; see the fixture {FIXTURE}"
)

__all__ = ["hroof_check", "pytest_configure", "pytest_itemcollected", "pytest_pyfunc_call"]


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _ABOUT)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test with the marker gets the fixture that the marker needs."""
    if item.get_closest_marker(MARKER) is None or not isinstance(item, pytest.Function):
        return
    if FIXTURE not in item.fixturenames:
        item.fixturenames.append(FIXTURE)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A test with the marker runs inside a region."""
    marker = pyfuncitem.get_closest_marker(MARKER)
    if marker is None:
        return (yield)
    checker = cast("Checker", pyfuncitem.funcargs[FIXTURE])
    with checker(*marker.args, **marker.kwargs):
        return (yield)


@pytest.fixture
def hroof_check(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Checker:
    """Hold what a test trains against a budget.

    ``with hroof_check("budget.toml", skip=2, steps=5): train()`` fails the test where a limit is missed or cannot be
    judged, and skips it where nothing can be measured. A relative path is looked for beside the test's file, then in
    the root of the project.
    """
    from hroof_pytest.checker import Checker

    folders = (request.path.parent, Path(request.config.rootpath))
    return Checker(request.node, folders, tmp_path_factory)
