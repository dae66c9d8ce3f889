"""Judging: a number against its limit, with the noise of the steps taken into account."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from hroof.budgets.budget import Kind, Limit
from hroof.budgets.quantities import SHARE, Reading
from hroof.compare.differences import kind_of
from hroof.compare.noise import apart, spread
from hroof.findings.honesty import NO_VERDICT_COVERAGE, NO_VERDICT_SPREAD

ROUNDING = 1e-9
"""Share of a number by which it may miss a limit: the last bits of sums and of decimal fractions."""


class Verdict(StrEnum):
    """What became of one limit, or of all of them."""

    OK = "ok"
    NOISE = "within noise"
    OVER = "over budget"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Judged:
    """A number held against its limit.

    Attributes:
        verdict: ``within noise``: the limit is missed, but by less than the steps scatter.
        bound: What the number had to keep to, tolerance included, in base units; NaN where that is not known.
        excess: By how much it missed the bound, in base units; 0 or less where it did not.
        noise: How far such a number scatters, in base units; 0 where it does not, NaN where that is not known.
        note: What a reader has to know.
    """

    verdict: Verdict
    bound: float
    excess: float = math.nan
    noise: float = 0.0
    note: str = ""


def judge(limit: Limit, reading: Reading, base: Reading | None, *, strict: bool = False) -> Judged:
    """Hold a number against a limit.

    Args:
        limit: The limit.
        reading: The number.
        base: The same number of the baseline run; None where there is none.
        strict: Noise is no excuse.
    """
    bound = _bound(limit, base)
    why = _not_known(limit, reading, base)
    if why:
        return Judged(Verdict.UNKNOWN, bound, noise=math.nan, note=why)
    excess, noise = _excess(limit, bound, reading.value), _noise(limit, reading, base)
    why = _too_little(limit, reading, excess)
    if why:
        return Judged(Verdict.UNKNOWN, bound, excess, noise, why)
    found = _verdict(limit, bound, excess, noise, strict)
    told = _about_noise(limit, reading, found, noise)
    return Judged(found, bound, excess, noise, "; ".join(filter(None, (reading.note, told))))


def _bound(limit: Limit, base: Reading | None) -> float:
    """The limit with its tolerance, in base units."""
    if not limit.kind.relative:
        return limit.value * (1 + limit.tolerance * _SIGNS[limit.kind])
    value = math.nan if base is None else base.value
    by = limit.value if limit.quantity.unit == SHARE else limit.value * value
    return value + by * _SIGNS[limit.kind]


_SIGNS = {Kind.MAX: 1, Kind.MIN: -1, Kind.EQUALS: 0, Kind.RISE: 1, Kind.FALL: -1}


def _excess(limit: Limit, bound: float, value: float) -> float:
    if limit.kind is Kind.EQUALS:
        excess = abs(value - limit.value) - limit.tolerance * limit.value
    else:
        excess = (value - bound) * _SIGNS[limit.kind]
    return 0.0 if abs(excess) <= ROUNDING * max(abs(value), abs(bound)) else excess


def _not_known(limit: Limit, reading: Reading, base: Reading | None) -> str:
    """Why nothing can be said; empty where it can."""
    if not math.isfinite(reading.value):
        return reading.note or "the run does not have it"
    if not limit.kind.relative:
        return ""
    if base is None or not math.isfinite(base.value):
        reason = base.note if base is not None and base.note else "it does not have it"
        return f"of the baseline: {reason}"
    return _not_comparable(limit, reading, base)


def _not_comparable(limit: Limit, reading: Reading, base: Reading) -> str:
    ours, theirs = (kind_of(one.trust) for one in (base, reading))
    if None not in (ours, theirs) and ours != theirs:
        return f"{base.source} in the baseline and {reading.source} here: they cannot be compared"
    return ""


def _too_little(limit: Limit, reading: Reading, excess: float) -> str:
    """Why a lower bound of a number says nothing about a limit; empty where it does, or where the number is known.

    One that is too large already proves that a maximum is missed; one that is too small proves nothing.
    """
    if not reading.lower:
        return ""
    below = reading.value < limit.value if limit.kind is Kind.EQUALS else _SIGNS[limit.kind] < 0
    if excess > 0 and below:
        return f"{reading.note}, so that nobody knows whether it is too little"
    if excess <= 0 and not below and reading.known < NO_VERDICT_COVERAGE:
        return f"{reading.note}, which may be too much"
    return ""


def _noise(limit: Limit, reading: Reading, base: Reading | None) -> float:
    """How far the number scatters; of a limit against a baseline how far both runs do."""
    if not limit.quantity.timed:
        return 0.0
    if limit.kind.relative and base is not None:
        return apart(base.steps, reading.steps)
    return spread(reading.steps)


def _verdict(limit: Limit, bound: float, excess: float, noise: float, strict: bool) -> Verdict:
    if excess <= 0:
        return Verdict.OK
    if strict or noise == 0:
        return Verdict.OVER
    if math.isnan(noise):
        return Verdict.UNKNOWN if limit.kind.relative else Verdict.OVER
    if excess > noise:
        return Verdict.OVER
    # Noise as large as the limit would let pass nearly anything.
    return Verdict.UNKNOWN if noise > NO_VERDICT_SPREAD * bound else Verdict.NOISE


def _about_noise(limit: Limit, reading: Reading, found: Verdict, noise: float) -> str:
    if not limit.quantity.timed or found is Verdict.OK:
        return ""
    if math.isnan(noise):
        count = len(reading.steps)
        steps = "1 step" if count == 1 else f"{count} steps" if count else "one number"
        return f"{steps} in a run: its noise is not known"
    if found is Verdict.UNKNOWN:
        return "it scatters by more than its limit: collect again on an idle machine"
    return "missed by less than the steps scatter" if found is Verdict.NOISE else ""


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict of several: over budget, else unknown, else ok."""
    for verdict in (Verdict.OVER, Verdict.UNKNOWN):
        if verdict in verdicts:
            return verdict
    return Verdict.OK
