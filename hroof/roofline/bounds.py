"""Time bounds of every launch: compute, memory, launch cost, and the name of the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hroof.machine import Machine
from hroof.profile.schema import CONVENTIONS, Convention, bytes_column, flop_column
from hroof.roofline.once import remembered
from hroof.roofline.point import Pair
from hroof.units import MemoryLevel, Pipe, Precision

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]

PAIRS: tuple[Pair, ...] = tuple((pipe, precision) for pipe in Pipe for precision in Precision)
LAUNCH = "launch"
NOTHING = Machine(name="unknown")
"""A machine without any ceiling: every bound is missing."""


def values(launches: pd.DataFrame, name: str) -> Floats:
    """A column as floats, NaN where the column is absent."""
    if name not in launches.columns:
        return np.full(len(launches), np.nan)
    return launches[name].to_numpy(dtype=np.float64)


@remembered
def flop_values(launches: pd.DataFrame, convention: Convention) -> dict[Pair, Floats]:
    """The FLOP columns that hold any number, by (pipe, precision), in fixed order."""
    columns = {pair: values(launches, flop_column(convention, *pair)) for pair in PAIRS}
    return {pair: column for pair, column in columns.items() if not np.isnan(column).all()}


@remembered
def bytes_values(launches: pd.DataFrame) -> dict[MemoryLevel, Floats]:
    """The byte columns that hold any number, nearest level first."""
    columns = {level: values(launches, bytes_column(level)) for level in MemoryLevel}
    return {level: column for level, column in columns.items() if not np.isnan(column).all()}


@remembered
def flop_known(launches: pd.DataFrame, *conventions: Convention) -> Flags:
    """Rows whose FLOP are known by any of the conventions: zero is, NaN in every column is not."""
    known = np.zeros(len(launches), dtype=bool)
    for convention in conventions or CONVENTIONS:
        for column in flop_values(launches, convention).values():
            known |= ~np.isnan(column)
    return known


@remembered
def has_work(launches: pd.DataFrame) -> Flags:
    """Rows with operations of any format, integers included."""
    work = np.zeros(len(launches), dtype=bool)
    for convention in CONVENTIONS:
        for column in flop_values(launches, convention).values():
            work |= column > 0
    return work


def pair_name(pair: Pair) -> str:
    """The name of a compute bound, e.g. ``matrix bf16``."""
    return f"{pair[0]} {pair[1]}"


@dataclass(frozen=True)
class RowTimes:
    """What each row takes at least, in seconds; NaN where a count or a ceiling is missing.

    Attributes:
        pairs: The (pipe, precision) with work in the table.
        parts: Rows × pairs: least FLOP ÷ peak.
        units: Which pairs share an arithmetic unit: their times add up, units overlap.
        compute: Rows: the largest unit's time.
        levels: The memory levels with known bytes and known bandwidth.
        memory: Rows × levels: bytes ÷ bandwidth.
        launch: Rows: launches × launch cost.
        attainable: Rows: the largest of all.
        bound: Rows: index into ``names`` of the largest; -1 where there is none.
    """

    pairs: tuple[Pair, ...]
    parts: Floats
    units: tuple[tuple[int, ...], ...]
    compute: Floats
    levels: tuple[MemoryLevel, ...]
    memory: Floats
    launch: Floats
    attainable: Floats
    bound: Indices

    @property
    def names(self) -> tuple[str, ...]:
        """Names of bounds: the pairs, the levels, the launch."""
        return (*map(pair_name, self.pairs), *(level.label for level in self.levels), LAUNCH)


@remembered
def row_times(launches: pd.DataFrame, machine: Machine) -> RowTimes:
    """Bound every row by every resource of a machine.

    A launch cost alone does not bound a row whose work is unknown: it would pass off any unknown
    op as launch-bound. An aggregate row has resource times but no bound of its own.
    """
    pairs, parts = _parts(launches, machine)
    units = _units(pairs, machine)
    compute = unit_time(parts, units)
    levels, memory = _memory(launches, machine)
    cost = np.nan if machine.launch_cost is None else machine.launch_cost.rate
    launch = values(launches, "launches") * cost
    slowest = _largest(memory)
    bounded = ((compute > 0) | ~np.isnan(slowest)) & ~_aggregate(launches)
    candidates = np.column_stack([compute, memory, launch])
    attainable = np.where(bounded, _largest(candidates), np.nan)
    attainable[~(attainable > 0)] = np.nan
    index = _argmax(candidates)
    first = _largest_part(parts, units)
    bound = np.where(index == 0, first, index - 1 + len(pairs))
    bound[np.isnan(attainable)] = -1
    return RowTimes(pairs, parts, units, compute, levels, memory, launch, attainable, bound)


def _aggregate(launches: pd.DataFrame) -> Flags:
    if "aggregate" not in launches.columns:
        return np.zeros(len(launches), dtype=bool)
    return launches["aggregate"].to_numpy(dtype=bool)


def _parts(launches: pd.DataFrame, machine: Machine) -> tuple[tuple[Pair, ...], Floats]:
    known = flop_known(launches, "least")
    work = {pair: c for pair, c in flop_values(launches, "least").items() if (c > 0).any()}
    columns = []
    for pair, column in work.items():
        seconds = np.nan_to_num(column, nan=0.0) / _peak(machine, pair)
        seconds[column == 0] = 0.0
        seconds[np.isnan(column)] = 0.0
        columns.append(seconds)
    parts = np.column_stack(columns) if columns else np.zeros((len(launches), 0))
    parts[~known] = np.nan
    if not columns:
        # A column of zeros stands for "computes nothing", so that known zero and unknown stay
        # apart.
        return (PAIRS[0],), np.where(known, 0.0, np.nan)[:, None]
    return tuple(work), parts


def _peak(machine: Machine, pair: Pair) -> float:
    ceiling = machine.peaks.get(pair)
    return ceiling.rate if ceiling is not None and ceiling.rate > 0 else float("nan")


def _units(pairs: Sequence[Pair], machine: Machine) -> tuple[tuple[int, ...], ...]:
    """Pairs that share a unit: all with shared pipes, otherwise those of the matrix pipe."""
    everything = tuple(range(len(pairs)))
    if machine.shared_pipes:
        return (everything,)
    matrix = tuple(i for i in everything if pairs[i][0] is Pipe.MATRIX)
    vector = [(i,) for i in everything if pairs[i][0] is not Pipe.MATRIX]
    return (*vector, *([matrix] if matrix else []))


def unit_time(parts: Floats, units: tuple[tuple[int, ...], ...]) -> Floats:
    """Rows × pairs → rows: the largest over units of their pairs' summed times; NaN stays NaN."""
    sums = [parts[:, list(unit)].sum(axis=1) for unit in units]
    return np.asarray(np.max(np.column_stack(sums), axis=1))


def _largest_part(parts: Floats, units: tuple[tuple[int, ...], ...]) -> Indices:
    """Index of the pair with the largest part in the unit that takes longest."""
    sums = np.column_stack([parts[:, list(unit)].sum(axis=1) for unit in units])
    best = _argmax(sums)
    unit_of = np.empty(parts.shape[1], dtype=np.int64)
    for number, unit in enumerate(units):
        unit_of[list(unit)] = number
    return _argmax(np.where(unit_of[None, :] == best[:, None], parts, np.nan))


def _memory(launches: pd.DataFrame, machine: Machine) -> tuple[tuple[MemoryLevel, ...], Floats]:
    columns = {}
    for level, column in bytes_values(launches).items():
        ceiling = machine.bandwidths.get(level)
        if ceiling is not None and ceiling.rate > 0:
            columns[level] = column / ceiling.rate
    stacked = np.column_stack(list(columns.values())) if columns else np.zeros((len(launches), 0))
    return tuple(columns), stacked


def _argmax(candidates: Floats) -> Indices:
    """First column with the largest known value; 0 in rows without any."""
    known = np.where(np.isnan(candidates), -np.inf, candidates)
    return np.asarray(np.argmax(known, axis=1), dtype=np.int64)


def _largest(candidates: Floats) -> Floats:
    """The largest known value of each row, NaN where there is none."""
    if candidates.shape[1] == 0:
        return np.full(len(candidates), np.nan)
    return np.asarray(np.fmax.reduce(candidates, axis=1))


def bounds(launches: pd.DataFrame, machine: Machine) -> pd.DataFrame:
    """Time bounds of each launch (Williams et al. 2009, as times: arXiv 2009.04598).

    Compute bounds use the least FLOP. The times of pairs that share a unit add up: all pairs on a
        machine
    with shared pipes, otherwise those of the matrix pipe; units overlap.

    Args:
        launches: Rows of the launch table.
        machine: The ceilings.

    Returns:
        One row per launch, same index: ``compute``, ``memory``, ``launch`` and ``attainable`` (the
            largest)
        in seconds, NaN where unknown, and ``bound``, the name of the largest (``matrix fp32``,
        ``DRAM``, ``launch``) or None.
    """
    import pandas as pd

    times = row_times(launches, machine)
    names = np.array([*times.names, None], dtype=object)
    columns = {
        "compute": times.compute,
        "memory": _largest(times.memory),
        "launch": times.launch,
        "attainable": times.attainable,
        "bound": pd.Series(names[times.bound], index=launches.index, dtype=object),
    }
    return pd.DataFrame(columns, index=launches.index)


def missing_ceilings(launches: pd.DataFrame, machine: Machine) -> dict[Pair, Flags]:
    """Rows whose least FLOP in a pair have no peak to compare with, by pair."""
    work = flop_values(launches, "least")
    without = {pair: c > 0 for pair, c in work.items() if np.isnan(_peak(machine, pair))}
    return {pair: rows for pair, rows in without.items() if rows.any()}
