"""Convolutions in 2 and 3 dimensions: grouped, dilated, depthwise, fused, and their gradients.

Nominal multiply-adds are those of every kernel tap at every output position, padding included:
``N · Cout · (Cin / groups) · Π out · Π kernel``, which is the batch times all weights times the output
positions. Both gradients cost the same, and a transposed convolution is the gradient of an input in the
forward pass. Least counts only the taps that meet an input element; this is decided per dimension, so the
number of taps is a product over the dimensions. One-dimensional convolutions run as two-dimensional ones of
height 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hroof.launches.taps import valid_taps
from hroof_keras.counting.flop import (
    Call,
    Flop,
    Shape,
    UncountableError,
    matrix,
    rule,
    size,
    vector,
)
from hroof_keras.counting.rules.matrix import fused


@dataclass(frozen=True, slots=True)
class Steps:
    """How a window moves, per spatial dimension.

    Attributes:
        strides: Input positions between outputs.
        dilations: Input positions between taps.
        padding: ``SAME``, ``VALID`` or ``EXPLICIT``.
        explicit: Zeros before and after, for explicit padding.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    explicit: tuple[tuple[int, int], ...]

    def outputs(self, inputs: Sequence[int], kernel: Sequence[int]) -> Shape:
        """Output positions per dimension."""
        return tuple(
            self._positions(place, length, taps)
            for place, (length, taps) in enumerate(zip(inputs, kernel, strict=True))
        )

    def _positions(self, place: int, length: int, taps: int) -> int:
        stride, reach = self.strides[place], (taps - 1) * self.dilations[place] + 1
        if self.padding == "SAME":
            return -(-length // stride)
        return max(0, (length + sum(self._given(place)) - reach) // stride + 1)

    def _given(self, place: int) -> tuple[int, int]:
        return self.explicit[place] if self.explicit else (0, 0)

    def before(self, place: int, inputs: int, outputs: int, taps: int) -> int:
        """Zeros before the input in one dimension; SAME puts the odd one after it."""
        if self.padding != "SAME":
            return self._given(place)[0]
        reach = (taps - 1) * self.dilations[place] + 1
        return max(0, (outputs - 1) * self.strides[place] + reach - inputs) // 2


def channels_first(call: Call) -> bool:
    """Whether the channels of images come before their positions."""
    return call.node.text("data_format", "NHWC").startswith("NC")


def spatial(call: Call, shape: Sequence[int]) -> Shape:
    """The positions of a shape or of a list in the layout of the data."""
    return tuple(shape[2:]) if channels_first(call) else tuple(shape[1:-1])


def steps_of(call: Call, rank: int, *, dilated: bool = True) -> Steps:
    """How the window of a node moves.

    Args:
        call: A convolution or a pool.
        rank: Rank of the images, batch and channels included.
        dilated: Whether the op has dilations.

    Raises:
        UncountableError: The node does not tell.
    """
    node = call.node
    if not node.integers("strides") or "padding" not in node.attrs:
        raise UncountableError("its strides or its padding are not known")
    strides = spatial(call, node.integers("strides"))
    dilations = spatial(call, (node.integers("dilations") if dilated else ()) or (1,) * rank)
    listed = node.integers("explicit_paddings")
    pairs = tuple(zip(listed[::2], listed[1::2], strict=True))
    padding = node.text("padding")
    explicit = tuple(spatial_pairs(call, pairs)) if padding == "EXPLICIT" else ()
    return Steps(strides, dilations, padding, explicit)


def spatial_pairs(call: Call, pairs: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """The pairs that belong to positions."""
    return pairs[2:] if channels_first(call) else pairs[1:-1]


def _padded(call: Call, steps: Steps) -> Steps:
    """The steps of a convolution that a Pad was fused into; its paddings are the last input."""
    if not call.op.startswith("PadWith"):
        return steps
    values = call.ints(len(call.node.inputs) - 1)
    if values is None or steps.padding == "SAME":
        raise UncountableError("the paddings that are fused into it are not known")
    fused_pairs = spatial_pairs(call, tuple(zip(values[::2], values[1::2], strict=True)))
    own = steps.explicit or ((0, 0),) * len(fused_pairs)
    total = tuple((a + c, b + d) for (a, b), (c, d) in zip(own, fused_pairs, strict=True))
    return Steps(steps.strides, steps.dilations, "EXPLICIT", total)


def multiply_adds(call: Call, x: Shape, kernel: Shape, y: Shape) -> tuple[float, float]:
    """Nominal and least multiply-adds of one pass.

    Args:
        call: The node, for its layout and steps.
        x: Shape of the input of the convolution.
        kernel: Shape of the filter: taps, input channels of a group, output channels.
        y: Shape of the output of the convolution.
    """
    steps = _padded(call, steps_of(call, len(x)))
    taps, sources, positions = kernel[:-2], spatial(call, x), spatial(call, y)
    channels = float(x[0] * kernel[-2] * kernel[-1])
    least = channels
    for place, (source, position, tap) in enumerate(zip(sources, positions, taps, strict=True)):
        before = steps.before(place, source, position, tap)
        stride, dilation = steps.strides[place], steps.dilations[place]
        least *= valid_taps(source, position, tap, stride, before, dilation)
    return channels * size(positions) * size(taps), least


def _pass(call: Call, x: Shape, kernel: Shape, y: Shape) -> Flop:
    nominal, least = multiply_adds(call, x, kernel, y)
    return matrix(call.dtype(), nominal, least=least, tf32=call.tf32)


def _sizes(call: Call, position: int) -> Shape:
    """A shape that is given as a constant input, else that of the result."""
    values = call.ints(position)
    result = call.output()
    shape = None if result is None else result.shape
    if shape is not None and len(shape) > len(values or ()):
        return shape
    return values if values is not None else call.out_shape()


@rule(
    "Conv2D",
    "Conv3D",
    "FusedConv2D",
    "FusedConv3D",
    "Conv2DWithBias",
    "DepthwiseConv2dNative",
    "FusedDepthwiseConv2dNative",
    "PadWithConv2D",
    "PadWithFusedConv2D",
)
def _forward(call: Call) -> Flop:
    y = call.out_shape()
    flop = _pass(call, call.shape(0), call.shape(1), y) + fused(call, size(y))
    return flop + vector(call.dtype(), size(y), 1.0 if call.op == "Conv2DWithBias" else 0.0)


@rule("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput", "Conv3DBackpropInputV2")
def _input_gradient(call: Call) -> Flop:
    return _pass(call, _sizes(call, 0), call.shape(1), call.shape(2))


@rule(
    "Conv2DBackpropFilter",
    "DepthwiseConv2dNativeBackpropFilter",
    "Conv3DBackpropFilterV2",
    "Conv2DBackpropFilterWithBias",
    "PadWithConv2DBackpropFilter",
    "PadWithConv2DBackpropFilterWithBias",
)
def _filter_gradient(call: Call) -> Flop:
    """The gradient of the bias, where it is fused in, sums the incoming gradient."""
    dy = call.shape(2)
    flop = _pass(call, call.shape(0), _sizes(call, 1), dy)
    return flop + vector(call.dtype(), size(dy), 1.0 if call.op.endswith("WithBias") else 0.0)


@rule("Conv2DBackpropInputV2")
def _input_gradient_of_tensor(call: Call) -> Flop:
    """The form that is given the input itself instead of its shape."""
    return _pass(call, call.shape(0), call.shape(1), call.shape(2))


@rule("Conv2DBackpropFilterV2")
def _filter_gradient_of_tensor(call: Call) -> Flop:
    """The form that is given the filter itself instead of its shape."""
    return _pass(call, call.shape(0), call.shape(1), call.shape(2))
