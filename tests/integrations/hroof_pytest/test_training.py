"""The plugin around real training: limits that are kept, missed, or of numbers that nobody knows."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")

QUIET = (
    "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:syrupy", "-p", "no:xdist",
    "-p", "hroof_pytest", "--strict-markers", "-rA",
)  # fmt: skip
TESTS = """
import pytest
import torch

FLOP = 3 * 2 * 4 * 8 * 8 - 2 * 4 * 8 * 8  # no gradient of the data is taken


def train(steps=6):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(4, 8)
    for _ in range(steps):
        optimizer.zero_grad()
        model(data).sum().backward()
        optimizer.step()


def test_kept(hroof_check):
    with hroof_check("budget.toml", skip=1, steps=3) as checked:
        train()
    assert checked.found.verdict == "ok"
    assert checked.run.profile.step_count == 3
    assert "peak_memory" in checked.run.profile.run


@pytest.mark.hroof({"step": {"flop_matrix_fp32": {"equals": FLOP}}}, skip=1, steps=3)
def test_kept_by_the_marker():
    train()


@pytest.mark.hroof({"step": {"launches": {"max": 1}}}, skip=1, steps=3)
def test_missed_by_the_marker():
    train()


def test_missed(hroof_check):
    with hroof_check({"layer": {"0": {"flop_matrix_fp32": {"max": FLOP - 1}}}}, skip=1, steps=3):
        train()


def test_unknown(hroof_check):
    with hroof_check({"step": {"peak_device_memory": {"max": "1 GB"}}}, skip=1, steps=3):
        train()


def test_too_few_steps(hroof_check):
    with hroof_check("budget.toml", skip=5, steps=3):
        train()


@pytest.mark.hroof("budget.toml", skip=1, steps=3)
def test_own_failure_comes_first():
    train()
    assert "mine" == "yours"


def test_several_regions_in_one_test(hroof_check):
    for _ in range(2):
        with hroof_check("budget.toml", skip=1, steps=3):
            train()
"""
BUDGET = """
[step]
time.max = "10 s"
flop_matrix_fp32.max = "1024 FLOP"
share_unattributed.max = "90 %"
"""


def test_training(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    (pytester.path / "budget.toml").write_text(BUDGET)
    pytester.makeini("[pytest]")  # its own, wherever temporary folders lie
    done = pytester.runpytest_subprocess(*QUIET)
    done.assert_outcomes(passed=3, failed=5)
    text = done.stdout.str()
    for line in (
        "hroof: 1 of 1 limit over budget; 0 kept. step: launches misses its limit by *",
        "step *launches *≤ 1 *over by *",
        "layer 0 *flop_matrix_fp32 *over by 0.10 %",
        "hroof: 1 of 1 limit cannot be judged; 0 kept. step: peak_device_memory: the run does not say.",
        "*hroof: no whole run (*",
        "*assert 'mine' == 'yours'",
        "hroof: Within budget: 3 limits kept. No number misses its limit.",
        "FAILED *test_missed - Failed: hroof: 1 of 1 li*",
        "Saved in *run",
    ):
        done.stdout.fnmatch_lines([line])
    assert "INTERNALERROR" not in text
    assert "Traceback" not in text
