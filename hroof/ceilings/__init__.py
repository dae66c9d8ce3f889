"""The empirical Roofline toolkit: measure what a machine reaches with a framework's own kernels."""

from __future__ import annotations

from hroof.ceilings.bench import Plan
from hroof.ceilings.cache import Kept, cache_folder, cached, known, listed, renewed
from hroof.ceilings.datasheets import datasheet
from hroof.ceilings.stale import differences, stale
from hroof.ceilings.suite import FULL, QUICK, Senses, measure

__all__ = [
    "FULL",
    "QUICK",
    "Kept",
    "Plan",
    "Senses",
    "cache_folder",
    "cached",
    "datasheet",
    "differences",
    "known",
    "listed",
    "measure",
    "renewed",
    "stale",
]
