"""What a core can do in one cycle at most, so that a measured rate above it is known to be wrong.

Cores × width × clock is an upper bound, no estimate: Zen 4 splits 512-bit operations, and some Intel cores have one
512-bit FMA pipe. A rate above it counts traffic or FLOP that do not exist.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any

from hroof.machine import Machine
from hroof.units import MemoryLevel, Pipe, Precision

PER_CYCLE = "per_cycle"
"""The fact of a machine: what one core (GPU: one multiprocessor) can do in a cycle, by name of the ceiling."""
UNITS = "units"
"""The fact that holds how many of them work at once; without it the number of threads."""

_FMA_PIPES = 2
_FLOP_PER_LANE = 2
_L2_BYTES = 64
_AMX_16_BIT = 1024
_AMX_INT8 = 2048
_BYTES = {
    Precision.FP64: 8,
    Precision.FP32: 4,
    Precision.FP16: 2,
    Precision.BF16: 2,
    Precision.INT8: 1,
}
_AMX = {
    Precision.BF16: ("amx_bf16", _AMX_16_BIT),
    Precision.FP16: ("amx_fp16", _AMX_16_BIT),
    Precision.INT8: ("amx_int8", _AMX_INT8),
}
"""Operations of the matrix unit per cycle: a tile product of 16 × 16 × 64 bytes takes 16 cycles."""
_VECTORS = (("avx512f", 64, 128), ("avx2", 32, 96), ("avx", 32, 64), ("sse2", 16, 48))
"""Instruction set, bytes of a vector, bytes that a core loads per cycle: two vectors, or three short ones."""


def vector_bytes(flags: Set[str]) -> int | None:
    """Bytes of the widest vector of an x86 processor; None for others."""
    return next((width for flag, width, _ in _VECTORS if flag in flags), None)


def per_cycle(flags: Set[str]) -> dict[str, float]:
    """The most that one core can do in a cycle: FLOP (a multiply-add is two) or bytes.

    Args:
        flags: Instruction sets, as Linux names them.

    Returns:
        By name of the ceiling, such as ``vector_fp64`` and ``l1``; empty for a processor that is not x86.
    """
    found = next((entry for entry in _VECTORS if entry[0] in flags), None)
    if found is None:
        return {}
    _, width, loads = found
    limits: dict[str, float] = {MemoryLevel.L1: loads, MemoryLevel.L2: _L2_BYTES}
    for precision, size in _BYTES.items():
        vector = _FMA_PIPES * _FLOP_PER_LANE * width // size
        flag, tiles = _AMX.get(precision, ("", 0))
        limits[f"{Pipe.VECTOR}_{precision}"] = vector
        limits[f"{Pipe.MATRIX}_{precision}"] = max(vector, tiles) if flag in flags else vector
    return {str(name): float(limit) for name, limit in limits.items()}


def limits(machine: Machine) -> dict[str, float]:
    """The rates that the machine cannot exceed, by name of the ceiling; empty where the clock is not known.

    Args:
        machine: With the facts ``per_cycle``, ``clock`` (Hz) and ``units`` or ``threads``.
    """
    facts = machine.facts
    each, clock = facts.get(PER_CYCLE), highest_clock(machine)
    units = facts.get(UNITS, facts.get("threads"))
    if not isinstance(each, Mapping) or not _is_positive(clock) or not _is_positive(units):
        return {}
    return {str(name): limit * units * clock for name, limit in each.items() if _is_positive(limit)}


def highest_clock(machine: Machine) -> float:
    """The highest clock that was seen beside any ceiling, in Hz; NaN where none was."""
    ceilings = [*machine.bandwidths.values(), *machine.peaks.values()]
    seen = [ceiling.clock for ceiling in ceilings] + [_number(machine.facts.get("clock"))]
    return max((clock for clock in seen if math.isfinite(clock)), default=math.nan)


def _number(value: Any) -> float:
    return float(value) if _is_positive(value) else math.nan


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
