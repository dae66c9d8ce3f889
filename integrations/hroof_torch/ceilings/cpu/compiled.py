"""Kernels for the ceilings of a CPU that Inductor compiles, where a C++ compiler is at hand.

Eager ops leave half of the L1 load ports unused, and reach a vector peak only where a matrix library does; compiled
kernels close both gaps. Each is compiled for its shape: loops of a known length have no rest to look out for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import torch

from hroof.ceilings.sizes import WorkingSets
from hroof.integration import CeilingKernel
from hroof.units import MemoryLevel, Pipe, Precision
from hroof_torch.ceilings.cpu.compiler import Compiled, Kernel, Workshop, evidence
from hroof_torch.ceilings.cpu.peaks import Prepared, random_values

__all__ = [
    "SWEPT",
    "Chains",
    "Compiled",
    "Fold",
    "Workshop",
    "bandwidth_kernels",
    "chains",
    "fold",
    "folds",
    "peak_kernels",
    "pieces",
]

_FLOAT = 4
_VECTOR = 16
"""Floats of a slice: one vector of 64 bytes, or whole shorter ones, so that no rest of a vector is left over."""
_ROW = 16 * 1024
"""Floats of a row at most."""
_TRAFFIC = {MemoryLevel.L1: 400e6, MemoryLevel.L2: 150e6, MemoryLevel.L3: 64e6}
"""Bytes per thread and call: half a millisecond and more, long against the 10 to 20 µs that a compiled call costs."""
_CHAIN_BYTES = 16 * 1024
_DTYPES = {Precision.FP64: torch.float64, Precision.FP32: torch.float32}
_CHAIN_FLOP = {Precision.FP32: 4.8e8, Precision.FP64: 2.4e8}
"""FLOP per thread and call, about: with half as many the dispatch of a compiled call costs 3 % more."""
_APART_SHARE = 0.5
"""What is not fused takes twice as long per FLOP, and a long call is more often disturbed."""
_READ = "Reads are counted. Compiled by Inductor."
_FMA = "A multiply-add is 2 FLOP; nothing else is counted. Compiled by Inductor."
_APART = "Multiplications and additions, not fused, 1 FLOP each. Compiled by Inductor."
_SAME_UNIT = " The unit is the same for vectors and for matrix products."


# --- bandwidth ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Fold:
    """Slices of a row joined by multiply-adds: three loads cost one operation.

    Additions alone would need as many operations as loads, and share their ports with the loop's own instructions.

    Attributes:
        passes: Of the inner loop. A handful, so that the processor foresees the end of every loop.
        slices: Loads per pass of the inner loop, a power of three.
        apart: The slices are far from each other in the row, not side by side. Reading many places at once keeps
            more prefetches under way: beyond L1 it gains 3 to 20 %.
    """

    passes: int = 1
    slices: int = 9
    apart: bool = False

    @property
    def block(self) -> int:
        """Floats of one inner loop."""
        return self.slices * self.passes * _VECTOR

    def function(self) -> Kernel:
        """x of shape (R, P, n), n a multiple of ``block`` → a number for each of the R × P rows."""
        width = self.passes * _VECTOR
        shape, where = ((self.slices, -1), 2) if self.apart else ((-1, self.slices), 3)

        def fold(x: torch.Tensor) -> torch.Tensor:
            parts = x.unflatten(2, (*shape, width)).unbind(where)
            while len(parts) > 1:
                threes = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
                parts = tuple(first * second + third for first, second, third in threes)
            return parts[0].sum((2, 3))

        return fold


SWEPT = Fold(8)
"""For a sweep over sizes: one compilation serves them all."""
fold = SWEPT.function()
_FOLDS = {
    MemoryLevel.L1: (Fold(16), slice(-1, None)),
    MemoryLevel.L2: (Fold(slices=9, apart=True), slice(0, 2)),
    MemoryLevel.L3: (Fold(slices=27, apart=True), slice(0, 1)),
}
"""How each level is read, and which of its working sets: every one is a compilation."""


def bandwidth_kernels(
    sets: tuple[WorkingSets, ...], threads: int, workshop: Workshop
) -> Iterator[CeilingKernel]:
    """Compiled folds for the caches."""
    for of_level in sets:
        if of_level.level not in _FOLDS:
            continue
        shape, chosen = _FOLDS[of_level.level]
        for size in of_level.sizes[chosen]:
            compiled = Compiled(workshop, shape.function(), fma=True)
            rows, columns = pieces(size, shape.block)
            nbytes = rows * columns * _FLOAT
            yield CeilingKernel(
                f"compiled fold {nbytes // 1024} KiB",
                "bandwidth",
                folds(compiled, size, threads, _TRAFFIC[of_level.level], block=shape.block),
                level=of_level.level,
                threads=threads,
                note=_READ,
                size=nbytes,
                how=evidence(),
            )


def pieces(size: int, block: int) -> tuple[int, int]:
    """Rows and floats per row that make up a working set.

    Short rows, since Inductor adds up long ones in another manner, which costs more than the loads.

    Args:
        size: Bytes.
        block: Floats of which a row is a multiple.
    """
    rows = -(-size // (_ROW * _FLOAT))
    return rows, max(size // (_FLOAT * rows * block), 1) * block


def folds(
    compiled: Compiled, size: int, threads: int, traffic: float, *, block: int = SWEPT.block
) -> Callable[[], Prepared]:
    """Read the same matrix again and again in one call, with a stride of 0; the repeats are divided among the threads.

    Args:
        compiled: The function of a ``Fold``.
        size: Bytes of the matrix, about.
        threads: How many.
        traffic: Bytes per thread and call, about.
        block: Of that ``Fold``.
    """
    matrix = pieces(size, block)
    nbytes = matrix[0] * matrix[1] * _FLOAT
    repeats = threads * max(round(traffic / nbytes), 1)

    def prepare() -> Prepared:
        view = random_values(*matrix).expand(repeats, *matrix)
        return compiled.call(view), float(repeats * nbytes)

    return prepare


# --- peaks --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Chains:
    """Independent chains of multiply-adds on every element.

    Attributes:
        count: How many chains; odd, so that multiply-adds alone can join them.
        steps: Multiply-adds of each.
    """

    count: int
    steps: int

    @property
    def multiply_adds(self) -> int:
        """Per element: those of the chains, and those that join three results into one."""
        return self.count * self.steps + (self.count - 1) // 2

    def function(self) -> Kernel:
        """x, y, z → the sum over each row of the joined chains c = c·y + z; only that sum is no multiply-add."""
        count, steps = self.count, self.steps

        def chains(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            links = [x * (0.5 + k / 64) + (0.25 + k / 64) for k in range(count)]
            for _ in range(steps - 1):
                links = [link * y + z for link in links]
            while len(links) > 1:
                links = [*links[3:], links[0] * links[1] + links[2]]
            return links[0].sum(1)

        return chains


_FUSED, _APART_CHAINS = Chains(9, 12), Chains(17, 4)
"""Found by trying: longer chains wait for themselves, and compilers schedule much longer bodies badly."""


def peak_kernels(threads: int, workshop: Workshop) -> Iterator[CeilingKernel]:
    """Multiply-adds in fp32 and fp64, then the same without fusing them.

    Args:
        threads: How many.
        workshop: Who compiles them.
    """
    for precision in _CHAIN_FLOP:
        kernel = _peak(_FUSED, precision, threads, workshop, fma=True)
        yield kernel
        yield dataclasses.replace(kernel, pipe=Pipe.MATRIX, note=_FMA + _SAME_UNIT)
        if precision is Precision.FP32:
            yield from _computed_in_fp32(kernel)
    for precision in _CHAIN_FLOP:
        yield _peak(_APART_CHAINS, precision, threads, workshop, fma=False)


def _computed_in_fp32(kernel: CeilingKernel) -> Iterator[CeilingKernel]:
    for precision in (Precision.FP16, Precision.BF16):
        note = (
            f"{_FMA} PyTorch computes elementwise {precision} in fp32, so this is the rate of fp32."
        )
        yield dataclasses.replace(kernel, precision=precision, note=note, how="framework-reachable")


def _peak(
    shape: Chains, precision: Precision, threads: int, workshop: Workshop, *, fma: bool
) -> CeilingKernel:
    compiled = Compiled(workshop, shape.function(), fma=fma)
    return CeilingKernel(
        f"compiled chains {shape.count} × {shape.steps}",
        "peak",
        chains(compiled, shape, precision, threads, share=1.0 if fma else _APART_SHARE),
        pipe=Pipe.VECTOR,
        precision=precision,
        threads=threads,
        note=_FMA if fma else _APART,
        variant="" if fma else "no fma",
        how=evidence(),
    )


def chains(
    compiled: Compiled, shape: Chains, precision: Precision, threads: int, *, share: float = 1.0
) -> Callable[[], Prepared]:
    """Compute the chains on the same row again and again in one call; the rows are divided among the threads.

    Args:
        compiled: The function of ``shape``.
        shape: Of the chains.
        precision: Of the numbers.
        threads: How many.
        share: Of the usual FLOP per call.
    """
    dtype = _DTYPES[precision]
    columns = _CHAIN_BYTES // dtype.itemsize
    flop = 2 * shape.multiply_adds * columns
    rows = threads * max(round(share * _CHAIN_FLOP[precision] / flop), 1)

    def prepare() -> Prepared:
        x = random_values(columns, dtype=dtype).expand(rows, columns)
        # Values stay of the order of one: each link is halved before it is added to.
        y, z = (torch.full((1, 1), value, dtype=dtype, device="cpu") for value in (0.5, 0.25))
        return compiled.call(x, y, z), float(rows * flop)

    return prepare
