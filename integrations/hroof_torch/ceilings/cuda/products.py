"""Matrix products that measure the tensor cores of a CUDA device, and its fp32 units where those do them.

Of a dozen shapes, tried for a few milliseconds each, the fastest one measures the ceiling: sustained, over calls of
0.2 s after a second of work, since a device at its power limit lowers its clock. Its burst, the best 10 ms after a
pause, is a rate beside it. Operands are random normal values: constants draw less power and run faster. Not run on a
GPU so far.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from hroof.integration import CeilingKernel, Device
from hroof.units import Pipe, Precision
from hroof_torch.ceilings.cuda.memory import random_values
from hroof_torch.ceilings.cuda.program import capability
from hroof_torch.ceilings.cuda.timing import BATCH, Launch, Prepared, Timer, batch_size, elapsed

SUSTAINED = 0.2
"""Seconds of one call."""
_PAUSE = 0.2
_TRIAL = 5e-3
_LONGEST_TRIAL = 0.04
"""Seconds of one product, after which no larger one is tried."""
_SHARE_OF_FREE = 4
_QUICK_STEP = 3
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
_FP64_TENSOR_CORES = ((8, 0), (9, 0), (10, 0))
_PRODUCT = "A multiply-add is 2 operations; dense; random normal data."
_SUSTAINED = f"{_PRODUCT} Sustained: calls of 0.2 s after twice as long; its burst is told apart."
_BURST = f"{_PRODUCT} Burst: the best 10 ms of the first 0.2 s after a pause."
_NOTES = {Precision.FP8: " Sums are kept in the tensor cores (fast accumulation)."}
_FMA_UNIT = "IEEE fp32 products run in the FMA units of the vector pipe."


@dataclass(frozen=True, order=True)
class Shape:
    """A product of an m × k by a k × n matrix."""

    flop: int = dataclasses.field(init=False, repr=False)
    m: int
    n: int
    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "flop", 2 * self.m * self.n * self.k)

    def __str__(self) -> str:
        return f"{self.m} × {self.n} × {self.k}"

    @property
    def elements(self) -> int:
        """Of the operands and the result together."""
        return self.m * self.k + self.k * self.n + self.m * self.n


_SQUARES = (2048, 3072, 4096, 6144, 8192, 12288, 16384)
_OBLONGS = (
    (4096, 4096, 16384),
    (8192, 4096, 4096),
    (16384, 8192, 4096),
    (8192, 8192, 2048),
    (8192, 16384, 8192),
)
SHAPES = tuple(
    sorted(
        [*(Shape(size, size, size) for size in _SQUARES), *(Shape(*sizes) for sizes in _OBLONGS)]
    )
)
"""By rising FLOP; every side is a multiple of 16, as fp8 and int8 want it."""


@dataclass(frozen=True)
class Trial:
    """How fast one shape was.

    Attributes:
        shape: The shape.
        rate: Operations per second.
    """

    shape: Shape
    rate: float


def product_kernels(
    device: Device,
    timer: Timer,
    free: int,
    *,
    own: bool,
    trials: Callable[[Device, Precision, Sequence[Shape]], list[Trial]] | None = None,
) -> Iterator[CeilingKernel]:
    """Products in every format that a device multiplies, in the shape that was fastest in a short trial.

    Args:
        device: As ``hroof_torch.ceilings.device`` describes it.
        timer: Of the device.
        free: Bytes that are free on it.
        own: Kernels of our own measure the vector units, so that products need not do it for fp16 and bf16.
        trials: Tries the shapes, instead of ``try_shapes``. Where the device's facts ask for a ``quick`` measurement,
            only some are tried, and nothing is sustained.
    """
    for precision in precisions(capability(device)):
        shapes = fitting(precision, free)[:: _QUICK_STEP if device.facts.get("quick") else 1]
        tried = (trials or try_shapes)(device, precision, shapes)
        best = max(tried, key=lambda trial: trial.rate).shape if tried else shapes[0]
        yield from _kernels(device, timer, precision, best, own=own)


def precisions(able: tuple[int, int]) -> list[Precision]:
    """Formats in which a device of some compute capability multiplies matrices."""
    return [precision for precision in _DTYPES if able >= _FIRST_CAPABILITY.get(precision, (0, 0))]


def fitting(precision: Precision, free: int) -> list[Shape]:
    """The shapes whose matrices take at most a quarter of the free memory; the smallest one in any case."""
    # Random values are made in fp32 first.
    width = _DTYPES[precision].itemsize + 4
    fit = [
        shape for shape in SHAPES if not free or shape.elements * width <= free // _SHARE_OF_FREE
    ]
    return fit or list(SHAPES[:1])


def try_shapes(
    device: Device,
    precision: Precision,
    shapes: Iterable[Shape],
    elapsed: Callable[[Launch, int, str], float] = elapsed,
) -> list[Trial]:
    """Run every shape for some 5 ms, until one product takes 40 ms; a shape that fails is left out."""
    found = []
    for shape in shapes:
        try:
            launch = product(device.device, precision, shape)
            elapsed(launch, 1, device.device)  # the library chooses its kernel
            seconds = elapsed(launch, 1, device.device)
            times = batch_size(seconds, _TRIAL)
            seconds = elapsed(launch, times, device.device) / times
        except (AssertionError, NotImplementedError, RuntimeError):
            continue
        found.append(Trial(shape, shape.flop / max(seconds, 1e-9)))
        if seconds > _LONGEST_TRIAL:
            break
    return found


def _kernels(
    device: Device, timer: Timer, precision: Precision, shape: Shape, *, own: bool
) -> Iterator[CeilingKernel]:
    name = f"{op_name(precision)} {shape}"
    # IEEE fp32, without tensor cores, stays below the power limit.
    short = precision is Precision.FP32 or bool(device.facts.get("quick"))
    batch = BATCH if short else SUSTAINED

    def prepare() -> Prepared:
        launch = product(device.device, precision, shape)
        return timer.batched(name, launch, float(shape.flop), batch=batch)

    def burst() -> Prepared:
        launch = product(device.device, precision, shape)
        return timer.batched(f"{name} burst", launch, float(shape.flop), pause=_PAUSE)

    kernel = CeilingKernel(
        name,
        "peak",
        prepare,
        pipe=Pipe.MATRIX,
        precision=precision,
        note=(_PRODUCT if short else _SUSTAINED) + _NOTES.get(precision, ""),
    )
    yield kernel
    if not short:
        yield dataclasses.replace(
            kernel, name=f"{name} burst", prepare=burst, note=_BURST, variant="burst"
        )
    yield from vector_peaks(kernel, capability(device), own=own)


def op_name(precision: Precision) -> str:
    """Which op of PyTorch multiplies matrices in a format."""
    return {Precision.INT8: "_int_mm", Precision.FP8: "_scaled_mm"}.get(precision, "mm")


def vector_peaks(
    kernel: CeilingKernel, able: tuple[int, int], *, own: bool
) -> Iterator[CeilingKernel]:
    """What a product in the FMA units says about the vector pipe."""
    vector = dataclasses.replace(kernel, pipe=Pipe.VECTOR)
    if kernel.precision is Precision.FP64 and able not in _FP64_TENSOR_CORES:
        yield dataclasses.replace(vector, note=f"{_PRODUCT} fp64 products run in the FMA units.")
    if kernel.precision is Precision.FP32:
        yield dataclasses.replace(vector, note=f"{_PRODUCT} {_FMA_UNIT}")
        for precision in () if own else (Precision.FP16, Precision.BF16):
            note = f"{_PRODUCT} PyTorch computes elementwise {precision} in fp32. {_FMA_UNIT}"
            yield dataclasses.replace(vector, precision=precision, note=note)


# --- one product --------------------------------------------------------------------------------


def product(device: str, precision: Precision, shape: Shape) -> Launch:
    """A product that computes in a format, whatever the switches and autocast of the program say."""
    launch = _multiplication(device, precision, shape)

    def switched() -> None:
        tf32 = precision is Precision.TF32
        with fp32_products(tf32=tf32), torch.autocast("cuda", enabled=False):
            launch()

    return switched


def _multiplication(device: str, precision: Precision, shape: Shape) -> Launch:
    left = random_values(device, shape.m, shape.k)
    right = random_values(device, shape.n, shape.k)
    if precision is Precision.INT8:
        whole, other = (value.mul_(32).clamp_(-127, 127).to(torch.int8) for value in (left, right))
        return lambda: torch._int_mm(whole, other.t())
    dtype: Any = _DTYPES[precision]
    first, second = left.to(dtype), right.to(dtype).t()
    if precision is Precision.FP8:
        one = torch.ones((), dtype=torch.float32, device=device)
        how = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16, "use_fast_accum": True}
        return lambda: torch._scaled_mm(first, second, **how)
    out = torch.empty(shape.m, shape.n, dtype=dtype, device=device)
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
