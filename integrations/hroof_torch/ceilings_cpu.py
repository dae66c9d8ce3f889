"""Kernels that measure the ceilings of a CPU: repeats inside one call, random data, no compiler."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from hroof.ceilings import host
from hroof.ceilings.host import Cache
from hroof.ceilings.sizes import Windows, WorkingSets, dram_windows, working_sets
from hroof.integration import CeilingKernel, Device
from hroof.units import MemoryLevel, Pipe, Precision

Call = Callable[[], object]
Prepared = tuple[Call, float]

_TRAFFIC = 32e6
"""Bytes per thread and call: long against the dispatch of one op."""
_FLOP = 1e9
"""FLOP per thread and call, as far as products are small enough to be repeated in one call."""
_FLOAT = 4
_LINE_OF_FLOATS = 64
_EMBEDDING = 448
"""Row length whose kernel keeps its sums in registers; found by trying."""
_BAG = 512
_BAGS_PER_THREAD = 64
_LAUNCHES = 1000
_CUBES = (512, 768, 1024)
_PROBE = 64
_PROBE_TRIES = 10
_SOFTWARE = 0.25
"""A format below this share of the fp32 rate runs in a scalar loop, not in a real kernel."""
_FP32_ERROR = 2e-5
"""Relative to the largest result: sums of 4096 fp32 products stay far below, bf16 and tf32 above."""

_DTYPES = {
    Precision.FP64: torch.float64,
    Precision.FP32: torch.float32,
    Precision.BF16: torch.bfloat16,
    Precision.FP16: torch.float16,
    Precision.INT8: torch.int8,
}
_READ = "Reads are counted."
_BOTH = "Reads and writes in place are counted."
_L1 = " A lower bound: without a compiler PyTorch fills half to two thirds of the load ports."
_PRODUCT = "A multiply-add is 2 FLOP."
_SAME_UNIT = "Same FMA unit as the matrix products, so the same measurement."


def kernels(device: Device) -> Iterator[CeilingKernel]:
    """Candidates for the launch cost, L1, L2, L3, DRAM and the peaks of a CPU.

    Args:
        device: As ``hroof_torch.ceilings.device`` describes it. Kernels use the threads that PyTorch is set to.
    """
    threads = int(device.facts.get("threads", torch.get_num_threads()))
    caches = caches_of(device)
    yield from launch_kernels()
    for sets in working_sets(caches):
        yield from cache_kernels(sets, threads)
    last = max(device.caches.values(), default=None)
    yield from dram_kernels(dram_windows(last, host.available_memory(), threads), threads)
    yield from peak_kernels(threads)


def cache_fact(cache: Cache) -> dict[str, Any]:
    """A cache as plain JSON values."""
    return {**dataclasses.asdict(cache), "level": str(cache.level)}


def caches_of(device: Device) -> tuple[Cache, ...]:
    """The caches in a device's facts; without those its totals, as one instance each."""
    facts = device.facts.get("caches")
    if facts is None:
        return tuple(Cache(level, size, 1, 1, size) for level, size in device.caches.items())
    return tuple(Cache(**{**fact, "level": MemoryLevel(fact["level"])}) for fact in facts)


def _random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random values from a generator of its own: the program's random state stays as it is."""
    own = torch.Generator("cpu").manual_seed(0)
    if dtype == torch.int8:
        return torch.randint(-64, 64, shape, generator=own, dtype=dtype, device="cpu")
    return torch.randn(shape, generator=own, dtype=torch.float32, device="cpu").to(dtype)


# --- launch -------------------------------------------------------------------------------------


def launch_kernels() -> Iterator[CeilingKernel]:
    """The dispatch of one tiny op, called from Python as a training program does."""
    note = "One eager op on one element, with its call from Python."
    for name in ("neg_", "mul_"):
        yield CeilingKernel(f"{name} of 1 element", "launch", _launches(name), note=note)


def _launches(name: str) -> Callable[[], Prepared]:
    def prepare() -> Prepared:
        one = torch.ones(1, dtype=torch.float32, device="cpu")
        arguments = (one,) if name == "mul_" else ()
        op = getattr(one, name)

        def call() -> None:
            for _ in range(_LAUNCHES):
                op(*arguments)

        return call, float(_LAUNCHES)

    return prepare


# --- bandwidth ----------------------------------------------------------------------------------


def cache_kernels(sets: WorkingSets, threads: int) -> Iterator[CeilingKernel]:
    """Candidates for one cache level, each with three working sets."""

    def kernel(name: str, size: int, prepare: Callable[[], Prepared], note: str) -> CeilingKernel:
        title = f"{name} {size // 1024} KiB"
        level = sets.level
        note += _L1 if level is MemoryLevel.L1 else ""
        return CeilingKernel(title, "bandwidth", prepare, level=level, threads=threads, note=note)

    for size in sets.sizes:
        yield kernel("expand.sum", size, row_sums(size, threads), _READ)
    for size in sets.sizes:
        if sets.level is MemoryLevel.L1:
            yield kernel("embedding_bag", size, embedding_bag(size, threads), _READ)
        elif sets.each:
            yield kernel("_foreach_mul_", size, in_place(size, threads), _BOTH)


def row_sums(size: int, threads: int) -> Callable[[], Prepared]:
    """Sum the same row again and again in one op: rows of stride 0, divided among the threads."""
    columns = max(size // _FLOAT // _LINE_OF_FLOATS, 1) * _LINE_OF_FLOATS
    rows = threads * max(round(_TRAFFIC / (columns * _FLOAT)), 1)

    def prepare() -> Prepared:
        view = _random(columns).expand(rows, columns)
        return lambda: view.sum(1), float(rows * columns * _FLOAT)

    return prepare


def embedding_bag(size: int, threads: int) -> Callable[[], Prepared]:
    """Add up rows of a small table, bag by bag; the bags are divided among the threads."""
    rows = max(size // (_EMBEDDING * _FLOAT), 1)
    bags = _BAGS_PER_THREAD * threads

    def prepare() -> Prepared:
        table = _random(rows, _EMBEDDING)
        order = torch.arange(bags * _BAG, dtype=torch.int32, device="cpu") % rows
        index = order.view(bags, _BAG)
        work = float(bags * _BAG * _EMBEDDING * _FLOAT)
        return lambda: torch.nn.functional.embedding_bag(index, table, mode="sum"), work

    return prepare


def in_place(size: int, threads: int) -> Callable[[], Prepared]:
    """Multiply one tensor by 1 again and again; each thread has ``size`` bytes of it."""
    elements = threads * (size // _FLOAT)
    nbytes = elements * _FLOAT
    times = max(round(_TRAFFIC * threads / (2 * nbytes)), 1)

    def prepare() -> Prepared:
        same = [torch.ones(elements, dtype=torch.float32, device="cpu")] * times
        return lambda: torch._foreach_mul_(same, 1.0), 2.0 * nbytes * times

    return prepare


class Walk:
    """Windows of memory that kernels share; the memory is taken when the first one needs it.

    Args:
        windows: How many, how large.
    """

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._memory: list[torch.Tensor] = []

    def next_window(self) -> Callable[[], torch.Tensor]:
        """A function that gives the next window each time, round and round."""
        if not self._memory:
            elements = self._windows.size // _FLOAT
            memory = torch.empty(self._windows.count, elements, dtype=torch.float32, device="cpu")
            # First touched window by window, by the threads that will read each part of it.
            self._memory = [window.fill_(1.0) for window in memory]
        return itertools.cycle(self._memory).__next__


def dram_kernels(windows: Windows, threads: int) -> Iterator[CeilingKernel]:
    """Read, and read and write, windows that have left the caches since they were last used."""
    walk = Walk(windows)
    nbytes = float(windows.size // _FLOAT * _FLOAT)
    doubt = "" if windows.enough else " Too little free memory: some of it may come from a cache."

    def read() -> Prepared:
        window = walk.next_window()
        return lambda: window().sum(), nbytes

    def both() -> Prepared:
        window = walk.next_window()
        return lambda: window().mul_(1.0), 2 * nbytes

    for name, prepare, note in (("sum", read, _READ), ("mul_", both, _BOTH)):
        yield CeilingKernel(
            f"{name} of {windows.count} × {windows.size // 1024**2} MiB",
            "bandwidth",
            prepare,
            level=MemoryLevel.DRAM,
            threads=threads,
            note=note + doubt,
        )


# --- peaks --------------------------------------------------------------------------------------


def peak_kernels(threads: int) -> Iterator[CeilingKernel]:
    """Matrix products per precision, and what they say about the vector unit."""
    for kernel in (*_products(Precision.FP64, threads), *_fp32_kernels(threads)):
        yield kernel
        yield dataclasses.replace(kernel, pipe=Pipe.VECTOR, note=f"{_PRODUCT} {_SAME_UNIT}")
        if kernel.precision is Precision.FP32:
            yield from _computed_in_fp32(kernel)
    for precision in (Precision.BF16, Precision.FP16, Precision.INT8):
        if is_offered(precision):
            yield from _products(precision, threads)


def _computed_in_fp32(kernel: CeilingKernel) -> Iterator[CeilingKernel]:
    for precision in (Precision.FP16, Precision.BF16):
        note = f"{_PRODUCT} PyTorch computes elementwise {precision} in fp32. {_SAME_UNIT}"
        yield dataclasses.replace(kernel, pipe=Pipe.VECTOR, precision=precision, note=note)


def cubes(threads: int) -> tuple[int, ...]:
    """Sizes of square products: larger where more threads share one."""
    scale = max(round(math.sqrt(threads / 4)), 1)
    return tuple(scale * size for size in _CUBES)


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
        note=_PRODUCT if precision.is_float else "A multiply-add is 2 operations.",
    )


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
    yield _peak("conv2d 3x3 channels_last", Precision.FP32, threads, convolution(threads))


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
    left, right = _random(size, size, dtype=dtype), _random(size, size, dtype=dtype).flip(0)
    integer = precision is Precision.INT8
    out = torch.empty(size, size, dtype=torch.int32 if integer else dtype, device="cpu")
    op = torch._int_mm if integer else torch.mm
    return lambda: op(left, right, out=out), left, right


def product(precision: Precision, size: int, threads: int) -> Callable[[], Prepared]:
    """``torch.mm`` of two square matrices: 2·size³ FLOP."""

    def prepare() -> Prepared:
        call, left, right = multiply(precision, size)
        if precision is Precision.FP32:
            _check_fp32(_without_autocast(call, 1)(), left, right)
        return _repeated(call, 2.0 * size**3, threads)

    return prepare


def linear(size: int, threads: int) -> Callable[[], Prepared]:
    """oneDNN's fp32 product x·wᵀ of square matrices: 2·size³ FLOP."""

    def prepare() -> Prepared:
        x, weight = _random(size, size), _random(size, size).flip(0)

        def call() -> torch.Tensor:
            return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")

        _check_fp32(call(), x, weight.t())
        return _repeated(call, 2.0 * size**3, threads)

    return prepare


def convolution(threads: int) -> Callable[[], Prepared]:
    """A 3 × 3 convolution without padding, channels last: 2·N·C²·9·28² FLOP, N images of C = 128."""
    images, channels = max(threads, 2), 128

    def prepare() -> Prepared:
        layout = torch.channels_last
        x = _random(images, channels, 30, 30).contiguous(memory_format=layout)
        weight = _random(channels, channels, 3, 3).contiguous(memory_format=layout)

        def call() -> torch.Tensor:
            return torch.nn.functional.conv2d(x, weight)

        corner = _without_autocast(call, 1)()[:, :, 0, 0]
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
    return _without_autocast(call, times), flop * times


def _without_autocast(call: Callable[[], Any], times: int) -> Callable[[], Any]:
    """Run a product in the format of its operands, also inside a program's autocast."""

    def run() -> Any:
        with torch.autocast("cpu", enabled=False):
            for _ in range(times - 1):
                call()
            return call()

    return run


def is_offered(precision: Precision) -> bool:
    """Whether this build multiplies small matrices of a format in a real kernel.

    A format that the processor lacks may run in a scalar loop, a hundred times slower than fp32: no
    ceiling, and a minute per product.
    """
    try:
        return not is_software(_probe(precision), _probe(Precision.FP32))
    except (AttributeError, RuntimeError):
        return False


def is_software(rate: float, fp32_rate: float) -> bool:
    """Whether a format is so much slower than fp32 that no unit computes it."""
    return rate < _SOFTWARE * fp32_rate


def _probe(precision: Precision) -> float:
    """FLOP/s of a product of 64 × 64 matrices, the best of a few."""
    call, _, _ = multiply(precision, _PROBE)
    run = _without_autocast(call, 1)
    times = []
    for _ in range(_PROBE_TRIES):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return 2.0 * _PROBE**3 / max(min(times), 1e-9)
