"""Which limits a page shows: those that fail first, of each outcome so many, and what is to be known of them."""

from __future__ import annotations

from collections.abc import Sequence

from hroof.budgets import Check, Row, Verdict
from hroof.budgets.summary import title

ORDER = (Verdict.OVER, Verdict.UNKNOWN, Verdict.NOISE, Verdict.OK)
TOP = 30
"""Limits of each outcome that are shown where nobody says how many."""


def chosen(found: Check, top: int = TOP) -> list[Row]:
    """The rows to show, those that fail first.

    Args:
        found: What came out.
        top: How many of each outcome; 0 for all.
    """
    each = [found.of(verdict) for verdict in ORDER]
    return [row for rows in each for row in (rows[:top] if top else rows)]


def left_out(found: Check, shown: Sequence[Row]) -> str:
    """How many rows of which outcome are not shown; nothing where all are."""
    verdicts = [row.verdict for row in shown]
    left = [(len(found.of(verdict)) - verdicts.count(verdict), verdict) for verdict in ORDER]
    said = ", ".join(f"{count:,} more {verdict}" for count, verdict in left if count > 0)
    return f"and {said}" if said else ""


def notes(rows: Sequence[Row]) -> list[str]:
    """What a reader has to know of rows, each note once with those that it is about."""
    about: dict[str, list[str]] = {}
    for row in rows:
        if row.judged.note:
            about.setdefault(row.judged.note, []).append(title(row))
    return [f"{_some(names)}: {note}." for note, names in about.items()]


def _some(names: list[str], most: int = 3) -> str:
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")
