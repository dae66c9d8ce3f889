"""Multiply-adds of HLO convolutions: forward, both gradients, transposed, dilated, grouped.

An HLO convolution multiplies, for every element of its result, the taps of a window over its first operand
with its second one. What a framework calls the gradient of the input is such a convolution of the output's
gradient, spread by the stride (``base_dilation``); the gradient of the kernel is one whose window is the
output's gradient and whose result has the kernel's size. Nominal are the multiply-adds of the forward pass,
padding taps included: output positions × kernel taps, whichever of result, window and base they are here.
Least are the pairs of result position and tap that meet an element which is neither padding nor a hole.
Both are products over the dimensions. Reference: openxla.org/xla/operation_semantics, Conv.
"""

from __future__ import annotations

from enum import Enum

from hroof.launches.taps import valid_taps
from hroof_keras.hlo.messages import Hlo, WindowDimension


class Role(Enum):
    """Which pass of a convolution an instruction is; the numbers are those of ``xla.ConvolutionKind``."""

    FORWARD = 1
    INPUT_GRADIENT = 2
    KERNEL_GRADIENT = 3


def role_of(hlo: Hlo) -> Role:
    """Which pass a convolution is, as far as its kind, its op and its form tell.

    The form decides where nothing else does: a kernel that is applied backwards or a spread base mean the
    gradient of the input (or a transposed convolution), and so does a result larger than the base where the
    instruction still carries the name of its op; an input whose first dimension is the one summed over means
    the gradient of the kernel. Compilers lay out that gradient anew and drop its name: it then looks like a
    forward pass, with the same count.
    """
    if hlo.convolution_kind:
        return Role(hlo.convolution_kind)
    if "BackpropFilter" in hlo.op_type:
        return Role.KERNEL_GRADIENT
    if "BackpropInput" in hlo.op_type:
        return Role.INPUT_GRADIENT
    dimensions = hlo.convolution
    if dimensions.input_feature == 0 and dimensions.input_batch != 0:
        return Role.KERNEL_GRADIENT
    return Role.INPUT_GRADIENT if _looks_transposed(hlo) else Role.FORWARD


def _looks_transposed(hlo: Hlo) -> bool:
    spatial = [axis for axis in _spatial(hlo) if not _is_groups(*axis)]
    if any(window.base_dilation > 1 or window.reversed for window, _, _ in spatial):
        return True
    if len(hlo.operands) > 1 and hlo.operands[1].opcode == "reverse":
        return True
    if not hlo.op_name:
        return False
    grows = False
    for window, base, outputs in spatial:
        reach = (window.size - 1) * window.dilation
        if window.low > reach or window.high > reach:
            return False
        grows |= outputs > base
    return grows


def _spatial(hlo: Hlo) -> list[tuple[WindowDimension, int, int]]:
    """Window, elements of the base and of the result, per dimension."""
    dimensions = hlo.convolution
    base, result = hlo.operands[0].shape.dims, hlo.shape.first.dims
    return [
        (window, base[source], result[target])
        for window, source, target in zip(
            hlo.window, dimensions.input_spatial, dimensions.output_spatial, strict=True
        )
    ]


def _is_groups(window: WindowDimension, base: int, outputs: int) -> bool:
    """Whether a dimension holds the groups of a grouped convolution.

    XLA writes the gradient of a grouped kernel so where a device has no groups: spread so far that each result
    meets the one element of its own group. A spread image, in contrast, has more results than elements.
    """
    alone = not window.low and not window.high and window.dilation == 1 < window.base_dilation
    return alone and base == outputs == window.size == window.base_dilation


def multiply_adds(hlo: Hlo, role: Role | None = None) -> tuple[float, float]:
    """Nominal and least multiply-adds of a ``convolution``.

    Args:
        hlo: The instruction.
        role: Which pass it is; found out by default.

    Returns:
        Σ over the elements of the result; in a grouped convolution, over channels and batch alike, each
        result sums over the kernel's own input features only.
    """
    role = role or role_of(hlo)
    dimensions, result = hlo.convolution, hlo.shape.first.dims
    kernel = hlo.operands[1].shape.dims
    channels = (
        result[dimensions.output_batch]
        * result[dimensions.output_feature]
        * kernel[dimensions.kernel_input]
    )
    nominal = least = float(channels)
    for window, base, outputs in _spatial(hlo):
        nominal *= _positions(role, window, base, outputs)
        least *= needed_taps(window, base, outputs)
    return nominal, least


def needed_taps(window: WindowDimension, base: int, outputs: int) -> int:
    """Pairs of result position and tap, in one dimension, that meet an element of the base."""
    return valid_taps(
        base,
        outputs,
        window.size,
        window.stride,
        window.low,
        window.dilation,
        window.base_dilation,
    )


def _positions(role: Role, window: WindowDimension, base: int, outputs: int) -> int:
    """Output positions × kernel taps of the forward pass, in one dimension."""
    if _is_groups(window, base, outputs):
        return needed_taps(window, base, outputs)
    if role is Role.KERNEL_GRADIENT:
        return outputs * (base if window.base_dilation > 1 else window.size)
    if role is Role.INPUT_GRADIENT:
        return base * window.size
    return outputs * window.size
