"""Ceilings with TensorFlow's kernels against those with PyTorch's, measured in turns on this machine.

The table is printed (``pytest -m perf -s``). ``HROOF_FULL=1`` measures all kernels, those that PyTorch compiles too,
and more rounds. No bounds are asserted but the widest: either framework may be the better one on a processor.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorflow")
pytest.importorskip("keras")

from hroof.ceilings import checks, measure
from hroof.ceilings.bench import Bench
from hroof.ceilings.selection import Target, by_target, target
from hroof.integration import CeilingKernel, alone, load
from hroof.machine import Machine
from hroof.units import MemoryLevel, Pipe, Precision, percent, si

pytestmark = pytest.mark.perf

FULL = bool(os.environ.get("HROOF_FULL"))
ROUNDS, SECONDS = (4, 0.1) if FULL else (3, 0.04)
FRAMEWORKS = ("keras", "torch")
QUICK_SECONDS, FULL_SECONDS = 10.0, 60.0
FAR_APART = 10.0
COMPARED = {
    *(Target(level=level) for level in MemoryLevel),
    *(Target(level=level, variant=mix) for level in MemoryLevel for mix in ("copy", "triad")),
    *(Target(pair=(pipe, precision)) for pipe in Pipe for precision in Precision),
    *(Target(pair=(Pipe.VECTOR, p), variant="no fma") for p in Precision),
}


def offered(framework: str) -> Iterator[CeilingKernel]:
    """The kernels that are compared, with the framework in front of their names."""
    integration = alone(load(framework))
    device = integration.device("cpu")
    asked = dataclasses.replace(device, facts={**device.facts, "quick": not FULL})
    for kernel in integration.ceiling_kernels(asked):
        if target(kernel) in COMPARED:
            yield dataclasses.replace(kernel, name=f"{framework}: {kernel.name}")


Rates = dict[Target, dict[str, tuple[float, str]]]


@pytest.fixture(scope="module")
def rates() -> Rates:
    """By ceiling and framework the best rate and its kernel, from rounds in which both have their turns."""
    benches = {
        framework: Bench(offered(framework), clock=time.perf_counter) for framework in FRAMEWORKS
    }
    for _ in range(ROUNDS):
        for ceiling in COMPARED:
            for bench in benches.values():
                for kernel in bench.unique(k for k in bench.kernels if target(k) == ceiling):
                    bench.measure(kernel, SECONDS)
    found: Rates = {}
    for framework, bench in benches.items():
        for key, results in by_target(bench.results).items():
            best = max(results, key=lambda result: result.samples.best)
            name = best.kernel.name.partition(": ")[2]
            found.setdefault(key, {})[framework] = best.samples.best, name
    return found


def test_how_the_frameworks_compare(rates: Rates) -> None:
    print(f"\n{'ceiling':18} {'TensorFlow':>12} {'PyTorch':>12} {'ratio':>7}  kernels")
    for key, found in rates.items():
        shown = [f"{si(found[f][0], '/s') if f in found else '–':>12}" for f in FRAMEWORKS]
        names = " | ".join(found[f][1] if f in found else "–" for f in FRAMEWORKS)
        ratio = found["keras"][0] / found["torch"][0] if len(found) == 2 else float("nan")
        print(f"{key.label:18} {' '.join(shown)} {percent(ratio, 0):>7}  {names}")
        if len(found) == 2:
            assert 1 / FAR_APART < ratio < FAR_APART, f"{key.label} differs too much to be true"


@pytest.mark.parametrize("level", list(MemoryLevel))
def test_every_level_that_pytorch_has_tensorflow_has(rates: Rates, level: MemoryLevel) -> None:
    found = rates.get(Target(level=level), {})
    assert "torch" not in found or "keras" in found


@pytest.fixture(scope="module", params=[True, False] if FULL else [True], ids=str)
def machine(request: pytest.FixtureRequest) -> Machine:
    """The CPU of this machine, with TensorFlow alone."""
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
