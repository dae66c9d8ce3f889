"""Grouping → work → points: intensity, bound, attainable time, headroom; as times, too."""

from hroof.roofline.bounds import bounds
from hroof.roofline.coverage import Coverage, coverage
from hroof.roofline.flags import flag_point
from hroof.roofline.grouping import block_of, check_keys
from hroof.roofline.point import Pair, Point
from hroof.roofline.points import points
from hroof.roofline.totals import Totals, totals

__all__ = [
    "Coverage",
    "Pair",
    "Point",
    "Totals",
    "block_of",
    "bounds",
    "check_keys",
    "coverage",
    "flag_point",
    "points",
    "totals",
]
