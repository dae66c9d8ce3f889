"""Points: groups of launches with their work, bounds and trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    profile: Profile,
    machine: Machine | None = None,
    by: Sequence[str] = ("layer",),
    *,
    most: int | None = None,
    where: Mapping[str, str] | None = None,
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
        most: Only so many points, those of the most time; None: all.
        where: Only the points that have these values of some of the keys; None: all.

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
    keys, times = table.groups.keys, table.time
    wanted = [(list(by).index(key), value) for key, value in (where or {}).items()]
    found = (i for i, key in enumerate(keys) if all(key[at] == value for at, value in wanted))
    ranked = sorted(found, key=lambda i: (-times[i] if times[i] > 0 else 0.0, keys[i]))
    return [table.point(i, dict(zip(by, keys[i], strict=True))) for i in ranked[:most]]


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
    return _Table.build(launches, groups.only(rows), machine or NOTHING).point(0, {})


@dataclass(frozen=True)
class _Table:
    """Everything per group, one list each; ``point`` reads one group out."""

    machine: Machine
    groups: Groups
    spread: list[float]
    launches: list[float]
    time: list[float]
    flop: dict[Pair, list[float]]
    least: dict[Pair, list[float]]
    nbytes: dict[MemoryLevel, list[float]]
    unsized: dict[MemoryLevel, list[float]]
    untimed_flop: list[float]
    untimed_bytes: dict[MemoryLevel, list[float]]
    untimed: list[float]
    uncounted: list[float]
    zero_flop: list[float]
    zero_flop_time: list[float]
    sources: dict[str, list[int]]
    bounds: _Bounds
    no_ceiling: dict[Pair, list[bool]]

    @classmethod
    def build(cls, launches: pd.DataFrame, groups: Groups, machine: Machine) -> _Table:
        duration, count = values(launches, "duration"), values(launches, "launches")
        timeless = np.isnan(duration)
        known = flop_known(launches)
        idle = known & ~has_work(launches)
        sized = {level: ~np.isnan(column) for level, column in bytes_values(launches).items()}
        total = groups.total
        return cls(
            machine=machine,
            groups=groups,
            spread=_spread(groups.step_times),
            launches=total(count),
            time=_or_nan(groups.sum(duration), groups.ever(~timeless)),
            flop={pair: total(c) for pair, c in flop_values(launches, "nominal").items()},
            least={pair: total(c) for pair, c in flop_values(launches, "least").items()},
            nbytes={
                level: _or_nan(groups.sum(values(launches, bytes_column(level))), groups.any(rows))
                for level, rows in sized.items()
            },
            unsized={level: total(duration, ~rows) for level, rows in sized.items()},
            untimed_flop=_floats(launches, groups, timeless),
            untimed_bytes={
                level: total(values(launches, bytes_column(level)), rows & timeless)
                for level, rows in sized.items()
            },
            untimed=total(count, timeless),
            uncounted=total(duration, ~known),
            zero_flop=total(count, idle),
            zero_flop_time=total(duration, idle),
            sources=_sources(launches, groups, known),
            bounds=_Bounds.build(launches, groups, machine),
            no_ceiling={
                pair: groups.any(rows).tolist()
                for pair, rows in missing_ceilings(launches, machine).items()
            },
        )

    def point(self, i: int, key: dict[str, str]) -> Point:
        nbytes = _known_of(self.nbytes, i)
        point = Point(
            key=key,
            launches=self.launches[i],
            time=self.time[i],
            time_spread=self.spread[i],
            flop={pair: column[i] for pair, column in self.flop.items() if column[i] > 0},
            least_flop={pair: column[i] for pair, column in self.least.items() if column[i] > 0},
            nbytes=nbytes,
            bound=self.bounds.bound[i],
            bound_share=self.bounds.share[i],
            attainable_time=_known(self.bounds.attainable[i]),
            fused_time=_known(self.bounds.fused[i]),
            bounded_time=self.bounds.time[i],
            uncounted_time=self.uncounted[i],
            zero_flop_launches=self.zero_flop[i],
            zero_flop_time=self.zero_flop_time[i],
            sources={name: _SOURCES[worst[i]] for name, worst in self.sources.items()},
            compute_time=_known(self.bounds.compute[i]),
            memory_times=_known_of(self.bounds.memory, i),
            launch_time=_known(self.bounds.launch[i]),
            unsized_time={level: self.unsized[level][i] for level in nbytes},
            untimed_flop=self.untimed_flop[i],
            untimed_bytes={level: c[i] for level, c in self.untimed_bytes.items() if c[i]},
        )
        notes = (*point_flags(point, self.machine), *self._notes(i, point))
        return Point(**{**vars(point), "notes": notes}) if notes else point

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


def _floats(launches: pd.DataFrame, groups: Groups, rows: Flags) -> list[float]:
    """Groups: nominal FLOP of floating formats of some rows."""
    columns = flop_values(launches, "nominal").items()
    parts = [groups.sum(column, rows) for (_, q), column in columns if q.is_float]
    return _list(sum(parts, np.zeros(len(groups.keys))))


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

    bound: list[str | None]
    share: list[float]
    attainable: list[float]
    fused: list[float]
    time: list[float]
    compute: list[float]
    memory: dict[MemoryLevel, list[float]]
    launch: list[float]

    @classmethod
    def build(cls, launches: pd.DataFrame, groups: Groups, machine: Machine) -> _Bounds:
        times = row_times(launches, machine)
        duration = values(launches, "duration")
        timed = ~np.isnan(duration)
        if not timed.any():
            timed = ~timed
        bounded = timed & ~np.isnan(times.attainable)
        attainable = _where(groups.any(bounded), groups.sum(times.attainable, bounded))
        bound, share = _largest(groups, times, bounded, attainable)
        memory = _memory(groups, times, timed)
        return cls(
            bound=bound,
            share=share,
            attainable=_list(attainable),
            fused=_list(np.minimum(_fused(launches, groups, times, bounded), attainable)),
            time=groups.total(duration, bounded),
            compute=_list(_compute(groups, times, timed)),
            memory={level: _list(column) for level, column in memory.items()},
            launch=_or_nan(
                groups.sum(times.launch, timed), groups.any(timed & ~np.isnan(times.launch))
            ),
        )


def _largest(
    groups: Groups, times: RowTimes, rows: Flags, attainable: Floats
) -> tuple[list[str | None], list[float]]:
    """Groups: the bound with the largest share of the attainable time, and that share."""
    count = range(len(times.names))
    parts = np.array([groups.sum(times.attainable, rows & (times.bound == i)) for i in count])
    known, best = attainable > 0, np.argmax(parts, axis=0)
    share = np.full(len(known), np.nan)
    np.divide(np.max(parts, axis=0), attainable, out=share, where=known)
    names, places = times.names, zip(best.tolist(), known.tolist(), strict=True)
    return [names[at] if sure else None for at, sure in places], _list(share)


def _compute(groups: Groups, times: RowTimes, rows: Flags) -> Floats:
    """Groups: time of the summed FLOP of rows with a compute bound, on the slowest unit."""
    use = rows & ~np.isnan(times.compute)
    parts = [groups.sum(times.parts[:, i], use) for i in range(times.parts.shape[1])]
    return _where(groups.any(use), unit_time(np.column_stack(parts), times.units))


def _memory(groups: Groups, times: RowTimes, rows: Flags) -> dict[MemoryLevel, Floats]:
    columns = {level: times.memory[:, i] for i, level in enumerate(times.levels)}
    return {
        level: _where(groups.any(rows & ~np.isnan(column)), groups.sum(column, rows))
        for level, column in columns.items()
    }


def _fused(launches: pd.DataFrame, groups: Groups, times: RowTimes, rows: Flags) -> Floats:
    """Groups: bound of the bounded rows' summed work in one launch (or its part of one)."""
    count = groups.sum(values(launches, "launches"), rows)
    launch = groups.sum(times.launch, rows) / np.maximum(count, 1.0)
    candidates = [_compute(groups, times, rows), *_memory(groups, times, rows).values(), launch]
    return np.asarray(np.fmax.reduce(np.column_stack(candidates), axis=1))


def _sources(launches: pd.DataFrame, groups: Groups, known: Flags) -> dict[str, list[int]]:
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
) -> list[int]:
    codes = _source_codes(launches, name)
    of_work, of_any = groups.worst(codes, nonzero), groups.worst(codes, known)
    worst = np.where(of_work >= 0, of_work, of_any)
    found: list[int] = np.where(worst >= 0, worst, _SOURCES.index(Source.MISSING)).tolist()
    return found


@remembered
def _source_codes(launches: pd.DataFrame, name: str) -> Indices:
    """Rows: index of the source in ``_SOURCES``."""
    column = launches[source_column(name)].cat.set_categories(list(_SOURCES))
    codes: Indices = column.cat.codes.to_numpy().astype(np.int64)
    codes[codes < 0] = _SOURCES.index(Source.MISSING)
    return codes


def _where(known: Flags, sums: Floats) -> Floats:
    return np.where(known, sums, np.nan)


def _or_nan(sums: Floats, known: Flags) -> list[float]:
    return _list(_where(known, sums))


def _list(column: Floats) -> list[float]:
    plain: list[float] = column.tolist()
    return plain


def _known(value: float) -> float | None:
    return value if value == value else None


def _known_of(columns: dict[MemoryLevel, list[float]], i: int) -> dict[MemoryLevel, float]:
    return {level: column[i] for level, column in columns.items() if column[i] == column[i]}


def _spread(times: Floats) -> list[float]:
    """Groups × steps → groups: (max − min) ÷ median of the times."""
    spread = np.full(len(times), np.nan)
    if times.shape[1] > 1 and len(times):
        median = np.median(times, axis=1)
        np.divide(np.ptp(times, axis=1), median, out=spread, where=median > 0)
    return _list(spread)
