"""Kernels that measure a GPU with TensorFlow's own ops: products, DRAM, launches. Not run on a GPU so far.

They are calls with a sync at the end, so they reach DRAM and tensor cores; no op of TensorFlow's reads L1 or L2 again
and again in one launch, so these levels have no roof here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from hroof.integration import CeilingKernel, Device
from hroof.units import MemoryLevel, Pipe, Precision

Call = Callable[[], object]
Prepared = tuple[Call, float]

_SIZES = (4096, 8192)
_CALLS = 4
"""Products, or passes over memory, of one call: long against the sync at its end."""
_ELEMENTS = 2**26
"""Of an array for DRAM: 256 MiB, several times the L2 of any GPU."""
_FLOAT = 4
_LAUNCHES = 1000
_FIRST_CAPABILITY = {Precision.TF32: (8, 0), Precision.BF16: (8, 0), Precision.FP16: (7, 0)}
_DTYPES = {
    Precision.FP64: "float64",
    Precision.FP32: "float32",
    Precision.TF32: "float32",
    Precision.FP16: "float16",
    Precision.BF16: "bfloat16",
}
_NOTE = "TensorFlow's own op, whatever kernel it chooses."
_READ = f"Reads are counted. {_NOTE}"
_COPY = f"One read and one write. {_NOTE}"
_TRIAD = f"Two reads and one write. {_NOTE}"


def kernels(device: Device) -> Iterator[CeilingKernel]:
    """Candidates for the launch cost, DRAM and the peaks of a GPU.

    Args:
        device: As ``hroof_keras.ceilings.device`` describes it.
    """
    place = f"/GPU:{device.device.partition(':')[2] or 0}"
    yield CeilingKernel(
        "Neg of 1 element",
        "launch",
        _launches(place),
        note="One eager op on one element, with its call from Python.",
    )
    yield from _memory(place)
    for precision in products_of(device):
        for size in _SIZES:
            yield from _product(place, precision, size)


def products_of(device: Device) -> tuple[Precision, ...]:
    """Formats whose products a GPU computes as they are called; with TF32 switched on those of fp32 are TF32."""
    capability = tuple(device.facts.get("compute_capability") or (0, 0))
    single = Precision.FP32
    if device.facts.get("tf32") and capability >= _FIRST_CAPABILITY[Precision.TF32]:
        single = Precision.TF32
    wanted = (Precision.FP64, single, Precision.FP16, Precision.BF16)
    return tuple(p for p in wanted if capability >= _FIRST_CAPABILITY.get(p, (0, 0)))


def _product(place: str, precision: Precision, size: int) -> Iterator[CeilingKernel]:
    """A square product; in fp32 it runs in the vector pipe, whose peak it is then."""
    kernel = CeilingKernel(
        f"MatMul {size}",
        "peak",
        product(place, precision, size),
        pipe=Pipe.MATRIX,
        precision=precision,
        note=f"A multiply-add is 2 FLOP; dense; random normal data. {_NOTE}",
    )
    if precision is Precision.FP32:
        kernel = dataclasses.replace(kernel, pipe=Pipe.VECTOR)
    yield kernel


def product(place: str, precision: Precision, size: int) -> Callable[[], Prepared]:
    """2·size³ FLOP a product."""

    def prepare() -> Prepared:
        import numpy
        import tensorflow

        random = numpy.random.default_rng(0)
        values = random.standard_normal((2, size, size), numpy.float32)
        with tensorflow.device(place):
            left, right = (tensorflow.cast(each, _DTYPES[precision]) for each in values)
        call = _synced(place, lambda: tensorflow.raw_ops.MatMul(a=left, b=right), _CALLS)
        return call, 2.0 * size**3 * _CALLS

    return prepare


def _memory(place: str) -> Iterator[CeilingKernel]:
    """Sums, products with a number, and sums of two arrays, all larger than L2."""
    for name, variant, passes, note in (
        ("Sum", "", 1, _READ),
        ("Mul", "copy", 2, _COPY),
        ("Mul", "", 2, _COPY),
        ("AddV2", "triad", 3, _TRIAD),
    ):
        yield CeilingKernel(
            f"{name} of {_ELEMENTS * _FLOAT // 1024**2} MiB",
            "bandwidth",
            passing(place, name, passes),
            level=MemoryLevel.DRAM,
            note=note,
            variant=variant,
        )


def passing(place: str, name: str, passes: int) -> Callable[[], Prepared]:
    """An op on arrays of DRAM.

    Args:
        place: TensorFlow's name of the device.
        name: ``Sum``, ``Mul`` or ``AddV2``.
        passes: How many arrays it reads or writes.
    """

    def prepare() -> Prepared:
        import tensorflow

        ops = tensorflow.raw_ops
        with tensorflow.device(place):
            x, y = (tensorflow.fill([_ELEMENTS], value) for value in (0.5, 0.25))
        run: dict[str, Callable[[], Any]] = {
            "Sum": lambda: ops.Sum(input=x, axis=[0]),
            "Mul": lambda: ops.Mul(x=x, y=1.0),
            "AddV2": lambda: ops.AddV2(x=x, y=y),
        }
        return _synced(place, run[name], _CALLS), float(_ELEMENTS * _FLOAT * passes * _CALLS)

    return prepare


def _launches(place: str) -> Callable[[], Prepared]:
    def prepare() -> Prepared:
        import tensorflow

        with tensorflow.device(place):
            one = tensorflow.ones(1)
        call = _synced(place, lambda: tensorflow.raw_ops.Neg(x=one), _LAUNCHES)
        return call, float(_LAUNCHES)

    return prepare


def _synced(place: str, call: Call, times: int) -> Call:
    """Calls on a device, and a wait for all of them."""
    import tensorflow

    def run() -> None:
        with tensorflow.device(place):
            for _ in range(times):
                call()
        tensorflow.test.experimental.sync_devices()

    return run
