"""From the samples of many kernels to one ceiling each: the best candidate wins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hroof.ceilings.sampling import Samples
from hroof.integration import CeilingKernel
from hroof.machine import Ceiling
from hroof.units import MemoryLevel, Pipe, Precision

_CLOSE = 0.05
"""Of the winner's rate: what separates two kernels that use the same unit wholly."""


@dataclass(frozen=True, slots=True)
class Target:
    """The ceiling that a kernel may reach, or a rate beside it.

    Attributes:
        level: For a bandwidth.
        pair: Pipe and precision, for a peak. Neither: the launch cost.
        variant: Which rate beside the ceiling, e.g. ``copy``; empty for the ceiling itself.
    """

    level: MemoryLevel | None = None
    pair: tuple[Pipe, Precision] | None = None
    variant: str = ""

    @property
    def label(self) -> str:
        """The name people know it by: ``L2``, ``matrix fp32``, ``launch``, ``DRAM copy``."""
        name = " ".join(self.pair or ("launch",))
        return f"{self.level.label if self.level else name} {self.variant}".rstrip()

    @property
    def key(self) -> str:
        """The name that a machine keeps it under: ``l2``, ``matrix_fp32``, ``launch_cost``, ``dram copy``."""
        return f"{self.level or '_'.join(self.pair or ('launch_cost',))} {self.variant}".rstrip()

    @property
    def names(self) -> frozenset[str]:
        """What a user may ask for it by: ``l2``; ``matrix_fp32`` or ``matrix`` or ``fp32``; ``launch``."""
        if self.level is not None:
            return frozenset({str(self.level)})
        if self.pair is None:
            return frozenset({"launch"})
        return frozenset({"_".join(self.pair), *map(str, self.pair)})


@dataclass(frozen=True, slots=True)
class Result:
    """One kernel, its samples, and the clock of the cores right after them (Hz; NaN where it is not known)."""

    kernel: CeilingKernel
    samples: Samples
    clock: float = math.nan


def target(kernel: CeilingKernel) -> Target:
    """Which ceiling a kernel competes for, or which rate beside one.

    Raises:
        ValueError: The kernel does not say which level, or which pipe and precision.
    """
    if kernel.what == "bandwidth" and kernel.level is not None:
        return Target(level=kernel.level, variant=kernel.variant)
    if kernel.what == "peak" and kernel.pipe is not None and kernel.precision is not None:
        return Target(pair=(kernel.pipe, kernel.precision), variant=kernel.variant)
    if kernel.what == "launch":
        return Target(variant=kernel.variant)
    raise ValueError(f"it does not say which {kernel.what} it measures")


def by_target(results: Iterable[Result]) -> dict[Target, list[Result]]:
    """Group results by ceiling: launch, then levels from the cores outwards, then peaks; variants behind each."""
    groups: dict[Target, list[Result]] = {}
    for result in results:
        groups.setdefault(target(result.kernel), []).append(result)
    return {key: groups[key] for key in sorted(groups, key=_order)}


def _order(key: Target) -> tuple[int, int, int, str]:
    if key.level is not None:
        return 1, list(MemoryLevel).index(key.level), 0, key.variant
    if key.pair is not None:
        pipe, precision = key.pair
        return 2, list(Pipe).index(pipe), list(Precision).index(precision), key.variant
    return 0, 0, 0, key.variant


def winner(results: Sequence[Result]) -> Result:
    """The result with the highest rate; of equals the first."""
    return max(results, key=lambda result: result.samples.best)


def ceiling(results: Sequence[Result]) -> Ceiling:
    """The ceiling that some candidates reach.

    A launch cost is seconds per launch, the inverse of the rate: its best is the shortest. The ceiling is
    ``measured`` as well where a kernel that uses the whole unit comes close to the winner.
    """
    best = winner(results)
    near = [r for r in results if r.samples.best >= (1 - _CLOSE) * best.samples.best]
    samples = best.samples
    launch = best.kernel.what == "launch"
    return Ceiling(
        rate=1 / samples.best if launch else samples.best,
        how="measured" if any(r.kernel.how == "measured" for r in near) else best.kernel.how,
        kernel=best.kernel.name,
        median=1 / samples.median if launch else samples.median,
        spread=samples.spread,
        samples=len(samples),
        note=best.kernel.note,
        threads=best.kernel.threads,
        size=best.kernel.size,
        clock=best.clock,
    )


def candidates(groups: Mapping[Target, Sequence[Result]]) -> dict[str, dict[str, float]]:
    """The best rate of every candidate (launches: per second), by ceiling, for the record."""
    return {
        key.label: {result.kernel.name: result.samples.best for result in results}
        for key, results in groups.items()
    }
