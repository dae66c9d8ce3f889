"""The rule of an op: its own, or the one that the tables give it."""

from __future__ import annotations

from hroof_torch.counting.rules import (  # noqa: F401 - importing a family registers its rules
    attention,
    convolution,
    fft,
    indexing,
    linalg,
    matrix,
    norms,
    optimizers,
    pooling,
    rnn,
)
from hroof_torch.counting.rules.elementwise import table_rule
from hroof_torch.counting.rules.flop import RULES, Rule

_found: dict[str, Rule | None] = {}


def find_rule(base: str) -> Rule | None:
    """The rule of an op by base name (see ``schema.base_name``); None where there is none."""
    if base not in _found:
        _found[base] = RULES.get(base) or table_rule(base)
    return _found[base]
