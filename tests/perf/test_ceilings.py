"""Ceilings of this machine in their order: ratios within one quick run."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from hroof.ceilings import checks, measure
from hroof.integration import load
from hroof.machine import Machine
from hroof.units import MemoryLevel, Pipe, Precision

pytestmark = pytest.mark.perf

L1, L2, L3, DRAM = MemoryLevel


@pytest.fixture(scope="module")
def machine() -> Machine:
    """The CPU of this machine, measured once for all tests."""
    machine = measure(load("torch"), "cpu", quick=True)
    if checks.is_disturbed(machine):
        pytest.skip(f"this machine is busy: {machine.warnings[0]}")
    return machine


def test_caches_are_faster_than_dram(machine: Machine) -> None:
    dram = machine.bandwidths[DRAM].rate
    for level in (L1, L2):
        if level not in machine.caches:
            pytest.skip(f"the system does not say how large {level.label} is")
        assert machine.bandwidths[level].rate > 1.3 * dram


def test_l1_is_no_slower_than_l3(machine: Machine) -> None:
    if not {L1, L3} <= set(machine.bandwidths):
        pytest.skip("the system does not describe L1 and L3")
    assert machine.bandwidths[L1].rate > machine.bandwidths[L3].rate


def test_fp32_is_faster_than_fp64(machine: Machine) -> None:
    peaks = machine.peaks
    double = peaks[Pipe.MATRIX, Precision.FP64].rate
    assert peaks[Pipe.MATRIX, Precision.FP32].rate > 1.3 * double


def test_vector_and_matrix_share_their_measurement(machine: Machine) -> None:
    if not machine.shared_pipes:
        pytest.skip("this CPU has a matrix unit")
    peaks = machine.peaks
    for precision in (Precision.FP64, Precision.FP32):
        assert peaks[Pipe.VECTOR, precision].rate == peaks[Pipe.MATRIX, precision].rate


def test_a_dispatch_takes_between_a_tenth_and_a_hundred_microseconds(machine: Machine) -> None:
    assert machine.launch_cost is not None
    assert 1e-7 < machine.launch_cost.rate < 1e-4


def test_the_best_is_no_worse_than_the_median(machine: Machine) -> None:
    for ceiling in (*machine.peaks.values(), *machine.bandwidths.values()):
        assert ceiling.rate >= ceiling.median


def test_a_quick_run_is_quick(machine: Machine) -> None:
    assert machine.facts["seconds"] < 10
