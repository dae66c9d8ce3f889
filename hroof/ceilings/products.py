"""What holds for matrix products as ceilings of a CPU, whichever framework computes them."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable

from hroof.integration import CeilingKernel

_CUBES = (512, 768, 1024)
_SOFTWARE = 0.25
"""A format below this share of the fp32 rate runs in a scalar loop, not in a real kernel."""
_SOFTWARE_RATE = 1e10
"""FLOP/s that no scalar loop reaches; it decides where a busy machine slows down fp32 as well."""
_SUSTAIN = 0.25
"""Seconds without a pause, some hundred times as long as a sample of the ceiling."""
_SUSTAINED = " A quarter of a second without a pause; the ceiling is the best of samples of about a millisecond."


def cubes(threads: int) -> tuple[int, ...]:
    """Sizes of square products: larger where more threads share one."""
    scale = max(round(math.sqrt(threads / 4)), 1)
    return tuple(scale * size for size in _CUBES)


def is_software(rate: float, fp32_rate: float) -> bool:
    """Whether a format is so much slower than fp32 that no unit computes it.

    Args:
        rate: Of the format, in FLOP/s.
        fp32_rate: The same product in fp32.
    """
    return rate < max(_SOFTWARE * fp32_rate, _SOFTWARE_RATE)


def sustained(kernel: CeilingKernel) -> CeilingKernel:
    """The same kernel without a pause for a quarter of a second per call: what the clock settles at."""

    def prepare() -> tuple[Callable[[], object], float]:
        call, work = kernel.prepare()
        call()
        begun = time.perf_counter()
        call()
        times = max(round(_SUSTAIN / max(time.perf_counter() - begun, 1e-9)), 1)

        def calls() -> None:
            for _ in range(times):
                call()

        return calls, work * times

    return dataclasses.replace(
        kernel,
        name=f"{kernel.name} sustained",
        prepare=prepare,
        note=kernel.note + _SUSTAINED,
        variant="sustained",
    )
