"""The rule of an op: its own, or the one that the tables give it."""

from __future__ import annotations

from functools import cache

from hroof_keras.counting.flop import RULES, Rule
from hroof_keras.counting.rules import (  # noqa: F401 - importing a family registers its rules
    convolution,
    einsum,
    fft,
    indexing,
    linalg,
    matrix,
    norms,
    optimizers,
    pooling,
    rnn,
)
from hroof_keras.counting.rules.tables import table_rule


@cache
def find_rule(op: str) -> Rule | None:
    """The rule of an op by plain type (see ``names.plain``); None where there is none."""
    return RULES.get(op) or table_rule(op)
