"""The columns that say which launch a row is of: kernel, process, device, grid, NVTX ranges.

Every page of ncu has them under the same names; older versions lack some.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hroof.readers.ncu_csv.ranges import States, columns, prefix, renamed
from hroof.readers.ncu_csv.rows import Rows
from hroof.readers.ncu_csv.values import is_numeric
from hroof.readers.raw import IDENTITY, Ranges

if TYPE_CHECKING:
    import pandas as pd

Places = NDArray[np.intp]
_LARGEST = 2**63 - 1
"""The largest number that a column of numbers holds."""

_NUMBERS = {
    "process": "Process ID",
    "device": "Device",
    "context": "Context",
    "stream": "Stream",
    "id": "ID",
}
_TEXTS = {"kernel": "Kernel Name", "capability": "CC", "grid": "Grid Size", "block": "Block Size"}


@dataclass(frozen=True)
class Part:
    """The launches of one table or one file.

    Attributes:
        names: The files that they are from.
        dialect: The kind of page.
        launches: As in ``Raw``, and ``id``, ncu's number of the launch (-1 where it has none).
        counters: As in ``Raw``.
        ranges: As in ``Raw``.
        devices: As in ``Raw``.
        programs: Name of the program by process.
        problems: As in ``Raw``.
        incomplete: As in ``Raw``.
    """

    names: tuple[str, ...]
    dialect: str
    launches: pd.DataFrame
    counters: pd.DataFrame
    ranges: tuple[Ranges, ...] = ()
    devices: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    programs: Mapping[int, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    incomplete: bool = False


def coded(rows: Rows, name: str) -> tuple[Places, list[str]]:
    """A column as codes and the text of each code; all 0 where the table has no such column."""
    at = rows.place(name)
    return (np.zeros(len(rows), np.intp), [""]) if at is None else coded_at(rows, at)


def numbered(rows: Rows, name: str) -> tuple[Places, int]:
    """A column as numbers from 0 on, the same for the same text, and how many there are at most."""
    import pyarrow as pa

    at = rows.place(name)
    if at is not None and pa.types.is_integer(rows.columns[at].type):
        values = rows.columns[at].to_numpy()
        lowest, highest = int(values.min(initial=0)), int(values.max(initial=0))
        if highest - lowest < _LARGEST >> 32:
            return values - lowest, highest - lowest + 1
    codes, texts = coded(rows, name)
    return codes, len(texts)


def coded_at(rows: Rows, at: int) -> tuple[Places, list[str]]:
    """The column at a place as codes and the text of each code."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = rows.columns[at]
    if not isinstance(column.type, pa.DictionaryType):
        column = pc.dictionary_encode(pc.fill_null(pc.cast(column, pa.string()), ""))
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
    texts = whole.dictionary.to_pylist()
    indices = whole.indices
    if indices.null_count:
        at_empty = texts.index("") if "" in texts else len(texts)
        texts += [""] * (at_empty == len(texts))
        indices = pc.fill_null(indices, at_empty)
    return indices.to_numpy().astype(np.intp), texts


def described(rows: Rows, first: Places | None = None) -> tuple[pd.DataFrame, tuple[Ranges, ...]]:
    """The launches that rows are of.

    Args:
        rows: The rows.
        first: A row of each launch; every row is one where this is not given.

    Returns:
        The columns of ``Raw.launches``, texts as categories, and ``id``; the NVTX states.
    """
    import pandas as pd

    count = len(rows) if first is None else len(first)
    frame: dict[str, Any] = {**IDENTITY, "id": -1}
    for own, name in _TEXTS.items():
        frame[own] = _texts(rows, name, first, count)
    for own, name in _NUMBERS.items():
        if name == "Device" and rows.place(name) is None:
            name = "Device Id"
        if rows.place(name) is not None:
            frame[own] = _integers(rows, name, first, frame[own])
    states = States(rows.table.header)
    if states.known:
        frame["ranges"] = _states(rows, states, first)
        frame["kernel"] = _without_range(frame["kernel"], frame["ranges"], states.found)
    return pd.DataFrame(frame, index=pd.RangeIndex(count)), states.found


def devices(launches: pd.DataFrame, names: Sequence[str] = ()) -> dict[int, dict[str, str]]:
    """Capability and name by device.

    Args:
        launches: The launches.
        names: The device's name of each launch, where the file has them.
    """
    numbers, firsts = np.unique(launches["device"].to_numpy(), return_index=True)
    facts: dict[int, dict[str, str]] = {}
    for number, row in zip(numbers.tolist(), firsts, strict=True):
        known = {
            "capability": launches["capability"].iloc[row],
            "name": names[row] if names else "",
        }
        facts[number] = {key: text for key, text in known.items() if text}
    return facts


def programs(rows: Rows) -> dict[int, str]:
    """Name of the program by process, as far as the table has it."""
    processes, numbers = coded(rows, "Process ID")
    codes, names = coded(rows, "Process Name")
    _, first = np.unique(processes, return_index=True)
    found = {numbers[processes[row]]: names[codes[row]] for row in first}
    return {int(number): name for number, name in found.items() if number.isdecimal() and name}


def _texts(rows: Rows, name: str, first: Places | None, count: int) -> Any:
    """A column of texts as categories."""
    import pandas as pd

    if rows.place(name) is None:
        return _blank(count)
    codes, texts = coded(rows, name)
    return pd.Categorical.from_codes(
        codes if first is None else codes[first], pd.Index(texts, dtype=object)
    )


def _integers(rows: Rows, name: str, first: Places | None, default: int) -> Any:
    """A column of numbers."""
    at = rows.place(name)
    if at is not None and is_numeric(rows.columns[at]):
        numbers = rows.columns[at].to_numpy()
        return numbers if first is None else numbers[first]
    codes, texts = coded(rows, name)
    numbers = np.array([_integer(text, default) for text in texts], np.int64)
    return numbers[codes if first is None else codes[first]]


def _integer(text: str, default: int) -> int:
    number = int(text) if text.isdecimal() and len(text) < 20 else default
    return number if number <= _LARGEST else default


def _states(rows: Rows, states: States, first: Places | None) -> NDArray[np.int64]:
    """The NVTX state of each launch; every different pair of cells is read once."""
    pairs = []
    for at in columns(rows.table.header):
        codes, texts = (np.zeros(len(rows), np.intp), [""]) if at is None else coded_at(rows, at)
        pairs.append((codes if first is None else codes[first], texts))
    (inner, inner_texts), (outer, outer_texts) = pairs
    both = inner * len(outer_texts) + outer
    _, firsts, which = np.unique(both, return_index=True, return_inverse=True)
    place = {}
    for row in sorted(firsts):
        place[both[row]] = states.place(inner_texts[inner[row]], outer_texts[outer[row]])
    return np.array([place[both[row]] for row in firsts], np.int64)[which]


def _without_range(kernels: Any, places: NDArray[np.int64], states: Sequence[Ranges]) -> Any:
    """The names of kernels without the range that ``--print-nvtx-rename kernel`` puts before them."""
    import pandas as pd

    per_row = [states[place] for place in places]
    if not renamed(kernels, per_row):
        return kernels
    pairs = zip(kernels, per_row, strict=True)
    return pd.Categorical([kernel[prefix(kernel, state) :] for kernel, state in pairs])


def alike(one: pd.Series[Any], other: pd.Series[Any]) -> NDArray[np.bool_]:
    """Row by row, whether two columns of texts as categories say the same."""
    (codes, mine), (others, theirs) = _coded(one), _coded(other)
    if mine != theirs:
        places = {text: at for at, text in enumerate(mine)}
        others = np.array([places.get(text, -1) for text in theirs])[others]
    same: NDArray[np.bool_] = codes == others
    return same


def is_text(column: pd.Series[Any], text: str) -> NDArray[np.bool_]:
    """Row by row, whether a column of texts as categories has a text."""
    codes, texts = _coded(column)
    found: NDArray[np.bool_] = np.array([own == text for own in texts], bool)[codes]
    return found


def _coded(column: pd.Series[Any]) -> tuple[NDArray[np.integer[Any]], list[str]]:
    whole: Any = column.array
    return whole.codes, whole.categories.tolist()


@functools.lru_cache(maxsize=8)
def _blank(count: int) -> Any:
    """Empty texts as categories."""
    import pandas as pd

    return pd.Categorical.from_codes(np.zeros(count, np.intp), pd.Index([""]))
