"""Compiling of ceiling kernels with Inductor: whether it can be done, in what time, and without a trace.

What PyTorch counts of its compilations is put back afterwards, so that hroof treats a program that compiles nothing
itself as before.
"""

from __future__ import annotations

import contextlib
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
from typing import Any, Literal

import torch

from hroof.ceilings import host
from hroof_torch.ceilings.cpu.peaks import without_autocast

Kernel = Callable[..., torch.Tensor]

_PATIENCE = 45.0
"""Seconds of compiling after which no further kernel is compiled; next time Inductor's cache holds the others."""


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


def evidence() -> Literal["measured", "framework-reachable"]:
    """What a compiled kernel proves: it uses the whole unit where its vectors are the widest."""
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
