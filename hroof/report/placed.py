"""How the layers were found, in shares of time by rule: one line, only where the run tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hroof.units import percent

_WORDS = {
    "own": "by name",
    "scope": "by name",
    "call": "by the layer at work",
    "fused": "by weights",
    "variable": "by variables",
    "callee": "by what is called",
    "neighbour": "by neighbours",
    "split": "split over layers",
    "none": "not placed",
}
_OTHERWISE = "otherwise"
_LEAST = 0.0005
"""Smaller shares would print as zero."""
_MOST = 1.0 + 1e-6


def placed(run: Mapping[str, Any]) -> str:
    """Which share of the time got its layer by which rule.

    Args:
        run: The facts of a run; ``placed_by`` may hold shares by rule. It comes from a file: whatever is no share
            is left out, and a rule that is not known is never shown by its name.

    Returns:
        Words such as ``28.0 % by name, 58.0 % by neighbours``, in a fixed order; nothing where no share is known.
    """
    shares = run.get("placed_by")
    if not isinstance(shares, Mapping):
        return ""
    sums = dict.fromkeys([*_WORDS.values(), _OTHERWISE], 0.0)
    for rule, value in shares.items():
        sums[_WORDS.get(rule, _OTHERWISE)] += _share(value)
    return ", ".join(
        f"{percent(share)} {words}" for words, share in sums.items() if _LEAST <= share <= _MOST
    )


def _share(value: object) -> float:
    """A share of one; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= _MOST else 0.0
