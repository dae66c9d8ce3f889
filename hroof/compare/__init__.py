"""Two runs side by side: what is faster, what is slower, what is new, and what only looks so."""

from hroof.compare.conditions import conditions, differ_in_size
from hroof.compare.differences import Comparison, Difference, Part, Side, compare
from hroof.compare.matching import How
from hroof.compare.noise import Change, Judged
from hroof.compare.summary import Summary, summary

__all__ = [
    "Change",
    "Comparison",
    "Difference",
    "How",
    "Judged",
    "Part",
    "Side",
    "Summary",
    "compare",
    "conditions",
    "differ_in_size",
    "summary",
]
