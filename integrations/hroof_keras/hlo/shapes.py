"""Shapes and element types of HLO values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_TYPES: Mapping[int, tuple[str, float]] = {
    1: ("bool", 1),
    2: ("int8", 1),
    3: ("int16", 2),
    4: ("int32", 4),
    5: ("int64", 8),
    6: ("uint8", 1),
    7: ("uint16", 2),
    8: ("uint32", 4),
    9: ("uint64", 8),
    10: ("float16", 2),
    11: ("float32", 4),
    12: ("float64", 8),
    13: ("tuple", 0),
    14: ("opaque", 0),
    15: ("complex64", 8),
    16: ("bfloat16", 2),
    17: ("token", 0),
    18: ("complex128", 16),
    19: ("float8_e5m2", 1),
    20: ("float8_e4m3fn", 1),
    21: ("int4", 0.5),
    22: ("uint4", 0.5),
    23: ("float8_e4m3b11fnuz", 1),
    24: ("float8_e5m2fnuz", 1),
    25: ("float8_e4m3fnuz", 1),
    26: ("int2", 0.25),
    27: ("uint2", 0.25),
    28: ("float8_e4m3", 1),
    29: ("float8_e3m4", 1),
    30: ("int1", 0.125),
    31: ("uint1", 0.125),
    32: ("float4_e2m1fn", 0.5),
    33: ("float8_e8m0fnu", 1),
    34: ("buffer", 0),
}
"""Name and bytes per element by the number that ``xla.PrimitiveType`` has in the serialised format."""

_ITEMSIZE = dict(_TYPES.values())


def dtype_name(number: int) -> str:
    """Name of an element type by its number; ``"unknown"`` where it is newer than this table."""
    return _TYPES.get(number, ("unknown", 0))[0]


@dataclass(frozen=True, slots=True)
class Shape:
    """Element type and lengths of a value; a tuple has parts instead.

    Attributes:
        dtype: Name in the manner of NumPy, or ``tuple``, ``token``, ``opaque``.
        dims: Length of every dimension; the largest possible one where it varies at run time.
        parts: Shapes of the parts of a tuple.
    """

    dtype: str
    dims: tuple[int, ...] = ()
    parts: tuple[Shape, ...] = ()

    @property
    def size(self) -> int:
        """Number of elements; of a tuple, of its first array."""
        return math.prod(self.dims) if self.dtype != "tuple" else self.first.size

    @property
    def itemsize(self) -> float:
        """Bytes per element; NaN for a type that is not known."""
        return _ITEMSIZE.get(self.dtype, math.nan)

    @property
    def nbytes(self) -> float:
        """Bytes of the value, all parts of a tuple together; tokens and handles have none."""
        if self.dtype == "tuple":
            return float(sum(part.nbytes for part in self.parts))
        return math.prod(self.dims) * self.itemsize

    @property
    def first(self) -> Shape:
        """The shape itself, or the first array of a tuple; of an empty tuple, a token."""
        if self.dtype != "tuple":
            return self
        return self.parts[0].first if self.parts else Shape("token")

    def leaves(self, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Shape]]:
        """Position and shape of every array in it; a plain shape is its own only leaf, at ``()``."""
        if self.dtype != "tuple":
            yield path, self
        for index, part in enumerate(self.parts):
            yield from part.leaves((*path, index))

    def at(self, path: tuple[int, ...]) -> Shape:
        """The part at a position."""
        return self.parts[path[0]].at(path[1:]) if path else self
