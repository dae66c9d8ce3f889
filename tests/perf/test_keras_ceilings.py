"""Ceilings with TensorFlow's kernels against those with PyTorch's, measured in turns on one thread of this machine.

Rates are those of processor time, so that other programs hardly matter. The table is printed (``pytest -m perf -s``).
``HROOF_FULL=1`` measures all kernels in more rounds, those that PyTorch compiles too, and a full run of the suite. Only
the widest bounds are asserted: either framework may be the better one on a processor.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorflow")
pytest.importorskip("keras")

from hroof.ceilings import checks, measure
from hroof.ceilings.bench import Bench
from hroof.ceilings.selection import by_target, target
from hroof.integration import CeilingKernel, alone, load
from hroof.machine import Machine
from hroof.units import MemoryLevel, percent, si

pytestmark = pytest.mark.perf

FULL = bool(os.environ.get("HROOF_FULL"))
ROUNDS, SECONDS = (4, 0.1) if FULL else (3, 0.04)
FRAMEWORKS = ("keras", "torch")
QUICK_SECONDS, FULL_SECONDS = 10.0, 60.0
FAR_APART = 15.0
LEFT_OUT = ("sustained", "call")

Rates = dict[str, dict[str, tuple[float, str]]]


def offered(framework: str) -> Iterator[CeilingKernel]:
    """The kernels of a framework on one thread."""
    integration = alone(load(framework))
    device = integration.device("cpu")
    assert device.facts["threads"] == 1
    asked = dataclasses.replace(device, facts={**device.facts, "quick": not FULL})
    for kernel in integration.ceiling_kernels(asked):
        if kernel.variant not in LEFT_OUT:
            yield kernel


def compared() -> Rates:
    """By ceiling and framework the best rate and its kernel, from rounds in which both have their turns."""
    benches = {name: Bench(offered(name), clock=time.process_time) for name in FRAMEWORKS}
    labels = {target(kernel).label: 0 for bench in benches.values() for kernel in bench.kernels}
    for label in [*labels] * ROUNDS:
        for bench in benches.values():
            for kernel in bench.unique(k for k in bench.kernels if target(k).label == label):
                bench.measure(kernel, SECONDS)
    found: Rates = {}
    for name, bench in benches.items():
        for key, results in by_target(bench.results).items():
            best = max(results, key=lambda result: result.samples.best)
            found.setdefault(key.label, {})[name] = best.samples.best, best.kernel.name
    return found


@pytest.fixture(scope="module")
def rates() -> Rates:
    """Measured in a process of its own, since threads can be set only before TensorFlow starts."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: Rates = json.loads(done.stdout.splitlines()[-1])
    return found


def test_how_the_frameworks_compare(rates: Rates) -> None:
    print(f"\n{'ceiling':19} {'TensorFlow':>12} {'PyTorch':>12} {'ratio':>7}  kernels")
    for label, found in rates.items():
        shown = [f"{si(found[f][0], '/s') if f in found else '–':>12}" for f in FRAMEWORKS]
        names = " | ".join(found[f][1] if f in found else "–" for f in FRAMEWORKS)
        ratio = found["keras"][0] / found["torch"][0] if len(found) == 2 else float("nan")
        print(f"{label:19} {' '.join(shown)} {percent(ratio, 0):>7}  {names}")
        if len(found) == 2 and not label.startswith("launch"):
            assert 1 / FAR_APART < ratio < FAR_APART, f"{label} differs too much to be true"


@pytest.mark.parametrize("level", list(MemoryLevel))
def test_every_level_that_pytorch_has_tensorflow_has(rates: Rates, level: MemoryLevel) -> None:
    found = rates.get(level.label, {})
    assert "torch" not in found or "keras" in found


@pytest.fixture(scope="module", params=[True, False] if FULL else [True], ids=str)
def machine(request: pytest.FixtureRequest) -> Machine:
    """The CPU of this machine, with TensorFlow alone, on all threads."""
    return measure(load("keras"), "cpu", quick=request.param)


def skip_if_busy(machine: Machine) -> None:
    if any(checks.busy(machine)):
        pytest.skip(f"this machine is busy: {machine.warnings[0]}")


def test_a_run_keeps_to_its_time(machine: Machine) -> None:
    skip_if_busy(machine)
    assert machine.facts["seconds"] < (QUICK_SECONDS if machine.facts["quick"] else FULL_SECONDS)


def test_no_run_has_an_impossible_order_of_levels(machine: Machine) -> None:
    skip_if_busy(machine)
    assert not list(checks.level_order(machine.bandwidths))


def test_no_run_exceeds_what_the_cores_can_do(machine: Machine) -> None:
    assert checks.too_fast(machine) == {}


def test_no_kernel_failed(machine: Machine) -> None:
    assert not [text for text in machine.warnings if "could not run" in text]


if __name__ == "__main__":
    print(json.dumps(compared()))
