"""Pages in a real browser; without one the tests here are skipped and say so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)  # last: what is installed is what is tested

if TYPE_CHECKING:
    from tests.browser.chromium import Page


@pytest.fixture(scope="session")
def make_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Page]]:
    """Makes pages of one browser."""
    from tests.browser import chromium

    found = chromium.program()
    if found is None:
        pytest.skip("there is no Chromium on PATH, and HROOF_CHROMIUM names none")
    with chromium.started(found, tmp_path_factory.mktemp("chromium")) as make:
        yield make


@pytest.fixture
def opened(make_page: Callable[..., Page], tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Writes a page to a file and opens it; at the end of the test nothing may have gone wrong in it."""
    pages: list[Page] = []

    def open_text(text: str, **window: Any) -> Page:
        path = tmp_path / f"page-{len(pages)}.html"
        path.write_text(text, encoding="utf-8")
        pages.append(make_page(**window))
        return pages[-1].open(path.as_uri())

    yield open_text
    for page in pages:
        assert page.complaints == []
        assert [address for address in page.requests if not address.startswith("file:")] == []
        assert len(page.requests) == 1, "the page asked for more than itself"
        page.close()
