"""The plugin where nothing is measured: what it costs others, what is refused, what is skipped and says so."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
QUIET = (
    "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:syrupy", "-p", "no:xdist",
    "-p", "hroof_pytest", "--strict-markers",
)  # fmt: skip
"""For the runs inside: only the plugin that is tested, by its module, whether or not this distribution is installed."""

REFUSED = """
import pytest
from pathlib import Path


def test_unknown_quantity(hroof_check):
    with hroof_check({"step": {"tme": {"max": 1}}}):
        pytest.fail("never begun")


def test_absent_file(hroof_check):
    with hroof_check("absent.toml"):
        pytest.fail("never begun")


def test_wrong_unit_in_a_file(hroof_check):
    with hroof_check("wrong.toml"):
        pytest.fail("never begun")


@pytest.mark.hroof({"step": {"time": {"rise": "5 %"}}})
def test_no_baseline():
    pytest.fail("never begun")


@pytest.mark.hroof({"step": {"time": {"max": 1}}}, steps=0)
def test_no_step():
    pytest.fail("never begun")


def test_baseline_that_is_none(hroof_check):
    with hroof_check({"step": {"time": {"rise": "5 %"}}}, baseline=Path(__file__).parent):
        pass


def test_own_failure_comes_first(hroof_check):
    with hroof_check({"step": {"time": {"max": 1}}}):
        assert "mine" == "yours"


def test_no_framework_was_imported(hroof_check):
    with hroof_check({"step": {"time": {"max": 1}}}):
        pass
"""
SKIPPED = """
import pytest


@pytest.mark.hroof({"step": {"time": {"max": 0}}})
def test_marked():
    assert True


def test_with_the_fixture(hroof_check):
    with hroof_check({"step": {"time": {"max": 0}}}):
        pass
"""
WITHOUT = """
import sys


def test_nothing_of_hroof_was_imported():
    assert not [name for name in sys.modules if name == "hroof" or name.startswith("hroof.")]
"""


def inside(
    pytester: pytest.Pytester, source: str, *options: str, framework: str = "pytest"
) -> pytest.RunResult:
    """Run a file of tests in a process of its own; some framework is installed there, or none.

    ``framework`` stands for those that could train: the tests here need none.
    """
    if "hroof_check" in source or "mark.hroof" in source:
        named = f"hroof_pytest.checker.FRAMEWORKS = ({framework!r},)"
        pytester.makeconftest(f"import hroof_pytest.checker\n\n{named}\n")
    pytester.makeini("[pytest]")  # its own, wherever temporary folders lie
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess(*QUIET, *options)


def test_the_distribution_declares_it() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["entry-points"]["pytest11"] == {"hroof_pytest": "hroof_pytest"}
    installed = {point.name: point.value for point in entry_points(group="pytest11")}
    if "hroof_pytest" not in installed:
        pytest.skip(
            "hroof was installed before it had the plugin: pip install -e . installs it anew"
        )
    assert installed["hroof_pytest"] == "hroof_pytest"


def test_runs_that_do_not_use_it_import_nothing_of_hroof(pytester: pytest.Pytester) -> None:
    inside(pytester, WITHOUT).assert_outcomes(passed=1)


def test_the_marker_and_the_fixture_are_told(pytester: pytest.Pytester) -> None:
    inside(pytester, WITHOUT, "--markers").stdout.fnmatch_lines(["@pytest.mark.hroof(budget, *"])
    told = pytester.runpytest_subprocess(*QUIET, "--fixtures")
    told.stdout.fnmatch_lines(["hroof_check*", "*Hold what a test trains against a budget.*"])


def test_what_is_refused(pytester: pytest.Pytester) -> None:
    (pytester.path / "wrong.toml").write_text('[step]\ntime.max = "3 GB"\n')
    done = inside(pytester, REFUSED)
    done.assert_outcomes(failed=8)
    for line in (
        "*UsageError: the budget of the test, *step*: there is no quantity 'tme'. Did you mean 'time'?",
        "*UsageError: *absent.toml' does not exist. Give a budget file.",
        "*UsageError: *wrong.toml, *step.time.max*: '3 GB' is in B. Write it in s,*",
        "*UsageError: the budget of the test holds limits relative to a baseline*baseline=*",
        "*steps*",
        "*assert 'mine' == 'yours'",
        "*hroof: no whole run (empty): No framework was imported*",
    ):
        done.stdout.fnmatch_lines([line])
    done.stdout.no_fnmatch_line("*never begun*")
    assert "INTERNALERROR" not in done.stdout.str()


@pytest.mark.parametrize(
    ("value", "reason"), [("off", "HROOF=off."), ("marks", "a tool outside does (HROOF=marks).")]
)
def test_what_cannot_be_measured_is_skipped_and_says_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, value: str, reason: str
) -> None:
    monkeypatch.setenv("HROOF", value)
    done = inside(pytester, SKIPPED, "-rs")
    done.assert_outcomes(skipped=2)
    done.stdout.fnmatch_lines([f"SKIPPED*hroof measures nothing: {reason}"])


def test_without_any_framework_tests_are_skipped_and_say_so(pytester: pytest.Pytester) -> None:
    done = inside(pytester, SKIPPED, "-rs", framework="framework_x")
    done.assert_outcomes(skipped=2)
    done.stdout.fnmatch_lines(["SKIPPED*none of framework_x is installed"])
