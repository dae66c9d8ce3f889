"""Reading a table of counters by metric: units of a metric's name, rates turned back into counts, what is missing."""

from __future__ import annotations

from collections.abc import Iterable
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
        ways = (whole, self.get(metric), self._per_cycle(metric), self._per_second(metric))
        if all(way is None for way in ways):
            return None
        return self.coalesce(ways)

    def _per_cycle(self, metric: str) -> Floats | None:
        rate = self.get(f"{metric}.sum.per_cycle_elapsed")
        if rate is None:
            return None
        cycles = self.coalesce((self.first(*_CYCLES), self.duration * self.first(*_CLOCKS[:2])))
        return np.rint(rate * cycles)

    def _per_second(self, metric: str) -> Floats | None:
        rate = self.get(f"{metric}.sum.per_second")
        return None if rate is None else np.rint(rate * self.duration)

    def is_named(self, metric: str) -> bool:
        """Whether a table has the metric in any form, also where it holds nothing."""
        return any(f"{name}{form}" in self.names for name in _spellings(metric) for form in _FORMS)


_FORMS = (".sum", "", ".sum.per_cycle_elapsed", ".sum.per_second")


def _spellings(metric: str) -> tuple[str, ...]:
    """The name, and that of the same count by a smaller unit: an SM has four sub-partitions."""
    unit, _, rest = metric.partition("__")
    return (metric, f"smsp__{rest}") if unit == "sm" else (metric,)
