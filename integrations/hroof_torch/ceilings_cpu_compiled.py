"""Kernels for the ceilings of a CPU that Inductor compiles, where a C++ compiler is at hand.

Eager ops leave half of the L1 load ports unused, and reach a vector peak only where a matrix library does. Compiled
kernels close both gaps. They are compiled in this process, and what PyTorch counts of its compilations is put back
afterwards, so that hroof treats a program that compiles nothing itself as before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
import sys
import sysconfig
import time
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from hroof.ceilings import host
from hroof.ceilings.sizes import WorkingSets
from hroof.integration import CeilingKernel
from hroof.units import MemoryLevel, Pipe, Precision
from hroof_torch.ceilings_cpu_peaks import Prepared, random_values, without_autocast

Kernel = Callable[..., torch.Tensor]

_PATIENCE = 45.0
"""Seconds of compiling after which no further kernel is compiled; next time Inductor's cache holds the others."""
_FLOAT = 4
_SLICES = 9
_VECTOR = 16
"""Floats of a slice: one vector of 64 bytes, or whole shorter ones, so that no rest of a vector is left over."""
_ROW = 16 * 1024
"""Floats of a row at most."""
_TRAFFIC = {MemoryLevel.L1: 400e6, MemoryLevel.L2: 150e6, MemoryLevel.L3: 64e6}
"""Bytes per thread and call: half a millisecond and more, long against the 10 to 20 µs that a compiled call costs."""
_CHAIN_BYTES = 16 * 1024
_DTYPES = {Precision.FP64: torch.float64, Precision.FP32: torch.float32}
_CHAIN_FLOP = {Precision.FP32: 2.4e8, Precision.FP64: 1.2e8}
_READ = "Reads are counted. Compiled by Inductor."
_FMA = "A multiply-add is 2 FLOP; nothing else is counted. Compiled by Inductor."
_APART = "Multiplications and additions, not fused, 1 FLOP each. Compiled by Inductor."
_SAME_UNIT = " The unit is the same for vectors and for matrix products."


# --- the compiler -------------------------------------------------------------------------------


def compiler() -> str | None:
    """The C++ compiler that Inductor would call, as a path; None where kernels cannot be compiled.

    Only looked for, not tried: ``CXX``, else ``g++`` (macOS: ``clang++``), and the headers of Python.
    """
    if sys.platform == "win32":  # Inductor needs the environment of Microsoft's compiler there
        return None
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    name = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    return shutil.which(name) if header.exists() else None


def uses_whole_vectors() -> bool:
    """Whether Inductor's vectors are known to be the widest of this processor."""
    flags = host.cpu_flags()
    return "avx512f" in flags or ("avx2" in flags and "fma" in flags)


def _how() -> Any:
    return "measured" if uses_whole_vectors() else "framework-reachable"


class Workshop:
    """Compiles functions, one after the other, until its patience is at its end.

    Args:
        patience: Seconds of compiling after which it refuses.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, patience: float = _PATIENCE, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._patience = patience
        self._clock = clock
        self.spent = 0.0

    def compile(
        self,
        function: Kernel,
        example: tuple[torch.Tensor, ...],
        *,
        fma: bool,
        dynamic: bool = False,
    ) -> Kernel:
        """Compile a function and run it once.

        Args:
            function: What to compile; its code is copied, since Dynamo counts compilations per code.
            example: Arguments of the kind that will follow.
            fma: The compiler may fuse a multiplication and an addition.
            dynamic: One compilation serves every size; its loops cost a little more.

        Raises:
            RuntimeError: It took too long already, or PyTorch did not compile it.
        """
        if self.spent > self._patience:
            raise RuntimeError(
                f"compiling has taken {self.spent:.0f} s already; what is compiled is kept, so measure again later"
            )
        begun = self._clock()
        try:
            with unnoticed():
                return _compile(function, example, fma=fma, dynamic=dynamic)
        finally:
            self.spent += self._clock() - begun


def _compile(
    function: Kernel, example: tuple[torch.Tensor, ...], *, fma: bool, dynamic: bool
) -> Kernel:
    from torch._dynamo.utils import counters

    own = _copied(function)
    options: dict[str, str | int | bool | Callable[..., Any]] = {
        "cpp.enable_floating_point_contract_flag": "fast" if fma else "off"
    }
    if host.cpu_flags() & {"avx2", "avx512f"}:
        # Otherwise Inductor tries the compiler with every instruction set first, which takes longer than all kernels.
        options["cpp.vec_isa_ok"] = True
    compiled = torch.compile(own, fullgraph=True, dynamic=dynamic, options=options)
    before = counters["stats"]["unique_graphs"]
    without_autocast(lambda: compiled(*example), 1)()
    if counters["stats"]["unique_graphs"] == before:
        raise RuntimeError(
            "PyTorch did not compile it (see TORCH_COMPILE_DISABLE and torch.compiler.set_stance)"
        )
    # The program made nothing that is compiled later: hroof looks for such callables.
    compiled._torchdynamo_disable = True
    return compiled


def _copied(function: Any) -> Kernel:
    """A function with code of its own."""
    code, variables = function.__code__.replace(), function.__globals__
    return types.FunctionType(code, variables, function.__name__, None, function.__closure__)


@contextlib.contextmanager
def unnoticed() -> Iterator[None]:
    """Warnings are kept back; Dynamo's counts are afterwards what they were before."""
    import torch._dynamo
    from torch._dynamo.utils import counters

    before = {name: types_of.copy() for name, types_of in counters.items()}
    try:
        with warnings.catch_warnings(), torch._dynamo.config.patch(suppress_errors=False):
            warnings.simplefilter("ignore")
            yield
    finally:
        counters.clear()
        counters.update(before)


class Compiled:
    """A function that is compiled when its first kernel is prepared; a failure is remembered as well.

    Args:
        workshop: Who compiles it.
        function: What to compile.
        fma: The compiler may fuse a multiplication and an addition.
        dynamic: One compilation serves every size; its loops cost a little more.
    """

    def __init__(
        self, workshop: Workshop, function: Kernel, *, fma: bool, dynamic: bool = False
    ) -> None:
        self._make = functools.partial(workshop.compile, function, fma=fma, dynamic=dynamic)
        self._kernel: Kernel | None = None
        self._failure: Exception | None = None

    def call(self, *arguments: torch.Tensor) -> Callable[[], torch.Tensor]:
        """The compiled function with its arguments.

        Raises:
            Exception: Whatever the compiler raised, also for the kernels that come later.
        """
        if self._failure is not None:
            raise self._failure
        try:
            kernel = self._kernel or self._make(arguments)
            run = without_autocast(lambda: kernel(*arguments), 1)
            with unnoticed():  # other sizes may be compiled once more
                run()
        except Exception as error:
            self._failure = error
            raise
        self._kernel = kernel
        return run


# --- bandwidth ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Fold:
    """Nine loads per pass of the inner loop, joined by multiply-adds: three loads cost one operation.

    Additions alone would need as many operations as loads, and share their ports with the loop's own instructions.

    Attributes:
        passes: Of the inner loop. A handful, so that the processor foresees the end of every loop.
    """

    passes: int

    @property
    def block(self) -> int:
        """Floats of one inner loop."""
        return _SLICES * self.passes * _VECTOR

    def function(self) -> Kernel:
        """x of shape (R, P, n), n a multiple of ``block`` → a number for each of the R × P rows."""
        width = self.passes * _VECTOR

        def fold(x: torch.Tensor) -> torch.Tensor:
            parts = x.unflatten(2, (-1, _SLICES, width)).unbind(3)
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
    MemoryLevel.L2: (Fold(1), slice(0, 2)),
    MemoryLevel.L3: (Fold(1), slice(1, 2)),
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
                how=_how(),
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


_CHAINS = (Chains(17, 4),)
"""Long chains wait for themselves, and compilers schedule long bodies badly."""


def peak_kernels(threads: int, workshop: Workshop) -> Iterator[CeilingKernel]:
    """Multiply-adds in fp32 and fp64, then the same without fusing them.

    Args:
        threads: How many.
        workshop: Who compiles them.
    """
    for shape in _CHAINS:
        for precision in _CHAIN_FLOP:
            kernel = _peak(shape, precision, threads, workshop, fma=True)
            yield kernel
            yield dataclasses.replace(kernel, pipe=Pipe.MATRIX, note=_FMA + _SAME_UNIT)
            if precision is Precision.FP32:
                yield from _computed_in_fp32(kernel)
    for precision in _CHAIN_FLOP:
        yield _peak(_CHAINS[0], precision, threads, workshop, fma=False)


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
        chains(compiled, shape, precision, threads),
        pipe=Pipe.VECTOR,
        precision=precision,
        threads=threads,
        note=_FMA if fma else _APART,
        variant="" if fma else "no fma",
        how=_how(),
    )


def chains(
    compiled: Compiled, shape: Chains, precision: Precision, threads: int
) -> Callable[[], Prepared]:
    """Compute the chains on the same row again and again in one call; the rows are divided among the threads."""
    dtype = _DTYPES[precision]
    columns = _CHAIN_BYTES // dtype.itemsize
    flop = 2 * shape.multiply_adds * columns
    rows = threads * max(round(_CHAIN_FLOP[precision] / flop), 1)

    def prepare() -> Prepared:
        x = random_values(columns, dtype=dtype).expand(rows, columns)
        # Values stay of the order of one: each link is halved before it is added to.
        y, z = (torch.full((1, 1), value, dtype=dtype, device="cpu") for value in (0.5, 0.25))
        return compiled.call(x, y, z), float(rows * flop)

    return prepare
