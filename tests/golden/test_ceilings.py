"""Recorded reports of a machine alone; update them with --snapshot-update."""

from __future__ import annotations

import dataclasses

import pytest
from syrupy.assertion import SnapshotAssertion

from hroof.machine import Ceiling, Machine, Sweep
from hroof.report.ceilings import text
from hroof.units import MemoryLevel


@pytest.fixture
def measured(machine: Machine) -> Machine:
    """The small CPU with a sweep, rates beside the ceilings, facts and a doubt."""
    sizes = tuple(4096 * 2**place for place in range(17))
    rates = tuple(79e9 if size < 40_000 else 30e9 if size < 3_000_000 else 10e9 for size in sizes)
    plateaus = ((79e9, 32_768), (30e9, 2_097_152), (10e9, sizes[-1]))
    return dataclasses.replace(
        machine,
        others={
            "dram copy": Ceiling(9e9, "framework-reachable", "copy_", 8.5e9, 0.04, 12, "Reads and writes are counted."),
            "matrix_bf16 burst": Ceiling(450e9, clock=3.1e9),
        },
        caches={MemoryLevel.L1: 32_768, MemoryLevel.L2: 2_097_152},
        facts={"threads": 1, "clock": 3.0e9, "own_share": 0.99, "versions": {"torch": "2.13.0"}},
        warnings=("The samples of DRAM vary much.",),
        sweep=Sweep(sizes, rates, "expand.sum", 1, plateaus),
    )  # fmt: skip


@pytest.mark.parametrize("width", [120, 70])
def test_with_everything(measured: Machine, snapshot: SnapshotAssertion, width: int) -> None:
    assert text(measured, width=width) == snapshot


def test_without_a_sweep(machine: Machine, snapshot: SnapshotAssertion) -> None:
    assert text(machine, width=100) == snapshot


def test_nothing_measured(snapshot: SnapshotAssertion) -> None:
    assert text(Machine("NVIDIA H200", "cuda:0"), width=100) == snapshot
