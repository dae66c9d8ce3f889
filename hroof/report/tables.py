"""Tables: the points of a run as DataFrames, with the same documented columns for every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hroof.report.cells import time_of
from hroof.roofline import Point, check_keys, missing_name, remembering
from hroof.roofline import points as points_of
from hroof.roofline.bounds import PAIRS
from hroof.units import MemoryLevel, Source

if TYPE_CHECKING:
    import pandas as pd

    from hroof.machine import Machine
    from hroof.profile import Profile


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the tables.

    Attributes:
        unit: A base SI unit; ``1`` for plain numbers and shares of one; empty for text.
        meaning: What it holds.
    """

    unit: str
    meaning: str


def _by_level(name: str, unit: str, meaning: str) -> dict[str, Column]:
    return {f"{name}_{level}": Column(unit, meaning.format(level.label)) for level in MemoryLevel}


COLUMNS: dict[str, Column] = {
    "launches": Column("1", "kernels or framework ops; a part of one is a share"),
    "time": Column("s", "sum of the durations of the launches"),
    "share": Column("1", "time ÷ time of all rows"),
    "flop": Column("FLOP", "nominal FLOP, without integer operations"),
    "flop_rate": Column("FLOP/s", "flop ÷ time"),
    **_by_level("bytes", "B", "bytes that cross {}; source_… says how well they are known"),
    **_by_level("intensity", "FLOP/B", "flop ÷ bytes at {}"),
    "bound": Column("", "the ceiling that holds most of the attainable time: matrix fp32, DRAM, launch"),
    "bound_share": Column("1", "its share of the attainable time"),
    "attainable_time": Column("s", "sum of the bounds of the launches"),
    "headroom": Column("1", "bounded_time ÷ attainable_time; below 1 something is wrong, see notes"),
    "recoverable_time": Column("s", "bounded_time − attainable_time, at least 0"),
    "time_spread": Column("1", "(max − min) ÷ median of the time over the steps"),
    "integer_op": Column("OP", "operations in integer formats, never part of flop"),
    **{
        f"flop_{pipe}_{precision}": Column(
            "FLOP" if precision.is_float else "OP", f"nominal work of the {pipe} pipe in {precision}"
        )
        for pipe, precision in PAIRS
    },
    **_by_level("byte_rate", "B/s", "bytes ÷ time at {}"),
    "fused_time": Column("s", "bound of all the work in one launch"),
    "compute_time": Column("s", "least FLOP at the peaks"),
    **_by_level("memory_time", "s", "bytes at the bandwidth of {}"),
    "launch_time": Column("s", "launches × launch cost"),
    "bounded_time": Column("s", "part of time whose launches have a bound"),
    "uncounted_time": Column("s", "part of time whose launches have no known FLOP"),
    **_by_level("unsized_time", "s", "part of time whose launches have no known bytes at {}"),
    "zero_flop_launches": Column("1", "launches that compute nothing"),
    "source_time": Column("", "where the time comes from: counter, measured, … or missing"),
    "source_flop": Column("", "where flop comes from; of several the least certain"),
    **_by_level("source", "", "where the bytes at {} come from"),
    "notes": Column("", "what is odd about the row, in sentences; empty: nothing"),
}  # fmt: skip
"""The columns after the keys, in this order. Numbers are per captured step (the median one), NaN where not known."""

LAYER_COLUMNS: dict[str, Column] = {
    "layer": Column("", "qualified name; None: work outside every layer"),
    "layer_type": Column("", "class of the layer"),
    "depth": Column("1", "0 for the model itself"),
    "parameters": Column("1", "how many parameters the layer has, those of inner layers included"),
}
"""The first columns of ``layers``."""

KERNEL_COLUMNS: dict[str, Column] = {
    "kernel": Column("", "full name of the kernel; None on a CPU"),
    "op": Column("", "framework op that launched it; None where no tool knew it"),
}
"""The first columns of ``kernels``."""


def points(
    profile: Profile, machine: Machine | None = None, by: Sequence[str] = ("layer",)
) -> pd.DataFrame:
    """Groups of launches on the Roofline, one row each, most time first.

    Args:
        profile: What was collected.
        machine: Its ceilings; without them bounds and headroom are missing.
        by: Grouping keys, see ``hroof.roofline.grouping.group``.

    Returns:
        The keys as text, None where launches have none; then ``COLUMNS``. ``attrs["units"]`` has the units.

    Raises:
        UsageError: A grouping key is unknown or given twice.
    """
    check_keys(by)
    with remembering():
        found = points_of(profile, machine, tuple(by))
    return _frame(found, {key: _key(found, key) for key in by})


def layers(profile: Profile, machine: Machine | None = None) -> pd.DataFrame:
    """The layers, one row each, most time first: all phases together.

    Args:
        profile: What was collected.
        machine: Its ceilings, or None.

    Returns:
        ``LAYER_COLUMNS``, then ``COLUMNS``.
    """
    found = points_of(profile, machine, ("layer",))
    names = _key(found, "layer")
    told = _told(profile)
    types = _types(profile)
    entries = [told.get(name or "", {}) for name in names]
    keys: dict[str, Sequence[object]] = {
        "layer": names,
        "layer_type": [
            types.get(name or "") or _text(entry.get("type"))
            for name, entry in zip(names, entries, strict=True)
        ],
        **{what: [_count(entry.get(what)) for entry in entries] for what in ("depth", "parameters")},
    }  # fmt: skip
    return _frame(found, keys)


def kernels(profile: Profile, machine: Machine | None = None) -> pd.DataFrame:
    """The kernels with the ops that launched them, one row each, most time first; on a CPU the ops alone.

    Args:
        profile: What was collected.
        machine: Its ceilings, or None.

    Returns:
        ``KERNEL_COLUMNS``, then ``COLUMNS``.
    """
    return points(profile, machine, tuple(KERNEL_COLUMNS))


def _key(found: Sequence[Point], key: str) -> list[str | None]:
    missing = missing_name(key)
    return [None if point.key[key] == missing else point.key[key] for point in found]


def _told(profile: Profile) -> dict[str, Mapping[str, Any]]:
    """What ``run.json`` says of each layer; a root's own work carries the name of its class."""
    entries = [e for e in profile.run.get("layers") or () if isinstance(e, Mapping)]
    roots = {str(e.get("type")): e for e in entries if e.get("depth") == 0}
    return roots | {str(e.get("name")): e for e in entries}


def _types(profile: Profile) -> dict[str, str]:
    """The class of each layer as its launches name it."""
    known = profile.launches[["layer", "layer_type"]].dropna().drop_duplicates("layer")
    return dict(zip(known["layer"].astype(object), known["layer_type"].astype(object), strict=True))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else float("nan")  # type: ignore[arg-type]


def _frame(found: Sequence[Point], keys: Mapping[str, Sequence[object]]) -> pd.DataFrame:
    """Points as a table whose columns are the same whatever is in it."""
    import pandas as pd

    whole = time_of(found)
    rows = [_row(point, whole) for point in found]
    columns = {
        **{name: pd.Series(list(values), dtype=_dtype(name)) for name, values in keys.items()},
        **{
            name: pd.Series([row.get(name) for row in rows], dtype=_dtype(name)) for name in COLUMNS
        },
    }
    frame = pd.DataFrame(columns)
    known = LAYER_COLUMNS | KERNEL_COLUMNS | COLUMNS
    frame.attrs["units"] = {name: known[name].unit for name in columns if name in known}
    return frame


def _dtype(name: str) -> str:
    column = COLUMNS.get(name) or LAYER_COLUMNS.get(name)
    return "float64" if column is not None and column.unit else "object"


def _row(point: Point, whole: float) -> dict[str, object]:
    """The values of a point by column; what is left out is not known."""
    row: dict[str, object] = {
        "launches": point.launches,
        "time": point.time,
        "share": point.time / whole if whole > 0 else None,
        "flop": point.total_flop,
        "flop_rate": point.flop_rate,
        "bound": point.bound,
        "bound_share": point.bound_share,
        "attainable_time": point.attainable_time,
        "headroom": point.headroom,
        "recoverable_time": point.recoverable_time if point.attainable_time else None,
        "time_spread": point.time_spread,
        "integer_op": point.total_op,
        "fused_time": point.fused_time,
        "compute_time": point.compute_time,
        "launch_time": point.launch_time,
        "bounded_time": point.bounded_time,
        "uncounted_time": point.uncounted_time,
        "zero_flop_launches": point.zero_flop_launches,
        "notes": " ".join(point.notes),
    }
    row |= {f"flop_{pipe}_{precision}": work for (pipe, precision), work in point.flop.items()}
    row |= {f"source_{name}": str(source) for name, source in _sources(point).items()}
    by_level: dict[str, Mapping[MemoryLevel, float]] = {
        "bytes": point.nbytes,
        "intensity": point.intensity,
        "byte_rate": point.byte_rate,
        "memory_time": point.memory_times,
        "unsized_time": point.unsized_time,
    }
    for name, values in by_level.items():
        row |= {f"{name}_{level}": value for level, value in values.items()}
    return row


def _sources(point: Point) -> dict[str, Source]:
    missing = dict.fromkeys(("time", "flop", *map(str, MemoryLevel)), Source.MISSING)
    return missing | dict(point.sources)
