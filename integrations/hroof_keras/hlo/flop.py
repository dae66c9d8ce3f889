"""Sums and multiples of FLOP, for instructions that contain others."""

from __future__ import annotations

from collections.abc import Iterable

from hroof.units import Pipe
from hroof_keras.counting.flop import NO_FLOP, Flop

__all__ = ["NO_FLOP", "Flop", "floating", "summed", "times"]


def summed(parts: Iterable[Flop | None]) -> Flop | None:
    """The sum; None as soon as a part is not known.

    Matrix work makes the whole exact, as in an op with a fused bias; work by convention alone does not.
    """
    total = NO_FLOP
    for part in parts:
        if part is None:
            return None
        if part.nominal:
            total = total + part if total.nominal else part
    exact = not total.nominal or any(pipe is Pipe.MATRIX for pipe, _ in total.nominal)
    return Flop(total.nominal, total.least, exact and total.exact, total.matrix)


def times(flop: Flop, count: float, least: float | None = None) -> Flop:
    """The same work ``count`` times; ``least`` times (by default as often) where only the needed counts."""
    needed = count if least is None else least
    return Flop(
        {unit: value * count for unit, value in flop.nominal.items()},
        {unit: value * needed for unit, value in flop.least.items()},
        flop.exact,
        flop.matrix,
    )


def floating(flop: Flop | None) -> float:
    """Σ nominal floating-point operations: integer operations apart; 0 where nothing is known."""
    if flop is None:
        return 0.0
    return sum(value for (_, precision), value in flop.nominal.items() if precision.is_float)
