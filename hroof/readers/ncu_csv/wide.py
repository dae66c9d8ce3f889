"""Tables with one row per launch and one column per metric: the raw page, and what people made of it.

The raw page has a row of units below its header. A table without one is read only where its numbers
show that they are in base units: automatic scaling never leaves a value of a thousand or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hroof.errors import ProfileError
from hroof.readers.ncu_csv import launches, values
from hroof.readers.ncu_csv.launches import Part, is_text
from hroof.readers.ncu_csv.lines import METRIC
from hroof.readers.ncu_csv.rows import IDENTIFYING, Rows

if TYPE_CHECKING:
    import pandas as pd

_NAME = "device__attribute_display_name"
_CAPABILITY = (
    "device__attribute_compute_capability_major",
    "device__attribute_compute_capability_minor",
)
_BASE = (("time_duration", "nsecond"), ("__bytes", "byte"), ("_bytes", "byte"))


def part(rows: Rows, *, comma: bool = False) -> Part:
    """The launches of a raw page, or of a table with one row per launch.

    Args:
        rows: The rows.
        comma: The numbers have a decimal comma.

    Raises:
        OtherLocaleError: They have one, and ``comma`` is false.
        ProfileError: A unit is unknown, or cannot be known.
    """
    frame, states = launches.described(rows)
    counters = _counters(rows, _metrics(rows), comma)
    named = rows.texts(rows.place(_NAME)) if rows.place(_NAME) is not None else []
    _complete(frame, counters)
    problems = rows.problems
    if rows.place("Kernel Name") is None:
        problems += (f"{rows.table.name}: the table has no names of kernels.",)
    return Part(
        names=(rows.table.name,),
        dialect="raw" if rows.units else "pivoted",
        launches=frame,
        counters=counters,
        ranges=states,
        devices=launches.devices(frame, named),
        programs=launches.programs(rows),
        problems=problems,
        incomplete=rows.cut,
    )


def _metrics(rows: Rows) -> list[int]:
    """The places of metrics: what identifies no launch; in a table of people, what has a metric's name."""
    return [
        at
        for at, name in enumerate(rows.table.header)
        if name not in IDENTIFYING
        and "Range:" not in name
        and name.strip()
        and (rows.units or METRIC.fullmatch(name))
    ]


def _counters(rows: Rows, places: Sequence[int], comma: bool) -> pd.DataFrame:
    """The metrics in base units, and the instances of those that list them."""
    import pandas as pd

    units = rows.units or base_units(rows, places)
    names: list[str] = []
    instances: dict[str, values.Floats] = {}
    whole = np.empty((len(rows), len(places)), order="F")
    for at in places:
        name, column = rows.table.header[at], whole[:, len(names)]
        found, parts, worded = values.numbers(
            rows.columns[at],
            lambda _: name,  # noqa: B023
            rows.where,
            comma=comma,
            grouped=lambda: rows.grouped,
            out=column,
        )
        if worded and not np.isfinite(found).any():
            continue  # words, like the name of the device, are no counter
        names.append(name)
        power = values.power_of(units[at] if at < len(units) else "", name, rows.table.where(0))
        if found is not column or power:
            column[:] = values.scaled(found, power)
        for key, part in parts.items():
            instances[f"{name}:{key}"] = values.scaled(_sparse(part, len(rows)), power)
    frame = pd.DataFrame(whole[:, : len(names)], columns=names, copy=False)
    if frame.columns.has_duplicates:
        frame = _without_doubles(frame, rows)
    return pd.concat([frame, pd.DataFrame(instances)], axis=1) if instances else frame


def _without_doubles(frame: pd.DataFrame, rows: Rows) -> pd.DataFrame:
    """The counters, each once.

    Raises:
        ProfileError: Two columns of one metric differ.
    """
    for name in frame.columns[frame.columns.duplicated()].unique():
        columns = frame[name]
        if not columns.T.duplicated(keep="first").iloc[1:].all():
            raise ProfileError(
                f"{rows.table.name} has {columns.shape[1]} columns {name}, and their values differ.",
                "Keep the column that is right.",
            )
    return frame.loc[:, ~frame.columns.duplicated()]


def _sparse(part: dict[int, float], length: int) -> values.Floats:
    column = np.full(length, np.nan)
    column[list(part)] = list(part.values())
    return column


def base_units(rows: Rows, places: Sequence[int]) -> tuple[str, ...]:
    """The units of a table that does not say them, where its numbers show that they are base units.

    Raises:
        ProfileError: They do not.
    """
    header = rows.table.header
    units = ["" for _ in header]
    shown = False
    measured = [at for at in places if METRIC.fullmatch(header[at])]
    for at in measured:
        units[at] = _base_unit(header[at])
        if units[at] not in ("", "%"):
            column, *_ = values.numbers(rows.columns[at], lambda _: header[at], rows.where)  # noqa: B023
            shown |= bool((column >= 1000).any())
    if not shown:
        raise ProfileError(
            f"{rows.table.name} has no units, and its numbers do not show which are meant.",
            "Use the table as ncu printed it, with its units.",
        )
    return tuple(units)


def _base_unit(metric: str) -> str:
    """The base unit of a metric, by its name."""
    if "pct" in metric:
        return "%"
    above = next((unit for sign, unit in _BASE if sign in metric), "")
    if ".per_second" in metric:
        return f"{above}/second"
    return "" if ".per_" in metric or ".peak" in metric else above


def _complete(frame: pd.DataFrame, counters: pd.DataFrame) -> None:
    """The compute capability from the metrics of the device, where an older page has no column of it."""
    import pandas as pd

    if is_text(frame["capability"], "").all() and all(name in counters for name in _CAPABILITY):
        major, minor = (counters[name].to_numpy() for name in _CAPABILITY)
        if np.isfinite(major).all() and np.isfinite(minor).all():
            texts = [f"{a:.0f}.{b:.0f}" for a, b in zip(major, minor, strict=True)]
            frame["capability"] = pd.Categorical(texts)
