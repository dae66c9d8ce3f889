"""Ceilings of a real GPU against its limits per cycle and its data sheet; not run on a GPU so far.

They need a CUDA device; without NVRTC those of L1 and the vector units fail, and say so. The whole table with its
clocks is printed: ``pytest -m gpu -s tests/gpu/test_ceilings.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from hroof.ceilings import datasheets, measure
from hroof.integration import load
from hroof.machine import Ceiling, Machine
from hroof.units import MemoryLevel, Pipe, Precision, percent, si
from hroof_torch import ceilings
from hroof_torch.ceilings.cuda import program as ceilings_cuda_program

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

L1, L2, L3, DRAM = MemoryLevel
LOWEST, HIGHEST = 0.60, 1.01
"""The band in which a measured rate has to lie, as a share of the data sheet."""
NEAR_LIMIT = 0.90
SECONDS = 30


def all_ceilings(machine: Machine) -> dict[str, Ceiling]:
    """Every rate of a machine by its name."""
    found = {str(level): ceiling for level, ceiling in machine.bandwidths.items()}
    found |= {f"{pipe}_{precision}": c for (pipe, precision), c in machine.peaks.items()}
    return found | dict(machine.others)


@pytest.fixture(scope="module")
def machine() -> Machine:
    """The first GPU of this computer, measured once for all tests; its table is printed."""
    machine = measure(load("torch"), "cuda:0")
    shares = datasheets.shares(machine)
    print(f"\n{machine.name}, {machine.facts['seconds']} s, {machine.facts.get('gpu')}")
    for name, ceiling in all_ceilings(machine).items():
        rate = si(ceiling.rate, "B/s" if name.split()[0] in list(MemoryLevel) else "OP/s")
        sheet = percent(shares.get(name), 0)
        clock = si(ceiling.clock, "Hz")
        print(f"{name:26} {rate:>14} {sheet:>7} of the sheet  {clock:>9}  {ceiling.kernel}")
    for warning in machine.warnings:
        print(warning)
    return machine


@pytest.fixture(scope="module")
def limits(machine: Machine) -> Mapping[str, float]:
    """What the device can do per cycle, all multiprocessors together; skips where that is not known."""
    each = machine.facts["per_cycle"]
    if not each:
        pytest.skip(f"limits of compute capability {machine.facts['capability']} are not known")
    return {name: limit * machine.facts["units"] for name, limit in each.items()}


def test_the_whole_suite_is_quick(machine: Machine) -> None:
    assert machine.facts["seconds"] <= SECONDS


def test_every_kernel_runs(machine: Machine) -> None:
    assert not [text for text in machine.warnings if "could not run" in text]


def test_kernels_of_our_own_can_be_compiled() -> None:
    assert ceilings_cuda_program.obstacle() is None


def test_levels_are_in_order(machine: Machine) -> None:
    near, middle, far = (machine.bandwidths[level].rate for level in (L1, L2, DRAM))
    assert near > 1.2 * middle and middle > 1.2 * far


def test_rates_lie_within_the_band_of_the_data_sheet(machine: Machine) -> None:
    shares = datasheets.shares(machine)
    if not shares:
        pytest.skip(f"there is no data sheet of {machine.name}")
    assert {name: share for name, share in shares.items() if not LOWEST <= share <= HIGHEST} == {}


def test_hbm_is_nearly_as_fast_as_its_sheet(machine: Machine) -> None:
    share = datasheets.shares(machine).get("dram")
    if share is None:
        pytest.skip(f"there is no data sheet of {machine.name}")
    assert 0.80 <= share <= HIGHEST


@pytest.mark.parametrize(
    "name", ["l1", "vector_fp64", "vector_fp32", "vector_fp16", "vector_bf16", "vector_int32"]
)
def test_kernels_of_our_own_reach_the_limit_of_the_clock(
    name: str, machine: Machine, limits: Mapping[str, float]
) -> None:
    if name not in limits or name not in all_ceilings(machine):
        pytest.skip(f"the limit of {name} is not known for this device")
    ceiling = all_ceilings(machine)[name]
    clock = ceiling.clock if math.isfinite(ceiling.clock) else machine.facts["clock"]
    assert NEAR_LIMIT <= ceiling.rate / (limits[name] * clock) <= HIGHEST


def test_shared_memory_is_as_fast_as_l1(machine: Machine) -> None:
    ratio = machine.others["l1 shared memory"].rate / machine.bandwidths[L1].rate
    assert 0.85 <= ratio <= 1.15


def test_l2_is_no_faster_than_its_link_to_the_multiprocessors(machine: Machine) -> None:
    clock = machine.facts["clock"]
    assert machine.bandwidths[L2].rate <= HIGHEST * 64 * machine.facts["units"] * clock


def test_every_way_to_use_memory_is_told_apart(machine: Machine) -> None:
    rates = {name: machine.others[f"dram {name}"].rate for name in ("read", "copy", "write")}
    rates["in place"] = machine.others["dram in place"].rate
    assert min(rates.values()) > 0.6 * max(rates.values())
    best = max(rate for name, rate in rates.items() if name != "write")
    assert machine.bandwidths[DRAM].rate == best


def test_without_multiply_adds_half_the_rate_remains(machine: Machine) -> None:
    for precision in (Precision.FP64, Precision.FP32):
        apart = machine.others[f"vector_{precision} no fma"].rate
        assert 0.4 <= apart / machine.peaks[Pipe.VECTOR, precision].rate <= 0.6


def test_a_burst_is_no_slower_than_what_is_sustained(machine: Machine) -> None:
    bursts = {name: c for name, c in machine.others.items() if name.endswith(" burst")}
    assert bursts
    sustained = all_ceilings(machine)
    for name, burst in bursts.items():
        assert burst.rate >= 0.97 * sustained[name.removesuffix(" burst")].rate, name


def test_a_graph_launches_faster_than_python(machine: Machine) -> None:
    assert machine.launch_cost is not None
    assert 5e-7 < machine.launch_cost.rate < 3e-5
    assert machine.others["launch_cost graph"].rate <= machine.launch_cost.rate


def test_clocks_are_told_for_compute_kernels(machine: Machine) -> None:
    highest = machine.facts.get("clock_max", math.inf)
    assert 0.3e9 < machine.facts["clock"] <= 1.02 * highest
    vector = [c for (pipe, _), c in machine.peaks.items() if pipe is Pipe.VECTOR]
    assert all(math.isfinite(ceiling.clock) for ceiling in vector)


def test_counted_cycles_and_nvml_agree_on_the_clock() -> None:
    from hroof_torch.ceilings.cuda import kernels as ceilings_cuda

    device = ceilings.device("cuda:0")
    (kernel,) = [k for k in ceilings.ceiling_kernels(device) if k.name == "fma_f32 chains"]
    call, _ = kernel.prepare()
    for _ in range(20):
        call()
    kept = ceilings_cuda._measuring["cuda:0"]
    told = [look.clock for look in kept.timer.looks.get(kernel.name, []) if look.clock]
    if not told:
        pytest.skip("NVML does not tell the clock")
    assert kept.clocks.hertz()[kernel.name] == pytest.approx(told[-1], rel=0.05)


def test_the_sweep_begins_in_l1_and_ends_in_memory(machine: Machine) -> None:
    assert machine.sweep is not None
    first = dict(zip(machine.sweep.sizes, machine.sweep.rates, strict=True))
    inner = max(rate for size, rate in first.items() if size <= 65536)
    assert inner >= 0.8 * machine.bandwidths[L1].rate
    assert 0.5 <= machine.sweep.rates[-1] / machine.bandwidths[DRAM].rate <= 1.3


@pytest.mark.parametrize("precision", ["bf16", "fp16", "tf32", "fp8", "int8"])
def test_tensor_cores_are_far_faster_than_vectors(precision: str, machine: Machine) -> None:
    peak: Any = machine.peaks.get((Pipe.MATRIX, Precision(precision)))
    if peak is None:
        pytest.skip(f"this device multiplies no {precision}")
    assert peak.rate > 2 * machine.peaks[Pipe.VECTOR, Precision.FP32].rate
