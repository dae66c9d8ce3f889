"""Summary: a check in sentences."""

from __future__ import annotations

from hroof.budgets.checking import Check, Row
from hroof.budgets.judging import Verdict
from hroof.budgets.quantities import SHARE
from hroof.findings import Verdict as Said
from hroof.findings.finding import titled
from hroof.units import percent

_NAMED = 3
_LONGEST = 60


def summary(found: Check) -> Said:
    """What came out, why, and what to do next; ``supported`` only where every limit is kept."""
    over, unknown = found.of(Verdict.OVER), found.of(Verdict.UNKNOWN)
    count = len(found.rows)
    kept = sum(row.verdict in (Verdict.OK, Verdict.NOISE) for row in found.rows)
    if found.verdict is Verdict.OK:
        return Said(f"Within budget: {_limits(count)} kept.", _noisy(found), _go_on(found), True)
    parts = [
        f"{len(over)} of {_limits(count)} over budget" if over else "",
        _unknown(unknown, count),
    ]
    text = "; ".join(part for part in parts if part)
    return Said(
        f"{text[0].upper()}{text[1:]}; {kept} kept.", _why(over, unknown), _next(found), False
    )


def _limits(count: int) -> str:
    return f"{count} limit{'' if count == 1 else 's'}"


def _unknown(rows: list[Row], count: int) -> str:
    if not rows:
        return ""
    return f"{len(rows)} of {_limits(count)} cannot be judged"


def where(row: Row) -> str:
    """Which launches a row is about, e.g. ``layer fc1 in backward``; a long name without its middle."""
    scope = row.limit.scope
    if not scope.key:
        return "step"
    name = _short(titled(row.name, scope.key))
    together = row.subject is not None and scope.together
    count = f" ({row.subject.count} together)" if row.subject is not None and together else ""
    return f"{scope.key} {name}{count}" + (f" in {scope.phase}" if scope.phase else "")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[1 - _LONGEST // 2 :]}"


def title(row: Row) -> str:
    """What a row is about, e.g. ``layer fc1 in backward: time``."""
    return f"{where(row)}: {row.limit.quantity.name}"


def by_how_much(row: Row) -> str:
    """By how much a number misses its bound: in percent of it, of shares in points; nothing where that says nothing."""
    excess, bound = row.judged.excess, abs(row.judged.bound)
    if row.limit.quantity.unit == SHARE:
        return f"{100 * excess:.2g} points" if excess < 0.1 else f"{100 * excess:.0f} points"
    if not bound > 0:
        return ""
    share = excess / bound
    return percent(share, 0 if share > 0.1 else 1 if share > 0.01 else 2)


def _why(over: list[Row], unknown: list[Row]) -> str:
    said = [f"{title(row)} misses its limit{_by(row)}" for row in over[:_NAMED]]
    said += [f"{title(row)}: {row.judged.note}" for row in unknown[: _NAMED - len(said)]]
    left = len(over) + len(unknown) - len(said)
    more = f" and {left} more" if left > 0 else ""
    return f"{'; '.join(said)}{more}."


def _by(row: Row) -> str:
    share = by_how_much(row)
    return f" by {share}" if share else ""


def _noisy(found: Check) -> str:
    noisy = found.of(Verdict.NOISE)
    if not noisy:
        return "No number misses its limit."
    named = ", ".join(title(row) for row in noisy[:_NAMED])
    more = f" and {len(noisy) - _NAMED} more" if len(noisy) > _NAMED else ""
    return f"Missed by less than the steps scatter: {named}{more}."


def _go_on(found: Check) -> str:
    if found.of(Verdict.NOISE):
        return "Capture more steps to know; --strict takes noise for no excuse."
    return "Nothing to do."


def _next(found: Check) -> str:
    """The first thing to change where time is over, else what a budget or a run needs."""
    over = found.of(Verdict.OVER)
    if not over:
        return "Collect what is missing, or take these limits out of the budget."
    if found.base is not None:
        return "hroof compare BASELINE RUN says which layers and kernels changed."
    if any(row.limit.quantity.unit == "s" or row.limit.quantity.ceilings for row in over):
        first = next((one for one in found.findings if one.saves > 0), None)
        if first is not None:
            return first.action
    return "hroof report RUN --by layer,phase says where it is spent."
