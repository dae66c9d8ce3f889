"""From the samples of many kernels to one ceiling each: the best candidate wins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hroof.ceilings.sampling import Samples
from hroof.integration import CeilingKernel
from hroof.machine import Ceiling
from hroof.units import MemoryLevel, Pipe, Precision


@dataclass(frozen=True, slots=True)
class Target:
    """The ceiling that a kernel may reach.

    Attributes:
        level: For a bandwidth.
        pair: Pipe and precision, for a peak. Neither: the launch cost.
    """

    level: MemoryLevel | None = None
    pair: tuple[Pipe, Precision] | None = None

    @property
    def label(self) -> str:
        """The name people know it by: ``L2``, ``matrix fp32``, ``launch``."""
        if self.level is not None:
            return self.level.label
        return "launch" if self.pair is None else " ".join(self.pair)


@dataclass(frozen=True, slots=True)
class Result:
    """One kernel and its samples."""

    kernel: CeilingKernel
    samples: Samples


def target(kernel: CeilingKernel) -> Target:
    """Which ceiling a kernel competes for.

    Raises:
        ValueError: The kernel does not say which level, or which pipe and precision.
    """
    if kernel.what == "bandwidth" and kernel.level is not None:
        return Target(level=kernel.level)
    if kernel.what == "peak" and kernel.pipe is not None and kernel.precision is not None:
        return Target(pair=(kernel.pipe, kernel.precision))
    if kernel.what == "launch":
        return Target()
    raise ValueError(f"it does not say which {kernel.what} it measures")


def by_target(results: Iterable[Result]) -> dict[Target, list[Result]]:
    """Group results by ceiling: launch, then levels from the cores outwards, then peaks."""
    groups: dict[Target, list[Result]] = {}
    for result in results:
        groups.setdefault(target(result.kernel), []).append(result)
    return {key: groups[key] for key in sorted(groups, key=_order)}


def _order(key: Target) -> tuple[int, int, int]:
    if key.level is not None:
        return 1, list(MemoryLevel).index(key.level), 0
    if key.pair is not None:
        return 2, list(Pipe).index(key.pair[0]), list(Precision).index(key.pair[1])
    return 0, 0, 0


def winner(results: Sequence[Result]) -> Result:
    """The result with the highest rate; of equals the first."""
    return max(results, key=lambda result: result.samples.best)


def ceiling(results: Sequence[Result]) -> Ceiling:
    """The ceiling that some candidates reach.

    A launch cost is seconds per launch, the inverse of the rate: its best is the shortest.
    """
    best = winner(results)
    samples = best.samples
    launch = best.kernel.what == "launch"
    return Ceiling(
        rate=1 / samples.best if launch else samples.best,
        how="framework-reachable",
        kernel=best.kernel.name,
        median=1 / samples.median if launch else samples.median,
        spread=samples.spread,
        samples=len(samples),
        note=best.kernel.note,
    )


def candidates(groups: Mapping[Target, Sequence[Result]]) -> dict[str, dict[str, float]]:
    """The best rate of every candidate (launches: per second), by ceiling, for the record."""
    return {
        key.label: {result.kernel.name: result.samples.best for result in results}
        for key, results in groups.items()
    }
