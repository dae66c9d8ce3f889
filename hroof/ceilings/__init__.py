"""The empirical Roofline toolkit: measure what a machine reaches with a framework's own kernels."""

from __future__ import annotations

from hroof.ceilings.bench import Plan
from hroof.ceilings.cache import cache_folder, cached, known
from hroof.ceilings.datasheets import datasheet
from hroof.ceilings.suite import FULL, QUICK, Senses, measure

__all__ = [
    "FULL",
    "QUICK",
    "Plan",
    "Senses",
    "cache_folder",
    "cached",
    "datasheet",
    "known",
    "measure",
]
