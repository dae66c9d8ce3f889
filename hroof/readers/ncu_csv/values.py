"""Numbers and units as ncu prints them, in base SI units.

ncu scales by powers of 1000 and spells units in two ways, by its version: ``usecond`` or ``us``,
``cycle/nsecond`` or ``Ghz``. It groups digits as the locale of the machine says. Seconds, bytes, hertz
and counts come out; percent stays percent, a sector stays a sector.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hroof.errors import ProfileError

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]
Instances = dict[str, dict[int, float]]
"""By key of the instance: row → value."""

MISSING = frozenset({"", "n/a", "N/A", "(!) n/a", "no data", "nan", "-nan", "inf", "-inf"})
"""What stands where there is no value."""

_SI = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_DIMENSION = re.compile(r"(?P<si>[numkKMGTP]?)(?:second|sec|s|byte|bytes|B|[hH]z)")
_COUNT = re.compile(
    r"(?P<si>[KMGT]?)(?:attribute|bit|block|branch|cluster|cta|cycle|dispatch|event|flop|fragment|inst|instruction"
    r"|issue|launch|line|node|op|operation|packet|page|pass|pixel|primitive|quad|ratio|register|request|sample|sector"
    r"|slot|SM|tag|texel|thread|transaction|vertex|warp|wavefront|way)(?:s|es)?"
)

PLAIN = re.compile(r"-?\d+(\.\d*)?([eE][+-]?\d+)?")
"""A number without separators of thousands."""

_GROUPED = r"-?\d{1,3}(,\d{2,3})*,\d{3}(\.\d+)?"
_POINT = f"^({PLAIN.pattern}|{_GROUPED})$"
_COMMA = re.compile(r"-?\d{1,3}(\.\d{3})+(,\d+)?|-?\d+(,\d+)?")
_SURELY_COMMA = re.compile(r"-?\d+,(\d{1,2}|\d{4,})|-?\d{1,3}(\.\d{3})+,\d+|-?\d{1,3}(\.\d{3}){2,}")
_SURELY_POINT = re.compile(r"-?\d+\.(\d{1,2}|\d{4,})|-?\d{1,3}(,\d{3})+\.\d+|-?\d{1,3}(,\d{3}){2,}")
_SPACED = re.compile(r"(?<=\d)['\u2019 \u00a0\u202f](?=\d{3}(?!\d))")
_REPLACED = re.compile(r"-?\d{1,3}(;\d{3})+(\.\d+)?")
"""A number in a table in which somebody replaced every comma; ncu puts a space between instances."""
_LISTED = re.compile(
    r"(?:(?P<whole>[^();:]+?)\s*)?\((?P<inside>.*;.*|.*: .*|[^()]*)\)|(?P<bare>.*;.*)", re.DOTALL
)


class OtherLocaleError(Exception):
    """The numbers of a table have a decimal comma."""


# --- units --------------------------------------------------------------------------------------


@functools.cache
def exponent(unit: str) -> int | None:
    """The power of ten that turns a value in this unit into base SI units; None where it is unknown.

    Args:
        unit: As printed, e.g. ``Kbyte/block``; an empty one is a count.
    """
    parts = [_part(part.strip()) for part in unit.strip().split("/")]
    if None in parts:
        return None
    above, *below = (part for part in parts if part is not None)
    return above - sum(below)


def _part(text: str) -> int | None:
    if text in ("", "%"):
        return 0
    found = _DIMENSION.fullmatch(text) or _COUNT.fullmatch(text)
    return _SI[found["si"]] if found else None


def scaled(values: Floats, power: int) -> Floats:
    """Values times a power of ten; divided where that is exact and multiplying is not."""
    if power == 0:
        return values
    scaled: Floats = values * 10.0**power if power > 0 else values / 10.0**-power
    return scaled


def power_of(unit: str, metric: str, where: str) -> int:
    """The exponent of a unit.

    Raises:
        ProfileError: The unit is unknown; its values cannot be read, not even as a guess.
    """
    power = exponent(unit)
    if power is None:
        raise ProfileError(
            f'{where}: the metric {metric} has the unknown unit "{unit}".',
            "Print again with --print-units base, or leave the metric out.",
        )
    return power


# --- numbers ------------------------------------------------------------------------------------


def numbers(
    column: pa.ChunkedArray,
    metric: Callable[[int], str],
    where: Callable[[int], str],
    *,
    comma: bool = False,
    grouped: Callable[[], bool] = lambda: False,
    out: Floats | None = None,
) -> tuple[Floats, Instances, int]:
    """The numbers of a column, in the units of the file.

    Args:
        column: Numbers, or texts of numbers.
        metric: The metric of a row.
        where: The place of a row, for a message.
        comma: The decimal sign is a comma.
        grouped: Whether commas are known to be separators of thousands.
        out: Memory that may be used for the numbers.

    Returns:
        The numbers, NaN where there is none; the values of instances; how many rows hold text.

    Raises:
        OtherLocaleError: The numbers have a decimal comma, and ``comma`` is false.
        ProfileError: A number cannot be read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column.type, pa.DictionaryType):
        column = pc.cast(column, pa.string())
    if is_numeric(column):
        return _finite(column, out), {}, 0
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan), {}, 0
    if not comma and grouped():
        try:
            return _finite(pc.cast(pc.replace_substring(column, ",", ""), pa.float64())), {}, 0
        except pa.ArrowInvalid:
            pass  # words or instances are among them, or no value
    texts = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
    values = np.full(len(texts), np.nan)
    readable = np.zeros(len(texts), bool)
    if not comma:
        readable = _bools(pc.match_substring_regex(texts, _POINT))
        plain = pc.replace_substring(texts.filter(pa.array(readable)), ",", "")
        values[readable] = pc.cast(plain, pa.float64()).to_numpy()
    return _odd(values, texts, np.flatnonzero(~readable), metric, where, comma)


def is_numeric(column: pa.ChunkedArray) -> bool:
    """Whether a column was read as numbers."""
    import pyarrow as pa

    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))


def _bools(mask: Any) -> NDArray[np.bool_]:
    import pyarrow.compute as pc

    result: NDArray[np.bool_] = pc.fill_null(mask, False).to_numpy().astype(bool)
    return result


def _finite(column: Any, out: Floats | None = None) -> Floats:
    values = np.empty(len(column)) if out is None else out
    values[:] = column.to_numpy()
    infinite = np.isinf(values)
    if infinite.any():
        values[infinite] = np.nan
    return values


def _odd(
    values: Floats,
    texts: Any,
    rows: NDArray[np.intp],
    metric: Callable[[int], str],
    where: Callable[[int], str],
    comma: bool,
) -> tuple[Floats, Instances, int]:
    """Fill in the rows whose text is no plain number."""
    instances: Instances = {}
    worded = 0
    for row, text in zip(rows.tolist(), texts.take(rows).to_pylist(), strict=True):
        if text is None or text in MISSING:
            continue
        try:
            value, parts = _parsed(text, metric(row), comma)
        except ValueError as error:
            raise ProfileError(
                f"{where(row)}: {metric(row)} is {text[:60]!r}: {error}", _LOCALE
            ) from None
        worded += value is None
        values[row] = math.nan if value is None else value
        for key, part in parts.items():
            instances.setdefault(key, {})[row] = part
    return values, instances, worded


_LOCALE = "Print again with LC_ALL=C, from the report or the program."


def _parsed(text: str, metric: str, comma: bool) -> tuple[float | None, dict[str, float]]:
    """The value of a text that is no plain number, None for words; and of its named instances.

    Raises:
        ValueError: It is a number that could be meant in two ways.
    """
    single = _number(text, comma)
    if single is not None:
        return single, {}
    if _REPLACED.fullmatch(text):
        raise ValueError("a semicolon where a separator of thousands should be.")
    listed = _LISTED.fullmatch(text)
    inside = (listed["inside"] or listed["bare"] or "") if listed else ""
    items = [_item(item, comma) for item in inside.split(";") if item.strip()]
    values = [value for _, value in items if value is not None]
    if not items or len(values) < len(items):
        return None, {}
    whole = _number(listed["whole"], comma) if listed and listed["whole"] else None
    named = {key: value for key, value in items if key and value is not None}
    return _rolled(values, metric) if whole is None else whole, named


def _item(text: str, comma: bool) -> tuple[str, float | None]:
    key, _, value = text.rpartition(": ")
    return key.strip(), _number(value.strip(), comma)


def _rolled(values: list[float], metric: str) -> float:
    """The value of the whole from those of its instances, by the metric's own suffix."""
    for suffix, roll in ((".max", max), (".min", min)):
        if suffix in metric:
            return float(roll(values))
    return math.fsum(values) / len(values) if ".avg" in metric else math.fsum(values)


def _number(text: str, comma: bool) -> float | None:
    """A number, its digits grouped in any way; None where the text is none."""
    text = _SPACED.sub("", text.strip())
    if comma:
        if _SURELY_POINT.fullmatch(text):
            raise ValueError("a decimal point, in a table with decimal commas.")
        if _COMMA.fullmatch(text):
            return float(text.replace(".", "").replace(",", "."))
    elif re.fullmatch(_POINT, text):
        return float(text.replace(",", ""))
    elif _SURELY_COMMA.fullmatch(text):
        raise OtherLocaleError
    if re.fullmatch(r"-?\d[\d.,]*", text):
        raise ValueError("which of its signs is the decimal one?")
    return None
