"""What rules are made of: a call, its FLOP, precisions and the registry."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from hroof.launches import Counts
from hroof.traffic import MatrixShape
from hroof.units import Pipe, Precision
from hroof_torch.counting.schema import OpInfo

COMPLEX_MULTIPLY_ADD = 4.0
"""A complex multiply-add is 8 real FLOP, four times a real one."""


class UncountableError(Exception):
    """The work of this call does not follow from its shapes."""


class Call:
    """One call of an op, as rules see it: arguments by name, results in a list."""

    __slots__ = ("_values", "info", "outputs")

    def __init__(
        self, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: list[Any]
    ) -> None:
        self.info = info
        self.outputs = outputs
        self._values = dict(zip(info.positional, args, strict=False))
        if kwargs:
            self._values.update(kwargs)

    def __getitem__(self, name: str) -> Any:
        """Value of an argument; its default where it was not passed."""
        values = self._values
        return values[name] if name in values else self.info.defaults.get(name)

    def first(self, *names: str) -> Any:
        """Value of the first of these arguments that the schema has and that is not None."""
        return next((self[name] for name in names if self[name] is not None), None)

    @property
    def inputs(self) -> list[Any]:
        """Tensor arguments in schema order, lists opened."""
        found: list[Any] = []
        for argument in self.info.holders:
            value = self[argument.name]
            values = value if isinstance(value, list | tuple) else (value,)
            found.extend(item for item in values if isinstance(item, torch.Tensor))
        return found

    @property
    def out(self) -> Any:
        """The first tensor of the results.

        Raises:
            UncountableError: There is none.
        """
        if not self.outputs:
            raise UncountableError("it has no tensor as a result")
        return self.outputs[0]


@dataclass(frozen=True, slots=True)
class Flop:
    """FLOP of one call.

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
        return Flop(
            _merged(self.nominal, other.nominal),
            _merged(self.least, other.least),
            self.exact or other.exact,
            self.matrix or other.matrix,
        )

    def as_convention(self) -> Flop:
        """The same, labelled as an estimate."""
        return Flop(self.nominal, self.least, False, self.matrix)


def _merged(first: Counts, second: Counts) -> Counts:
    merged = dict(first)
    for unit, value in second.items():
        merged[unit] = merged.get(unit, 0.0) + value
    return merged


Rule = Callable[[Call], Flop]
RULES: dict[str, Rule] = {}
"""Rules by base name (``addmm``); ops of other namespaces by full name."""

NO_FLOP = Flop()


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of ops by base name."""

    def register(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has two rules")
            RULES[name] = function
        return function

    return register


_PRECISIONS: dict[Any, Precision] = {
    torch.float64: Precision.FP64,
    torch.float32: Precision.FP32,
    torch.float16: Precision.FP16,
    torch.bfloat16: Precision.BF16,
    torch.complex128: Precision.FP64,
    torch.complex64: Precision.FP32,
    torch.complex32: Precision.FP16,
    torch.float8_e4m3fn: Precision.FP8,
    torch.float8_e5m2: Precision.FP8,
    torch.float8_e4m3fnuz: Precision.FP8,
    torch.float8_e5m2fnuz: Precision.FP8,
    torch.int8: Precision.INT8,
    torch.uint8: Precision.INT8,
    torch.qint8: Precision.INT8,
    torch.quint8: Precision.INT8,
}


def precision_of(dtype: Any) -> Precision:
    """Precision that computes for a dtype: complex by its parts, wide integers as int32."""
    return _PRECISIONS.get(dtype, Precision.INT32)


def matrix_precision(tensor: Any, *, convolution: bool = False) -> Precision:
    """Precision of matrix work on operands like this one: tf32 where CUDA may use it for fp32."""
    precision = precision_of(tensor.dtype)
    if precision is Precision.FP32 and tensor.device.type == "cuda" and tf32_allowed(convolution):
        return Precision.TF32
    return precision


def tf32_allowed(convolution: bool) -> bool:
    """Whether the program lets CUDA compute fp32 products, or convolutions, in tf32."""
    backend = torch.backends.cudnn.conv if convolution else torch.backends.cuda.matmul
    if hasattr(backend, "fp32_precision"):
        chosen = backend.fp32_precision
        for general in (torch.backends.cudnn, torch.backends):
            if chosen == "none":
                chosen = getattr(general, "fp32_precision", "none")
        return bool(chosen == "tf32")
    old = torch.backends.cudnn if convolution else torch.backends.cuda.matmul
    return bool(old.allow_tf32)


def matrix(
    operand: Any,
    macs: float,
    *,
    least: float | None = None,
    shape: MatrixShape | None = None,
    convolution: bool = False,
) -> Flop:
    """Matrix work: 2 FLOP per multiply-add, 8 when the numbers are complex.

    Args:
        operand: Tensor whose dtype and device say what computes.
        macs: Multiply-adds by the published convention.
        least: Multiply-adds that must be executed; the same by default.
        shape: The matrix product, for the traffic model.
        convolution: It is a convolution (another tf32 switch).
    """
    unit = (Pipe.MATRIX, matrix_precision(operand, convolution=convolution))
    factor = 2.0 * (COMPLEX_MULTIPLY_ADD if operand.dtype.is_complex else 1.0)
    nominal = {unit: factor * macs}
    return Flop(nominal, nominal if least is None else {unit: factor * least}, True, shape)


def vector(dtype: Any, elements: float, weight: float, *, least: float | None = None) -> Flop:
    """Work of the vector pipe by convention.

    Args:
        dtype: What computes; booleans compute nothing.
        elements: Elements that the weight applies to.
        weight: FLOP per element.
        least: Elements that must be computed, one FLOP each; all by default.
    """
    if dtype == torch.bool or weight == 0:
        return NO_FLOP
    unit = (Pipe.VECTOR, precision_of(dtype))
    needed = min(weight, 1.0) * (elements if least is None else least)
    return Flop({unit: weight * elements}, {unit: needed}, False)


def gemm(a: Any, batch: int, m: int, n: int, k: int) -> Flop:
    """A batch of products (m × k)·(k × n) of strided operands like ``a``."""
    itemsize = a.dtype.itemsize
    return matrix(a, batch * m * n * k, shape=MatrixShape(batch, m, n, k, itemsize))


def size(shape: Sequence[int]) -> int:
    """Number of elements of a shape."""
    return math.prod(shape)
