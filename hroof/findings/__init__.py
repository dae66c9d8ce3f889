"""Ranked findings with the time each could save at most; warnings and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hroof.findings import honesty
from hroof.findings.finding import Finding, Verdict
from hroof.findings.honesty import machine_mismatch, no_ceilings_remedy, warnings
from hroof.findings.rules import RULES, Context
from hroof.roofline import remembered

if TYPE_CHECKING:
    from hroof.machine import Machine
    from hroof.profile import Profile

__all__ = [
    "Finding",
    "Verdict",
    "findings",
    "machine_mismatch",
    "no_ceilings_remedy",
    "verdict",
    "warnings",
]


@remembered
def findings(profile: Profile, machine: Machine | None) -> list[Finding]:
    """What could be gained in a run, best first; empty without ceilings or launches.

    Each rule speaks of its own launches: the savings overlap and do not add up.
    """
    if machine is None or profile.launches.empty:
        return []
    run = Context.of(profile, machine)
    found = [finding for rule in RULES for finding in rule(run)]
    return sorted(found, key=lambda f: (-f.saves, -f.share_of_step, f.kind, f.title))


def verdict(
    profile: Profile, machine: Machine | None, ranked: list[Finding] | None = None
) -> Verdict:
    """What the run says as a whole; ``supported`` is false where it cannot say anything.

    Args:
        profile: The run.
        machine: Its ceilings, or None.
        ranked: Its findings where they are known already.
    """
    found = findings(profile, machine) if ranked is None else ranked
    return honesty.verdict(profile, machine, found)
