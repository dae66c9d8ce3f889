"""Checking: every limit of a budget held against a run, and what came out in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hroof.budgets.budget import Budget, Limit
from hroof.budgets.judging import Judged, Verdict, judge, worst
from hroof.budgets.quantities import Reading
from hroof.budgets.subjects import Facts, Scope, Subject
from hroof.compare import compare, conditions
from hroof.compare.matching import layers_of, match_layers
from hroof.errors import UsageError
from hroof.findings import Finding, findings, warnings
from hroof.findings.honesty import NO_VERDICT_COVERAGE
from hroof.roofline import remembering

if TYPE_CHECKING:
    from hroof.machine import Machine
    from hroof.profile import Profile

NO_BASE = "there is nothing of that name in the baseline"
NO_CEILINGS = "There are no ceilings"
"""How the sentences begin that say so."""
BASE_AND_NEW = "BASE is the baseline, NEW the run that is checked."


@dataclass(frozen=True)
class Row:
    """One limit and what it was held against.

    Attributes:
        limit: The limit.
        subject: The launches that it is about; None where the run has none.
        reading: The number.
        judged: What became of it.
        base: The same number of the baseline run, if the limit is relative to it.
    """

    limit: Limit
    subject: Subject | None
    reading: Reading
    judged: Judged
    base: Reading | None = None

    @property
    def name(self) -> str:
        """Which layer, op, … it is; empty for the step."""
        return self.limit.scope.pattern if self.subject is None else self.subject.name

    @property
    def verdict(self) -> Verdict:
        """What became of it."""
        return self.judged.verdict


@dataclass(frozen=True)
class Check:
    """A run held against a budget.

    Attributes:
        facts: The run.
        budget: The limits.
        rows: One per limit and subject, in the order of the budget.
        base: The baseline run, or None.
        strict: Noise was no excuse.
        conditions: What differs between the two runs beside their numbers, one sentence each.
    """

    facts: Facts
    budget: Budget
    rows: tuple[Row, ...]
    base: Facts | None = None
    strict: bool = False
    conditions: tuple[str, ...] = ()

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        """What is doubtful about the runs, one sentence each."""
        told = [BASE_AND_NEW, *self.conditions] if self.conditions else []
        found = warnings(self.facts.profile, self.facts.machine)
        return tuple(dict.fromkeys((*told, *_about(self.budget, found))))

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What could be gained in the run, best first."""
        return tuple(findings(self.facts.profile, self.facts.machine))

    @property
    def profile(self) -> Profile:
        """The run."""
        return self.facts.profile

    @property
    def verdict(self) -> Verdict:
        """``over budget`` if one is, else ``unknown`` if one is, else ``ok``."""
        return worst([row.verdict for row in self.rows])

    def of(self, verdict: Verdict) -> list[Row]:
        """The rows with a verdict; those over their budget by how much of it they are over."""
        found = [row for row in self.rows if row.verdict is verdict]
        return sorted(found, key=_least_first) if verdict is Verdict.OVER else found


def _least_first(row: Row) -> float:
    bound = abs(row.judged.bound)
    return -row.judged.excess / bound if bound > 0 else -math.inf


def check(
    profile: Profile,
    budget: Budget,
    *,
    machine: Machine | None = None,
    baseline: Profile | None = None,
    baseline_machine: Machine | None = None,
    strict: bool = False,
) -> Check:
    """Hold a run against a budget.

    Args:
        profile: The run.
        budget: Its limits; see ``hroof.budgets.losses`` for those of a baseline alone.
        machine: Ceilings of the run; without them every limit of a headroom is unknown.
        baseline: The run that ``rise`` and ``fall`` are held against.
        baseline_machine: Its ceilings.
        strict: What is missed by less than the steps scatter is over budget as well.

    Raises:
        UsageError: The budget needs a baseline and there is none, or the two runs cannot be compared.
    """
    if budget.relative and baseline is None:
        raise UsageError(
            f"{budget.name} holds limits relative to a baseline (rise, fall).",
            "Name the run with --baseline, or write max and min.",
        )
    facts = Facts(profile, machine)
    with remembering():
        base = None if baseline is None else _Baseline(Facts(baseline, baseline_machine), facts)
        rows = [row for limit in budget.limits for row in _rows(facts, base, limit, strict)]
    told = tuple(_about(budget, base.conditions)) if base else ()
    return Check(facts, budget, tuple(rows), base.facts if base else None, strict, told)


def _about(budget: Budget, texts: Iterable[str]) -> Iterator[str]:
    """Caveats without the word that there are no ceilings, where no limit needs them."""
    for text in texts:
        if budget.ceilings or not text.startswith(NO_CEILINGS):
            yield text


def _rows(facts: Facts, base: _Baseline | None, limit: Limit, strict: bool) -> Iterator[Row]:
    subjects = facts.subjects(limit.scope)
    if not subjects and not limit.where_known:
        nothing = Reading(math.nan, note=_nothing(limit.scope))
        yield Row(limit, None, nothing, judge(limit, nothing, None))
    for subject in subjects:
        reading = limit.quantity.read(subject)
        before = base.reading(limit, subject) if base and limit.kind.relative else None
        if limit.where_known and not _is_known(before):
            continue
        yield Row(limit, subject, reading, judge(limit, reading, before, strict=strict), before)


def _is_known(reading: Reading | None) -> bool:
    """Whether a run has a number well enough to hold another one against it."""
    if reading is None or math.isnan(reading.value):
        return False
    return reading.known >= NO_VERDICT_COVERAGE


def _nothing(scope: Scope) -> str:
    if not scope.key:
        return "the run holds no launch"
    named = f"no {scope.key.replace('_', ' ')} of this name"
    return f"the run has {named}" + (f" in phase {scope.phase}" if scope.phase else "")


class _Baseline:
    """The run that another one is held against.

    Args:
        facts: The baseline.
        new: The run that is checked.
    """

    def __init__(self, facts: Facts, new: Facts) -> None:
        self.facts = facts
        found = compare(
            facts.profile, new.profile, base_machine=facts.machine, new_machine=new.machine
        )
        self.conditions = conditions(found)
        pairs = match_layers(layers_of(facts.profile), layers_of(new.profile))
        self._layers = {now: before for before, now, _ in pairs if before and now}
        self._elsewhere = _elsewhere(facts, new)

    def reading(self, limit: Limit, subject: Subject) -> Reading:
        """The number of the baseline that a limit is relative to."""
        if self._elsewhere and limit.quantity.timed:
            return Reading(math.nan, note=self._elsewhere)
        before = self._counterpart(limit.scope, subject)
        if before is None:
            return Reading(math.nan, note=NO_BASE)
        return limit.quantity.read(before)

    def _counterpart(self, scope: Scope, subject: Subject) -> Subject | None:
        """The same launches in the baseline: layers by name, shape or order, all else by name."""
        if not scope.key or scope.together:
            found = self.facts.subjects(scope)
            return found[0] if found else None
        name = subject.name
        if scope.key == "layer":
            name = self._layers.get(name, "")
        return self.facts.named(scope.key, scope.phase, name)


def _elsewhere(base: Facts, new: Facts) -> str:
    """Why times of two runs say nothing about one another: other devices; empty where they do."""
    names = [str(one.profile.run.get("device_name") or "") for one in (base, new)]
    if "" in names or names[0].casefold().split() == names[1].casefold().split():
        return ""
    return f"it ran on {names[0]}, this on {names[1]}: times cannot be compared"


def merged(*budgets: Budget) -> Budget:
    """Several budgets as one, in their order.

    Args:
        budgets: At least one.
    """
    limits = [limit for budget in budgets for limit in budget.limits]
    return Budget(tuple(limits), " and ".join(budget.name for budget in budgets))
