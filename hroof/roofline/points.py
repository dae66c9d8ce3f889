"""Points: groups of launches with their work, bounds and trust."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hroof.machine import Machine
from hroof.profile.schema import bytes_column, source_column
from hroof.roofline.bounds import (
    NOTHING,
    Flags,
    Floats,
    Indices,
    RowTimes,
    bytes_values,
    flop_known,
    flop_values,
    has_work,
    missing_ceilings,
    pair_name,
    row_times,
    unit_time,
    values,
)
from hroof.roofline.flags import point_flags
from hroof.roofline.grouping import Groups, by_code, captured, check_keys, group
from hroof.roofline.once import remembered
from hroof.roofline.point import Pair, Point
from hroof.units import MemoryLevel, Source, percent

if TYPE_CHECKING:
    import pandas as pd

    from hroof.profile import Profile

_SOURCES = tuple(Source)
_UNSIZED_NOTE_SHARE = 0.05
_FEW_OP, _SMALL_OP_SHARE = 1e3, 1e-3


@remembered
def points(
    profile: Profile, machine: Machine | None = None, by: Sequence[str] = ("layer",)
) -> list[Point]:
    """Place groups of launches on the Roofline of a machine.

    Numbers are per captured step: a group's median step by time (a step without the group counts as
        0).
    Rows outside steps are left out, unless the profile has no steps at all: then all rows are one
        step.
    Several ranks add up unless ``rank`` is a key. A total counts the known values only;
    ``uncounted_time`` and ``unsized_time`` say how much time lacks FLOP and bytes.

    Args:
        profile: What was collected.
        machine: Its ceilings; without them every bound is missing.
        by: Grouping keys: see ``hroof.roofline.grouping.group``.

    Returns:
        Points by falling time, then by key.

    Raises:
        UsageError: A key is unknown or given twice.
    """
    check_keys(by)
    launches = captured(profile.launches)
    if launches.empty:
        return []
    machine = machine or NOTHING
    table = _Table.build(launches, group(launches, by), machine)
    found = [
        table.point(i, dict(zip(by, key, strict=True))) for i, key in enumerate(table.groups.keys)
    ]
    return sorted((_flagged(point, machine) for point in found), key=_order)


@remembered
def select(profile: Profile, machine: Machine | None, rows: Flags) -> Point | None:
    """The point of some rows of the captured steps, per step; a step without them counts as 0.

    Args:
        profile: What was collected.
        machine: Its ceilings, or None.
        rows: Which rows of ``captured(profile.launches)``.

    Returns:
        The point, without a key; None where there are no such rows.
    """
    launches = captured(profile.launches)
    if not rows.any():
        return None
    groups = by_code(launches, (~rows).astype(np.int64), ((), ("others",))[: 2 - int(rows.all())])
    return _flagged(
        _Table.build(launches, groups, machine or NOTHING).point(0, {}), machine or NOTHING
    )


def _flagged(point: Point, machine: Machine) -> Point:
    return dataclasses.replace(point, notes=(*point_flags(point, machine), *point.notes))


def _order(point: Point) -> tuple[float, tuple[str, ...]]:
    return (-point.time if point.time > 0 else 0.0, tuple(point.key.values()))


@dataclass(frozen=True)
class _Table:
    """Everything per group, as arrays; ``point`` reads one group out."""

    groups: Groups
    launches: Floats
    time: Floats
    flop: dict[Pair, Floats]
    least: dict[Pair, Floats]
    nbytes: dict[MemoryLevel, Floats]
    unsized: dict[MemoryLevel, Floats]
    untimed_flop: Floats
    untimed_bytes: dict[MemoryLevel, Floats]
    untimed: Floats
    uncounted: Floats
    zero_flop: Floats
    zero_flop_time: Floats
    sources: dict[str, Indices]
    bounds: _Bounds
    no_ceiling: dict[Pair, Flags]

    @classmethod
    def build(cls, launches: pd.DataFrame, groups: Groups, machine: Machine) -> _Table:
        duration, count = values(launches, "duration"), values(launches, "launches")
        timeless = np.isnan(duration)
        known = flop_known(launches)
        idle = known & ~has_work(launches)
        sized = {level: ~np.isnan(column) for level, column in bytes_values(launches).items()}
        return cls(
            groups=groups,
            launches=groups.sum(count),
            time=_or_nan(groups.sum(duration), groups.ever(~np.isnan(duration))),
            flop={pair: groups.sum(c) for pair, c in flop_values(launches, "nominal").items()},
            least={pair: groups.sum(c) for pair, c in flop_values(launches, "least").items()},
            nbytes={
                level: _or_nan(groups.sum(values(launches, bytes_column(level))), groups.any(rows))
                for level, rows in sized.items()
            },
            unsized={level: groups.sum(duration, ~rows) for level, rows in sized.items()},
            untimed_flop=_floats(launches, groups, timeless),
            untimed_bytes={
                level: groups.sum(values(launches, bytes_column(level)), rows & timeless)
                for level, rows in sized.items()
            },
            untimed=groups.sum(count, timeless),
            uncounted=groups.sum(duration, ~known),
            zero_flop=groups.sum(count, idle),
            zero_flop_time=groups.sum(duration, idle),
            sources=_sources(launches, groups, known),
            bounds=_Bounds.build(launches, groups, machine),
            no_ceiling={
                p: groups.any(rows) for p, rows in missing_ceilings(launches, machine).items()
            },
        )

    def point(self, i: int, key: dict[str, str]) -> Point:
        bound, share = self.bounds.name(i)
        point = Point(
            key=key,
            launches=float(self.launches[i]),
            time=float(self.time[i]),
            time_spread=_spread(self.groups.step_times[i]),
            flop=_positive(self.flop, i),
            least_flop=_positive(self.least, i),
            nbytes={level: float(c[i]) for level, c in self.nbytes.items() if not np.isnan(c[i])},
            bound=bound,
            bound_share=share,
            attainable_time=_known(self.bounds.attainable[i]),
            fused_time=_known(self.bounds.fused[i]),
            bounded_time=float(self.bounds.time[i]),
            uncounted_time=float(self.uncounted[i]),
            zero_flop_launches=float(self.zero_flop[i]),
            zero_flop_time=float(self.zero_flop_time[i]),
            sources={name: _SOURCES[worst[i]] for name, worst in self.sources.items()},
            compute_time=_known(self.bounds.compute[i]),
            memory_times={
                level: float(c[i]) for level, c in self.bounds.memory.items() if not np.isnan(c[i])
            },
            launch_time=_known(self.bounds.launch[i]),
            unsized_time={
                level: float(c[i])
                for level, c in self.unsized.items()
                if not np.isnan(self.nbytes[level][i])
            },
            untimed_flop=float(self.untimed_flop[i]),
            untimed_bytes={level: float(c[i]) for level, c in self.untimed_bytes.items() if c[i]},
        )
        return dataclasses.replace(point, notes=tuple(self._notes(i, point)))

    def _notes(self, i: int, point: Point) -> list[str]:
        without = [
            pair_name(pair)
            for pair, rows in self.no_ceiling.items()
            if rows[i] and _matters(pair, point)
        ]
        notes = [f"No ceiling for {name}: its compute bound is missing." for name in without]
        for level, seconds in point.unsized_time.items():
            if seconds > _UNSIZED_NOTE_SHARE * point.time:
                share = percent(1 - seconds / point.time)
                notes.append(f"Bytes at {level.label} are known for {share} of the time only.")
        if 0 < self.untimed[i] < point.launches:
            part = f"{self.untimed[i]:g} of {point.launches:g} launches"
            notes.append(f"No time is known of {part}: rates are those of the others.")
        return notes


def _floats(launches: pd.DataFrame, groups: Groups, rows: Flags) -> Floats:
    """Groups: nominal FLOP of floating formats of some rows."""
    columns = flop_values(launches, "nominal").items()
    parts = [groups.sum(column, rows) for (_, q), column in columns if q.is_float]
    return np.asarray(sum(parts, np.zeros(len(groups.keys))))


def _matters(pair: Pair, point: Point) -> bool:
    """Whether the work of a pair can take a share of the time: a few indices cannot."""
    if pair[1].is_float:
        return True
    work = point.least_flop.get(pair, 0.0)
    flop = sum(value for (_, q), value in point.least_flop.items() if q.is_float)
    return work >= _FEW_OP and work >= _SMALL_OP_SHARE * flop


@dataclass(frozen=True)
class _Bounds:
    """Bounds per group, over the rows whose duration is known (over all where none is)."""

    names: tuple[str, ...]
    by_name: Floats
    attainable: Floats
    fused: Floats
    time: Floats
    compute: Floats
    memory: dict[MemoryLevel, Floats]
    launch: Floats

    @classmethod
    def build(cls, launches: pd.DataFrame, groups: Groups, machine: Machine) -> _Bounds:
        times = row_times(launches, machine)
        duration = values(launches, "duration")
        timed = ~np.isnan(duration)
        if not timed.any():
            timed = ~timed
        bounded = timed & ~np.isnan(times.attainable)
        by_name = [
            groups.sum(times.attainable, bounded & (times.bound == i))
            for i in range(len(times.names))
        ]
        attainable = _or_nan(groups.sum(times.attainable, bounded), groups.any(bounded))
        fused = np.minimum(_fused(launches, groups, times, bounded), attainable)
        return cls(
            names=times.names,
            by_name=np.column_stack(by_name),
            attainable=attainable,
            fused=fused,
            time=groups.sum(duration, bounded),
            compute=_compute(groups, times, timed),
            memory=_memory(groups, times, timed),
            launch=_or_nan(
                groups.sum(times.launch, timed), groups.any(timed & ~np.isnan(times.launch))
            ),
        )

    def name(self, i: int) -> tuple[str | None, float]:
        """The bound with the largest share of the attainable time, and that share."""
        if not self.attainable[i] > 0:
            return None, float("nan")
        largest = int(np.argmax(self.by_name[i]))
        return self.names[largest], float(self.by_name[i, largest] / self.attainable[i])


def _compute(groups: Groups, times: RowTimes, rows: Flags) -> Floats:
    """Groups: time of the summed FLOP of rows with a compute bound, on the slowest unit."""
    use = rows & ~np.isnan(times.compute)
    parts = [groups.sum(times.parts[:, i], use) for i in range(times.parts.shape[1])]
    return _or_nan(unit_time(np.column_stack(parts), times.units), groups.any(use))


def _memory(groups: Groups, times: RowTimes, rows: Flags) -> dict[MemoryLevel, Floats]:
    columns = {level: times.memory[:, i] for i, level in enumerate(times.levels)}
    return {
        level: _or_nan(groups.sum(column, rows), groups.any(rows & ~np.isnan(column)))
        for level, column in columns.items()
    }


def _fused(launches: pd.DataFrame, groups: Groups, times: RowTimes, rows: Flags) -> Floats:
    """Groups: bound of the bounded rows' summed work in one launch (or its part of one)."""
    count = groups.sum(values(launches, "launches"), rows)
    launch = groups.sum(times.launch, rows) / np.maximum(count, 1.0)
    candidates = [_compute(groups, times, rows), *_memory(groups, times, rows).values(), launch]
    return np.asarray(np.fmax.reduce(np.column_stack(candidates), axis=1))


def _sources(launches: pd.DataFrame, groups: Groups, known: Flags) -> dict[str, Indices]:
    duration = values(launches, "duration")
    quantities: dict[str, tuple[Flags, Flags]] = {
        "time": (~np.isnan(duration), duration > 0),
        "flop": (known, has_work(launches)),
    }
    for level, column in bytes_values(launches).items():
        quantities[level.value] = (~np.isnan(column), column > 0)
    return {
        name: _worst_source(launches, groups, name, rows, nonzero)
        for name, (rows, nonzero) in quantities.items()
    }


def _worst_source(
    launches: pd.DataFrame, groups: Groups, name: str, known: Flags, nonzero: Flags
) -> Indices:
    column = launches[source_column(name)].cat.set_categories(list(_SOURCES))
    missing = _SOURCES.index(Source.MISSING)
    codes: Indices = column.cat.codes.to_numpy().astype(np.int64)
    codes[codes < 0] = missing
    of_work, of_any = groups.worst(codes, nonzero), groups.worst(codes, known)
    worst = np.where(of_work >= 0, of_work, of_any)
    return np.where(worst >= 0, worst, missing)


def _or_nan(sums: Floats, known: Flags) -> Floats:
    return np.where(known, sums, np.nan)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _positive(columns: dict[Pair, Floats], i: int) -> dict[Pair, float]:
    return {pair: float(column[i]) for pair, column in columns.items() if column[i] > 0}


def _spread(times: Floats) -> float:
    median = float(np.median(times))
    if len(times) < 2 or not median > 0:
        return float("nan")
    return float(times.max() - times.min()) / median
