"""The launch table's schema: a row is a kernel launch (GPU), a framework op (CPU), or part of one.

Base SI units only: seconds, bytes, FLOP. Missing is NaN, never zero. Column names are built by the
helpers below, so that no other module spells one that carries a pipe, a precision or a level.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hroof.errors import ProfileError
from hroof.units import MemoryLevel, Phase, Pipe, Precision, Source

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1

Convention = Literal["nominal", "least"]
CONVENTIONS: tuple[Convention, ...] = ("nominal", "least")


def flop_column(convention: Convention, pipe: Pipe, precision: Precision) -> str:
    """Column of the FLOP in one (pipe, precision), e.g. ``flop_least_matrix_fp32``."""
    return f"flop_{convention}_{pipe}_{precision}"


def bytes_column(level: MemoryLevel) -> str:
    """Column of the bytes that cross one level, e.g. ``bytes_dram``."""
    return f"bytes_{level}"


def source_column(quantity: str | MemoryLevel) -> str:
    """Column that says where a quantity comes from: ``time``, ``flop`` or a memory level."""
    return f"source_{quantity}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the launch table.

    Attributes:
        dtype: ``int``, ``float``, ``bool`` or ``category`` (a repeated string; missing is allowed).
        meaning: What it holds, with its unit.
        default: Value of the column where a source does not give it.
        values: The allowed categories, or an empty tuple for any string.
    """

    dtype: Literal["int", "float", "bool", "category"]
    meaning: str
    default: float | int | bool | str | None = None
    values: tuple[str, ...] = ()


_NAN = float("nan")
_SOURCES = tuple(Source)


def _build_schema() -> dict[str, Column]:
    columns = {
        # which
        "launch_id": Column("int", "number of the launch; parts of one launch share it"),
        "launches": Column(
            "float", "1 for a whole launch, the share for a part, n for an aggregate", 1.0
        ),
        "aggregate": Column("bool", "the source gives n launches only as a sum", False),
        # where
        "rank": Column("int", "process of a distributed run", 0),
        "device": Column("category", "device name as the framework calls it, e.g. cpu, cuda:0"),
        "stream": Column("int", "device stream, or OS thread on a CPU", 0),
        "step": Column("int", "captured step, from 0; -1 outside any step", -1),
        "phase": Column("category", "what the launch serves", Phase.OTHER.value, tuple(Phase)),
        "recompute": Column("bool", "forward work that checkpointing runs again", False),
        "layer": Column(
            "category", "qualified layer name; the class name for a root's own work; missing: none"
        ),
        "layer_type": Column("category", "class of the layer"),
        "op": Column("category", "framework op, e.g. aten::addmm"),
        "kernel": Column("category", "device kernel, where there is one"),
        "ordinal": Column(
            "int", "how many equal (step, phase, recompute, layer, op) came before", 0
        ),
        # when
        "start": Column("float", "start of the launch in seconds since the capture began", _NAN),
        "duration": Column("float", "time of the launch in seconds", _NAN),
        # work
        "bytes_read": Column("float", "op-minimal bytes read", _NAN),
        "bytes_written": Column("float", "op-minimal bytes written", _NAN),
    }
    for convention in CONVENTIONS:
        for pipe in Pipe:
            for precision in Precision:
                name = flop_column(convention, pipe, precision)
                columns[name] = Column(
                    "float", f"{convention} FLOP on the {pipe} pipe in {precision}", _NAN
                )
    for level in MemoryLevel:
        columns[bytes_column(level)] = Column("float", f"bytes that cross {level.label}", _NAN)
    for quantity in ("time", "flop", *MemoryLevel):
        columns[source_column(quantity)] = Column(
            "category", f"where the {quantity} comes from", Source.MISSING.value, _SOURCES
        )
    return columns


SCHEMA: dict[str, Column] = _build_schema()

_NUMPY = {"int": "int64", "float": "float64", "bool": "bool", "category": "category"}


def conform(frame: pd.DataFrame, *, where: str = "launch table") -> pd.DataFrame:
    """Give a frame the schema: defaults for absent columns, dtypes, order of columns.

    Args:
        frame: Rows with any subset of the columns; ``launch_id`` defaults to the row number.
        where: What the frame is, for the error message.

    Raises:
        ProfileError: A column is unknown, has values of another kind or outside its categories.
    """
    import pandas as pd

    _check_names([str(name) for name in frame.columns], where)
    columns = {name: _conform_column(frame, name, column, where) for name, column in SCHEMA.items()}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(frame)))


def framed(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a frame, whatever their names hold."""
    import pandas as pd

    try:
        return pd.DataFrame(rows)
    except UnicodeEncodeError:
        return pd.DataFrame(
            [{name: _encodable(value) for name, value in row.items()} for row in rows]
        )


def _encodable(value: Any) -> Any:
    r"""The value; of text half characters (lone surrogates), which no file can hold, as ``\udcff``.

    Python has such text for what is not UTF-8, and a layer may be called so.
    """
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Launch tables under one another, as one launch table."""
    import pandas as pd

    filled = [frame for frame in frames if not frame.empty] or frames[:1]
    if len(filled) == 1:
        return filled[0]
    with warnings.catch_warnings():
        # Older pandas warns that columns without a value will count for dtypes; these are given anew anyway.
        warnings.simplefilter("ignore", FutureWarning)
        return conform(pd.concat(filled, ignore_index=True))


def _check_names(names: list[str], where: str) -> None:
    unknown = [name for name in names if name not in SCHEMA]
    if unknown:
        raise ProfileError(
            f"The {where} has columns that the schema does not know: "
            f"{', '.join(map(repr, unknown))}.",
            "Name them as in hroof.profile.SCHEMA.",
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ProfileError(f"The {where} has column {twice[0]!r} twice.", "Leave one of them out.")


def _conform_column(frame: pd.DataFrame, name: str, column: Column, where: str) -> pd.Series:
    if name not in frame.columns:
        return _default_column(name, column, len(frame))
    series = frame[name].reset_index(drop=True)
    try:
        return _CONVERTERS[column.dtype](series, column)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProfileError(
            f"Column {name!r} of the {where} does not hold what the schema says "
            f"({column.meaning}): {error}.",
            f"Give it {column.dtype} values.",
        ) from error


def _default_column(name: str, column: Column, rows: int) -> pd.Series:
    import pandas as pd

    index = pd.RangeIndex(rows)
    if name == "launch_id":
        return pd.Series(index, index=index, dtype="int64")
    if column.dtype == "category":
        series = pd.Series(column.default, index=index, dtype="object")
        return _as_category(series, column)
    return pd.Series(column.default, index=index, dtype=_NUMPY[column.dtype])


def _as_int(series: pd.Series, column: Column) -> pd.Series:
    """Whole numbers only: 1.5 is refused, not cut to 1."""
    whole = series.astype("int64")
    if not (whole == series.astype("float64")).all():
        raise ValueError("a value is not a whole number")
    return whole


def _as_float(series: pd.Series, column: Column) -> pd.Series:
    return series.astype("float64")


def _as_bool(series: pd.Series, column: Column) -> pd.Series:
    """True and false only: neither NaN nor the text 'False' becomes True."""
    if not series.isin([True, False]).all():
        raise ValueError("a value is neither true nor false")
    return series.astype("bool")


def _as_category(series: pd.Series, column: Column) -> pd.Series:
    """A categorical whose categories are sorted, or the fixed ones that the schema names."""
    import numpy as np
    import pandas as pd

    codes, values = pd.factorize(series)
    names = [_encodable(str(value)) for value in values]
    wrong = sorted(name for name in names if column.values and name not in column.values)
    if wrong:
        raise ValueError(f"{wrong[0]!r} is none of {', '.join(column.values)}")
    categories = [str(value) for value in column.values] or sorted(set(names))
    position = {name: number for number, name in enumerate(categories)}
    # The last entry stands for missing, which a code of -1 picks: the default where there is one.
    missing = -1 if column.default is None else position.get(str(column.default), -1)
    numbers = np.array([*(position[name] for name in names), missing])
    return pd.Series(
        pd.Categorical.from_codes(numbers[codes], categories=pd.Index(categories, dtype=object)),
        index=series.index,
    )


_CONVERTERS: dict[str, Callable[[pd.Series, Column], pd.Series]] = {
    "int": _as_int,
    "float": _as_float,
    "bool": _as_bool,
    "category": _as_category,
}
