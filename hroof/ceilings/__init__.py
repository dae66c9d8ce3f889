"""The empirical Roofline toolkit: measure what a machine reaches with a framework's own kernels."""

from __future__ import annotations

from hroof.ceilings.bench import Plan
from hroof.ceilings.cache import cache_folder, cached, known
from hroof.ceilings.suite import FULL, QUICK, measure

__all__ = ["FULL", "QUICK", "Plan", "cache_folder", "cached", "known", "measure"]
