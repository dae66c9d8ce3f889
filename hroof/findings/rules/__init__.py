"""The rules: each looks at one run for one kind of recoverable time."""

from __future__ import annotations

from collections.abc import Callable

from hroof.findings.context import Context
from hroof.findings.finding import Finding
from hroof.findings.rules.conversions import conversions
from hroof.findings.rules.elementwise import elementwise
from hroof.findings.rules.launches import small_launches
from hroof.findings.rules.layers import layer_findings
from hroof.findings.rules.optimizer import optimizer
from hroof.findings.rules.padding import padding
from hroof.findings.rules.precision import double_precision, precision
from hroof.findings.rules.ranks import imbalance
from hroof.findings.rules.recompute import recompute
from hroof.findings.rules.reuse import reuse
from hroof.findings.rules.unknown import no_rule
from hroof.findings.rules.waiting import data, idle

RULES: tuple[Callable[[Context], list[Finding]], ...] = (
    layer_findings,
    precision,
    double_precision,
    small_launches,
    elementwise,
    reuse,
    conversions,
    padding,
    optimizer,
    no_rule,
    data,
    idle,
    recompute,
    imbalance,
)
"""Every rule; what it finds is ranked afterwards."""

__all__ = ["RULES", "Context"]
