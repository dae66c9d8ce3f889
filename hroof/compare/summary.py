"""Summary: the comparison in a sentence, why, and what to look at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hroof.compare.differences import Comparison, Difference
from hroof.compare.noise import Change, Judged
from hroof.compare.work import SAME, short_work
from hroof.kernels import display_name
from hroof.units import number, percent, si

_NAMED = 3
LARGE_NOISE = 0.2
"""Share of a step from which on its noise hides what people look for; hroof report warns at the same spread."""

WORTH_NAMING = 0.01
"""Share of the shorter step below which a difference of a layer or kernel is in the tables, not in the verdict."""


@dataclass(frozen=True)
class Summary:
    """The comparison as a whole.

    Attributes:
        text: Faster, slower, no difference beyond noise, or that nothing can be said.
        why: Which layers, and what changed of their work.
        next: What to look at first.
        supported: Whether the two runs can carry a verdict.
        change: What became of the step.
    """

    text: str
    why: str
    next: str
    supported: bool
    change: Change


def summary(found: Comparison) -> Summary:
    """Sum a comparison up."""
    total = found.total
    supported = total.change is not Change.UNKNOWN
    moved = [row for row in found.layers if row.change in (Change.FASTER, Change.SLOWER)]
    moved += [row for row in found.layers if row.change in (Change.NEW, Change.GONE) and row.time]
    moved = [row for row in moved if _worth_naming(found, row)]
    moved.sort(key=lambda row: -abs(row.time) if row.time == row.time else 0.0)
    text = " ".join([_step(found), *_doubt(found), *_wall(found)])
    return Summary(text, _why(found, moved), _next(found, moved), supported, total.change)


def _worth_naming(found: Comparison, row: Difference) -> bool:
    """Whether a difference is large enough to look at; what is not known of the step hides nothing."""
    return not abs(row.time) < WORTH_NAMING * min(found.total.times)


def _step(found: Comparison) -> str:
    total = found.total
    before, after = (si(time, "s") for time in total.times)
    if math.isnan(total.time):
        return "No verdict on time: it is not known of both runs."
    per = " per step" if found.base.profile.step_count else ""
    times = f"{before} → {after} of launches{per}"
    if total.change is Change.UNKNOWN:
        return (
            f"No verdict: {times} (ratio {number(total.ratio)}), and nothing is known of the noise."
        )
    if total.change is Change.NOISE:
        noise = si(total.judged.noise, "s")
        return f"No difference beyond noise: {times}; the noise is {noise}."
    return f"{_faster(total.change, total.ratio)}: {times}{_phase(found)}."


def _doubt(found: Comparison) -> Iterator[str]:
    """The steps of one run show its own noise, not that between runs: equal work is a reason to doubt."""
    total = found.total
    if total.change in (Change.FASTER, Change.SLOWER) and short_work(total) == SAME:
        yield "Both do the same work, so clock or other load may be the cause: repeat both runs before believing it."


def _faster(change: Change, ratio: float) -> str:
    if change is Change.FASTER:
        return f"NEW is {number(ratio)} × as fast as BASE"
    return f"NEW takes {number(1 / ratio)} × the time of BASE"


def _phase(found: Comparison) -> str:
    """Which phase holds most of the difference."""
    sign = math.copysign(1.0, found.total.time)
    along = [row for row in found.phases if row.time * sign > 0]
    if not along or len(found.phases) < 2:
        return ""
    most = max(along, key=lambda row: abs(row.time))
    named = "without a phase" if most.name.startswith("(") else f"in phase {most.name}"
    if abs(most.time) > abs(found.total.time):
        return f"; {named} alone {signed(most.time)}"
    return f"; {si(abs(most.time), 's')} of it {named}"


def _wall(found: Comparison) -> Iterator[str]:
    """The wall time, which is what a user waits for; and that of steps on which nothing was collected."""
    before, after = found.walls
    if not math.isnan(before + after):
        yield f"Wall time of a step: {si(before, 's')} → {si(after, 's')} ({_said(found.wall, before, after)})."
    one, other = found.base.undisturbed, found.new.undisturbed
    if one is not None and other is not None:
        yield f"Undisturbed by hroof: {si(one, 's')} → {si(other, 's')}."


def _said(judged: Judged, before: float, after: float) -> str:
    if judged.change in (Change.NOISE, Change.UNKNOWN):
        return str(judged.change)
    return (
        f"{number(before / after)} × as fast"
        if before > after
        else f"{number(after / before)} × the time"
    )


def _why(found: Comparison, moved: list[Difference]) -> str:
    if not moved:
        return _nothing(found)
    named = [_named(row) for row in moved[:_NAMED]]
    left = len(moved) - _NAMED
    more = f" and {left} more layer{'s' if left > 1 else ''}" if left > 0 else ""
    return f"{'; '.join(named)}{more}.{_together(found, moved)}"


def _nothing(found: Comparison) -> str:
    if found.total.change is Change.UNKNOWN:
        return "A difference is called one only where the steps of each run show its noise."
    small = any(row.change in (Change.FASTER, Change.SLOWER) for row in found.layers)
    worth = f", and by {percent(WORTH_NAMING, 0)} of the step" if small else ""
    return f"No layer differs by more than the steps of one run do{worth}."


def _named(row: Difference) -> str:
    work = short_work(row)
    facts = [signed(row.time), str(row.change) if row.change in (Change.NEW, Change.GONE) else work]
    return f"{row.name} {', '.join(fact for fact in facts if fact)}"


def _together(found: Comparison, moved: Iterable[Difference]) -> str:
    """How much of the difference of the step the layers named and counted explain."""
    whole = found.total.time
    part = math.fsum(row.time for row in moved if not math.isnan(row.time))
    if found.total.change is Change.NOISE or not whole or part / whole < 0:
        return ""
    return f" Together they are {percent(part / whole, 0)} of the difference."


def _next(found: Comparison, moved: list[Difference]) -> str:
    if found.total.change is Change.UNKNOWN:
        return "Collect both runs with 3 steps or more, with times, then compare again."
    slower = [row for row in moved if row.change is Change.SLOWER]
    if not slower:
        return _no_loss(found)
    first = slower[0]
    work = short_work(first)
    kernel = _slowest(found)
    if work in (SAME, ""):
        return f"Look at {first.name}: the same work takes longer (implementation, layout, clock, other load).{kernel}"
    return f"Look at {first.name}: it does other work ({work}).{kernel} Check that this is wanted."


def _slowest(found: Comparison) -> str:
    """The kernel, op or family that lost most, whatever its layer."""
    lost = [row for row in found.kernels if row.change is Change.SLOWER]
    lost = [row for row in lost if _worth_naming(found, row)]
    if not lost:
        return ""
    name = lost[0].name if found.unit == "family" else display_name(lost[0].name) or lost[0].name
    return f" The {found.unit} that lost most is {name}, {signed(lost[0].time)}."


def _no_loss(found: Comparison) -> str:
    if found.total.change is Change.SLOWER:
        return "No matched layer is slower by itself: look at what is new, and at launches outside layers."
    if found.total.change is Change.FASTER:
        return "Nothing became slower. hroof report NEW says what is left to gain."
    if found.total.judged.noise > LARGE_NOISE * min(found.total.times):
        return "The steps of a run vary widely: collect both again on an idle machine, with more steps."
    return "Nothing to do; more steps would show smaller differences."


def signed(value: float, unit: str = "s") -> str:
    """A difference with its sign, e.g. ``+1.20 ms``; a dash where it is not known."""
    return f"+{si(value, unit)}" if value > 0 else si(value, unit)
