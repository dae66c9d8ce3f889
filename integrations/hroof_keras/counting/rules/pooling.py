"""Pooling: one operation per kernel tap that is read, and one per element of a gradient that is scattered."""

from __future__ import annotations

from hroof_keras.counting.flop import Call, Flop, UncountableError, rule, size, vector


def _taps(call: Call) -> int:
    """Taps of the kernel: an attribute, or a constant input of the V2 forms."""
    listed = call.node.integers("ksize")
    position = len(call.node.inputs) - 2
    sizes = listed or (call.ints(position) if position > 0 else None)
    if not sizes:
        raise UncountableError("the size of its window is not known")
    return size(sizes)


@rule("MaxPool", "MaxPoolV2", "MaxPool3D", "MaxPoolWithArgmax", "AvgPool", "AvgPool3D")
def _pool(call: Call) -> Flop:
    return vector(call.dtype(), size(call.out_shape()) * _taps(call), 1.0)


@rule("AvgPoolGrad", "AvgPool3DGrad")
def _average_gradient(call: Call) -> Flop:
    return vector(call.dtype(), size(call.shape(1)) * _taps(call), 1.0)


@rule("MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad")
def _max_gradient(call: Call) -> Flop:
    """Inputs: what went in, what came out, and the gradient."""
    return vector(call.dtype(), size(call.shape(2)), 1.0)


@rule("MaxPoolGradWithArgmax")
def _max_gradient_by_place(call: Call) -> Flop:
    """Inputs: what went in, the gradient, and the places of the maxima."""
    return vector(call.dtype(), size(call.shape(1)), 1.0)
