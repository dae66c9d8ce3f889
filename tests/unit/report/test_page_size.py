"""The size of the page of a net of a hundred layers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from hroof.report import export

BUILDERS = Path(__file__).parents[2] / "perf" / "large.py"


@pytest.fixture(scope="module")
def large() -> Any:
    spec = importlib.util.spec_from_file_location("large", BUILDERS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_a_hundred_layers_stays_below_a_megabyte(large: Any, tmp_path: Path) -> None:
    run = large.large_profile(layers=100, launches=9_000, steps=3)
    page = export.write(run, large.large_machine(), tmp_path / "page.html")
    assert 50_000 < page.stat().st_size < 1_000_000
    text = page.read_text(encoding="utf-8")
    assert all(name in text for name in large.layer_names(100))
