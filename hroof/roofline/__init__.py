"""Grouping → work → points: intensity, bound, attainable time, headroom; as times, too."""

from hroof.roofline.bounds import bounds
from hroof.roofline.coverage import Coverage, computes, coverage
from hroof.roofline.flags import flag_point
from hroof.roofline.grouping import block_of, captured, check_keys, missing_name, usual_key
from hroof.roofline.once import remembered, remembering
from hroof.roofline.point import Pair, Point
from hroof.roofline.points import points, select
from hroof.roofline.totals import Totals, totals, undisturbed_step, wall_time, wall_times

__all__ = [
    "Coverage",
    "Pair",
    "Point",
    "Totals",
    "block_of",
    "bounds",
    "captured",
    "check_keys",
    "computes",
    "coverage",
    "flag_point",
    "missing_name",
    "points",
    "remembered",
    "remembering",
    "select",
    "totals",
    "undisturbed_step",
    "usual_key",
    "wall_time",
    "wall_times",
]
