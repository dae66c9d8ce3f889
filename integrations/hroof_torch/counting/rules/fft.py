"""Fourier transforms: 5·N·log2 N for complex data, 2.5·N·log2 N for real data; an estimate."""

from __future__ import annotations

import math

from hroof_torch.counting import weights
from hroof_torch.counting.rules.flop import Call, Flop, rule, size, vector


def _transform(call: Call, shape: list[int], weight: float) -> Flop:
    """Transforms over ``dim`` of data of this shape; a separable transform adds up its dimensions."""
    points = size(shape)
    rounds = sum(math.log2(shape[dim]) for dim in call["dim"] if shape[dim] > 1)
    return vector(call.out.dtype, points * rounds, weight)


@rule("_fft_r2c")
def _real_to_complex(call: Call) -> Flop:
    return _transform(call, list(call["self"].shape), weights.FFT_REAL)


@rule("_fft_c2r")
def _complex_to_real(call: Call) -> Flop:
    return _transform(call, list(call.out.shape), weights.FFT_REAL)


@rule("_fft_c2c")
def _complex_to_complex(call: Call) -> Flop:
    return _transform(call, list(call["self"].shape), weights.FFT_COMPLEX)
