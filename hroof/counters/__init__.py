"""Counters of a device: which to ask for on which chip, and what work they stand for."""

from __future__ import annotations

from hroof.counters.chips import Answer, Chip, answers, by_name, chip, chips
from hroof.counters.clock import CLOCK, at_clock, clock_warning, fitted
from hroof.counters.formulas import Work, work
from hroof.counters.peaks import machine
from hroof.counters.request import metrics

__all__ = [
    "CLOCK",
    "Answer",
    "Chip",
    "Work",
    "answers",
    "at_clock",
    "by_name",
    "chip",
    "chips",
    "clock_warning",
    "fitted",
    "machine",
    "metrics",
    "work",
]
