"""What rules are made of: one call of an op, its FLOP, precisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hroof.launches import Counts
from hroof.traffic import MatrixShape
from hroof.units import Pipe, Precision
from hroof_keras.counting import weights
from hroof_keras.graph.nodes import ITEMSIZE, Node, TensorSpec

COMPLEX_MULTIPLY_ADD = 4.0
"""A complex multiply-add is 8 real FLOP, four times a real one."""

Shape = tuple[int, ...]


class UncountableError(Exception):
    """The work of this node does not follow from what is known about it."""


@dataclass(frozen=True, slots=True)
class Flop:
    """FLOP of one op.

    Attributes:
        nominal: By the published convention.
        least: What a direct implementation must execute.
        exact: Matrix work, or no FLOP at all.
        matrix: Shape of the matrix product, where the op is one.
    """

    nominal: Counts = field(default_factory=dict)
    least: Counts = field(default_factory=dict)
    exact: bool = True
    matrix: MatrixShape | None = None

    def __add__(self, other: Flop) -> Flop:
        if not self.nominal or not other.nominal:
            return self if self.nominal else other
        return Flop(
            _merged(self.nominal, other.nominal),
            _merged(self.least, other.least),
            self.exact or other.exact,
            self.matrix or other.matrix,
        )


def _merged(first: Counts, second: Counts) -> Counts:
    merged = dict(first)
    for unit, value in second.items():
        merged[unit] = merged.get(unit, 0.0) + value
    return merged


NO_FLOP = Flop()

_PRECISIONS = {
    "float64": Precision.FP64,
    "float32": Precision.FP32,
    "float16": Precision.FP16,
    "bfloat16": Precision.BF16,
    "complex128": Precision.FP64,
    "complex64": Precision.FP32,
    "float4_e2m1fn": Precision.FP4,
    "int8": Precision.INT8,
    "uint8": Precision.INT8,
    "qint8": Precision.INT8,
    "quint8": Precision.INT8,
    "int4": Precision.INT4,
    "uint4": Precision.INT4,
}


def is_complex(dtype: str) -> bool:
    """Whether a type is complex."""
    return dtype.startswith("complex")


def is_floating(dtype: str) -> bool:
    """Whether a type is a floating-point or complex one."""
    return dtype.startswith(("float", "bfloat", "complex"))


def precision_of(dtype: str) -> Precision:
    """Precision that computes for a type: complex by its parts, wide integers as int32."""
    if dtype.startswith("float8"):
        return Precision.FP8
    return _PRECISIONS.get(dtype, Precision.INT32)


def matrix(
    dtype: str,
    macs: float,
    *,
    least: float | None = None,
    shape: MatrixShape | None = None,
    tf32: bool = False,
) -> Flop:
    """Matrix work: 2 FLOP per multiply-add, 8 when the numbers are complex.

    Args:
        dtype: Type of the operands.
        macs: Multiply-adds by the published convention.
        least: Multiply-adds that must be executed; the same by default.
        shape: The matrix product, for the traffic model.
        tf32: Products of fp32 numbers may be computed in tf32.
    """
    precision = precision_of(dtype)
    if tf32 and dtype == "float32":
        precision = Precision.TF32
    factor = 2.0 * (COMPLEX_MULTIPLY_ADD if is_complex(dtype) else 1.0)
    unit = (Pipe.MATRIX, precision)
    nominal: Counts = {unit: factor * macs}
    return Flop(nominal, nominal if least is None else {unit: factor * least}, True, shape)


def gemm(dtype: str, batch: int, m: int, n: int, k: int, *, tf32: bool = False) -> Flop:
    """A batch of products (m × k)·(k × n)."""
    shape = MatrixShape(batch, m, n, k, int(ITEMSIZE.get(dtype, 4)))
    return matrix(dtype, float(batch) * m * n * k, shape=shape, tf32=tf32)


def vector(
    dtype: str, elements: float, weight: float, *, op: str = "", least: float | None = None
) -> Flop:
    """Work of the vector pipe by convention.

    Args:
        dtype: What computes; booleans compute nothing.
        elements: Elements that the weight applies to.
        weight: FLOP per element.
        op: Name for the factor of complex numbers.
        least: Elements that must be computed, one FLOP each; all by default.
    """
    if dtype == "bool" or weight == 0:
        return NO_FLOP
    if is_complex(dtype):
        weight *= weights.COMPLEX.get(op, weights.COMPLEX_OTHER)
    unit = (Pipe.VECTOR, precision_of(dtype))
    needed = min(weight, 1.0) * (elements if least is None else least)
    return Flop({unit: weight * elements}, {unit: needed}, False)


def size(shape: Sequence[int]) -> int:
    """Number of elements of a shape."""
    return math.prod(shape)


class Call:
    """One executed node, as rules see it.

    Args:
        node: The node.
        op: Its plain type (see ``names.plain``).
        inputs: Shapes and types of its inputs, as far as they are known.
        outputs: Likewise of its results.
        tf32: Whether products of fp32 numbers may be computed in tf32 here.
    """

    __slots__ = ("inputs", "node", "op", "outputs", "tf32")

    def __init__(
        self,
        node: Node,
        op: str,
        inputs: Sequence[TensorSpec | None],
        outputs: Sequence[TensorSpec | None],
        tf32: bool = False,
    ) -> None:
        self.node, self.op, self.tf32 = node, op, tf32
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def input(self, position: int) -> TensorSpec | None:
        """An input; None where there is none or nothing is known of it."""
        return self.inputs[position] if position < len(self.inputs) else None

    def output(self, position: int = 0) -> TensorSpec | None:
        """A result; None where there is none or nothing is known of it."""
        return self.outputs[position] if position < len(self.outputs) else None

    def shape(self, position: int) -> Shape:
        """Shape of an input.

        Raises:
            UncountableError: It is not known.
        """
        return _shape_of(self.input(position), f"the shape of its input {position}")

    def out_shape(self, position: int = 0) -> Shape:
        """Shape of a result.

        Raises:
            UncountableError: It is not known.
        """
        return _shape_of(self.output(position), "the shape of its result")

    def constant(self, position: int) -> Any:
        """Value of a constant input; None where it is not one."""
        return self.node.constants.get(position)

    def ints(self, position: int) -> Shape | None:
        """A constant input as integers; None where it is not one."""
        value = self.constant(position)
        if value is None:
            return None
        flat = value.reshape(-1).tolist() if hasattr(value, "reshape") else value
        return tuple(int(item) for item in (flat if isinstance(flat, list | tuple) else [flat]))

    def dtype(self, *names: str) -> str:
        """Type of the data: of the first of these attributes, of ``dtype`` or ``T``, or of the tensors."""
        for name in (*names, "dtype", "T"):
            if name in self.node.attrs:
                return self.node.dtype(name)
        specs = [spec for spec in (*self.inputs, *self.outputs) if spec is not None]
        floating = [spec.dtype for spec in specs if is_floating(spec.dtype)]
        return (floating or [spec.dtype for spec in specs] or ["unknown"])[0]


def _shape_of(spec: TensorSpec | None, what: str) -> Shape:
    if spec is None or spec.shape is None:
        raise UncountableError(f"{what} is not known")
    return spec.shape


Rule = Callable[[Call], Flop]
RULES: dict[str, Rule] = {}
"""Rules by plain op type."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of ops by plain type."""

    def register(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has two rules")
            RULES[name] = function
        return function

    return register
