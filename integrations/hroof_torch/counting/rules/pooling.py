"""Pooling: one operation per kernel tap that is read."""

from __future__ import annotations

from typing import Any

from hroof_torch.counting.rules.flop import Call, Flop, rule, size, vector


def _taps(kernel: Any, dims: int) -> int:
    listed = list(kernel) if isinstance(kernel, list | tuple) else [kernel]
    return int(listed[0]) ** dims if len(listed) == 1 else size(listed)


def _dims(call: Call) -> int:
    return next((dims for dims in (1, 2, 3) if f"{dims}d" in call.info.base), 2)


@rule(
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "mkldnn_max_pool2d",
    "mkldnn_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
)
def _pool(call: Call) -> Flop:
    y = call.out
    taps = _taps(call["kernel_size"], _dims(call))
    return vector(call.inputs[0].dtype, y.numel() * taps, 1.0)


@rule("avg_pool2d_backward", "avg_pool3d_backward")
def _average_backward(call: Call) -> Flop:
    grad = call["grad_output"]
    return vector(grad.dtype, grad.numel() * _taps(call["kernel_size"], _dims(call)), 1.0)
