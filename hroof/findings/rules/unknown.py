"""Ops of unknown work that take a noticeable share of the time."""

from __future__ import annotations

from collections.abc import Mapping

from hroof.findings.context import Context
from hroof.findings.finding import COLLECT_FLOP, Finding, titled
from hroof.findings.thresholds import NO_RULE_SHARE
from hroof.roofline import coverage
from hroof.units import percent


def no_rule(run: Context) -> list[Finding]:
    """Ops of unknown FLOP that take a noticeable share of the time."""
    known = coverage(run.profile)
    reasons: tuple[tuple[Mapping[str, float], str, str], ...] = (
        (known.ops_without_rule, "has no FLOP rule", "Register a FLOP rule for it."),
        (known.ops_unjoined, "found no count", "Collect again with constant shapes."),
    )
    if run.profile.counters is not None:
        everything = {**known.ops_without_rule, **known.ops_unjoined}
        reasons = ((everything, "has unknown FLOP", COLLECT_FLOP),)
    return [
        run.finding(
            "no-rule", f"{titled(op, run.subject)} {fact} and takes {percent(share)} of the launch time.", 0.0, share,
            f"{remedy} Until then its layers have no verdict.", "Nothing: its bound is unknown.",
        )
        for shares, fact, remedy in reasons
        for op, share in shares.items()
        if share > NO_RULE_SHARE
    ]  # fmt: skip
