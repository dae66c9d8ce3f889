"""Convolutions in 1 to 3 dimensions: forward, transposed, grouped, dilated, and their gradients.

Nominal multiply-adds are those of every kernel tap at every position, padding included:
``N · Cout · (Cin / groups) · Π out · Π kernel``; a transposed convolution has its input positions in the place
of the output. Least counts only the taps that meet an input element. Whether a tap does is decided per
dimension, so the number of taps is a product over the dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hroof.launches.taps import valid_taps
from hroof_torch.counting.rules.flop import NO_FLOP, Call, Flop, matrix, rule, size, vector


def _per_dimension(values: Any, dims: int) -> list[int]:
    listed = list(values) if isinstance(values, list | tuple) else [values]
    return listed * dims if len(listed) == 1 else listed


class Geometry:
    """Multiply-adds of one pass of a convolution.

    Args:
        x: Shape of the input, batch and channels first.
        weight: Shape of the weight.
        y: Shape of the output.
        stride: Per dimension, or one for all.
        padding: Likewise.
        dilation: Likewise.
        transposed: Whether the input positions, not the output positions, are what the kernel is put on.
        groups: Groups of channels.
    """

    def __init__(
        self,
        x: Sequence[int],
        weight: Sequence[int],
        y: Sequence[int],
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        groups: int,
    ) -> None:
        dims = len(weight) - 2
        kernel = weight[2:]
        dense, other = (x[2:], y[2:]) if transposed else (y[2:], x[2:])
        channels = size(x[:1]) * (x[1] if transposed else y[1]) * weight[1]
        steps = [_per_dimension(values, dims) for values in (stride, padding, dilation)]
        self.nominal = channels * size(dense) * size(kernel)
        self.least = channels
        for inputs, outputs, taps, s, p, d in zip(other, dense, kernel, *steps, strict=True):
            self.least *= valid_taps(int(inputs), int(outputs), int(taps), int(s), int(p), int(d))


def _forward(call: Call, x: Any, weight: Any, geometry: Geometry, bias: Any) -> Flop:
    flop = matrix(x, geometry.nominal, least=geometry.least, convolution=True)
    return flop if bias is None else flop + vector(call.out.dtype, call.out.numel(), 1.0)


def _geometry(call: Call, x: Any, weight: Any, y: Any, transposed: bool) -> Geometry:
    dims = weight.dim() - 2
    return Geometry(
        x.shape,
        weight.shape,
        y.shape,
        call["stride"] or [1] * dims,
        call["padding"] if call["padding"] is not None else 0,
        call["dilation"] if call["dilation"] is not None else 1,
        transposed,
        call["groups"] or 1,
    )


@rule("convolution", "_convolution", "convolution_overrideable")
def _convolution(call: Call) -> Flop:
    x, weight = call["input"], call["weight"]
    geometry = _geometry(call, x, weight, call.out, bool(call["transposed"]))
    return _forward(call, x, weight, geometry, call["bias"])


@rule(
    "mkldnn_convolution",
    "cudnn_convolution",
    "miopen_convolution",
    "miopen_depthwise_convolution",
    "thnn_conv2d",
    "_slow_conv2d_forward",
    "slow_conv3d",
    "slow_conv3d_forward",
    "slow_conv_dilated2d",
    "slow_conv_dilated3d",
    "_conv_depthwise2d",
    "conv_depthwise3d",
    "_nnpack_spatial_convolution",
    "cudnn_convolution_relu",
    "cudnn_convolution_add_relu",
    "conv1d",
    "conv2d",
    "conv3d",
)
def _library_convolution(call: Call) -> Flop:
    x, weight = call.first("self", "input"), call["weight"]
    flop = _forward(call, x, weight, _geometry(call, x, weight, call.out, False), call["bias"])
    extra = {"cudnn_convolution_relu": 1.0, "cudnn_convolution_add_relu": 2.0}
    return flop + vector(x.dtype, call.out.numel(), extra.get(call.info.base, 0.0))


@rule(
    "cudnn_convolution_transpose",
    "miopen_convolution_transpose",
    "slow_conv_transpose2d",
    "slow_conv_transpose3d",
)
def _library_transposed(call: Call) -> Flop:
    x, weight = call["self"], call["weight"]
    return _forward(call, x, weight, _geometry(call, x, weight, call.out, True), call["bias"])


@rule("convolution_backward", "convolution_backward_overrideable")
def _backward(call: Call) -> Flop:
    """Each gradient that is asked for costs the multiply-adds of the forward pass; a bias gradient is a sum."""
    grad, x, weight = call["grad_output"], call["input"], call["weight"]
    geometry = _geometry(call, x, weight, grad, bool(call["transposed"]))
    wants_input, wants_weight, wants_bias = call["output_mask"]
    passes = int(wants_input) + int(wants_weight)
    flop = (
        matrix(grad, passes * geometry.nominal, least=passes * geometry.least, convolution=True)
        if passes
        else NO_FLOP
    )
    return flop + vector(grad.dtype, grad.numel(), 1.0 if wants_bias else 0.0)


@rule("conv_tbc")
def _conv_tbc(call: Call) -> Flop:
    """Time, batch, channels; weight is (taps, in, out)."""
    x, weight, y = call["self"], call["weight"], call.out
    taps = valid_taps(x.shape[0], y.shape[0], weight.shape[0], 1, call["pad"], 1)
    channels = x.shape[1] * weight.shape[1] * weight.shape[2]
    macs = channels * y.shape[0] * weight.shape[0]
    return matrix(x, macs, least=channels * taps, convolution=True) + vector(
        y.dtype, y.numel(), 1.0
    )
