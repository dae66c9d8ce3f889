"""Quantities: the numbers of a run that a budget can limit, each with its unit and where it comes from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hroof.budgets.subjects import Facts, Subject
from hroof.findings import machine_mismatch
from hroof.findings.honesty import NO_VERDICT_COVERAGE
from hroof.roofline import Pair, Point
from hroof.roofline.bounds import PAIRS
from hroof.roofline.flags import BANDWIDTH_TOLERANCE
from hroof.units import MemoryLevel, Source, number, percent

SHARE = "%"
"""The unit of shares of one."""
SYSTEM = "operating system"
CEILINGS = "ceilings"


@dataclass(frozen=True)
class Reading:
    """A number of a run.

    Attributes:
        value: In base units; NaN where the run does not have it.
        steps: The same in each captured step, where steps scatter; empty where that means nothing.
        source: Where it comes from, in words.
        trust: The same as a source, where it is one; None else.
        note: Why it is missing, or what it leaves out.
        lower: Only a lower bound is known.
        known: Share of the time for which it is known.
    """

    value: float
    steps: tuple[float, ...] = ()
    source: str = ""
    trust: Source | None = None
    note: str = ""
    lower: bool = False
    known: float = 1.0


@dataclass(frozen=True)
class Quantity:
    """What a budget can limit.

    Attributes:
        name: As a budget says it.
        unit: ``s``, ``B``, ``FLOP``, ``OP``, ``FLOP/s``, ``%`` for a share, empty for a plain number.
        meaning: What it is.
        read: Gets it from a subject.
        timed: It varies from step to step as times do: a value beyond its limit may be noise.
        more: Whether more of it is worse; with a baseline this decides what is a loss.
        whole: It is about the whole step only.
        ceilings: It needs the ceilings of the machine.
    """

    name: str
    unit: str
    meaning: str
    read: Callable[[Subject], Reading]
    timed: bool = False
    more: Literal["worse", "better"] = "worse"
    whole: bool = False
    ceilings: bool = False


def _missing(note: str) -> Reading:
    return Reading(math.nan, note=note)


def _of_point(value: Callable[[Point, Facts], float], source: str) -> Callable[[Subject], Reading]:
    """A reader of a number that varies with the times of the steps."""

    def read(subject: Subject) -> Reading:
        point = subject.point
        trust = point.sources.get(source)
        steps = tuple(value(step, subject.facts) for step in subject.steps)
        known = tuple(one for one in steps if math.isfinite(one))
        said = str(trust or Source.MISSING)
        return Reading(value(point, subject.facts), known, said, trust, _untold(point))

    return read


def _untold(point: Point) -> str:
    return "" if point.time > 0 else "no time is known"


def _time(point: Point, facts: Facts) -> float:
    return point.time


def _share_of_step(point: Point, facts: Facts) -> float:
    step = point.key.get("step")
    whole = facts.totals.time if step is None else facts.step_times.get(step, math.nan)
    return _share(point.time, whole)


def _share_zero_flop(point: Point, facts: Facts) -> float:
    return _share(point.zero_flop_time, point.time)


def _flop_rate(subject: Subject) -> Reading:
    value = subject.point.flop_rate
    if math.isnan(value):
        return _missing("no FLOP are known" if subject.point.time > 0 else "no time is known")
    steps = tuple(step.flop_rate for step in subject.steps if math.isfinite(step.flop_rate))
    return dataclasses.replace(_counted(subject, value, "flop"), steps=steps)


def _headroom(subject: Subject) -> Reading:
    """Time ÷ attainable time; a value below 1 is evidence of a fault, never a success."""
    point, facts = subject.point, subject.facts
    against = _against_ceilings(facts)
    if against:
        return _missing(against)
    value, share = point.headroom, _share(point.bounded_time, point.time)
    if value is None:
        return _missing("no launch has a bound")
    if share < NO_VERDICT_COVERAGE:
        return _missing(f"only {percent(share)} of the time has a bound")
    if value * BANDWIDTH_TOLERANCE < 1:
        return _missing(f"it is {number(value)}, below 1: a ceiling, a clock or a count is wrong")
    steps = tuple(step.headroom for step in subject.steps if step.headroom is not None)
    note = f"{percent(share)} of the time has a bound" if share < 1 - 1e-9 else ""
    source = f"{point.sources.get('time', Source.MISSING)}, {CEILINGS}"
    return Reading(value, steps, source, note=note)


def _against_ceilings(facts: Facts) -> str:
    """Why the ceilings say nothing about the run; empty where they do."""
    if facts.machine is None:
        return "no ceilings are known"
    return (machine_mismatch(facts.profile, facts.machine) or "").rstrip(".")


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def _mfu(subject: Subject) -> Reading:
    facts = subject.facts
    against = _against_ceilings(facts)
    if against:
        return _missing(against)
    value, wall = facts.totals.mfu, facts.totals.wall
    if value is None or wall is None:
        return _missing("the wall time, matrix FLOP or their peaks are not known")
    steps = tuple(value * wall / each for each in facts.walls)
    return Reading(value, steps, f"{Source.MEASURED}, {CEILINGS}")


def _wall(subject: Subject) -> Reading:
    facts = subject.facts
    if facts.totals.wall is None:
        return _missing("the run has no wall time")
    return Reading(facts.totals.wall, facts.walls, str(Source.MEASURED), Source.MEASURED)


def _undisturbed(subject: Subject) -> Reading:
    value = subject.facts.totals.undisturbed
    if value is None:
        return _missing("too few steps went by before the captured ones")
    return Reading(
        value, (), str(Source.MEASURED), Source.MEASURED, "of the steps that were skipped"
    )


def _launches(subject: Subject) -> Reading:
    return Reading(subject.point.launches, source="captured")


def _zero_flop_launches(subject: Subject) -> Reading:
    point = subject.point
    return _counted(subject, point.zero_flop_launches, "flop")


def _flop(subject: Subject) -> Reading:
    value = subject.point.total_flop
    if math.isnan(value):
        return _missing("no FLOP are known")
    return _counted(subject, value, "flop")


def _flop_of(pair: Pair) -> Callable[[Subject], Reading]:
    def read(subject: Subject) -> Reading:
        point = subject.point
        if not point.flop and not point.zero_flop_launches > 0:
            return _missing("no FLOP are known")
        return _counted(subject, point.flop.get(pair, 0.0), "flop")

    return read


def _counted(subject: Subject, value: float, quantity: str) -> Reading:
    """Work: a part of the launches may have no count, then it is at least this much."""
    point = subject.point
    trust = point.sources.get(quantity, Source.MISSING)
    left = _share(point.uncounted_time, point.time)
    if not left > 0:
        return Reading(value, source=str(trust), trust=trust)
    note = _at_least(left, "FLOP")
    return Reading(value, source=str(trust), trust=trust, note=note, lower=True, known=1 - left)


def _at_least(left: float, what: str) -> str:
    return f"at least: {percent(left)} of the time has no known {what}"


def _bytes(level: MemoryLevel) -> Callable[[Subject], Reading]:
    def read(subject: Subject) -> Reading:
        point = subject.point
        if level not in point.nbytes:
            return _missing(f"no bytes are known at {level.label}")
        trust = point.sources.get(level.value, Source.MISSING)
        value, left = point.nbytes[level], _share(point.unsized_time.get(level, 0.0), point.time)
        if not left > 0:
            return Reading(value, source=str(trust), trust=trust)
        note = _at_least(left, "bytes")
        return Reading(value, source=str(trust), trust=trust, note=note, lower=True, known=1 - left)

    return read


def _share_unattributed(subject: Subject) -> Reading:
    return _of_coverage(1 - subject.facts.coverage.time_attributed)


def _share_with_flop(subject: Subject) -> Reading:
    return _of_coverage(subject.facts.coverage.time_with_flop)


def _of_coverage(share: float) -> Reading:
    if math.isnan(share):
        return _missing("no time is known")
    return Reading(share, source=str(Source.MEASURED), trust=Source.MEASURED)


def _peak_memory(key: str) -> Callable[[Subject], Reading]:
    def read(subject: Subject) -> Reading:
        told = subject.facts.profile.run.get(key)
        if isinstance(told, bool) or not isinstance(told, int | float) or not told > 0:
            return _missing("the run does not say")
        return Reading(
            float(told), source=SYSTEM, note="of the process up to its last captured step"
        )

    return read


_POINT = (
    Quantity("time", "s", "sum of the durations of the launches", _of_point(_time, "time"), timed=True),
    Quantity("headroom", "", "time ÷ what the ceilings allow", _headroom, timed=True, ceilings=True),
    Quantity(
        "share_of_step", SHARE, "share of the launch time of the step",
        _of_point(_share_of_step, "time"), timed=True,
    ),
    Quantity(
        "share_zero_flop", SHARE, "share of its time in launches that compute nothing",
        _of_point(_share_zero_flop, "time"), timed=True,
    ),
    Quantity(
        "flop_rate", "FLOP/s", "nominal FLOP ÷ time", _flop_rate,
        timed=True, more="better",
    ),
    Quantity("launches", "", "kernels or ops launched", _launches),
    Quantity("zero_flop_launches", "", "launches that compute nothing", _zero_flop_launches),
    Quantity("flop", "FLOP", "nominal FLOP, FMA = 2", _flop),
)  # fmt: skip
_WORK = tuple(
    Quantity(
        f"flop_{pipe}_{precision}",
        "FLOP" if precision.is_float else "OP",
        f"nominal work on the {pipe} pipe in {precision}",
        _flop_of((pipe, precision)),
    )
    for pipe, precision in PAIRS
)
_BYTES = tuple(
    Quantity(f"bytes_{level}", "B", f"bytes that cross {level.label}", _bytes(level))
    for level in MemoryLevel
)
_WHOLE = (
    Quantity("wall", "s", "wall time, with the cost of collecting", _wall, timed=True, whole=True),
    Quantity("undisturbed", "s", "wall time of a step before the captured ones", _undisturbed, timed=True, whole=True),
    Quantity("mfu", SHARE, "model FLOP utilisation", _mfu, timed=True, more="better", whole=True, ceilings=True),
    Quantity("share_unattributed", SHARE, "share of the time without a layer", _share_unattributed, whole=True),
    Quantity(
        "share_with_flop", SHARE, "share of the time with known FLOP, data loading apart",
        _share_with_flop, more="better", whole=True,
    ),
    Quantity("peak_memory", "B", "most memory that was resident on the host", _peak_memory("peak_memory"), whole=True),
    Quantity(
        "peak_device_memory", "B", "most memory that the framework had allocated on the device",
        _peak_memory("peak_device_memory"), whole=True,
    ),
)  # fmt: skip
QUANTITIES = {one.name: one for one in (*_POINT, *_WHOLE, *_BYTES, *_WORK)}
"""By name, the usual ones first."""
