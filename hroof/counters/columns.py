"""Reading a table of counters by metric: units of a metric's name, rates turned back into counts, what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_CLOCKS = (
    "sm__cycles_elapsed.avg.per_second",
    "smsp__cycles_elapsed.avg.per_second",
    "l1tex__cycles_elapsed.avg.per_second",
    "gpc__cycles_elapsed.avg.per_second",
)
"""Rates of the SM clock, best first: the last is that of the cluster around it, the same to within a few percent."""
OPCODES = "sass__inst_executed_per_opcode_with_modifier_all:"
"""What the column of one opcode's warp instructions begins with; the opcode follows."""
THREADS = "sass__thread_inst_executed_true_per_opcode_with_modifier_all:"
"""The same for thread instructions whose predicate was true."""
_CYCLES = ("sm__cycles_elapsed.avg", "smsp__cycles_elapsed.avg")


class Columns:
    """A table of counters: one column per metric, one row per launch.

    Args:
        frame: Float columns under the tool's names, base SI units; anything that is not finite is missing.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self.rows = len(frame)
        self.names = {str(name) for name in frame.columns}
        self._frame = frame
        self._known: dict[str, Floats | None] = {}
        self.clock = self.first(*_CLOCKS)
        """Hertz of the SM, row by row; NaN where not known."""
        self.duration = self._duration()
        """Seconds, row by row; NaN where not known."""

    def get(self, name: str) -> Floats | None:
        """A metric, NaN where a row has none; None where no row has any."""
        if name not in self.names:
            return None
        if name not in self._known:
            values = self._frame[name].to_numpy(dtype=np.float64)
            finite = np.isfinite(values)
            self._known[name] = np.where(finite, values, np.nan) if finite.any() else None
        return self._known[name]

    def has(self, name: str) -> bool:
        """Whether a table names a metric, also where it holds nothing."""
        return name in self.names

    def first(self, *names: str) -> Floats:
        """Row by row the first of some metrics that is known."""
        return self.coalesce(self.get(name) for name in names)

    def coalesce(self, columns: Iterable[Floats | None]) -> Floats:
        """Row by row the first value that is known."""
        result = np.full(self.rows, np.nan)
        for column in columns:
            if column is not None:
                result = np.where(np.isnan(result), column, result)
        return result

    def _duration(self) -> Floats:
        """The time, else cycles by clock: of a sum of launches, summed cycles by the mean clock."""
        named = self.first("gpu__time_duration.sum", "gpu__time_duration")
        with np.errstate(divide="ignore", invalid="ignore"):
            counted = self.first(*_CYCLES) / self.first(*_CLOCKS[:2])
        return self.coalesce((named, np.where(np.isfinite(counted), counted, np.nan)))

    def count(self, metric: str) -> Floats | None:
        """How often something happened, all units together; None where no row knows.

        Besides the sum itself the rates that NVIDIA's sections collect are read: per cycle, times the cycles of the
        launch, and per second, times its duration. Both give the count again.

        Args:
            metric: Base name, without ``.sum``.
        """
        found = [self._count(name) for name in _spellings(metric)]
        known = [column for column in found if column is not None]
        if not known:
            return None
        return known[0] if len(known) == 1 else self.coalesce(known)

    def _count(self, metric: str) -> Floats | None:
        whole = self.get(f"{metric}.sum")
        if whole is not None and not np.isnan(whole).any():
            return whole
        ways = (
            whole,
            self.get(metric),
            self._per_cycle(metric),
            self._per_second(metric),
            self._threads(metric),
        )
        if all(way is None for way in ways):
            return None
        return self.coalesce(ways)

    def _per_cycle(self, metric: str) -> Floats | None:
        """From a rate per cycle; NVIDIA's sections also state it as FLOP, 2 or 4 times that of sub-partitions."""
        rates = [self.get(f"{metric}.sum.per_cycle_elapsed")]
        if metric.startswith("smsp__"):
            stated = {factor: self.get(f"derived__{metric}_x{factor}") for factor in (2, 4)}
            rates += [None if rate is None else rate / factor for factor, rate in stated.items()]
        rate = None if all(one is None for one in rates) else self.coalesce(rates)
        if rate is None:
            return None
        cycles = self.coalesce((self.first(*_CYCLES), self.duration * self.first(*_CLOCKS[:2])))
        return np.rint(rate * cycles)

    def _per_second(self, metric: str) -> Floats | None:
        rate = self.get(f"{metric}.sum.per_second")
        return None if rate is None else np.rint(rate * self.duration)

    def _threads(self, metric: str) -> Floats | None:
        """Thread instructions by opcode, which add up to the counts of arithmetic instructions."""
        part = _ARITHMETIC.fullmatch(metric)
        return None if part is None else self._by_opcode.get(part[1])

    def opcodes(self, prefix: str) -> tuple[dict[str, Floats], Flags]:
        """Counts by opcode under one prefix, in a fixed order, and the launches that have any."""
        names = sorted(name for name in self.names if name.startswith(prefix))
        found = {name.removeprefix(prefix): self.get(name) for name in names}
        columns = {opcode: column for opcode, column in found.items() if column is not None}
        known = np.zeros(self.rows, dtype=bool)
        for column in columns.values():
            known |= ~np.isnan(column)
        return columns, known

    @cached_property
    def _by_opcode(self) -> dict[str, Floats]:
        """Counts of arithmetic vector instructions by the name that metrics give them, e.g. ``ffma``.

        Empty without counts by opcode; NaN in launches without any.
        """
        columns, known = self.opcodes(THREADS)
        if not known.any():
            return {}
        sums = {kind: np.where(known, 0.0, np.nan) for kind in _KINDS.values()}
        for opcode, column in columns.items():
            kind = _kind(opcode)
            if kind is not None:
                sums[kind] += np.nan_to_num(column)
        return sums

    def is_named(self, metric: str) -> bool:
        """Whether a table has the metric in any form, also where it holds nothing."""
        named = any(f"{name}{form}" in self.names for name in _spellings(metric) for form in _FORMS)
        return (
            named or self._threads(metric) is not None or self._per_cycle(_sub(metric)) is not None
        )


_FORMS = (".sum", "", ".sum.per_cycle_elapsed", ".sum.per_second")


_ARITHMETIC = re.compile(r"sm__sass_thread_inst_executed_op_(\w+)_pred_on")
_KINDS = {
    f"{letter}{name}": f"{letter}{name}".lower()
    for letter in "FD"
    for name in ("ADD", "MUL", "FMA")
} | {
    f"{first}{name}2": f"{first}{name}{end}".lower()
    for first, end in (("H", ""), ("F", "2"))
    for name in ("ADD", "MUL", "FMA")
}
"""Opcodes of arithmetic, and the names that metrics give them: ``HFMA2`` is hfma, ``FFMA2`` ffma2."""


def _kind(opcode: str) -> str | None:
    """The arithmetic that an opcode does; ``HADD2.F32`` only converts a format."""
    name, _, modifiers = opcode.partition(".")
    if name == "HADD2" and modifiers.startswith("F32"):
        return None
    return _KINDS.get(name.removesuffix("32I").removesuffix("_"))


def _sub(metric: str) -> str:
    """The same count by sub-partitions."""
    return _spellings(metric)[-1]


def _spellings(metric: str) -> tuple[str, ...]:
    """The name, and that of the same count by a smaller unit: an SM has four sub-partitions."""
    unit, _, rest = metric.partition("__")
    return (metric, f"smsp__{rest}") if unit == "sm" else (metric,)
