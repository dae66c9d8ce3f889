"""Subjects: what a limit is about: the step, or groups of launches whose names match a pattern."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hroof.roofline import (
    Coverage,
    Point,
    Totals,
    captured,
    coverage,
    points,
    select,
    totals,
    wall_times,
)
from hroof.roofline.grouping import group, missing_name

if TYPE_CHECKING:
    from hroof.machine import Machine
    from hroof.profile import Profile

KEYS = ("layer", "block", "layer_type", "phase", "op", "kernel", "family")
"""Grouping keys that a budget can name; the step needs none."""


@dataclass(frozen=True)
class Scope:
    """Which launches a limit is about.

    Attributes:
        key: A grouping key; empty for the whole step.
        pattern: Names of groups, with ``*``, ``?`` and ``[…]``.
        phase: Only this phase of them; empty for all.
        together: All that match as one, instead of each by itself.
    """

    key: str = ""
    pattern: str = ""
    phase: str = ""
    together: bool = False

    @property
    def label(self) -> str:
        """How it is called where nothing of it was found."""
        name = f"{self.key} {self.pattern}".strip() or "step"
        return name + (f", {self.phase}" if self.phase else "")


@dataclass(frozen=True)
class Facts:
    """A run with its ceilings, and what is known of it as a whole.

    Attributes:
        profile: The run.
        machine: Its ceilings, or None.
    """

    profile: Profile
    machine: Machine | None

    @cached_property
    def totals(self) -> Totals:
        """Of the median step."""
        return totals(self.profile, self.machine)

    @cached_property
    def coverage(self) -> Coverage:
        """Shares of the time that are known."""
        return coverage(self.profile)

    @cached_property
    def step_times(self) -> dict[str, float]:
        """Seconds of all launches of each captured step, by its number."""
        return {step.key["step"]: step.time for step in points(self.profile, None, ("step",))}

    @cached_property
    def walls(self) -> tuple[float, ...]:
        """Wall time of each captured step in seconds, as far as it is known."""
        return wall_times(self.profile)

    def subjects(self, scope: Scope) -> list[Subject]:
        """What the run has of a scope, most time first; empty where nothing matches."""
        if scope not in self._found:
            self._found[scope] = list(self._matching(scope))
        return self._found[scope]

    def named(self, key: str, phase: str, name: str) -> Subject | None:
        """One group by its name; None where the run does not have it."""
        return self._groups(key, phase).get(name)

    @cached_property
    def _found(self) -> dict[Scope, list[Subject]]:
        return {}

    @cached_property
    def _grouped(self) -> dict[tuple[str, str], dict[str, Subject]]:
        return {}

    def _matching(self, scope: Scope) -> Iterator[Subject]:
        if scope.together:
            yield from self._together(scope)
            return
        for name, subject in self._groups(scope.key, scope.phase).items():
            if not scope.key or matches(name, scope):
                yield subject

    def _groups(self, key: str, phase: str) -> dict[str, Subject]:
        """The groups of a key by name, of one phase or of all; for the step the only one, without a name."""
        if (key, phase) not in self._grouped:
            keys = tuple(filter(None, (key, "phase" if phase else "")))
            found = self._group(keys, (*keys, "step"))
            wanted = [one for one in found if not phase or one.point.key["phase"] == phase]
            self._grouped[key, phase] = {one.name: one for one in wanted}
        return self._grouped[key, phase]

    def _group(self, keys: tuple[str, ...], with_step: tuple[str, ...]) -> list[Subject]:
        apart: dict[tuple[str, ...], list[Point]] = {}
        for point in points(self.profile, self.machine, with_step):
            apart.setdefault(tuple(point.key[key] for key in keys), []).append(point)
        return [
            Subject(self, point, _in_order(apart.get(tuple(point.key.values()), [])))
            for point in points(self.profile, self.machine, keys)
        ]

    def _together(self, scope: Scope) -> Iterator[Subject]:
        launches = captured(self.profile.launches)
        groups = group(launches, (scope.key,))
        chosen = np.array([matches(key[0], scope) for key in groups.keys], dtype=bool)
        rows = chosen[groups.codes] if len(launches) else np.zeros(0, dtype=bool)
        if scope.phase:
            rows &= np.asarray(launches["phase"].astype(object) == scope.phase, dtype=bool)
        point = select(self.profile, self.machine, rows)
        if point is None:
            return
        count = len({groups.keys[code] for code in np.unique(groups.codes[rows])})
        key = {scope.key: scope.pattern, **({"phase": scope.phase} if scope.phase else {})}
        part = self.profile.replace(launches=launches[rows])
        steps = points(part, self.machine, ("step",))
        yield Subject(self, dataclasses.replace(point, key=key), _in_order(steps), count)


@dataclass(frozen=True)
class Subject:
    """Launches of a run that a limit is held against.

    Attributes:
        facts: The run.
        point: Their numbers in the median step.
        steps: Their numbers in each captured step in which they run.
        count: How many groups they are together; 0 where they are one by itself.
    """

    facts: Facts
    point: Point
    steps: tuple[Point, ...]
    count: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The values of its keys."""
        return tuple(self.point.key.values())

    @property
    def name(self) -> str:
        """Which one it is: a name, or the pattern of those taken together; empty for the step."""
        return self.names[0] if self.names else ""


def matches(name: str, scope: Scope) -> bool:
    """Whether a scope names a group: capitals count, ``*`` stands for dots as well.

    What has no layer (op, kernel, …) is meant only where it is written out: ``(no layer)``. The namespace of an op
    may be left out, as reports do: ``addmm`` is ``aten::addmm``.
    """
    names = {name, name.rpartition("::")[2]} if scope.key == "op" else {name}
    if scope.pattern in names:
        return True
    pattern = translate(scope.pattern)
    return name != missing_name(scope.key) and any(re.match(pattern, one) for one in names)


def _in_order(steps: Sequence[Point]) -> tuple[Point, ...]:
    return tuple(sorted(steps, key=lambda point: int(point.key["step"])))
