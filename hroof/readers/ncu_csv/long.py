"""Tables with one row per launch and metric: the details page, ``--metrics``, and copies of them.

The details page has labels for people where the others have names of metrics. The labels that stand
for a metric with certainty are translated; the rest is left out, and a sentence says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hroof.errors import ProfileError
from hroof.readers.ncu_csv import labels, launches, values
from hroof.readers.ncu_csv.launches import Part, Places
from hroof.readers.ncu_csv.lines import METRIC, NAME
from hroof.readers.ncu_csv.rows import Rows

_LAUNCH = ("ID", "Process ID", "Host Name", "Kernel Name")
"""What tells the launches of a table apart."""


def part(rows: Rows, *, comma: bool = False) -> Part:
    """The launches of a details page or of any other long table.

    Args:
        rows: The rows.
        comma: The numbers have a decimal comma.

    Raises:
        OtherLocaleError: They have one, and ``comma`` is false.
        ProfileError: A unit is unknown.
    """
    import pandas as pd

    launch, first = grouped(rows, _LAUNCH)
    frame, states = launches.described(rows, first)
    metric, names, problems = metrics(rows)
    counters = pd.DataFrame(pivoted(rows, launch, metric, names, comma=comma), index=frame.index)
    detailed = any(METRIC.fullmatch(name) is None for name in _names(rows))
    return Part(
        names=(rows.table.name,),
        dialect="details" if detailed else "metrics",
        launches=frame,
        counters=counters,
        ranges=states,
        devices=launches.devices(frame),
        programs=launches.programs(rows),
        problems=rows.problems + problems,
        incomplete=rows.cut,
    )


def _names(rows: Rows) -> list[str]:
    """What stands in the column of metrics, each once, without what is empty."""
    return [name for name in launches.coded(rows, "Metric Name")[1] if name]


def grouped(rows: Rows, columns: Sequence[str]) -> tuple[Places, Places]:
    """The group of each row by the texts of columns, in order of appearance; and a row of each group."""
    import pandas as pd

    whole = np.zeros(len(rows), np.int64)
    for name in columns:
        codes, count = launches.numbered(rows, name)
        whole, _ = pd.factorize(whole * count + codes)
    _, first = np.unique(whole, return_index=True)
    return whole, first


def metrics(rows: Rows) -> tuple[Places, list[str], tuple[str, ...]]:
    """The metric of each row.

    Returns:
        Its place in the names, -1 where it has none that is certain; the names; what was left out.
    """
    codes = []
    texts = []
    for name in ("Section Name", "Metric Name", "Metric Unit"):
        which, words = launches.coded(rows, name)
        codes.append(which)
        texts.append(words)
    whole = (codes[0] * len(texts[1]) + codes[1]) * len(texts[2]) + codes[2]
    _, firsts, which = np.unique(whole, return_index=True, return_inverse=True)
    place: dict[str, int] = {}
    unnamed: dict[str, None] = {}
    at = []
    for row in firsts:
        section, label, unit = (words[code[row]] for code, words in zip(codes, texts, strict=True))
        found = label if NAME.fullmatch(label) else labels.metric(section, label, unit)
        if found is None and label:
            unnamed[label] = None
        at.append(-1 if found is None else place.setdefault(found, len(place)))
    return np.array(at, np.intp)[which], list(place), _left_out(rows, list(unnamed))


def _left_out(rows: Rows, names: list[str]) -> tuple[str, ...]:
    if not names:
        return ()
    some = ", ".join(names[:3])
    if len(names) == 1:
        what = f"the label {some} of the details page stands for no metric that hroof is sure of and is left out"
    else:
        what = (
            f"{len(names)} labels of the details page stand for no metric that hroof is sure of and are left out "
            f"({some}{', …' if len(names) > 3 else ''})"
        )
    return (f"{rows.table.name}: {what}; the raw page has all metrics by name.",)


def pivoted(
    rows: Rows,
    launch: Places,
    metric: Places,
    names: list[str],
    *,
    value: str = "Metric Value",
    comma: bool,
) -> dict[str, values.Floats]:
    """The counters: one column per metric, in base units; of several values the first counts.

    Args:
        rows: The rows.
        launch: The launch, or the group of launches, of each row.
        metric: The metric of each row, as its place in ``names``; -1 where it has none.
        names: The metrics.
        value: The column of the values.
        comma: The numbers have a decimal comma.
    """
    count = int(launch.max(initial=-1)) + 1
    named = np.flatnonzero(metric >= 0)
    at = rows.place(value)
    if at is None:
        raise ProfileError(f"{rows.table.name} has no column {value}.", "Use ncu's own table.")
    column, parts, _ = values.numbers(
        rows.columns[at].take(named),
        lambda row: names[metric[named[row]]],
        lambda row: rows.where(int(named[row])),
        comma=comma,
        grouped=lambda: rows.grouped,
    )
    powers = _powers(rows, named, metric, names)
    for power in np.unique(powers):
        column[powers == power] = values.scaled(column[powers == power], int(power))
    known = np.flatnonzero(~np.isnan(column))[::-1]
    table = np.full((len(names), count), np.nan)
    table[metric[named[known]], launch[named[known]]] = column[known]
    found = dict(zip(names, table, strict=True))
    for key, part in parts.items():
        for row, number in part.items():
            name = f"{names[metric[named[row]]]}:{key}"
            cell = found.setdefault(name, np.full(count, np.nan))
            cell[launch[named[row]]] = values.scaled(np.array([number]), int(powers[row]))[0]
    return found


def _powers(rows: Rows, named: Places, metric: Places, names: list[str]) -> Places:
    """The exponent of the unit of each row."""
    codes, units = launches.coded(rows, "Metric Unit")
    found = np.zeros(len(units), np.intp)
    used, firsts = np.unique(codes[named], return_index=True)
    for code, first in zip(used, firsts, strict=True):
        row = int(named[first])
        found[code] = values.power_of(units[code], names[metric[row]], rows.where(row))
    return found[codes[named]]
