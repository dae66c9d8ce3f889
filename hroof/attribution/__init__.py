"""Marks and launches → step, phase, layer: joins of two runs or steps, shares of launches."""

from hroof.attribution.join import Counted, Part, Timed, join
from hroof.attribution.times import with_times

__all__ = ["Counted", "Part", "Timed", "join", "with_times"]
