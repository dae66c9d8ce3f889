"""FLOP of instructions that work element by element, reduce, or slide a window, by the table of weights."""

from __future__ import annotations

import math

from hroof.units import Pipe
from hroof_keras.counting import weights as ops
from hroof_keras.counting.flop import NO_FLOP, Flop, is_complex, is_floating, vector
from hroof_keras.hlo import weights
from hroof_keras.hlo.convolution import needed_taps
from hroof_keras.hlo.flop import times
from hroof_keras.hlo.messages import Hlo

_NORM = {
    "batch-norm-training": ops.BATCH_NORM_TRAINING,
    "batch-norm-inference": ops.BATCH_NORM_INFERENCE,
    "batch-norm-grad": ops.BATCH_NORM_BACKWARD,
}
"""Batch normalisation as one instruction; compilers usually take it apart."""

NORMS = frozenset(_NORM)

_REAL, _TO_REAL = 2, 3
"""Numbers of ``xla.FftType``: of real data, and inverse to real data."""


def elementwise(hlo: Hlo) -> Flop:
    """Weight × elements of the result; complex numbers count their real operations."""
    if hlo.shape.dtype == "bool":
        return NO_FLOP
    dtypes = [hlo.shape.dtype, *(operand.shape.dtype for operand in hlo.operands[:2])]
    computing = next(filter(is_complex, dtypes), None) or next(
        filter(is_floating, dtypes), dtypes[0]
    )
    weight, op = weights.PER_ELEMENT[hlo.opcode], weights.COMPLEX.get(hlo.opcode, "")
    return vector(computing, hlo.shape.size, weight, op=op)


def norm(hlo: Hlo) -> Flop:
    """Batch normalisation, per element of its input."""
    x = hlo.operands[0].shape
    return vector(x.dtype, x.size, _NORM[hlo.opcode])


def combined(hlo: Hlo, once: Flop, count: float, least: float | None = None) -> Flop:
    """A small computation applied ``count`` times.

    One that only selects (the position of a maximum) counts 1 per application, as a maximum does; one that
    combines truth values counts nothing.

    Args:
        hlo: The instruction that applies it.
        once: FLOP of one application.
        count: Applications by the published convention.
        least: Applications that must be executed; all by default.
    """
    if not once.nominal:
        return vector(hlo.operands[0].shape.dtype, count, 1.0, least=least)
    return times(once, count, least)


def window_taps(hlo: Hlo, base: tuple[int, ...], outputs: tuple[int, ...]) -> tuple[float, float]:
    """Taps of a windowed reduction in all, and those of them that meet an element."""
    nominal = math.prod(outputs) * math.prod(window.size for window in hlo.window)
    least = math.prod(
        needed_taps(window, length, positions)
        for window, length, positions in zip(hlo.window, base, outputs, strict=True)
    )
    return float(nominal), float(least)


def fourier(hlo: Hlo) -> Flop:
    """Transforms over the last dimensions; a separable transform adds up its dimensions."""
    real = hlo.fft_type in (_REAL, _TO_REAL)
    data = hlo.operands[0].shape if hlo.fft_type == _REAL else hlo.shape
    rounds = sum(math.log2(length) for length in hlo.fft_length if length > 1)
    weight = ops.FFT_REAL if real else ops.FFT_COMPLEX
    dtype = "float64" if data.dtype in ("float64", "complex128") else "float32"
    return vector(dtype, data.size * rounds, weight)


def cholesky(hlo: Hlo) -> Flop:
    """n³/3 per matrix (Golub and Van Loan, Matrix Computations)."""
    a = hlo.operands[0].shape
    return _textbook(a.dtype, math.prod(a.dims[:-2]) * a.dims[-1] ** 3 / 3)


def triangular_solve(hlo: Hlo) -> Flop:
    """n² per right-hand side (same source)."""
    a, right = (operand.shape for operand in hlo.operands[:2])
    sides = right.dims[-1] if hlo.left_side else right.dims[-2]
    return _textbook(a.dtype, math.prod(right.dims[:-2]) * a.dims[-1] ** 2 * sides)


def _textbook(dtype: str, operations: float) -> Flop:
    flop = vector(dtype, operations, 1.0)
    counts = {(Pipe.MATRIX, precision): value for (_, precision), value in flop.nominal.items()}
    return Flop(counts, counts, False)
