"""Chains: neighbouring ops of which one reads what the other wrote, and the traffic that fusing them would remove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hroof.findings.context import Context, Flags, Floats
from hroof.roofline import Point

if TYPE_CHECKING:
    import pandas as pd

_PLACE = ("rank", "step", "stream")
_SAME_SIZE = 1 - 1e-9


@dataclass(frozen=True)
class Chains:
    """Ops that stand in a chain with a neighbour.

    Attributes:
        rows: Rows of the launches in chains of two or more.
        count: How many chains a step has, on average.
        removed: Share of the chains' bytes (read and written, as counted from shapes) that cross between two of their
            ops, so that fusing could remove them; NaN where no bytes are known.
    """

    rows: Flags
    count: float
    removed: float


@dataclass(frozen=True)
class _Launches:
    """Whole launches that move something, in the order in which they ran."""

    first: np.ndarray
    rows: np.ndarray
    number: np.ndarray
    read: Floats
    written: Floats

    @classmethod
    def of(cls, run: Context) -> _Launches:
        """Put the parts of each launch together; views and allocations, which move nothing, stand in no chain's way."""
        table = run.launches
        read, written = run.column("bytes_read"), run.column("bytes_written")
        rows = np.flatnonzero(~(read + written == 0))
        keys = [run.column("start"), *(table[name].to_numpy() for name in reversed(_PLACE))]
        rows = rows[np.lexsort([rows, *(key[rows] for key in keys)])]
        names = np.column_stack([table["launch_id"].to_numpy(), table["rank"].to_numpy()])[rows]
        begins = np.ones(len(rows), dtype=bool)
        begins[1:] = (names[1:] != names[:-1]).any(axis=1)
        number = np.cumsum(begins) - 1
        count = int(begins.sum())
        sums = [np.bincount(number, of[rows], count).astype(np.float64) for of in (read, written)]
        return cls(rows[begins], rows, number, *sums)


def chains(run: Context, able: Flags, elementwise: Flags) -> Chains:
    """Find the chains of a run.

    Two launches belong together where the second follows the first on the same stream of the same rank, step and
    phase, at least one of them is elementwise, and the second reads as much as the first has written or more. The
    table does not say which buffers they touch: what is found is a limit, not a count.

    Args:
        run: The run.
        able: Rows that could be fused with a neighbour.
        elementwise: Those of them that work on each element alone.
    """
    ops = _Launches.of(run)
    linked = _links(run.launches, ops, able, elementwise)
    inside = np.zeros(len(ops.first), dtype=bool)
    inside[:-1] |= linked
    inside[1:] |= linked
    starts = inside.copy()
    starts[1:] &= ~linked
    moved = float(np.nansum((ops.read + ops.written)[inside]))
    crossing = 2 * float(np.nansum(ops.written[:-1][linked & ~np.isnan(ops.read[1:])]))
    rows = np.zeros(len(run.launches), dtype=bool)
    rows[ops.rows[inside[ops.number]]] = True
    steps = max(run.totals.steps, 1)
    return Chains(rows, float(starts.sum()) / steps, crossing / moved if moved else float("nan"))


def _links(table: pd.DataFrame, ops: _Launches, able: Flags, elementwise: Flags) -> Flags:
    """Whether each launch but the last is the first of a pair."""
    first = ops.first
    phase = table["phase"].cat.codes.to_numpy()
    linked = np.ones(max(len(first) - 1, 0), dtype=bool)
    for column in (phase, *(table[name].to_numpy() for name in _PLACE)):
        linked &= column[first][1:] == column[first][:-1]
    fits, known = able[first], elementwise[first]
    linked &= fits[1:] & fits[:-1] & (known[1:] | known[:-1])
    # A launch of unknown size may belong to its neighbour as well as not: such pairs count, without traffic.
    too_small = ops.read[1:] < _SAME_SIZE * ops.written[:-1]
    return np.asarray(linked & ~too_small & ~(ops.written[:-1] == 0), dtype=bool)


def fused_time(point: Point, removed: float, launches: float) -> float:
    """Seconds that the work of a point takes at least in fewer launches that pass less traffic on.

    Args:
        point: The work as it is launched now.
        removed: Share of its traffic that goes; each level is taken to lose the same share.
        launches: How many launches are left.
    """
    left = 1 - removed if removed == removed else 1.0
    cost = (point.launch_time or 0.0) * min(launches / max(point.launches, 1.0), 1.0)
    return max(point.compute_time or 0.0, cost, *(left * t for t in point.memory_times.values()))
