"""Matrix products: MatMul and its batched, fused and sparse forms.

What Grappler fuses onto a product (bias, activation) is vector work beside it, by convention.
"""

from __future__ import annotations

from hroof_keras.counting import weights
from hroof_keras.counting.flop import (
    NO_FLOP,
    Call,
    Flop,
    Shape,
    UncountableError,
    gemm,
    matrix,
    rule,
    size,
    vector,
)

_OUTPUT_STAGES = frozenset({"Quantize", "Dequantize", "Requantize", "Squeeze"})
"""Entries of ``fused_ops`` that convert or reshape and compute nothing."""


def broadcast(*shapes: Shape) -> Shape:
    """The shape that these broadcast to.

    Raises:
        UncountableError: They do not fit together.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(_common(lengths) for lengths in zip(*padded, strict=True))


def _common(lengths: tuple[int, ...]) -> int:
    different = {length for length in lengths if length != 1}
    if len(different) > 1:
        raise UncountableError(f"lengths {sorted(different)} do not broadcast")
    return different.pop() if different else 1


def fused(call: Call, elements: float) -> Flop:
    """Vector work of ``fused_ops`` on results of so many elements.

    Raises:
        UncountableError: One of them has no weight.
    """
    flop = NO_FLOP
    for name in call.node.texts("fused_ops"):
        if name in _OUTPUT_STAGES:
            continue
        if name not in weights.FUSED:
            raise UncountableError(f"the op {name!r} that is fused into it has no weight")
        flop += vector(call.dtype(), elements, weights.FUSED[name])
    return flop


def _rows_and_columns(shape: Shape, swapped: bool) -> tuple[int, int]:
    rows, columns = shape[-2:]
    return (columns, rows) if swapped else (rows, columns)


@rule("MatMul", "FusedMatMul", "MatMulWithBias", "SparseMatMul")
def _matmul(call: Call) -> Flop:
    m, k = _rows_and_columns(call.shape(0), call.node.flag("transpose_a"))
    _, n = _rows_and_columns(call.shape(1), call.node.flag("transpose_b"))
    return gemm(call.dtype("Ta"), 1, m, n, k, tf32=call.tf32) + fused(call, m * n)


@rule("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "FusedBatchMatMulV2", "FusedBatchMatMul")
def _batch_matmul(call: Call) -> Flop:
    a, b = call.shape(0), call.shape(1)
    m, k = _rows_and_columns(a, call.node.flag("adj_x"))
    _, n = _rows_and_columns(b, call.node.flag("adj_y"))
    batch = size(broadcast(a[:-2], b[:-2]))
    flop = gemm(call.dtype("Ta"), batch, m, n, k, tf32=call.tf32)
    return flop + fused(call, batch * m * n)


@rule("SparseTensorDenseMatMul")
def _sparse_dense(call: Call) -> Flop:
    """Every stored element of the sparse operand meets one row of the dense one."""
    stored = size(call.shape(1))
    _, columns = _rows_and_columns(call.shape(3), call.node.flag("adjoint_b"))
    return matrix(call.dtype(), stored * columns, tf32=call.tf32)
