"""Cells of a checked run: limits, numbers, noise and verdicts as people write them."""

from __future__ import annotations

import math

from hroof.budgets import Check, Kind, Quantity, Row, Verdict
from hroof.budgets.quantities import SHARE
from hroof.budgets.summary import by_how_much, where
from hroof.report.cells import DASH
from hroof.units import number, percent, si

NAMES = ("what", "quantity")
_SIGNS = {Kind.MAX: "≤", Kind.MIN: "≥", Kind.EQUALS: "=", Kind.RISE: "≤", Kind.FALL: "≥"}
_DIGITS = 4


def headers(found: Check) -> list[str]:
    """What stands above the cells of a row; of noise, how many steps show it."""
    count = found.profile.step_count
    noise = f"noise (n = {count})" if count else "noise"
    return [*NAMES, "limit", "value", noise, "source", "verdict"]


def quantity_text(quantity: Quantity, value: float, digits: int = _DIGITS) -> str:
    """A number in the unit of its quantity; a dash where it is not known.

    Args:
        quantity: What it is.
        value: In base units.
        digits: Significant digits; a value and its limit may differ in the third.
    """
    if quantity.unit == SHARE:
        return percent(value, 2)
    if quantity.unit:
        return si(value, quantity.unit, digits)
    whole = math.isfinite(value) and value == round(value)
    return f"{value:,.0f}" if whole else number(value, digits)


def limit_cell(row: Row) -> str:
    """What the number had to keep to, e.g. ``≤ 20.00 ms``, ``= 7,504,367,616 FLOP`` or ``≤ 20.00 ms + 5 %``."""
    limit, sign = row.limit, _SIGNS[row.limit.kind]
    if limit.kind.relative:
        start = math.nan if row.base is None else row.base.value
        points = limit.quantity.unit == SHARE
        return f"{sign} {_number(row, start)}{_leeway(limit.kind, limit.value, points)}"
    return f"{sign} {_number(row, limit.value)}{_leeway(limit.kind, limit.tolerance)}"


def _leeway(kind: Kind, share: float, points: bool = False) -> str:
    """What is allowed beyond a number, in percent of it, or in points where it is a percentage itself."""
    if not share and not kind.relative:
        return ""
    sign = {"≤": "+", "≥": "−", "=": "±"}[_SIGNS[kind]]
    return f" {sign} {100 * share:.4g} {'points' if points else '%'}"


def _number(row: Row, value: float) -> str:
    """A number of a row; one that is to equal another in all its digits."""
    quantity = row.limit.quantity
    whole = math.isfinite(value) and value == round(value)
    if row.limit.kind is Kind.EQUALS and whole and quantity.unit != SHARE:
        return f"{value:,.0f} {quantity.unit}".rstrip()
    return quantity_text(quantity, value)


def value_cell(row: Row) -> str:
    """The number, ``≥`` before one that is only a lower bound."""
    text = _number(row, row.reading.value)
    return f"≥ {text}" if row.reading.lower else text


def noise_cell(row: Row) -> str:
    """How far the number scatters; a dash for one that does not, or where a single step says nothing."""
    if not row.limit.quantity.timed or not math.isfinite(row.judged.noise):
        return DASH
    return f"± {quantity_text(row.limit.quantity, row.judged.noise, 2)}"


def source_cell(row: Row) -> str:
    """Where the number comes from."""
    return row.reading.source or DASH


def verdict_cell(row: Row) -> str:
    """The verdict, and by how much a limit is missed."""
    if row.verdict is not Verdict.OVER:
        return str(row.verdict)
    share = by_how_much(row)
    return f"over by {share}" if share else "over"


def names_of(row: Row) -> list[str]:
    """The cells that name a row."""
    return [where(row), row.limit.quantity.name]


def facts_of(row: Row) -> list[str]:
    """The cells that follow."""
    return [limit_cell(row), value_cell(row), noise_cell(row), source_cell(row), verdict_cell(row)]


def noise_rule(found: Check) -> str:
    """What noise is, and how many steps show it."""
    count = found.profile.step_count
    if count == 0:
        return "Values are sums over the whole run: nothing shows how far they scatter."
    steps = f"{count} captured step{'' if count == 1 else 's'}"
    other = "" if found.base is None else f" (of the baseline: {found.base.profile.step_count})"
    missed = (
        "is over budget all the same (--strict)" if found.strict else "is within noise and passes"
    )
    return (
        f"Values are those of the median of {steps}{other}. Noise is how far these lie apart, of both runs where a "
        f"limit is relative to the baseline; what misses its limit by less {missed}."
    )


def against(found: Check) -> str:
    """What the run was held against, for a title."""
    base = "" if found.base is None else f" against {found.base.profile.name}"
    return f"{found.profile.name}{base}"
