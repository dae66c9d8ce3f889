"""Convolutions with weights packed beforehand: what a matrix unit of a CPU gives without moving its operands anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from hroof.integration import CeilingKernel
from hroof.units import Pipe, Precision
from hroof_torch.ceilings.cpu.peaks import Prepared, random_values, without_autocast

_CHANNELS, _SIDE, _KERNEL = 256, 14, 3
_IMAGES = 8
"""Per thread: the weights stay in L2, and one call takes about a millisecond at 2 TFLOP/s."""
_BF16_ERROR = 0.05
_NOTE = "oneDNN, weights packed beforehand; a library's product also moves its operands. "
_COUNTED = {
    Precision.BF16: _NOTE + "A multiply-add is 2 FLOP.",
    Precision.INT8: _NOTE + "uint8 times int8 into uint8. A multiply-add is 2 operations.",
}


def packed_kernels(precision: Precision, threads: int) -> Iterator[CeilingKernel]:
    """The convolution of one format, where this build of PyTorch has it.

    Args:
        precision: ``bf16`` or ``int8``; nothing comes of another one.
        threads: How many.
    """
    prepare = {Precision.BF16: _floating, Precision.INT8: _integer}.get(precision)
    if prepare is None or not torch.backends.mkldnn.is_available() or not _known(precision):
        return
    yield CeilingKernel(
        f"packed conv2d 3x3 {precision}",
        "peak",
        lambda: prepare(threads),
        pipe=Pipe.MATRIX,
        precision=precision,
        threads=threads,
        note=_COUNTED[precision],
    )


def _known(precision: Precision) -> bool:
    """Whether the ops, which are not public, are there."""
    if precision is Precision.INT8:
        return hasattr(torch.ops.onednn, "qconv_prepack")
    return hasattr(torch.ops.mkldnn, "_reorder_convolution_weight")


def _shapes(threads: int) -> tuple[tuple[int, ...], tuple[int, ...], float]:
    """Shapes of input and weight, and the operations of one call: 2·N·C²·9·H², padding taps counted."""
    images = _IMAGES * threads
    shape = images, _CHANNELS, _SIDE, _SIDE
    weight = _CHANNELS, _CHANNELS, _KERNEL, _KERNEL
    return shape, weight, 2.0 * images * (_CHANNELS * _KERNEL * _SIDE) ** 2


def _floating(threads: int) -> Prepared:
    shape, of_weight, flop = _shapes(threads)
    x = random_values(*shape, dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    weight = random_values(*of_weight, dtype=torch.bfloat16)
    ones = [1, 1]
    packed = torch.ops.mkldnn._reorder_convolution_weight(weight, ones, ones, ones, 1, list(shape))

    def call() -> torch.Tensor:
        return torch.ops.mkldnn._convolution_pointwise(
            x, packed, None, ones, ones, ones, 1, "none", [], ""
        )

    _check(without_autocast(call, 1)(), x, weight)
    return without_autocast(call, 1), flop


def _integer(threads: int) -> Prepared:
    shape, of_weight, operations = _shapes(threads)
    x = random_values(*shape, dtype=torch.int8).abs().to(torch.uint8)
    x = x.contiguous(memory_format=torch.channels_last)
    weight = random_values(*of_weight, dtype=torch.int8)
    ones = [1, 1]
    scales = torch.ones(_CHANNELS, device="cpu")
    zeros = torch.zeros(_CHANNELS, dtype=torch.int32, device="cpu")
    packed = torch.ops.onednn.qconv_prepack(
        weight, scales, 1.0, 0, ones, ones, ones, 1, list(shape)
    )

    def into(dtype: torch.dtype) -> Callable[[], Any]:
        return lambda: torch.ops.onednn.qconv_pointwise(
            x,
            1.0,
            0,
            packed,
            scales,
            zeros,
            None,
            ones,
            ones,
            ones,
            1,
            1.0,
            0,
            dtype,
            "none",
            [],
            "",
        )

    _check(into(torch.float32)(), x, weight)
    return into(torch.uint8), operations


def _check(result: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> None:
    """Refuse a kernel that computes something else.

    Raises:
        ArithmeticError: The results inside the first image are wrong.
    """
    corner = x[:1, :, :_KERNEL, :_KERNEL].double()
    expected = (corner * weight.double()).sum((1, 2, 3))
    error = (result[0, :, 1, 1].double() - expected).abs().max() / expected.abs().max()
    if not float(error) < _BF16_ERROR:
        raise ArithmeticError(f"its result is wrong by {float(error):.1e} of the largest one")
