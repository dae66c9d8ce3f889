"""Matrix products that measure the peaks of a CPU, per precision."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from hroof.ceilings import host
from hroof.ceilings.products import cubes, is_software, sustained
from hroof.integration import CeilingKernel
from hroof.units import Pipe, Precision

Call = Callable[[], object]
Prepared = tuple[Call, float]

_FLOP = 3e8
"""FLOP per thread and call, as far as products are small enough to be repeated in one call."""
_PROBE = 64
_PROBE_TRIES = 10
_PROBE_SECONDS = 0.02
_FP32_ERROR = 2e-5
"""Relative to the largest result: sums of 4096 fp32 products stay far below, bf16 and tf32 above."""

_DTYPES = {
    Precision.FP64: torch.float64,
    Precision.FP32: torch.float32,
    Precision.BF16: torch.bfloat16,
    Precision.FP16: torch.float16,
    Precision.INT8: torch.int8,
}
_UNITS = {
    Precision.BF16: {"avx512_bf16", "amx_bf16", "bf16", "svebf16"},
    Precision.FP16: {"avx512_fp16", "amx_fp16", "fphp", "asimdhp"},
    Precision.INT8: {"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"},
}
"""Instruction sets that multiply a short format, as Linux names them."""
_MATRIX_UNITS = {
    Precision.BF16: "amx_bf16",
    Precision.FP16: "amx_fp16",
    Precision.INT8: "amx_int8",
}
_PRODUCT = "A multiply-add is 2 FLOP."
_LIBRARY = (
    " A matrix unit may reach more on registers alone; a library's product also moves its operands."
)
_SAME_UNIT = "Same FMA unit as the matrix products, so the same measurement."


def peak_kernels(threads: int) -> Iterator[CeilingKernel]:
    """Matrix products per precision, and what they say about the vector unit."""
    for kernel in (*_products(Precision.FP64, threads), *_fp32_kernels(threads)):
        yield kernel
        yield dataclasses.replace(kernel, pipe=Pipe.VECTOR, note=f"{_PRODUCT} {_SAME_UNIT}")
        if kernel.precision is Precision.FP32:
            yield from _computed_in_fp32(kernel)
    for precision in (Precision.FP64, Precision.FP32):
        yield sustained(next(_products(precision, threads)))
    for precision in (Precision.BF16, Precision.FP16, Precision.INT8):
        if is_offered(precision):
            yield from _products(precision, threads)
            yield sustained(next(_products(precision, threads)))
        elif precision is Precision.BF16:  # what people train in: its absence needs a reason
            yield _peak("mm", precision, threads, _refuse)


def _refuse() -> Prepared:
    raise ArithmeticError("its products run in a scalar loop on this processor, as a probe shows")


def _computed_in_fp32(kernel: CeilingKernel) -> Iterator[CeilingKernel]:
    for precision in (Precision.FP16, Precision.BF16):
        note = f"{_PRODUCT} PyTorch computes elementwise {precision} in fp32. {_SAME_UNIT}"
        yield dataclasses.replace(kernel, pipe=Pipe.VECTOR, precision=precision, note=note)


def random_values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random values from a generator of its own: the program's random state stays as it is."""
    own = torch.Generator("cpu").manual_seed(0)
    if dtype == torch.int8:
        return torch.randint(-64, 64, shape, generator=own, dtype=dtype, device="cpu")
    return torch.randn(shape, generator=own, dtype=torch.float32, device="cpu").to(dtype)


def _peak(
    name: str, precision: Precision, threads: int, prepare: Callable[[], Prepared]
) -> CeilingKernel:
    return CeilingKernel(
        name,
        "peak",
        prepare,
        pipe=Pipe.MATRIX,
        precision=precision,
        threads=threads,
        note=_note(precision),
    )


def _note(precision: Precision) -> str:
    note = _PRODUCT if precision.is_float else "A multiply-add is 2 operations."
    return note + _LIBRARY if _MATRIX_UNITS.get(precision) in host.cpu_flags() else note


def _products(precision: Precision, threads: int) -> Iterator[CeilingKernel]:
    op = "_int_mm" if precision is Precision.INT8 else "mm"
    for size in cubes(threads):
        yield _peak(f"{op} {size}", precision, threads, product(precision, size, threads))


def _fp32_kernels(threads: int) -> Iterator[CeilingKernel]:
    """MKL's product, and oneDNN's product and convolution where this build has them."""
    yield from _products(Precision.FP32, threads)
    if not has_onednn():
        return
    for size in cubes(threads)[:2]:
        prepare = linear(size, threads)
        yield _peak(f"mkldnn._linear_pointwise {size}", Precision.FP32, threads, prepare)
    yield _convolution(Precision.FP32, threads)


def _convolution(precision: Precision, threads: int) -> CeilingKernel:
    prepare = convolution(threads, precision)
    return _peak("conv2d 3x3 channels_last", precision, threads, prepare)


def has_onednn() -> bool:
    """Whether this build has oneDNN and its fp32 product can be called."""
    if not torch.backends.mkldnn.is_available():
        return False
    tiny = torch.ones(8, 8, dtype=torch.float32, device="cpu")
    try:
        torch.ops.mkldnn._linear_pointwise(tiny, tiny, None, "none", [], "")
    except (AttributeError, RuntimeError):
        return False
    return True


def multiply(precision: Precision, size: int) -> tuple[Callable[[], torch.Tensor], Any, Any]:
    """A square product into a result of its own: the call and its two operands."""
    dtype = _DTYPES[precision]
    left, right = (
        random_values(size, size, dtype=dtype),
        random_values(size, size, dtype=dtype).flip(0),
    )
    integer = precision is Precision.INT8
    out = torch.empty(size, size, dtype=torch.int32 if integer else dtype, device="cpu")
    op = torch._int_mm if integer else torch.mm
    return lambda: op(left, right, out=out), left, right


def product(precision: Precision, size: int, threads: int) -> Callable[[], Prepared]:
    """``torch.mm`` of two square matrices: 2·size³ FLOP."""

    def prepare() -> Prepared:
        call, left, right = multiply(precision, size)
        if precision is Precision.FP32:
            _check_fp32(without_autocast(call, 1)(), left, right)
        return _repeated(call, 2.0 * size**3, threads)

    return prepare


def linear(size: int, threads: int) -> Callable[[], Prepared]:
    """oneDNN's fp32 product x·wᵀ of square matrices: 2·size³ FLOP."""

    def prepare() -> Prepared:
        x, weight = random_values(size, size), random_values(size, size).flip(0)

        def call() -> torch.Tensor:
            return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")

        _check_fp32(call(), x, weight.t())
        return _repeated(call, 2.0 * size**3, threads)

    return prepare


def convolution(threads: int, precision: Precision = Precision.FP32) -> Callable[[], Prepared]:
    """A 3 × 3 convolution without padding, channels last: 2·N·C²·9·28² FLOP, N images of C = 128."""
    images, channels = max(threads, 2), 128

    def prepare() -> Prepared:
        layout = torch.channels_last
        shapes = (images, channels, 30, 30), (channels, channels, 3, 3)
        x, weight = (
            random_values(*shape, dtype=_DTYPES[precision]).contiguous(memory_format=layout)
            for shape in shapes
        )

        def call() -> torch.Tensor:
            return torch.nn.functional.conv2d(x, weight)

        if precision is Precision.FP32:
            corner = without_autocast(call, 1)()[:, :, 0, 0]
            _check_fp32(corner, x[:, :, :3, :3].flatten(1), weight.flatten(1).t())
        return _repeated(call, 2.0 * images * channels**2 * 9 * 28**2, threads)

    return prepare


def _check_fp32(result: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Refuse a product that a precision switch computes in bf16 or tf32.

    Raises:
        ArithmeticError: It is less exact than fp32.
    """
    reference = left[:32].double() @ right[:, :32].double()
    error = (result[:32, :32].double() - reference).abs().max() / reference.abs().max()
    if not float(error) < _FP32_ERROR:
        raise ArithmeticError(
            f"its fp32 result has a relative error of {float(error):.1e}, so it is computed in a "
            "shorter format (see the precision switches)"
        )


def _repeated(call: Call, flop: float, threads: int) -> Prepared:
    times = max(round(_FLOP * threads / flop), 1)
    return without_autocast(call, times), flop * times


def without_autocast(call: Callable[[], Any], times: int) -> Callable[[], Any]:
    """Run a product in the format of its operands, also inside a program's autocast."""

    def run() -> Any:
        with torch.autocast("cpu", enabled=False):
            for _ in range(times - 1):
                call()
            return call()

    return run


def is_offered(precision: Precision) -> bool:
    """Whether the processor multiplies a format, or this build does it in a real kernel all the same.

    A format that the processor lacks may run in a scalar loop, a hundred times slower than fp32: no
    ceiling, and a minute per product. Small matrices tell; a busy machine can spoil that probe, so
    it is not asked where the instruction set is known.
    """
    if _UNITS[precision] & host.cpu_flags():
        return True
    try:
        return not is_software(_probe(precision), _probe(Precision.FP32))
    except (AttributeError, RuntimeError):
        return False


def _probe(precision: Precision) -> float:
    """FLOP/s of a product of 64 × 64 matrices, the best of what 20 ms allow."""
    call, _, _ = multiply(precision, _PROBE)
    run = without_autocast(call, 1)
    times: list[float] = []
    while len(times) < _PROBE_TRIES or sum(times) < _PROBE_SECONDS:
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return 2.0 * _PROBE**3 / max(min(times), 1e-9)
