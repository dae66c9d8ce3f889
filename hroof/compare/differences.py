"""Differences: two runs per phase, layer and kernel, in numbers that add up to the difference of a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hroof.compare.matching import How, Pairs, layers_of, match_layers, match_names
from hroof.compare.noise import Change, Judged, judge
from hroof.errors import UsageError
from hroof.roofline import Point, captured, points, remembering, undisturbed_step, wall_times
from hroof.roofline.grouping import group
from hroof.units import MemoryLevel, Source

if TYPE_CHECKING:
    from hroof.machine import Machine
    from hroof.profile import Profile

HARDWARE = frozenset({Source.COUNTER, Source.MEASURED})
PAPER = frozenset({Source.COUNTED, Source.CONVENTION})
"""Sources whose numbers mean the same; predicted ones are alike among themselves only."""
_EQUAL = 1e-9


@dataclass(frozen=True)
class Side:
    """One of the two runs.

    Attributes:
        name: Of the run.
        profile: All of it.
        machine: Its ceilings, or None.
        typical: Its median step alone (of an even number of steps the two in the middle), by the time of all launches:
            within one step the numbers of layers add up.
        walls: Wall time of each captured step in seconds, as far as it is known.
    """

    name: str
    profile: Profile
    machine: Machine | None
    typical: Profile
    walls: tuple[float, ...]

    @property
    def undisturbed(self) -> float | None:
        """Seconds of a step on which nothing was collected, or None."""
        return undisturbed_step(self.profile)


@dataclass(frozen=True)
class Part:
    """A group of launches in one of the runs.

    Attributes:
        name: Of the layer, phase or kernel.
        point: Its numbers in the median step.
        times: Seconds of each captured step.
        phases: Its points by phase in the median step; of layers only.
    """

    name: str
    point: Point
    times: tuple[float, ...]
    phases: Mapping[str, Point] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """A group of launches in both runs, or in one of them only.

    Attributes:
        base: None: it is new.
        new: None: it is gone.
        how: How the two were found to be the same.
        judged: Whether its time differs by more than noise.
    """

    base: Part | None
    new: Part | None
    how: How
    judged: Judged

    @property
    def name(self) -> str:
        """Its name, or both where they differ."""
        before, after = (part.name if part else "" for part in (self.base, self.new))
        return f"{before} → {after}" if before and after and before != after else before or after

    @property
    def change(self) -> Change:
        """What became of it."""
        return self.judged.change

    @property
    def times(self) -> tuple[float, float]:
        """Seconds per step in both runs: 0 where it is not part of the run, NaN where not known."""
        return _of(self.base, lambda p: p.time), _of(self.new, lambda p: p.time)

    @property
    def time(self) -> float:
        """Difference of its seconds per step, new − base."""
        return _minus(*self.times)

    @property
    def ratio(self) -> float:
        """How many times as fast it has become, base ÷ new; NaN where that is not known or without meaning."""
        before, after = self.times
        return before / after if before > 0 and after > 0 else math.nan

    @property
    def flops(self) -> tuple[float, float]:
        """Nominal FLOP per step in both runs."""
        return _of(self.base, lambda p: p.total_flop), _of(self.new, lambda p: p.total_flop)

    @property
    def flop(self) -> float:
        """Difference of its nominal FLOP per step; NaN where one is from counters and the other is not."""
        return _minus(*self.flops) if self.comparable("flop") else math.nan

    @property
    def counts(self) -> tuple[float, float]:
        """Launches per step in both runs."""
        return _of(self.base, lambda p: p.launches), _of(self.new, lambda p: p.launches)

    @property
    def launches(self) -> float:
        """Difference of its launches per step."""
        return _minus(*self.counts)

    @property
    def levels(self) -> list[MemoryLevel]:
        """Levels at which bytes are known in one of the runs, nearest first."""
        known = [part.point.nbytes for part in (self.base, self.new) if part]
        return [level for level in MemoryLevel if any(level in nbytes for nbytes in known)]

    def sizes(self, level: MemoryLevel) -> tuple[float, float]:
        """Bytes per step at a level in both runs."""
        return (
            _of(self.base, lambda p: p.nbytes.get(level, math.nan)),
            _of(self.new, lambda p: p.nbytes.get(level, math.nan)),
        )

    def nbytes(self, level: MemoryLevel) -> float:
        """Difference of its bytes per step; NaN where they are not known, or not of one kind."""
        return _minus(*self.sizes(level)) if self.comparable(level.value) else math.nan

    def comparable(self, quantity: str) -> bool:
        """Whether both runs got a quantity in the same manner: counted with counted, counters with counters.

        Args:
            quantity: ``time``, ``flop`` or a memory level, as in ``Point.sources``.
        """
        if self.base is None or self.new is None:
            return True
        kinds = [kind_of(part.point.sources.get(quantity)) for part in (self.base, self.new)]
        return kinds[0] == kinds[1] or None in kinds

    @property
    def headrooms(self) -> tuple[float, float]:
        """Headroom in both runs, each against its own ceilings; NaN where not known."""
        found = [part.point.headroom if part else None for part in (self.base, self.new)]
        before, after = (math.nan if value is None else value for value in found)
        return before, after

    @property
    def headroom(self) -> float:
        """Difference of the headrooms; NaN where one is not known."""
        return _minus(*self.headrooms)


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side; all numbers are per step.

    Attributes:
        base: The run to compare with.
        new: The other one.
        total: The whole step.
        phases: By phase, the largest difference first.
        layers: By layer.
        kernels: By kernel, op or family, see ``unit``.
        unit: ``kernel`` where both runs know kernels, else ``op``, and ``family`` where the frameworks differ.
        wall: The wall time of a step, judged; the numbers are ``walls``.
        walls: Median wall times in seconds; NaN where not known.
    """

    base: Side
    new: Side
    total: Difference
    phases: tuple[Difference, ...]
    layers: tuple[Difference, ...]
    kernels: tuple[Difference, ...]
    unit: str
    wall: Judged
    walls: tuple[float, float]

    def tables(self) -> dict[str, tuple[Difference, ...]]:
        """The three tables by what their rows are."""
        return {"phase": self.phases, "layer": self.layers, self.unit: self.kernels}

    def rest(self, rows: Iterable[Difference]) -> float:
        """Seconds of the total difference that the rows do not explain: those whose time one run does not know."""
        known = [row.time for row in rows if not math.isnan(row.time)]
        rest = self.total.time - math.fsum(known)
        scale = max((abs(time) for time in self.total.times), default=0.0)
        return 0.0 if abs(rest) <= _EQUAL * scale else rest


@remembering()
def compare(
    base: Profile,
    new: Profile,
    *,
    base_machine: Machine | None = None,
    new_machine: Machine | None = None,
) -> Comparison:
    """Compare two runs: two precisions, commits, frameworks or machines.

    Args:
        base: The run to compare with.
        new: The other one.
        base_machine: Ceilings of ``base``; without them it has no headroom.
        new_machine: Ceilings of ``new``.

    Raises:
        UsageError: A run holds no launch, or one has steps and the other has none.
    """
    _check(base, new)
    sides = _side(base, base_machine), _side(new, new_machine)
    unit = _unit(base, new)
    walls = tuple(float(np.median(side.walls)) if side.walls else math.nan for side in sides)
    return Comparison(
        base=sides[0],
        new=sides[1],
        total=_total(*sides),
        phases=_table(*sides, "phase"),
        layers=_table(*sides, "layer"),
        kernels=_table(*sides, unit),
        unit=unit,
        wall=judge(sides[0].walls, sides[1].walls, walls[1] - walls[0]),
        walls=(walls[0], walls[1]),
    )


def _check(base: Profile, new: Profile) -> None:
    named = (("BASE", base), ("NEW", new))
    for side, profile in named:
        if profile.launches.empty:
            raise UsageError(
                f"{side} ({profile.name}) holds no launch: there is nothing to compare.",
                "Collect it again, with at least one whole step.",
            )
    without = [side for side, profile in named if profile.step_count == 0]
    if len(without) == 1:
        raise UsageError(
            f"The launches of {without[0]} belong to no step, those of the other run do: a sum over a whole run and a "
            "step cannot be compared.",
            "Mark the steps in both runs (hroof.region, hroof run), or in none.",
        )


def _side(profile: Profile, machine: Machine | None) -> Side:
    return Side(profile.name, profile, machine, typical(profile), wall_times(profile))


def typical(profile: Profile) -> Profile:
    """The median step of a run by the time of all launches; with an even number of steps the two in the middle.

    Points of this are means of the steps that are left, the same ones for every group: they add up.
    """
    launches = captured(profile.launches)
    whole = group(launches, ("step",))
    steps = [int(key[0]) for key in whole.keys]
    order = sorted(range(len(steps)), key=lambda i: (whole.step_times[i].sum(), steps[i]))
    middle = {steps[order[(len(order) - 1) // 2]], steps[order[len(order) // 2]]}
    return profile.replace(launches=launches[launches["step"].isin(middle)])


def _unit(base: Profile, new: Profile) -> str:
    if all(profile.launches["kernel"].notna().any() for profile in (base, new)):
        return "kernel"
    return "op" if base.run.get("framework") == new.run.get("framework") else "family"


def _total(base: Side, new: Side) -> Difference:
    before, after = _parts(base, ())[""], _parts(new, ())[""]
    return _difference(before, after, How.NAME)


def _table(base: Side, new: Side, key: str) -> tuple[Difference, ...]:
    """The rows of one table, the largest difference first, then the longest, then by name."""
    before, after = _parts(base, (key,)), _parts(new, (key,))
    rows = [
        _difference(before.get(old or ""), after.get(now or ""), how)
        for old, now, how in _pairs(base, new, key, (before, after))
    ]
    return tuple(sorted(rows, key=_order))


def _pairs(
    base: Side, new: Side, key: str, parts: tuple[Mapping[str, Part], Mapping[str, Part]]
) -> Pairs:
    if key == "layer":
        return match_layers(layers_of(base.profile), layers_of(new.profile))
    return match_names(*parts)


def _order(row: Difference) -> tuple[float, float, str]:
    known = 0.0 if math.isnan(row.time) else abs(row.time)
    return -known, -max((t for t in row.times if t > 0), default=0.0), row.name


def _parts(side: Side, by: Sequence[str]) -> dict[str, Part]:
    """The groups of a run by name; the whole step has an empty one."""
    launches = captured(side.profile.launches)
    groups = group(launches, by)
    times = {"".join(key): row for key, row in zip(groups.keys, groups.step_times, strict=True)}
    phases = _phases(side) if by == ("layer",) else {}
    found = {"".join(p.key.values()): p for p in points(side.typical, side.machine, by)}
    return {
        name: Part(
            name, found.get(name) or _idle(name, by), tuple(map(float, steps)), phases.get(name, {})
        )
        for name, steps in times.items()
    }


def _idle(name: str, by: Sequence[str]) -> Point:
    """A group that runs in other steps than the median one: part of the run, without time in that step."""
    key = dict.fromkeys(by, name)
    return Point(key, 0.0, 0.0, math.nan, {}, {}, {}, None, math.nan, None, None, 0.0, 0.0, 0.0, {})


def _phases(side: Side) -> dict[str, dict[str, Point]]:
    """The points of each layer by phase."""
    result: dict[str, dict[str, Point]] = {}
    for point in points(side.typical, None, ("layer", "phase")):
        result.setdefault(point.key["layer"], {})[point.key["phase"]] = point
    return result


def _difference(base: Part | None, new: Part | None, how: How) -> Difference:
    if base is None or new is None:
        return Difference(base, new, how, Judged(Change.GONE if base else Change.NEW, math.nan))
    judged = judge(base.times, new.times, new.point.time - base.point.time)
    return Difference(base, new, how, judged)


def _of(part: Part | None, value: Callable[[Point], float]) -> float:
    """A number of a part; nothing at all where the run does not have it."""
    return 0.0 if part is None else value(part.point)


def _minus(base: float, new: float) -> float:
    return new - base


def kind_of(source: Source | None) -> str | None:
    """What the numbers of a source can be compared with; None: nothing is known."""
    if source in HARDWARE:
        return "hardware"
    if source in PAPER:
        return "paper"
    return "predicted" if source is Source.PREDICTED else None
