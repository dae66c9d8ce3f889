"""Cells of a checked run: limits, numbers, noise and verdicts as people write them."""

from __future__ import annotations

import math

from hroof.budgets import Check, Kind, Quantity, Row, Verdict
from hroof.budgets.quantities import SHARE
from hroof.budgets.summary import by_how_much
from hroof.report.cells import DASH
from hroof.units import number, percent, si

HEADERS = ("limit", "value", "noise", "source", "verdict")
_SIGNS = {Kind.MAX: "≤", Kind.MIN: "≥", Kind.EQUALS: "=", Kind.RISE: "≤", Kind.FALL: "≥"}
_DIGITS = 4


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
    """What the number had to keep to, e.g. ``≤ 20.00 ms`` or ``≤ 21.00 ms (+5 % of 20.00 ms)``."""
    limit, quantity = row.limit, row.limit.quantity
    digits = _exact(row) if limit.kind is Kind.EQUALS else _DIGITS
    bound = quantity_text(quantity, row.judged.bound, digits)
    return f"{_SIGNS[limit.kind]} {bound}{_how(row)}"


def _how(row: Row) -> str:
    limit, quantity = row.limit, row.limit.quantity
    if limit.kind.relative:
        sign = "+" if limit.kind is Kind.RISE else "−"
        before = math.nan if row.base is None else row.base.value
        return f" ({quantity_text(quantity, before)} {sign} {percent(limit.value, 1)})"
    return f" (± {percent(limit.tolerance, 1)})" if limit.tolerance else ""


def value_cell(row: Row) -> str:
    """The number, ``≥`` before one that is only a lower bound."""
    digits = _exact(row) if row.limit.kind is Kind.EQUALS else _DIGITS
    text = quantity_text(row.limit.quantity, row.reading.value, digits)
    return f"≥ {text}" if row.reading.lower else text


def _exact(row: Row) -> int:
    """Digits that tell a number from one that it is to equal."""
    return 12 if row.verdict is Verdict.OVER else 6


def noise_cell(row: Row) -> str:
    """How far the number scatters, with the number of steps that show it."""
    if not row.limit.quantity.timed or not math.isfinite(row.reading.value):
        return DASH
    steps = len(row.reading.steps)
    noise = quantity_text(row.limit.quantity, row.judged.noise, 2)
    return f"{noise} (n = {steps})" if steps else DASH


def source_cell(row: Row) -> str:
    """Where the number comes from."""
    return row.reading.source or DASH


def verdict_cell(row: Row) -> str:
    """The verdict, and by how much a limit is missed."""
    share = by_how_much(row) if row.verdict in (Verdict.OVER, Verdict.NOISE) else ""
    return f"{row.verdict}, by {share}" if share else str(row.verdict)


def facts_of(row: Row) -> list[str]:
    """The cells below ``HEADERS``."""
    return [limit_cell(row), value_cell(row), noise_cell(row), source_cell(row), verdict_cell(row)]


def against(found: Check) -> str:
    """What the run was held against, for a title."""
    base = "" if found.base is None else f" against {found.base.profile.name}"
    return f"{found.profile.name}{base}"
