"""One convention of bytes for roofs and points: those of the tensors, without the reads that a write may cause."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from hroof.ceilings.sizes import Windows
from hroof.integration import CeilingKernel, Device
from hroof.launches import Work
from hroof.units import MemoryLevel
from hroof_torch.ceilings.cpu import kernels as ceilings_cpu
from hroof_torch.counting import count_step

KIB = 1024
WINDOWS = Windows(count=3, size=64 * KIB, enough=True)


def counted(call: Any) -> float:
    """Bytes that hroof counts for what a program does."""
    work = Work.total(op.work for op in count_step(call))
    return work.bytes_read + work.bytes_written


def dram_kernels() -> list[CeilingKernel]:
    """The kernels that walk through memory, with small windows."""
    return [
        kernel
        for kernel in ceilings_cpu.dram_kernels(WINDOWS, 1)
        if kernel.level is MemoryLevel.DRAM
    ]


@pytest.mark.parametrize("number", range(len(dram_kernels())))
def test_a_roof_counts_the_bytes_that_a_point_with_the_same_op_has(number: int) -> None:
    kernel = dram_kernels()[number]
    call, work = kernel.prepare()
    # A sum also writes its result, one number.
    assert counted(call) == pytest.approx(work, abs=8), kernel.name
    assert "counted" in kernel.note


def test_the_candidates_of_a_whole_cpu_say_what_they_count() -> None:
    facts = {"threads": 1, "quick": True}
    caches = {MemoryLevel.L1: 32 * KIB, MemoryLevel.L2: 256 * KIB}
    offered = ceilings_cpu.kernels(Device("cpu", "small", caches, True, facts))
    bandwidths = [kernel for kernel in offered if kernel.what == "bandwidth"]
    assert bandwidths
    assert [kernel.name for kernel in bandwidths if "counted" not in kernel.note] == []


def triad(n: int) -> float:
    """Bytes of a = b + s·c over n fp64 numbers."""
    a, b, c = (torch.ones(n, dtype=torch.float64) for _ in range(3))
    return counted(lambda: torch.add(b, c, alpha=2.0, out=a))


def test_a_triad_moves_three_tensors_not_four() -> None:
    assert triad(1000) == 24_000


def test_case_67_a_triad_by_the_view_of_the_program() -> None:
    root = os.environ.get("HROOF_CASES")
    if not root:
        pytest.skip("HROOF_CASES is not set: the solved cases lie outside the repository")
    (folder,) = Path(root).glob("67-*")
    given = json.loads((folder / "input.json").read_text(encoding="utf-8"))
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expect"]
    assert given["itemsize"] == 8 and expected["same_convention_for_roof_and_points"]
    nbytes = triad(1000) * given["n"] / 1000
    right = expected["program_view"]
    assert nbytes == pytest.approx(right["bytes"])
    assert nbytes / given["time_s"] / 1e9 == pytest.approx(right["gb_per_s"])
    assert 2 * given["n"] / nbytes == pytest.approx(right["ai"])
