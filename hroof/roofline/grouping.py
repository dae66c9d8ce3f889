"""Grouping: which group a launch belongs to, and which rows stand for the median step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hroof.errors import UsageError
from hroof.kernels import Family, family, op_family
from hroof.roofline.bounds import Flags, Floats, Indices, values
from hroof.roofline.once import remembered

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "layer", "layer_type", "phase", "op", "kernel", "step", "device", "rank", "recompute",
)  # fmt: skip
BLOCK = "block"
FAMILY = "family"
_FEW = 8
"""So many groups are summed one by one: sorting values is faster than sorting places."""
_DEPTH = re.compile(r"^depth\s?([1-9]\d*)$")


def block_of(layer: str) -> str:
    """The block of a layer path: up to its first number inclusive, or its first component.

    ``blocks.0.attn.qkv`` → ``blocks.0``; ``head.proj`` → ``head``.
    """
    parts = layer.split(".")
    numbers = [i for i, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[0] + 1]) if numbers else parts[0]


def cut(layer: str, depth: int) -> str:
    """The first ``depth`` components of a layer path."""
    return ".".join(layer.split(".")[:depth])


def missing_name(key: str) -> str:
    """How a group of rows without the key is called, e.g. ``(no layer)``."""
    column = "layer" if key == BLOCK or _DEPTH.match(key) else key
    return f"(no {column.replace('_', ' ')})"


def usual_key(launches: pd.DataFrame) -> str:
    """What a reader asks for first: ``layer``, or ``kernel`` where a tool knew kernels but no layer."""
    bare = launches["layer"].isna().all() and launches["kernel"].notna().any()
    return "kernel" if bare else "layer"


@remembered
def captured(launches: pd.DataFrame) -> pd.DataFrame:
    """The rows inside captured steps; every row where there are no steps at all.

    A negative duration is no time: it counts as not known.
    """
    inside = launches["step"].to_numpy() >= 0
    chosen = launches[inside] if inside.any() and not inside.all() else launches
    negative = chosen["duration"].to_numpy() < 0
    if not negative.any():
        return chosen
    return chosen.assign(duration=chosen["duration"].mask(negative))


@dataclass(frozen=True)
class Groups:
    """The groups of a table and the group of each row.

    Attributes:
        keys: One value per grouping key for each group, sorted.
        codes: Rows: index of the group.
        weights: Rows: 1 in the group's median step, ½ in each of the two middle ones, else 0.
        step_times: Groups × steps: sum of the durations in seconds.
    """

    keys: tuple[tuple[str, ...], ...]
    codes: Indices
    weights: Floats
    step_times: Floats

    @cached_property
    def _live(self) -> tuple[Indices, Indices, Floats]:
        """The rows of the median steps, the only ones that count in sums; their groups and weights."""
        rows = np.flatnonzero(self.weights > 0)
        return rows, self.codes[rows], self.weights[rows]

    def sum(self, column: Floats, rows: Flags | None = None) -> Floats:
        """Per group and step: the sum of the known values of a column (of some rows)."""
        live, codes, weights = self._live
        use = None if rows is None else rows[live]
        if use is not None and not use.any():
            return np.zeros(len(self.keys))
        return sum_by(codes, column[live] * weights, len(self.keys), use)

    def total(self, column: Floats, rows: Flags | None = None) -> list[float]:
        """The same as plain numbers, one per group."""
        plain: list[float] = self.sum(column, rows).tolist()
        return plain

    def only(self, rows: Flags) -> Groups:
        """The same groups, of which only some rows count in sums."""
        return self if rows.all() else replace(self, weights=np.where(rows, self.weights, 0.0))

    def any(self, rows: Flags) -> Flags:
        """Groups that have at least one of the rows in their median step."""
        live, codes, _ = self._live
        return np.bincount(codes[rows[live]], minlength=len(self.keys)) > 0

    def ever(self, rows: Flags) -> Flags:
        """Groups that have at least one of the rows in any step."""
        return np.bincount(self.codes[rows], minlength=len(self.keys)) > 0

    def worst(self, column: Indices, rows: Flags) -> Indices:
        """Per group the largest of a column over some rows; -1 for groups without any."""
        result = np.full(len(self.keys), -1, dtype=np.int64)
        np.maximum.at(result, self.codes[rows], column[rows])
        return result


def sum_by(codes: Indices, column: Floats, count: int, rows: Flags | None = None) -> Floats:
    """Sum the known values by group, smallest first: the order of rows does not matter."""
    use = (column < 0) | (column > 0)  # neither zeros, which add nothing, nor NaN
    if rows is not None:
        use &= rows
    used = column[use]
    if count <= _FEW:
        return np.array([_ascending(used[codes[use] == group]) for group in range(count)])
    order = np.argsort(used)  # equal values change places without changing a sum
    return np.bincount(codes[use][order], weights=used[order], minlength=count).astype(np.float64)


def _ascending(values: Floats) -> float:
    """The sum, smallest first and one after another, as ``np.bincount`` adds them."""
    return float(np.cumsum(np.sort(values))[-1]) if len(values) else 0.0


@remembered
def group(launches: pd.DataFrame, by: Sequence[str]) -> Groups:
    """Group rows by keys.

    Args:
        launches: Rows of captured steps.
        by: Columns (``layer``, ``layer_type``, ``phase``, ``op``, ``kernel``, ``step``, ``device``,
            ``rank``, ``recompute``), ``block``, ``family`` (what the kernel does, by its name, else by
            the op's) or ``depth1``, ``depth2``, … An empty one gives one group.

    Raises:
        UsageError: A key is unknown or given twice.
    """
    check_keys(by)
    codes, keys = _combine(launches, by)
    return by_code(launches, codes, keys, one_step="step" in by)


def by_code(
    launches: pd.DataFrame,
    codes: Indices,
    keys: tuple[tuple[str, ...], ...],
    *,
    one_step: bool = False,
) -> Groups:
    """Group rows by a code each.

    Args:
        launches: Rows of captured steps.
        codes: Rows: index into ``keys``.
        keys: One per group.
        one_step: Each group lies in one step, so that there is no median to take.
    """
    count, step_of = _steps(launches)
    if one_step:
        count, step_of = min(count, 1), np.zeros_like(step_of)
    shape = (len(keys), max(count, 1))
    cells = codes * shape[1] + step_of
    times = sum_by(cells, values(launches, "duration"), shape[0] * shape[1]).reshape(shape)
    weights = _median_weights(times)
    return Groups(keys, codes, weights[codes, step_of], times)


@remembered
def _steps(launches: pd.DataFrame) -> tuple[int, Indices]:
    """How many steps there are, and the number of each row's step among them."""
    steps, step_of = np.unique(launches["step"].to_numpy(dtype=np.int64), return_inverse=True)
    return len(steps), step_of


def check_keys(by: Sequence[str]) -> None:
    """Refuse unknown or repeated keys.

    Raises:
        UsageError: A key is unknown or given twice.
    """
    known = (*COLUMNS, BLOCK, FAMILY)
    for key in by:
        if key not in known and not _DEPTH.match(key):
            raise UsageError(
                f"There is no grouping key {key!r}.",
                f"Known: {', '.join(known)}, depth1, depth2, …",
            )
    if len(set(by)) != len(by):
        raise UsageError(f"A grouping key is given twice: {', '.join(by)}.", "Give each key once.")


def _combine(
    launches: pd.DataFrame, by: Sequence[str]
) -> tuple[Indices, tuple[tuple[str, ...], ...]]:
    combined = np.zeros(len(launches), dtype=np.int64)
    names: list[list[str]] = []
    digits: list[Indices] = []
    for key in by:
        codes, labels = _labels(launches, key)
        combined = combined * max(len(labels), 1) + codes
        # Renumbered at each key, so that the product of many keys does not overflow.
        kept, combined = np.unique(combined, return_inverse=True)
        digits = [digit[kept // max(len(labels), 1)] for digit in digits]
        digits.append(kept % max(len(labels), 1))
        names.append(labels)
    count = int(combined.max()) + 1 if len(combined) else 0
    keys = tuple(
        tuple(labels[digit[i]] for labels, digit in zip(names, digits, strict=True))
        for i in range(count)
    )
    return combined, keys


def _labels(launches: pd.DataFrame, key: str) -> tuple[Indices, list[str]]:
    """Code of each row and the sorted, distinct names that the codes stand for."""
    depth = _DEPTH.match(key)
    if key == FAMILY:
        codes, raw = _families(launches)
    else:
        codes, raw = _factorize(launches["layer" if key == BLOCK or depth else key])
    if depth:
        raw = [cut(name, int(depth.group(1))) for name in raw]
    elif key == BLOCK:
        raw = [block_of(name) for name in raw]
    raw.append(missing_name(key))
    labels = sorted(set(raw))
    position = {name: i for i, name in enumerate(labels)}
    return np.array([position[name] for name in raw], dtype=np.int64)[codes], labels


def _families(launches: pd.DataFrame) -> tuple[Indices, list[str]]:
    """The family by the kernel's name; by the op's where there is no kernel or its name says nothing."""
    families = list(Family)
    kernel_of, kernels = _factorize(launches["kernel"])
    op_of, ops = _factorize(launches["op"])
    of_kernel = np.array([*(families.index(family(name)) for name in kernels), -1])[kernel_of]
    of_op = np.array([*(families.index(op_family(name)) for name in ops), -1])[op_of]
    silent = (of_kernel < 0) | (of_kernel == families.index(Family.OTHER))
    codes = np.where(silent & (of_op >= 0), of_op, of_kernel)
    return codes.astype(np.int64), [str(each) for each in families]


def _factorize(column: pd.Series) -> tuple[Indices, list[str]]:
    """Codes and names; a missing value has code -1, the last of a list that grows by one."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy().astype(np.int64)
        return codes, [str(name) for name in column.cat.categories]
    plain = column.astype(str).str.lower() if column.dtype == bool else column.astype(str)
    number, uniques = pd.factorize(plain)
    return number.astype(np.int64), [str(name) for name in uniques]


def _median_weights(times: Floats) -> Floats:
    """Groups × steps: which step, or which two with ½ each, hold the median of the row's times."""
    order = np.argsort(times, axis=1, kind="stable")
    rows = np.arange(len(times))
    steps = times.shape[1]
    weights = np.zeros_like(times)
    weights[rows, order[:, (steps - 1) // 2]] += 0.5
    weights[rows, order[:, steps // 2]] += 0.5
    return weights
