"""The prediction: the bytes of each op that cross each level, from caches and blocking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hroof.errors import UsageError
from hroof.traffic.lru import crossing
from hroof.traffic.stream import MatrixShape, Touch, operands
from hroof.units import MemoryLevel


def predict(
    stream: Sequence[Touch], caches: Mapping[MemoryLevel, int], *, warm: bool = True
) -> list[dict[MemoryLevel, float]]:
    """Predict the bytes of each op that cross each level below a known cache.

    A level is crossed by what misses in the next known cache above it: L2 by the misses of L1, DRAM
    by those of the last cache. Private caches of several cores count as one, a cache no larger than
    one nearer to the cores adds nothing to that. So at each op bytes(L2) >= bytes(L3) >=
    bytes(DRAM). A prediction, never a count; ``hroof.traffic.lru`` has the model and its limits.

    Args:
        stream: The ops of one step in order of execution. Accesses of one op to the same buffer
            count as one of the largest size.
        caches: Capacity in bytes of the caches that are known, all cores together.
        warm: Run the stream once to fill the caches and count a second run, the steady state of a
            training loop. Otherwise start with empty caches and end with a write-back.

    Returns:
        One dictionary per op, nearest level first: the bytes that the op fetches and those it wrote
        that leave the cache, but at least the blocking term of its matrix product. The dictionaries
        are empty without a known cache.

    Raises:
        UsageError: A size is negative or not finite, or ``caches`` holds DRAM.
    """
    crossed = _capacities(caches)
    ops = [operands(touch, index) for index, touch in enumerate(stream)]
    charges = crossing(ops, list(crossed.values()), warm=warm)
    return [
        {
            level: max(charge[index], _blocking(touch.matrix, crossed[level]))
            for level, charge in zip(crossed, charges, strict=True)
        }
        for index, touch in enumerate(stream)
    ]


def _capacities(caches: Mapping[MemoryLevel, int]) -> dict[MemoryLevel, float]:
    """Bytes kept above each level that a known cache misses into, nearest level first."""
    if MemoryLevel.DRAM in caches:
        raise UsageError("DRAM is not a cache.", "Give the capacities of L1, L2 and L3 only.")
    known = [level for level in MemoryLevel if level in caches]
    crossed: dict[MemoryLevel, float] = {}
    capacity = 0.0
    for cache, below in zip(known, [*known[1:], MemoryLevel.DRAM], strict=False):
        if not 0 <= caches[cache] < math.inf:
            raise UsageError(
                f"The {cache.label} cache has {caches[cache]!r} bytes.",
                "Give its capacity, 0 or more.",
            )
        capacity = max(capacity, caches[cache])
        crossed[below] = capacity
    return crossed


def _blocking(matrix: MatrixShape | None, capacity: float) -> float:
    """Bytes that blocked matrix products move into a cache: 2·m·n·k·s / sqrt(C/(3s)) for each.

    Three square tiles of edge b = sqrt(C/(3s)) fill a cache of C bytes; A is then read n/b times
    and B m/b times. No other tile of this area reads less (inequality of the means), and the order
    m·n·k / sqrt(C) is the lower bound of Hong and Kung (1981). Never more than without reuse (two
    loads per multiplication, one store per result), and 0 where one product fits into the cache,
    since each operand then crosses once.
    """
    if matrix is None:
        return 0.0
    m, n, k, itemsize = matrix.m, matrix.n, matrix.k, matrix.itemsize
    if (m * k + k * n + m * n) * itemsize <= capacity:
        return 0.0
    loads = 2.0 * m * n * k * itemsize
    edge = math.sqrt(capacity / (3 * itemsize))
    return matrix.batch * min(loads / edge if edge else math.inf, loads + m * n * itemsize)
