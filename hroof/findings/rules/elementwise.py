"""Chains of memory-bound elementwise ops, with the traffic that fusing them would remove."""

from __future__ import annotations

from hroof.findings import advice
from hroof.findings.context import LEVELS, Context
from hroof.findings.finding import Finding, count, launches_text
from hroof.findings.fusing import Chains, chains, fused_time
from hroof.findings.thresholds import NOTICEABLE
from hroof.kernels import Family
from hroof.roofline import Point
from hroof.units import MemoryLevel, percent, si

_EACH_ELEMENT = (Family.ELEMENTWISE, Family.RANDOM)
_FUSIBLE = (*_EACH_ELEMENT, Family.COPY, Family.REDUCTION, Family.SOFTMAX, Family.NORMALISATION)


def _chains(number: float) -> str:
    """How many chains a step has: of threads that take turns the steps differ, and nobody counts 5.33 chains."""
    if number < 1:
        return f"{count(number)} chains"
    whole = round(number)
    about = "" if number == whole else "about "
    return f"{about}{whole} {'chain' if whole == 1 else 'chains'}"


def elementwise(run: Context) -> list[Finding]:
    """Chains of memory-bound elementwise ops."""
    able = run.rows(LEVELS) & ~run.matrix & run.of_family(*_FUSIBLE)
    found = chains(run, able, run.of_family(*_EACH_ELEMENT))
    point = run.noticeable(found.rows, NOTICEABLE)
    if point is None:
        return []
    share = run.share(point.time)
    known = found.removed == found.removed
    traffic = f"; {_traffic(point, found)}" if known else ""
    title = (
        f"Memory-bound elementwise work, {launches_text(point.launches)}{run.per} in "
        f"{_chains(found.count)}, takes {percent(share)} of the launch time"
        f"{traffic}."
    )
    saves = (
        point.time - fused_time(point, found.removed, found.count)
        if known
        else point.recoverable_time
    )
    return [run.finding(
        "elementwise", title, saves, share,
        advice.advice(advice.FUSING, run.profile.run),
        _PASSED_ON if known else _AS_LAUNCHED,
        run.layers(found.rows),
        cause="Each op writes its result to memory, and the next one reads it back.",
        evidence=(f"Most of it: {run.named(found.rows, 'op')}.", *run.explained(point)),
    )]  # fmt: skip


_PASSED_ON = (
    "Each chain becomes one launch at full bandwidth, what one op hands to the next stays in registers, and "
    "nobody else needs it."
)
_AS_LAUNCHED = "Each launch reaches its bandwidth; traffic that fusing removes would come on top."


def _traffic(point: Point, found: Chains) -> str:
    """How much of what the ops move goes from one to the next."""
    moved = point.nbytes.get(MemoryLevel.L1)
    share = f"{percent(found.removed, 0)} of the bytes"
    of = f"{share} ({si(found.removed * moved, 'B')} of {si(moved, 'B')})" if moved else share
    return f"at most {of} go from one op to the next"
