"""Keras on the torch backend, in a process of its own: Keras reads its backend once, when it is imported."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("keras") is None:  # to import it here would choose a backend for other tests
    pytest.skip("Keras is not installed", allow_module_level=True)

INSIDE = Path(__file__).with_name("keras_on_torch.py")
ROOT = Path(__file__).parents[3]
TESTS = [
    node.name
    for node in ast.parse(INSIDE.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]

Results = dict[str, list[ElementTree.Element]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What became of each test inside, by its name; several cases of one that is parametrised."""
    folder = tmp_path_factory.mktemp("keras")
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", str(INSIDE), "-q", f"--junitxml={report}"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", f"--basetemp={folder / 'inside'}"],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert report.is_file(), done.stdout + done.stderr
    found: Results = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        found.setdefault(case.attrib["name"].partition("[")[0], []).append(case)
    return found


@pytest.mark.parametrize("name", TESTS)
def test_inside(results: Results, name: str) -> None:
    cases = results.get(name, [])
    told = [
        f"{case.attrib['name']}: {outcome.text}"
        for case in cases
        for outcome in case
        if outcome.tag in ("failure", "error")
    ]
    assert not told, "\n".join(told)
    skipped = [case.find("skipped") for case in cases]
    if any(outcome is not None for outcome in skipped):
        pytest.skip(str([outcome.attrib for outcome in skipped if outcome is not None]))
    assert cases, f"{name} did not run; did {sorted(results)}"
