"""Which taps of a kernel meet an element of the input: the work that padding and inserted zeros do not need."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def valid_taps(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int,
    padding: int,
    dilation: int,
    spacing: int = 1,
) -> int:
    """Pairs of output position and kernel tap, in one dimension, that meet an input element.

    Args:
        inputs: Elements of the input.
        outputs: Elements of the output.
        kernel: Taps of the kernel.
        stride: Input positions between outputs.
        padding: Zeros before the input; cut off where negative.
        dilation: Input positions between taps.
        spacing: Positions from one input element to the next; zeros lie between them.
    """
    if spacing > 1:
        return _spaced(inputs, outputs, kernel, stride, padding, dilation, spacing)
    total = 0
    for tap in range(kernel):
        shift = padding - tap * dilation
        first = max(0, -(-shift // stride))
        last = min(outputs - 1, (inputs - 1 + shift) // stride)
        total += max(0, last - first + 1)
    return total


def _spaced(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int,
    padding: int,
    dilation: int,
    spacing: int,
) -> int:
    end = (inputs - 1) * spacing
    total = 0
    for tap in range(kernel):
        start = tap * dilation - padding
        positions = range(start, start + outputs * stride, stride)
        total += sum(0 <= place <= end and place % spacing == 0 for place in positions)
    return total
