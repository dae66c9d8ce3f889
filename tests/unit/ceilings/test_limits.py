"""Limits: what cores can do in a cycle, on processors of several kinds."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hroof.ceilings.limits import highest_clock, limits, per_cycle, vector_bytes
from hroof.machine import Ceiling, Machine
from hroof.units import MemoryLevel, Pipe, Precision

SSE = frozenset({"sse2"})
AVX2 = SSE | {"avx", "avx2", "fma"}
AVX512 = AVX2 | {"avx512f", "avx512_bf16", "avx512_vnni"}
AMX = AVX512 | {"amx_tile", "amx_bf16", "amx_int8"}


@pytest.mark.parametrize(
    ("flags", "width"), [(SSE, 16), (AVX2, 32), (AVX512, 64), (frozenset({"asimd"}), None)]
)
def test_the_widest_vector(flags: frozenset[str], width: int | None) -> None:
    assert vector_bytes(flags) == width


def test_two_fma_of_512_bits() -> None:
    limit = per_cycle(AVX512)
    # 2 units × 8 lanes × 2 FLOP in fp64, and more as the numbers get shorter.
    assert (limit["vector_fp64"], limit["vector_fp32"]) == (32, 64)
    assert (limit["matrix_bf16"], limit["matrix_int8"]) == (128, 256)
    assert (limit["l1"], limit["l2"]) == (128, 64)


def test_without_avx512_a_core_may_load_three_times_a_cycle() -> None:
    assert per_cycle(AVX2)["l1"] == 96
    assert per_cycle(AVX2)["vector_fp64"] == 16


def test_a_matrix_unit_counts_for_its_formats_only() -> None:
    limit = per_cycle(AMX)
    assert (limit["matrix_bf16"], limit["matrix_int8"]) == (1024, 2048)
    assert limit["vector_bf16"] == 128
    assert limit["matrix_fp32"] == limit["vector_fp32"] == 64
    assert limit["matrix_fp16"] == 128
    assert per_cycle(AMX | {"amx_fp16"})["matrix_fp16"] == 1024


@pytest.mark.parametrize("flags", [frozenset(), frozenset({"asimd", "sve"})])
def test_other_processors_have_no_known_limit(flags: frozenset[str]) -> None:
    assert per_cycle(flags) == {}


def machine(**facts: Any) -> Machine:
    """A machine with some facts."""
    return Machine("chip", facts=facts)


def test_cores_times_width_times_clock() -> None:
    found = limits(machine(per_cycle=per_cycle(AVX512), threads=2, clock=4.52e9))
    assert found["l1"] == pytest.approx(1157e9, rel=1e-3)
    assert found["vector_fp64"] == pytest.approx(289.3e9, rel=1e-3)


def test_a_gpu_counts_its_multiprocessors() -> None:
    found = limits(machine(per_cycle={"l1": 128}, units=132, threads=8, clock=1.755e9))
    assert found == {"l1": pytest.approx(29.65e12, rel=1e-3)}


@pytest.mark.parametrize(
    "facts",
    [
        {"threads": 2, "clock": 4e9},
        {"per_cycle": {"l1": 128}, "clock": 4e9},
        {"per_cycle": {"l1": 128}, "threads": 2},
        {"per_cycle": {"l1": 128}, "threads": 2, "clock": None},
        {"per_cycle": {"l1": 128}, "threads": 0, "clock": 4e9},
        {"per_cycle": {"l1": None}, "threads": 2, "clock": 4e9},
        {"per_cycle": "l1", "threads": 2, "clock": 4e9},
    ],
)
def test_what_is_not_known_limits_nothing(facts: dict[str, Any]) -> None:
    assert limits(machine(**facts)) == {}


def test_the_highest_clock_counts() -> None:
    ceilings: dict[str, Any] = {
        "bandwidths": {MemoryLevel.L1: Ceiling(1.0, clock=3.0e9), MemoryLevel.L2: Ceiling(1.0)},
        "peaks": {(Pipe.VECTOR, Precision.FP32): Ceiling(1.0, clock=3.4e9)},
    }
    assert highest_clock(Machine("chip", facts={"clock": 3.2e9}, **ceilings)) == 3.4e9
    assert highest_clock(Machine("chip", facts={"clock": 3.6e9}, **ceilings)) == 3.6e9
    assert math.isnan(highest_clock(machine()))
    assert math.isnan(highest_clock(machine(clock="fast")))
