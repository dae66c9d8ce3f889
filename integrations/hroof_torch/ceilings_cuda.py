"""Kernels that measure the ceilings of a CUDA device. Not yet run on a GPU: treat as a draft.

There is no kernel for L1, since no framework op re-reads a block's own data without leaving its
launch. The vector unit's fp64 is missing where fp64 products run on tensor cores.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hroof.integration import CeilingKernel, Device
from hroof.units import MemoryLevel, Pipe, Precision

Launch = Callable[[], object]
Prepared = tuple[Callable[[], object], float]

_BATCH = 5e-3
"""Seconds of device work per call: long against one synchronisation."""
_WARM_UP = 0.1
_MOST_LAUNCHES = 2000
_GIBIBYTE = 1024**3
_FLOAT = 4
_LAUNCHES = 1000
_SIZES = (2048, 4096)
_LARGE_SIZES = (4096, 8192)
_FP64_TENSOR_CORES = ((8, 0), (9, 0), (10, 0))
_DTYPES = {
    Precision.FP64: torch.float64,
    Precision.FP32: torch.float32,
    Precision.TF32: torch.float32,
    Precision.FP16: torch.float16,
    Precision.BF16: torch.bfloat16,
    Precision.INT8: torch.int8,
    Precision.FP8: torch.float8_e4m3fn,
}
_FIRST_CAPABILITY = {
    Precision.FP16: (5, 3),
    Precision.INT8: (7, 5),
    Precision.TF32: (8, 0),
    Precision.BF16: (8, 0),
    Precision.FP8: (8, 9),
}
_LARGE = {Precision.TF32, Precision.FP16, Precision.BF16, Precision.INT8, Precision.FP8}
_PRODUCT = "A multiply-add is 2 FLOP; dense; random data."
_FMA_UNIT = "IEEE fp32 products run in the FMA units of the vector pipe."


def kernels(device: Device) -> Iterator[CeilingKernel]:
    """Candidates for the launch cost, L2, DRAM (the device's memory) and the peaks of a GPU."""
    yield CeilingKernel(
        "neg_ of 1 element",
        "launch",
        _launches(device.device),
        note="Back-to-back launches of one eager op.",
    )
    if MemoryLevel.L2 in device.caches:
        yield from _copies(device.device, device.caches[MemoryLevel.L2])
    yield from _memory_kernels(device)
    yield from _peak_kernels(device)


def capability(device: Device) -> tuple[int, int]:
    """The compute capability in a device's facts."""
    major, minor = str(device.facts["capability"]).split(".")
    return int(major), int(minor)


def _batched(launch: Launch, work: float, device: str, repeatable: bool = True) -> Prepared:
    """Launch back to back for 5 ms, then wait; the number of launches comes from CUDA events.

    The clock of an idle GPU is low, so the kernel first runs for a while.
    """
    with torch.cuda.device(device):
        until = time.perf_counter() + _WARM_UP
        while time.perf_counter() < until:
            launch()
            torch.cuda.synchronize()
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        launch()
        ended.record()
        ended.synchronize()
        seconds = begun.elapsed_time(ended) / 1e3
    times = batch_size(seconds) if repeatable else 1

    def call() -> None:
        for _ in range(times):
            launch()
        torch.cuda.synchronize(device)

    return call, work * times


def batch_size(seconds: float) -> int:
    """How many launches of a kernel fill a batch."""
    return min(max(math.ceil(_BATCH / max(seconds, 1e-9)), 1), _MOST_LAUNCHES)


def _random(device: str, *shape: int) -> torch.Tensor:
    """Random normal values: constants draw less power and run faster. Own generator."""
    own = torch.Generator(device).manual_seed(0)
    return torch.randn(shape, generator=own, dtype=torch.float32, device=device)


def _launches(device: str) -> Callable[[], Prepared]:
    def prepare() -> Prepared:
        one = torch.ones(1, dtype=torch.float32, device=device)

        def launch() -> None:
            for _ in range(_LAUNCHES):
                one.neg_()

        return _batched(launch, float(_LAUNCHES), device, repeatable=False)

    return prepare


# --- bandwidth ----------------------------------------------------------------------------------


def _copies(device: str, l2: int) -> Iterator[CeilingKernel]:
    """Copies between tensors that lie in L2 together."""
    for share in (8, 4):
        elements = max(l2 // share // _FLOAT, 1)

        def prepare(elements: int = elements) -> Prepared:
            source = _random(device, elements)
            target = torch.empty_like(source)
            return _batched(lambda: target.copy_(source), 2.0 * _FLOAT * elements, device)

        yield CeilingKernel(
            f"copy_ L2/{share}",
            "bandwidth",
            prepare,
            level=MemoryLevel.L2,
            note="Reads and writes are counted. A lower bound: one short launch per pass.",
        )


def memory_bytes(device: Device) -> int:
    """Bytes of one array for DRAM: 1 GiB and at least 4 × L2, at most an eighth of the memory."""
    wanted = max(_GIBIBYTE, 4 * device.caches.get(MemoryLevel.L2, 0))
    total = int(device.facts.get("memory", 0))
    return min(wanted, total // 8) if total else wanted


def _memory_kernels(device: Device) -> Iterator[CeilingKernel]:
    where, nbytes = device.device, memory_bytes(device) // _FLOAT * _FLOAT
    arrays: list[torch.Tensor] = []

    def array(index: int) -> torch.Tensor:
        while len(arrays) <= index:
            arrays.append(_random(where, nbytes // _FLOAT))
        return arrays[index]

    def read() -> Prepared:
        first = array(0)
        return _batched(lambda: first.sum(), float(nbytes), where)

    def copy() -> Prepared:
        first, second = array(0), array(1)
        return _batched(lambda: second.copy_(first), 2.0 * nbytes, where)

    def both() -> Prepared:
        first = array(0)
        return _batched(lambda: first.mul_(1.0), 2.0 * nbytes, where)

    for name, prepare, note in (
        ("sum", read, "Reads are counted."),
        ("copy_", copy, "Reads and writes are counted."),
        ("mul_", both, "Reads and writes in place are counted."),
    ):
        title = f"{name} {nbytes // 1024**2} MiB"
        yield CeilingKernel(title, "bandwidth", prepare, level=MemoryLevel.DRAM, note=note)


# --- peaks --------------------------------------------------------------------------------------


def _peak_kernels(device: Device) -> Iterator[CeilingKernel]:
    able = capability(device)
    for precision in _DTYPES:
        if able < _FIRST_CAPABILITY.get(precision, (0, 0)):
            continue
        for size in _LARGE_SIZES if precision in _LARGE else _SIZES:
            kernel = CeilingKernel(
                f"{_op_name(precision)} {size}",
                "peak",
                _product(device.device, precision, size),
                pipe=Pipe.MATRIX,
                precision=precision,
                note=_PRODUCT,
            )
            yield kernel
            yield from _vector_peaks(kernel, able)


def _op_name(precision: Precision) -> str:
    return {Precision.INT8: "_int_mm", Precision.FP8: "_scaled_mm"}.get(precision, "mm")


def _vector_peaks(kernel: CeilingKernel, able: tuple[int, int]) -> Iterator[CeilingKernel]:
    """What a product in the FMA units says about the vector pipe."""
    vector = dataclasses.replace(kernel, pipe=Pipe.VECTOR)
    if kernel.precision is Precision.FP64 and able not in _FP64_TENSOR_CORES:
        yield dataclasses.replace(vector, note=f"{_PRODUCT} fp64 products run in the FMA units.")
    if kernel.precision is Precision.FP32:
        yield dataclasses.replace(vector, note=f"{_PRODUCT} {_FMA_UNIT}")
        for precision in (Precision.FP16, Precision.BF16):
            note = f"{_PRODUCT} PyTorch computes elementwise {precision} in fp32. {_FMA_UNIT}"
            yield dataclasses.replace(vector, precision=precision, note=note)


def _product(device: str, precision: Precision, size: int) -> Callable[[], Prepared]:
    """A square product: 2·size³ FLOP."""

    def prepare() -> Prepared:
        launch = _multiplication(device, precision, size)

        def switched() -> None:
            tf32 = precision is Precision.TF32
            with fp32_products(tf32=tf32), torch.autocast("cuda", enabled=False):
                launch()

        return _batched(switched, 2.0 * size**3, device)

    return prepare


def _multiplication(device: str, precision: Precision, size: int) -> Launch:
    left, right = _random(device, size, size), _random(device, size, size)
    if precision is Precision.INT8:
        whole, other = (value.mul(32).to(torch.int8) for value in (left, right))
        return lambda: torch._int_mm(whole, other.t())
    dtype: Any = _DTYPES[precision]
    if precision is Precision.FP8:
        row, column = left.to(dtype), right.to(dtype).t()
        one = torch.ones((), dtype=torch.float32, device=device)
        return lambda: torch._scaled_mm(
            row, column, scale_a=one, scale_b=one, out_dtype=torch.bfloat16
        )
    first, second = left.to(dtype), right.to(dtype)
    out = torch.empty(size, size, dtype=dtype, device=device)
    return lambda: torch.mm(first, second, out=out)


@contextmanager
def fp32_products(*, tf32: bool) -> Iterator[None]:
    """Let fp32 products run in TF32, or in IEEE fp32, and then as the program had set it."""
    matmul = torch.backends.cuda.matmul
    new = hasattr(matmul, "fp32_precision")
    name = "fp32_precision" if new else "allow_tf32"
    before = getattr(matmul, name)
    setattr(matmul, name, ("tf32" if tf32 else "ieee") if new else tf32)
    try:
        yield
    finally:
        setattr(matmul, name, before)
