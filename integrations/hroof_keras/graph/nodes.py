"""Nodes of executed TensorFlow graphs and the shapes of what flows between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_BY_ENUM = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    11: "qint8",
    12: "quint8",
    13: "qint32",
    14: "bfloat16",
    15: "qint16",
    16: "quint16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    20: "resource",
    21: "variant",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
    26: "float8_e4m3fnuz",
    27: "float8_e4m3b11fnuz",
    28: "float8_e5m2fnuz",
    29: "int4",
    30: "uint4",
}
"""Names of ``tensorflow.DataType`` by number, which is part of the serialised format."""

_REFERENCE = 100
"""Added to the number of a type where a reference to a variable is meant."""

_BY_WORD = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "boolean": "bool",
}
"""TensorFlow's own words for types, as profiles print them, where they differ from ours."""

ITEMSIZE: Mapping[str, float] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e5m2": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e4m3b11fnuz": 1,
    "float8_e5m2fnuz": 1,
    "complex64": 8,
    "complex128": 16,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "qint8": 1,
    "quint8": 1,
    "qint16": 2,
    "quint16": 2,
    "qint32": 4,
    "int4": 1,
    "uint4": 1,
    "bool": 1,
}
"""Bytes per element in memory; handles, variants and strings have none that the shape would tell."""

HANDLES = frozenset({"resource", "variant"})
"""Types of which only a reference flows through the graph."""


def dtype_of_enum(number: int) -> str:
    """Name of a type by its number in ``DataType``; ``"unknown"`` where it is newer than this table."""
    return _BY_ENUM.get(number % _REFERENCE, "unknown")


def dtype_of_word(word: str) -> str:
    """Name of a type by the word that TensorFlow prints for it (``float``, ``half``, ``int32_ref``)."""
    plain = word.removesuffix("_ref")
    return _BY_WORD.get(plain, plain)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape and type of a tensor.

    Attributes:
        shape: Length of every dimension; None where the rank or a length is not known.
        dtype: Name in the manner of NumPy, or ``resource``, ``variant``, ``string``.
    """

    shape: tuple[int, ...] | None
    dtype: str

    @property
    def size(self) -> float:
        """Number of elements; NaN where the shape is unknown."""
        return float("nan") if self.shape is None else float(math.prod(self.shape))

    @property
    def itemsize(self) -> float:
        """Bytes per element; 0 for handles, whose bytes do not flow, NaN for strings and unknown types."""
        return 0.0 if self.dtype in HANDLES else ITEMSIZE.get(self.dtype, float("nan"))

    @property
    def nbytes(self) -> float:
        """Bytes of the tensor; NaN where shape or type do not tell."""
        return 0.0 if self.dtype in HANDLES else self.size * self.itemsize


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the executed graph, after TensorFlow has rewritten it.

    Attributes:
        name: Unique within its graph.
        op: Type of the op as executed, for example ``_MklNativeFusedConv2D``.
        inputs: Data inputs as ``node:port``; control inputs are left out.
        attrs: ``AttrValue`` messages by name.
        constants: Values of inputs that are constants, by position; the small ones: axes, sizes, paddings.
        device: Where it is placed, such as ``/device:GPU:0``; empty where that is not known.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[int, Any] = field(default_factory=dict)
    device: str = ""

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean attribute."""
        return bool(self.attrs[name].b) if name in self.attrs else default

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        return int(self.attrs[name].i) if name in self.attrs else default

    def real(self, name: str, default: float = 0.0) -> float:
        """A floating-point attribute."""
        return float(self.attrs[name].f) if name in self.attrs else default

    def text(self, name: str, default: str = "") -> str:
        """A string attribute."""
        return str(self.attrs[name].s.decode()) if name in self.attrs else default

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of integers; empty where it is not given."""
        return tuple(self.attrs[name].list.i) if name in self.attrs else ()

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; empty where it is not given."""
        if name not in self.attrs:
            return ()
        return tuple(item.decode() for item in self.attrs[name].list.s)

    def dtype(self, name: str, default: str = "unknown") -> str:
        """A type attribute, by name."""
        return dtype_of_enum(self.attrs[name].type) if name in self.attrs else default

    def dtypes(self, name: str) -> tuple[str, ...]:
        """A list of types; empty where it is not given."""
        if name not in self.attrs:
            return ()
        return tuple(dtype_of_enum(item) for item in self.attrs[name].list.type)
