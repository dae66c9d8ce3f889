"""From counters to work: time, FLOP and bytes of every launch, with where each comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hroof.counters.chips import Chip
from hroof.counters.columns import Columns, Flags, Floats
from hroof.counters.matrix import Matrix, matrix_work
from hroof.counters.traffic import traffic
from hroof.counters.vector import Vector, counted, vector_work
from hroof.kernels import display_name
from hroof.profile.schema import Convention, bytes_column, flop_column, source_column
from hroof.units import MemoryLevel, Pipe, Precision, Source

if TYPE_CHECKING:
    import pandas as pd

_NAMED = 3
_LONGEST = 60
_ROUGHLY = 1.05


_NO_VECTOR = (
    "No instructions of the vector units were counted: FLOP are known only of launches with matrix work, without what "
    "the vector units did."
)


@dataclass(frozen=True)
class Work:
    """What the counters of every launch stand for.

    Attributes:
        columns: Rows as in the counters; columns of ``hroof.profile.SCHEMA``: ``duration``, FLOP, bytes and sources.
            Of work that was not collected there is no column.
        clock: Hertz of the SM while a launch was profiled; NaN where not known.
        notes: What a reader has to know, one sentence or two each.
    """

    columns: pd.DataFrame
    clock: pd.Series[float]
    notes: tuple[str, ...] = ()


def work(counters: pd.DataFrame, chip: Chip | None, kernels: Sequence[str]) -> Work:
    """Time, FLOP and bytes of every launch.

    FLOP are known where every counter that could hold work is: a launch with matrix work that nothing gives has
    none, rather than too few. A zero is a real zero; a value that is not there is missing.

    Args:
        counters: Float columns under the tool's names, base SI units, as in ``Raw.counters``.
        chip: The chip that ran them; None where it is not known.
        kernels: The kernel's name of every row.
    """
    import pandas as pd

    columns = Columns(counters)
    vector = vector_work(columns, chip)
    matrix = matrix_work(columns, chip, kernels)
    unknown = vector.unknown | matrix.unknown | _uncounted(vector, matrix)
    crossing = traffic(columns, chip)
    result: dict[str, Any] = {"duration": columns.duration}
    result |= _flop(vector, matrix, unknown)
    result |= {bytes_column(level): values for level, values in crossing.bytes.items()}
    result |= _sources(result, matrix)
    notes = [*matrix.notes, *vector.notes]
    notes += [] if vector.nominal else [_NO_VECTOR]
    notes += [*_unknown(matrix.unknown, vector.unknown, kernels), *_predicted(matrix)]
    notes += [*crossing.notes, *_order(crossing.bytes, kernels)]
    return Work(
        pd.DataFrame(result, index=counters.index),
        pd.Series(columns.clock, index=counters.index),
        tuple(notes),
    )


def _uncounted(vector: Vector, matrix: Matrix) -> Flags:
    """Launches of which only the matrix units were watched, and did nothing: vector work is likely, and not known."""
    rows = np.zeros(len(matrix.unknown), dtype=bool)
    for column in matrix.flop.values():
        rows |= np.nan_to_num(column) > 0
    return np.zeros_like(rows) if vector.nominal else ~rows


def _flop(vector: Vector, matrix: Matrix, unknown: Flags) -> dict[str, Floats]:
    found: dict[tuple[Convention, Pipe, Precision], Floats] = {}
    for precision in Precision:
        for convention, values in (("nominal", vector.nominal), ("least", vector.least)):
            if precision in values:
                found[convention, Pipe.VECTOR, precision] = values[precision]  # type: ignore[index]
            if precision in matrix.flop:
                found[convention, Pipe.MATRIX, precision] = matrix.flop[precision]  # type: ignore[index]
    told = {flop_column(*key): np.where(unknown, np.nan, values) for key, values in found.items()}
    return {name: values for name, values in told.items() if not np.isnan(values).all()}


def _sources(columns: dict[str, Any], matrix: Matrix) -> dict[str, Any]:
    flop = [values for name, values in columns.items() if name.startswith("flop_")]
    known = np.zeros(len(columns["duration"]), dtype=bool)
    for values in flop:
        known |= ~np.isnan(values)
    levels = {level: columns.get(bytes_column(level)) for level in MemoryLevel}
    best = np.where(matrix.predicted, _CODES[Source.PREDICTED], _CODES[Source.COUNTER])
    sources = {
        source_column("time"): _source(~np.isnan(columns["duration"])),
        source_column("flop"): _source(known, best),
    }
    return sources | {
        source_column(level): _source(~np.isnan(values))
        for level, values in levels.items()
        if values is not None
    }


_CODES = {source: code for code, source in enumerate(Source)}


def _source(known: Flags, best: Any = _CODES[Source.COUNTER]) -> Any:
    import pandas as pd

    codes = np.where(known, best, _CODES[Source.MISSING])
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(map(str, Source))))


# --- notes --------------------------------------------------------------------------------------


def _unknown(matrix: Flags, vector: Flags, kernels: Sequence[str]) -> list[str]:
    notes = []
    if matrix.any():
        notes.append(
            f"{_launches(matrix, kernels)}: FLOP unknown, since the matrix units may have worked and nothing says "
            "how much: no operations, and no instructions of known shape."
        )
    if (vector & ~matrix).any():
        notes.append(
            f"{_launches(vector & ~matrix, kernels)}: FLOP unknown, since counts of vector instructions are missing."
        )
    return notes


def _predicted(matrix: Matrix) -> list[str]:
    rows = int(matrix.predicted.sum())
    if not rows:
        return []
    return [
        f"{counted(rows)}: matrix FLOP predicted from the number of instructions and the shape in the kernel's name."
    ]


def _order(levels: dict[MemoryLevel, Floats], kernels: Sequence[str]) -> list[str]:
    """Launches that move more bytes farther from the cores: real, but in need of a reason."""
    notes = []
    for near, far in pairwise(level for level in MemoryLevel if level in levels):
        with np.errstate(invalid="ignore"):
            rows = levels[near] * _ROUGHLY < levels[far]
        if rows.any():
            notes.append(
                f"{_launches(rows, kernels)}: more bytes cross {far.label} than {near.label}. Accesses that bypass a "
                "cache, atomics, prefetches and whole cache lines do that; so does a wrong counter."
            )
    return notes


def _launches(rows: Flags, kernels: Sequence[str]) -> str:
    """How many launches, and of which kernels the first."""
    own = dict.fromkeys(kernels[row] for row in np.flatnonzero(rows).tolist())
    names = list(dict.fromkeys(_short(display_name(name)) for name in own if name))
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return counted(int(rows.sum())) + (f" ({shown})" if shown else "")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
