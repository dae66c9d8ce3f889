"""Fourier transforms: 5·N·log2 N for complex data, 2.5·N·log2 N for real data; an estimate."""

from __future__ import annotations

import math

from hroof_keras.counting import weights
from hroof_keras.counting.flop import Call, Flop, Shape, rule, size, vector


def _transform(call: Call, shape: Shape, dimensions: int, weight: float) -> Flop:
    """Transforms over the last dimensions; a separable transform adds up its dimensions."""
    rounds = sum(math.log2(length) for length in shape[-dimensions:] if length > 1)
    dtype = {"complex128": "float64"}.get(call.dtype("Tcomplex"), "float32")
    return vector(dtype, size(shape) * rounds, weight)


def _dimensions(call: Call) -> int:
    return next((count for count in (2, 3) if call.op.endswith(f"{count}D")), 1)


@rule("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D")
def _complex(call: Call) -> Flop:
    return _transform(call, call.shape(0), _dimensions(call), weights.FFT_COMPLEX)


@rule("RFFT", "RFFT2D", "RFFT3D")
def _real_to_complex(call: Call) -> Flop:
    """Over the length that is asked for: the input is cut or filled with zeros to it."""
    dimensions = _dimensions(call)
    asked = call.ints(1)
    shape = call.shape(0)
    return _transform(
        call, shape[:-dimensions] + (asked or shape[-dimensions:]), dimensions, weights.FFT_REAL
    )


@rule("IRFFT", "IRFFT2D", "IRFFT3D")
def _complex_to_real(call: Call) -> Flop:
    return _transform(call, call.out_shape(), _dimensions(call), weights.FFT_REAL)
