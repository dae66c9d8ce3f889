"""SI quantities, memory levels, precisions, pipes; the only place that prints or parses units."""

from __future__ import annotations

import contextlib
import math
import re
from enum import StrEnum

from hroof.errors import UsageError


class MemoryLevel(StrEnum):
    """A level of memory, nearest to the cores first."""

    L1 = "l1"
    L2 = "l2"
    L3 = "l3"
    DRAM = "dram"

    @property
    def label(self) -> str:
        """The name people know it by, such as ``DRAM``."""
        return self.upper()


class Pipe(StrEnum):
    """The arithmetic unit that does the work."""

    VECTOR = "vector"
    MATRIX = "matrix"


class Precision(StrEnum):
    """A number format. The integer formats count integer operations, never FLOP."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    FP4 = "fp4"
    INT32 = "int32"
    INT8 = "int8"
    INT4 = "int4"
    INT1 = "int1"

    @property
    def is_float(self) -> bool:
        """Whether operations in this format are FLOP."""
        return not self.startswith("int")


class Source(StrEnum):
    """Where a number comes from. Best first: a sum is only as good as its worst part."""

    COUNTER = "counter"
    MEASURED = "measured"
    COUNTED = "counted"
    CONVENTION = "convention"
    PREDICTED = "predicted"
    MISSING = "missing"


class Phase(StrEnum):
    """What a launch serves within one training step."""

    FORWARD = "forward"
    LOSS = "loss"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    DATA = "data"
    OTHER = "other"


_BY_EXPONENT = dict(zip(range(-9, 21, 3), ("n", "µ", "m", "", *"kMGTPE"), strict=True))
_PREFIXES = {prefix: exponent for exponent, prefix in _BY_EXPONENT.items()} | {
    "u": -6,
    "\u03bc": -6,
}
# A comma only separates thousands: "1,5 GB" is refused, not read as 15 GB.
_QUANTITY = re.compile(
    r"\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d+|(?=\.\d))(?:\.\d*)?)(?:[eE]([-+]?\d{1,4}))?"
    r"\s*([kMGTPEmuµ\u03bcn]?)(s|B|FLOP|B/s|FLOP/s|Hz|OP|OP/s)?\s*",
    re.ASCII,
)


def si(value: float | None, unit: str, digits: int = 3) -> str:
    """Print a quantity with an SI prefix (decimal: 1 GB = 1e9 B).

    Args:
        value: The quantity in base units; None or NaN prints as a dash.
        unit: ``s``, ``B``, ``FLOP``, ``B/s``, ``FLOP/s``, ``Hz`` or any other base unit.
        digits: Significant digits.

    Returns:
        Text such as ``1.43 GFLOP/s``.
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    if value == 0:
        return f"0 {unit}".strip()
    exponent = _exponent(abs(value), digits)
    return f"{number(value / 10.0**exponent, digits)} {_BY_EXPONENT[exponent]}{unit}".strip()


def _exponent(magnitude: float, digits: int) -> int:
    rounded = float(f"{magnitude:.{digits}g}")
    exponent = math.floor(math.floor(math.log10(rounded)) / 3) * 3
    return min(max(exponent, -9), 18)


def _plain(value: float, digits: int) -> str:
    """Fixed notation with the given number of significant digits."""
    if value == 0:
        return "0"
    decimals = max(digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits}g}")))), 0)
    return f"{value:.{decimals}f}"


def number(value: float | None, digits: int = 3) -> str:
    """Print a plain number (an intensity, a ratio); None or NaN prints as a dash."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    fixed = value == 0 or 1e-4 <= abs(value) < 1e6
    return _plain(value, digits) if fixed else f"{value:.{digits}g}"


def percent(share: float | None, digits: int = 1) -> str:
    """Print a share of one as percent; None or NaN prints as a dash, infinity as ∞."""
    if share is None or math.isnan(share):
        return "–"
    return f"{'-' * (share < 0)}∞ %" if math.isinf(share) else f"{100 * share:.{digits}f} %"


def parse(text: str, unit: str | None = None) -> float:
    """Read a quantity such as ``1.5 GB`` or ``20us`` into base units.

    Args:
        text: The quantity; without a unit it is in base units.
        unit: The unit that it has to be in, empty for a plain number; None for any.

    Raises:
        UsageError: The text is not a quantity, or has another unit.
    """
    match = _QUANTITY.fullmatch(text)
    value = math.nan
    if match is not None:
        # Shifting the decimal exponent is exact where a product would round twice.
        exponent = int(match[2] or 0) + _PREFIXES[match[3]]
        value = float(f"{match[1].replace(',', '')}e{exponent}")
    if match is None or not math.isfinite(value):
        raise UsageError(
            f"{text!r} is not a quantity.",
            "Write a number and an SI unit, such as '1.5 GB' or '20us'.",
        )
    if unit is not None and match[4] not in (None, unit):
        raise UsageError(
            f"{text!r} is in {match[4]}.",
            f"Write it in {unit}, with a prefix if you like." if unit else "Write a plain number.",
        )
    return value


def parse_share(text: str) -> float:
    """Read a share of one: ``5 %`` or ``0.05``.

    Raises:
        UsageError: The text is no share.
    """
    number_, sign, rest = text.partition("%")
    share = math.nan
    if not rest.strip():
        with contextlib.suppress(UsageError):
            share = parse(number_, "")
    if not math.isfinite(share) or (not sign and abs(share) > 1):
        raise UsageError(f"{text!r} is no share.", "Write a percentage, such as '5 %', or 0.05.")
    return share / 100 if sign else share
