"""Tables that hold sums and means over launches: ncu's summaries, and tables per kernel name.

What a table gives only for a group of launches becomes one row for the group: counts, bytes, cycles
and times as their sum over its launches, rates, shares and settings as their mean.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import numpy as np

from hroof.errors import ProfileError
from hroof.readers.ncu_csv import launches, long, values, wide
from hroof.readers.ncu_csv.launches import Part, Places
from hroof.readers.ncu_csv.ranges import nested
from hroof.readers.ncu_csv.rows import Rows
from hroof.readers.raw import Ranges

if TYPE_CHECKING:
    import pandas as pd

_NOT_SUMMED = re.compile(
    r"\.per_|\.pct|_pct\b|\.ratio|\.max_rate|\.peak_|throughput|hit_rate|occupancy|^device__|^launch__|^profiler__"
    r"|warps_per|_per_|average"
)
_GROUP = (
    "Domain",
    "Host Name",
    "Process ID",
    "Kernel Name",
    "Block Size",
    "Grid Size",
    "Device",
    "Device Id",
    "CC",
)
"""What tells the groups of a summary apart, and its NVTX ranges."""
_ONLY_GROUPS = "gives only sums over launches: no order, no steps, no bound of one launch."
_FASTEST = 5e9
"""No GPU has a clock of 5 GHz: a higher rate of cycles is a sum over launches."""
_MANY = 10
"""The clocks of so many launches add up to more than that."""


def is_additive(metric: str) -> bool:
    """Whether the values of a metric add up over launches: counts and times do, rates and shares do not."""
    return _NOT_SUMMED.search(metric) is None


def summary(rows: Rows, *, comma: bool = False) -> Part:
    """The groups of a summary of ncu, per kernel or per NVTX range.

    Args:
        rows: The rows.
        comma: The numbers have a decimal comma.

    Raises:
        OtherLocaleError: They have one, and ``comma`` is false.
        ProfileError: A launch may stand in several rows; a unit is unknown.
    """
    import pandas as pd

    columns = [name for name in _GROUP if rows.place(name) is not None]
    nvtx = [name for name in rows.table.header if name.startswith("Range:")]
    group, first = long.grouped(rows, columns + nvtx)
    frame, _ = launches.described(rows, first)
    count = _counts(rows, "Invocations")[first]
    states: tuple[Ranges, ...] = ()
    if nvtx:
        frame["ranges"], states = _nested(rows, nvtx[0], first)
    metric, names, problems = long.metrics(rows)
    means = long.pivoted(rows, group, metric, names, value="Average", comma=comma)
    counters = {name: mean * count if is_additive(name) else mean for name, mean in means.items()}
    return Part(
        names=(rows.table.name,),
        dialect="summary",
        launches=frame.assign(launches=count, aggregate=True),
        counters=pd.DataFrame(counters, index=frame.index),
        ranges=states,
        devices=launches.devices(frame),
        programs=launches.programs(rows),
        problems=(*rows.problems, *problems, f"{rows.table.name} {_ONLY_GROUPS}"),
        incomplete=rows.cut,
    )


def by_name(rows: Rows, *, comma: bool = False) -> Part:
    """The groups of a table with one row per kernel name, the number of launches in a column ``Count``.

    Such tables are made by adding up every column, the rates too.

    Args:
        rows: The rows.
        comma: The numbers have a decimal comma.

    Raises:
        OtherLocaleError: They have one, and ``comma`` is false.
        ProfileError: The table does not say how many launches a row stands for, or in what units.
    """
    if rows.place("Count") is None:
        raise ProfileError(
            f"{rows.table.name} says of a row neither which launch it is nor how many it stands for.",
            "Use the table as ncu printed it, with the column ID.",
        )
    single = wide.part(rows, comma=comma)
    count = _counts(rows, "Count")
    counters = single.counters
    rates = [name for name in map(str, counters) if not is_additive(name)]
    divisor, sentence = _divisor(counters, count, rates)
    counters = counters.assign(**{name: counters[name] / divisor for name in rates})
    problems = (*single.problems, f"{rows.table.name} {_ONLY_GROUPS}", *sentence)
    return dataclasses.replace(
        single,
        dialect="by name",
        launches=single.launches.assign(launches=count, aggregate=True),
        counters=counters,
        problems=problems,
    )


def _divisor(
    counters: pd.DataFrame, count: values.Floats, rates: list[str]
) -> tuple[values.Floats, tuple[str, ...]]:
    """What turns rates into means: the number of launches where they were added up."""
    clocks = [name for name in rates if "cycles_elapsed" in name and "per_second" in name]
    largest = counters[clocks].max().max() if clocks else np.nan
    if largest > _FASTEST:
        return count, ()
    if not np.isnan(largest) and count.max() >= _MANY:
        return np.ones(len(count)), ()
    left_out = "Rates are left out: the table does not show whether they are sums or means."
    return np.full(len(count), np.nan), (left_out,) if rates else ()


def _counts(rows: Rows, name: str) -> values.Floats:
    at = rows.place(name)
    column, *_ = values.numbers(rows.columns[at or 0], lambda _: name, rows.where)
    if np.isnan(column).any() or (column < 1).any():
        raise ProfileError(f"{rows.table.name}: {name} is not a number of launches in every row.")
    return column


def _nested(rows: Rows, header: str, first: Places) -> tuple[list[int], tuple[Ranges, ...]]:
    """The NVTX state of each group.

    Raises:
        ProfileError: There are several domains; a launch stands in the rows of each.
    """
    domains = rows.texts(rows.place("Domain"))
    if len(set(domains)) > 1:
        raise ProfileError(
            f"{rows.table.name} sums launches by NVTX range in {len(set(domains))} domains, so that a launch "
            "may be in several sums.",
            "Print the launches: ncu --import REPORT --page raw --csv --print-units base",
        )
    cells = rows.texts(rows.place(header))
    places: dict[Ranges, int] = {}
    found = [
        places.setdefault(Ranges(nested(cells[row], domains[row], header)), len(places))
        for row in first
    ]
    return found, tuple(places)
