"""Matrix products of HLO: ``dot`` and what libraries do in its place."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hroof.traffic import MatrixShape
from hroof_keras.counting.flop import Flop, matrix
from hroof_keras.hlo.messages import DotDimensions
from hroof_keras.hlo.shapes import Shape


def product_shape(lhs: Shape, rhs: Shape, dimensions: DotDimensions) -> MatrixShape:
    """The batch of products (m × k)·(k × n) that a ``dot`` is.

    Args:
        lhs: Left operand.
        rhs: Right operand.
        dimensions: Which dimensions are summed over, which are the batch; the rest are rows and columns.
    """
    return MatrixShape(
        batch=_lengths(lhs.dims, dimensions.lhs_batch),
        m=_rest(lhs.dims, {*dimensions.lhs_batch, *dimensions.lhs_contracting}),
        n=_rest(rhs.dims, {*dimensions.rhs_batch, *dimensions.rhs_contracting}),
        k=_lengths(lhs.dims, dimensions.lhs_contracting),
        itemsize=max(1, math.ceil(lhs.itemsize)),
    )


def product(lhs: Shape, rhs: Shape, dimensions: DotDimensions, *, tf32: bool = False) -> Flop:
    """FLOP of a product: 2·batch·m·n·k."""
    shape = product_shape(lhs, rhs, dimensions)
    macs = float(shape.batch * shape.m * shape.n * shape.k)
    return matrix(lhs.dtype, macs, shape=shape, tf32=tf32)


def ragged_product(lhs: Shape, out: Shape, dimensions: DotDimensions) -> Flop:
    """Groups divide one dimension; every element of the result still sums over the contracted ones."""
    return matrix(lhs.dtype, float(out.size * _lengths(lhs.dims, dimensions.lhs_contracting)))


def _lengths(dims: Sequence[int], chosen: Iterable[int]) -> int:
    return math.prod(dims[index] for index in chosen)


def _rest(dims: Sequence[int], taken: set[int]) -> int:
    return math.prod(length for index, length in enumerate(dims) if index not in taken)
