"""Sparse access that also computes: scattered additions, sums of rows."""

from __future__ import annotations

from hroof_keras.counting.flop import Call, Flop, rule, size, vector


@rule(
    "ResourceScatterAdd",
    "ResourceScatterSub",
    "ResourceScatterMul",
    "ResourceScatterDiv",
    "ResourceScatterMin",
    "ResourceScatterMax",
    "ResourceScatterNdAdd",
    "ResourceScatterNdSub",
    "TensorScatterAdd",
    "TensorScatterSub",
    "TensorScatterMin",
    "TensorScatterMax",
    "ScatterAdd",
    "ScatterSub",
)
def _scattered(call: Call) -> Flop:
    """One operation per element of the updates, the third input."""
    return vector(call.dtype(), size(call.shape(2)), 1.0, op="Add")


@rule("ScatterNd")
def _scatter(call: Call) -> Flop:
    """Updates of the same place add up."""
    return vector(call.dtype(), size(call.shape(1)), 1.0, op="Add")


@rule(
    "SparseSegmentSum",
    "SparseSegmentMean",
    "SparseSegmentSqrtN",
    "SparseSegmentSumWithNumSegments",
    "SparseSegmentMeanWithNumSegments",
    "SparseSegmentSqrtNWithNumSegments",
)
def _segment(call: Call) -> Flop:
    """One addition per element of every row that is looked up."""
    rows = size(call.shape(1)) * size(call.shape(0)[1:])
    return vector(call.dtype(), rows, 1.0, op="Add")


@rule("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad")
def _segment_gradient(call: Call) -> Flop:
    rows = size(call.shape(1)) * size(call.shape(0)[1:])
    return vector(call.dtype(), rows, 1.0, op="Add")
