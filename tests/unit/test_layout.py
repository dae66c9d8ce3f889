"""The house rules that a program can check: sizes, rooms, words, and what an import costs."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("hroof/**/*.py"), *ROOT.glob("integrations/**/*.py")])
TESTS = sorted(ROOT.glob("tests/**/*.py"))
HEAVY = ["torch", "tensorflow", "keras", "pandas", "matplotlib", "numpy", "pyarrow"]
LIGHT_MODULES_MAY_LOAD = {"numpy"}  # an import of a module, not of the package, may load it

MODULE_LINES = 400
FUNCTION_LINES = 60
MEDIAN_FUNCTION_LINES = 10

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> list[Function]:
    return [node for node in ast.walk(tree(path)) if isinstance(node, Function)]


def lines(node: Function, *, docstring: bool = True) -> int:
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    if docstring or ast.get_docstring(node) is None:
        return total
    first = node.body[0]
    return total - ((first.end_lineno or first.lineno) - first.lineno + 1)


def line_count(paths: list[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def tracked() -> list[Path]:
    """Every text file that git tracks, and the new ones that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"git cannot list the files here: {done.stderr.strip()}")
    paths = [ROOT / entry for entry in done.stdout.split("\0") if entry]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


# --- size ---------------------------------------------------------------------------------------


def test_modules_are_short() -> None:
    sizes = {name(path): line_count([path]) for path in [*SOURCES, ROOT / "noxfile.py"]}
    assert {module: size for module, size in sizes.items() if size > MODULE_LINES} == {}


def test_functions_are_short() -> None:
    sizes = {
        f"{name(path)}:{node.lineno} {node.name}": lines(node)
        for path in [*SOURCES, *TESTS]
        for node in functions(path)
    }
    assert {place: size for place, size in sizes.items() if size > FUNCTION_LINES} == {}


def test_the_median_function_is_very_short() -> None:
    sizes = [lines(node, docstring=False) for path in SOURCES for node in functions(path)]
    assert statistics.median(sizes) <= MEDIAN_FUNCTION_LINES


def test_tests_are_as_long_as_the_code() -> None:
    assert line_count(TESTS) >= line_count(SOURCES)


# --- rooms --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    docstring = ast.get_docstring(tree(path))
    assert docstring, f"{name(path)} has no docstring"
    assert docstring.split("\n\n")[0].rstrip().endswith((".", ":")), docstring.split("\n\n")[0]


def test_no_module_is_named_after_nothing_or_after_a_framework() -> None:
    vague = {"utils", "util", "common", "helpers", "core", "base", "misc"}
    shadows = {"torch", "keras", "tensorflow", "pandas", "numpy", "matplotlib"}
    stems = {part for path in SOURCES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert stems & (vague | shadows) == set()


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in SOURCES}
    assert [name(f) for f in sorted(folders) if not (f / "__init__.py").is_file()] == []


def test_every_top_level_package_carries_its_types() -> None:
    packages = [ROOT / "hroof", *(p.parent for p in ROOT.glob("integrations/*/__init__.py"))]
    assert [name(p) for p in packages if not (p / "py.typed").is_file()] == []


def test_only_cli_and_report_print() -> None:
    talkative = [
        f"{name(path)}:{node.lineno}"
        for path in SOURCES
        if not name(path).startswith(("hroof/cli/", "hroof/report/"))
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    assert talkative == []


def leaves_the_program(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise):
        return node.exc is not None and "SystemExit" in ast.unparse(node.exc)
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return called in ("exit", "quit", "sys.exit", "os._exit")


def test_only_the_command_line_exits() -> None:
    exits = [
        f"{name(path)}:{getattr(node, 'lineno', 0)}"
        for path in SOURCES
        if not name(path).startswith("hroof/cli/") and path.name != "__main__.py"
        for node in ast.walk(tree(path))
        if leaves_the_program(node)
    ]
    assert exits == []


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_tests_are_modules_without_packages(path: Path) -> None:
    assert path.name != "__init__.py"


# --- imports ------------------------------------------------------------------------------------


def loaded_by(program: str) -> set[str]:
    """Which heavy modules a program has imported when it ends."""
    program += f"\nimport sys; print(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


def test_importing_hroof_imports_nothing_heavy() -> None:
    assert loaded_by("import hroof") == set()


def test_no_module_of_the_core_imports_anything_heavy_at_the_top() -> None:
    program = (
        "import importlib, pkgutil, hroof\n"
        "for module in pkgutil.walk_packages(hroof.__path__, 'hroof.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
    )
    assert loaded_by(program) - LIGHT_MODULES_MAY_LOAD == set()


# --- words --------------------------------------------------------------------------------------

# In pieces, so that this file does not contain what it forbids.
FORBIDDEN = [
    r"(?<![\w.])/" + r"(?:work|opt|root|home)/",
    "/tmp/" + "brief",
    "pypi" + r"\.org",
    "python" + r"hosted\.org",
    "npm" + r"js\.org",
    "deb" + r"ian\.org",
    "download" + r"\.pytorch",
    "work" + "place",
    "session" + "'s task",
    r"\bthe " + "CEO",
    r"\bas an " + "AI",
    "TO" + "DO|FIX" + "ME|XX" + "X",
]


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_file_holds_a_word_that_belongs_elsewhere(pattern: str) -> None:
    found = [
        f"{name(path)}: {match.group()}"
        for path in tracked()
        for match in [re.search(pattern, path.read_text(encoding="utf-8"))]
        if match
    ]
    assert found == []


# --- the project's own pages --------------------------------------------------------------------


def test_the_readme_names_the_command_that_ci_runs() -> None:
    command = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1]
    assert "nox" in command
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_changelog_has_this_version() -> None:
    text = (ROOT / "hroof" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert version is not None
    assert f"## [{version[1]}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_pins_are_exact_and_sorted() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pins = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*", pin) for pin in pins)
    names = [pin.split("==")[0].lower() for pin in pins]
    assert names == sorted(names)
