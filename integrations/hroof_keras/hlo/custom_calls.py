"""FLOP of calls of libraries, by their target: cuBLAS, cuDNN, oneDNN, LAPACK.

A target without a rule is unknown and is named. The forms of cuBLAS and cuDNN calls are those of the sources of
XLA (``xla/service/gpu/cublas_cudnn.h``, ``backend_configs.proto``); none of them was run on a GPU.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hroof.launches.taps import valid_taps
from hroof.units import Pipe
from hroof_keras.counting import weights as ops
from hroof_keras.counting.flop import NO_FLOP, Flop, matrix, vector
from hroof_keras.hlo.dots import product
from hroof_keras.hlo.messages import DotDimensions, Hlo
from hroof_keras.hlo.shapes import Shape
from hroof_keras.hlo.weights import words

FREE_TARGETS = words(
    """
    Sharding SPMDFullToShardShape SPMDShardToFullShape MoveToHost MoveToDevice AllocateBuffer AssumeGatherIndicesInBound
    X64Combine X64SplitHigh X64SplitLow annotate_device_placement LayoutConstraint PinToDevice Unpin
    """
)
"""Targets that only say something to the compiler."""

_MOVES = words(
    """
    TopK __gpu$TopK __cub$DeviceRadixSort __cub$DeviceRadixSortUnassignedScratchSize PadToStatic SliceToDynamic
    cu_threefry2x32 cu_threefry2x32_ffi cuda_threefry2x32 cuda_threefry2x32_ffi
    """
)
"""Targets that move, order or draw."""


def settings(hlo: Hlo) -> Mapping[str, Any]:
    """The backend's settings of an instruction; empty where there are none or they are not JSON."""
    try:
        found = json.loads(hlo.backend_config or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def custom_call(hlo: Hlo, *, tf32: bool = False) -> Flop | None:
    """FLOP of a ``custom-call``; None for a target without a rule.

    Args:
        hlo: The instruction.
        tf32: The device computes products of fp32 numbers in tf32.
    """
    if hlo.target in FREE_TARGETS or hlo.target in _MOVES:
        return NO_FLOP
    for prefix, rule in _RULES.items():
        if hlo.target.startswith(prefix):
            return rule(hlo, tf32)
    return None


def _gemm(hlo: Hlo, tf32: bool) -> Flop | None:
    """``__cublas$gemm``, ``__cublas$lt$matmul``, ``__triton_gemm``: dimensions are in the settings."""
    config = settings(hlo)
    gemm = config.get("gemm_backend_config", config)
    raw = gemm.get("dot_dimension_numbers")
    if raw is None or len(hlo.operands) < 2:
        return None
    lhs, rhs = (operand.shape for operand in hlo.operands[:2])
    flop = product(lhs, rhs, _dimensions(raw), tf32=tf32)
    result = hlo.shape.first
    extra = float(gemm.get("beta", 0) not in (0, 0.0)) + _epilogue(str(gemm.get("epilogue", "")))
    return flop + vector(result.dtype, result.size, extra)


def _epilogue(name: str) -> float:
    """FLOP per element of what is fused onto a product, such as ``BIAS_GELU`` or ``BIAS_RELU_AUX``."""
    names = {"BIAS": "BiasAdd", "RELU": "Relu", "GELU": "GeluExact", "SILU": "Swish"}
    return sum(ops.FUSED[names[word]] for word in name.upper().split("_") if word in names)


def _dimensions(raw: Mapping[str, Any]) -> DotDimensions:
    """Numbers of 64 bits are strings in JSON."""

    def numbers(key: str) -> tuple[int, ...]:
        return tuple(int(item) for item in raw.get(key, ()))

    return DotDimensions(
        numbers("lhs_contracting_dimensions"),
        numbers("rhs_contracting_dimensions"),
        numbers("lhs_batch_dimensions"),
        numbers("rhs_batch_dimensions"),
    )


def _convolution(hlo: Hlo, tf32: bool) -> Flop | None:
    """``__cudnn$conv*``: window and dimensions are those of the forward pass, whichever pass it is.

    Forward takes input and kernel; the gradient of the input takes the output's gradient and the kernel; the
    gradient of the kernel takes the input and the output's gradient.
    """
    if len(hlo.operands) < 2 or not hlo.window:
        return None
    first, second, result = hlo.operands[0].shape, hlo.operands[1].shape, hlo.shape.first
    if "BackwardInput" in hlo.target:
        x, kernel, y = result, second, first
    elif "BackwardFilter" in hlo.target:
        x, kernel, y = first, result, second
    else:
        x, kernel, y = first, second, result
    nominal, least = _forward_macs(hlo, x.dims, kernel.dims, y.dims)
    flop = matrix(x.dtype, nominal, least=least, tf32=tf32)
    if "BiasActivation" not in hlo.target:
        return flop
    return flop + vector(result.dtype, result.size, 1.0 + _activation(hlo) + _side_input(hlo))


def _forward_macs(
    hlo: Hlo, x: Sequence[int], kernel: Sequence[int], y: Sequence[int]
) -> tuple[float, float]:
    dims = hlo.convolution
    channels = y[dims.output_batch] * y[dims.output_feature] * kernel[dims.kernel_input]
    nominal = least = float(channels)
    for window, source, target in zip(
        hlo.window, dims.input_spatial, dims.output_spatial, strict=True
    ):
        nominal *= y[target] * window.size
        least *= valid_taps(
            x[source], y[target], window.size, window.stride, window.low, window.dilation
        )
    return nominal, least


def _activation(hlo: Hlo) -> float:
    config = settings(hlo)
    mode = str(config.get("cudnn_conv_backend_config", config).get("activation_mode", "")).upper()
    names = {
        "KRELU": "Relu",
        "KRELU6": "Relu6",
        "KELU": "Elu",
        "KSIGMOID": "Sigmoid",
        "KTANH": "Tanh",
    }
    return ops.FUSED.get(names.get(mode, ""), 0.0)


def _side_input(hlo: Hlo) -> float:
    """A fourth operand is added to the result."""
    return 1.0 if len(hlo.operands) > 3 else 0.0


def _onednn_matmul(hlo: Hlo, tf32: bool) -> Flop | None:
    """``__onednn$matmul``: the last two dimensions; further operands are fused onto the result."""
    if len(hlo.operands) < 2:
        return None
    config = settings(hlo).get("onednn_matmul_config", settings(hlo))
    lhs, rhs = (operand.shape for operand in hlo.operands[:2])
    a, b = len(lhs.dims), len(rhs.dims)
    row, column = bool(config.get("transpose_a")), bool(config.get("transpose_b"))
    batch = tuple(range(min(a, b) - 2))
    sides = DotDimensions((a - 2 if row else a - 1,), (b - 1 if column else b - 2,), batch, batch)
    return product(lhs, rhs, sides, tf32=tf32) + _fused_ops(hlo, config)


def _fused_ops(hlo: Hlo, config: Mapping[str, Any]) -> Flop:
    fused = config.get("fusions", {}).get("ops", [])
    names = {"BIAS": "BiasAdd", "RELU": "Relu", "TANH": "Tanh", "ELU": "Elu", "BINARY_ADD": "Add"}
    names |= {"GELU_ERF": "GeluExact", "GELU_TANH": "GeluApproximate", "SIGMOID": "Sigmoid"}
    names |= {"RELU6": "Relu6", "SUM": "Add", "SWISH": "Swish", "LINEAR": "Mul"}
    weight = sum(ops.FUSED.get(names.get(str(name), ""), 0.0) for name in fused)
    return vector(hlo.shape.first.dtype, hlo.shape.first.size, weight)


def _onednn_convolution(hlo: Hlo, tf32: bool) -> Flop | None:
    """``__onednn$convolution``: counted where it keeps the window of the convolution that it replaces."""
    return _convolution(hlo, tf32)


def _lapack(hlo: Hlo, tf32: bool) -> Flop | None:
    """LAPACK and cuSOLVER by routine: potrf n³/3, getrf 2n³/3, geqrf 2n²(m − n/3), trsm n² per side.

    Source: Golub and Van Loan, Matrix Computations.
    """
    arrays = [operand.shape for operand in hlo.operands if len(operand.shape.dims) >= 2]
    if not arrays:
        return None
    a = arrays[0]
    for routine, cost in _ROUTINES.items():
        if routine in hlo.target:
            return _factorisation(a, cost(a.dims, arrays[-1].dims))
    return None


_ROUTINES: Mapping[str, Callable[[Sequence[int], Sequence[int]], float]] = {
    "potrf": lambda a, _: a[-1] ** 3 / 3,
    "getrf": lambda a, _: 2 * min(a[-2:]) ** 3 / 3,
    "geqrf": lambda a, _: 2 * min(a[-2:]) ** 2 * (max(a[-2:]) - min(a[-2:]) / 3),
    "trsm": lambda a, b: a[-1] * math.prod(b[-2:]),
}


def _factorisation(a: Shape, per_matrix: float) -> Flop:
    one = vector(a.dtype, math.prod(a.dims[:-2]) * per_matrix, 1.0)
    counts = {(Pipe.MATRIX, precision): value for (_, precision), value in one.nominal.items()}
    return Flop(counts, counts, False)


def _unknown_flop(hlo: Hlo, tf32: bool) -> Flop | None:
    return None


_RULES: Mapping[str, Callable[[Hlo, bool], Flop | None]] = {
    "__cublas$lt$groupedMatmul": _unknown_flop,
    "__cublas$": _gemm,
    "__triton": _gemm,
    "__cudnn$conv": _convolution,
    "__onednn$matmul": _onednn_matmul,
    "__onednn$convolution": _onednn_convolution,
    "lapack_": _lapack,
    "cusolver_": _lapack,
    "blas_": _lapack,
}
