"""Kernels that measure the peaks of a CPU with TensorFlow: products, convolutions, XLA's chains of multiply-adds."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

from hroof.ceilings import host
from hroof.ceilings.products import cubes, is_software, sustained
from hroof.integration import CeilingKernel
from hroof.units import Pipe, Precision
from hroof_keras.ceilings.integers import integer_kernels
from hroof_keras.ceilings.loops import Chains
from hroof_keras.ceilings.xla import Call, Prepared, Program, Team, evidence, on_cpu, scalar

_FLOP = 3e8
"""FLOP per thread and call, as far as products are small enough to be repeated in one call."""
_PROBE = 64
_PROBE_TRIES = 10
_PROBE_SECONDS = 0.02
_FP32_ERROR = 2e-5
"""Relative to the largest result: sums of 4096 fp32 products stay far below, bf16 and tf32 above."""
_DTYPES = {
    Precision.FP64: "float64",
    Precision.FP32: "float32",
    Precision.BF16: "bfloat16",
    Precision.FP16: "float16",
}
_UNITS = {
    Precision.BF16: {"avx512_bf16", "amx_bf16", "bf16", "svebf16"},
    Precision.FP16: {"avx512_fp16", "amx_fp16", "fphp", "asimdhp"},
}
"""Instruction sets that multiply a short format, as Linux names them."""
_MATRIX_UNITS = {Precision.BF16: "amx_bf16", Precision.FP16: "amx_fp16"}
_CHANNELS, _SIDE = 128, 28

_CHAIN_ELEMENTS = 4096
_CHAIN_FLOP = {Precision.FP32: 1.6e8, Precision.FP64: 0.8e8}
"""FLOP per thread and call: about a millisecond."""
_FUSED, _APART = Chains(9, 12), Chains(17, 8, fused=False)
"""Found by trying: longer chains wait for themselves, and more of them do not fit into the registers."""

_PRODUCT = "A multiply-add is 2 FLOP."
_LIBRARY = (
    " A matrix unit may reach more on registers alone; a library's product also moves its operands."
)
_SAME_UNIT = "Same FMA unit as the matrix products, so the same measurement."
_FMA = "A multiply-add is 2 FLOP; nothing else is counted. Compiled by XLA."
_SEPARATE = "Multiplications and additions, not fused, 1 FLOP each. Compiled by XLA."
_OF_MATRICES = " The unit is the same for vectors and for matrix products."


def peak_kernels(team: Team, *, quick: bool = False) -> Iterator[CeilingKernel]:
    """Chains, matrix products per precision, and what they say about the vector unit.

    Args:
        team: Threads for the chains; products use as many by themselves.
        quick: Leave out what takes long.
    """
    yield from chain_kernels(team)
    for precision in (Precision.FP64, Precision.FP32):
        for kernel in _products(precision, team.threads):
            yield kernel
            yield dataclasses.replace(kernel, pipe=Pipe.VECTOR, note=f"{_PRODUCT} {_SAME_UNIT}")
            if precision is Precision.FP32:
                yield from _in_fp32(kernel, f"{_PRODUCT} %s {_SAME_UNIT}")
        yield sustained(next(_products(precision, team.threads)))
    for precision in (Precision.BF16, Precision.FP16):
        if is_offered(precision):
            yield from _products(precision, team.threads)
            yield sustained(next(_products(precision, team.threads)))
        elif precision is Precision.BF16:  # what people train in: its absence needs a reason
            yield _peak("MatMul", precision, team.threads, _refuse)
    if not quick:
        yield from integer_kernels(team)


def _refuse() -> Prepared:
    raise ArithmeticError("its products run in a scalar loop on this processor, as a probe shows")


def _in_fp32(kernel: CeilingKernel, note: str) -> Iterator[CeilingKernel]:
    for precision in (Precision.FP16, Precision.BF16):
        said = note % f"TensorFlow computes elementwise {precision} in fp32, so this is its rate."
        yield dataclasses.replace(
            kernel, pipe=Pipe.VECTOR, precision=precision, note=said, how="framework-reachable"
        )


# --- chains -------------------------------------------------------------------------------------


def chain_kernels(team: Team) -> Iterator[CeilingKernel]:
    """Multiply-adds in fp32 and fp64, then the same without fusing them."""
    for precision in _CHAIN_FLOP:
        kernel = _chained(_FUSED, precision, team)
        yield kernel
        yield dataclasses.replace(kernel, pipe=Pipe.MATRIX, note=_FMA + _OF_MATRICES)
        if precision is Precision.FP32:
            yield from _in_fp32(kernel, f"{_FMA} %s")
    for precision in _CHAIN_FLOP:
        yield dataclasses.replace(
            _chained(_APART, precision, team), note=_SEPARATE, variant="no fma"
        )


def _chained(shape: Chains, precision: Precision, team: Team) -> CeilingKernel:
    return CeilingKernel(
        f"XLA chains {shape.count} × {shape.steps}",
        "peak",
        chains(shape, precision, team),
        pipe=Pipe.VECTOR,
        precision=precision,
        threads=team.threads,
        note=_FMA,
        how=evidence(),
    )


def chains(shape: Chains, precision: Precision, team: Team) -> Callable[[], Prepared]:
    """Compute the chains on a row again and again, on every thread one of its own."""
    flop = shape.flop * _CHAIN_ELEMENTS
    times = max(round(team.scaled(_CHAIN_FLOP[precision]) / flop), 1)
    factor, summand = (0.5, 0.25) if shape.fused else (1.0, 0.25)

    def prepare() -> Prepared:
        import tensorflow

        dtype = getattr(tensorflow, _DTYPES[precision])

        def number(value: float) -> Any:
            return on_cpu(lambda: tensorflow.constant(value, dtype))

        def rows() -> Any:
            return on_cpu(lambda: tensorflow.fill([2, _CHAIN_ELEMENTS], number(0.5)))

        program = Program(shape.function())
        others = number(factor), number(summand), scalar(0), scalar(times)
        calls = [program.call(rows(), *others) for _ in range(team.threads)]
        return team.together(calls), float(team.threads * times * flop)

    return prepare


# --- products -----------------------------------------------------------------------------------


def random_values(*shape: int, precision: Precision = Precision.FP32) -> Any:
    """Random values that leave the random state of the program as it is."""
    import numpy
    import tensorflow

    values = numpy.random.default_rng(0).standard_normal(shape, numpy.float32)
    return on_cpu(lambda: tensorflow.cast(values, _DTYPES[precision]))


def _peak(
    name: str, precision: Precision, threads: int, prepare: Callable[[], Prepared]
) -> CeilingKernel:
    matrix_unit = _MATRIX_UNITS.get(precision) in host.cpu_flags()
    return CeilingKernel(
        name,
        "peak",
        prepare,
        pipe=Pipe.MATRIX,
        precision=precision,
        threads=threads,
        note=_PRODUCT + _LIBRARY * matrix_unit,
    )


def _products(precision: Precision, threads: int) -> Iterator[CeilingKernel]:
    for size in cubes(threads):
        yield _peak(f"MatMul {size}", precision, threads, product(precision, size, threads))
    if precision is not Precision.FP64:
        yield _peak("Conv2D 3x3", precision, threads, convolution(precision, threads))


def multiply(precision: Precision, size: int) -> tuple[Callable[[], Any], Any, Any]:
    """A square product: the call and its two operands."""
    import tensorflow

    left = random_values(size, size, precision=precision)
    right = on_cpu(lambda: tensorflow.reverse(random_values(size, size, precision=precision), [0]))
    return lambda: tensorflow.raw_ops.MatMul(a=left, b=right), left, right


def product(precision: Precision, size: int, threads: int) -> Callable[[], Prepared]:
    """``tf.linalg.matmul`` of two square matrices: 2·size³ FLOP."""

    def prepare() -> Prepared:
        call, left, right = multiply(precision, size)
        if precision is Precision.FP32:
            _check_fp32(on_cpu(call), left, right)
        return _repeated(call, 2.0 * size**3, threads)

    return prepare


def convolution(precision: Precision, threads: int) -> Callable[[], Prepared]:
    """A 3 × 3 convolution without padding, channels last: 2·N·C²·9·28² FLOP, N images of C = 128."""
    images = max(threads, 2)

    def prepare() -> Prepared:
        import tensorflow

        side = _SIDE + 2
        x = random_values(images, side, side, _CHANNELS, precision=precision)
        weight = random_values(3, 3, _CHANNELS, _CHANNELS, precision=precision)

        def call() -> Any:
            return tensorflow.raw_ops.Conv2D(
                input=x, filter=weight, strides=[1, 1, 1, 1], padding="VALID"
            )

        if precision is Precision.FP32:
            corner = tensorflow.reshape(x[:, :3, :3], [images, -1])
            _check_fp32(on_cpu(call)[:, 0, 0], corner, tensorflow.reshape(weight, [-1, _CHANNELS]))
        return _repeated(call, 2.0 * images * _CHANNELS**2 * 9 * _SIDE**2, threads)

    return prepare


def _check_fp32(result: Any, left: Any, right: Any) -> None:
    """Refuse a product that a precision switch computes in bf16 or tf32.

    Raises:
        ArithmeticError: It is less exact than fp32.
    """
    import numpy

    exact = left.numpy()[:32].astype(numpy.float64) @ right.numpy()[:, :32].astype(numpy.float64)
    error = float(abs(result.numpy()[:32, :32] - exact).max() / abs(exact).max())
    if not error < _FP32_ERROR:
        raise ArithmeticError(
            f"its fp32 result has a relative error of {error:.1e}, so it is computed in a shorter format (see "
            "TF_SET_ONEDNN_FPMATH_MODE)"
        )


def _repeated(call: Call, flop: float, threads: int) -> Prepared:
    times = max(round(_FLOP * threads / flop), 1)

    def many() -> None:
        for _ in range(times):
            call()

    return lambda: on_cpu(many), flop * times


def is_offered(precision: Precision) -> bool:
    """Whether the processor multiplies a format, or this build does it in a real kernel all the same."""
    if _UNITS[precision] & host.cpu_flags():
        return True
    return not is_software(_probe(precision), _probe(Precision.FP32))


def _probe(precision: Precision) -> float:
    """FLOP/s of a product of 64 × 64 matrices, the best of what 20 ms allow."""
    call, _, _ = multiply(precision, _PROBE)
    times: list[float] = []
    while len(times) < _PROBE_TRIES or sum(times) < _PROBE_SECONDS:
        begun = time.perf_counter()
        on_cpu(call)
        times.append(time.perf_counter() - begun)
    return 2.0 * _PROBE**3 / max(min(times), 1e-9)
