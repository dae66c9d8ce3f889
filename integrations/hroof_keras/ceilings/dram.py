"""Kernels that measure the DRAM of a CPU with TensorFlow: loops of XLA on every thread, an op that writes in place."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from hroof.ceilings.sizes import Windows
from hroof.integration import CeilingKernel
from hroof.units import MemoryLevel
from hroof_keras.ceilings.loops import FLOAT, MIXES, REWRITE, Fold, Mix
from hroof_keras.ceilings.memory import Memory, Walker
from hroof_keras.ceilings.xla import Prepared, Team, constant, filled, on_cpu

_BLOCK = Fold.apart(9, 912)
_TRAFFIC = 8e6
"""Bytes per thread and call: about a millisecond."""
_FEWEST = 4
"""Windows, so that an op never meets one twice in a call."""
_READ = "Reads are counted; every thread has memory of its own."
_IN_PLACE = "Two reads and one write in place: nothing is read only because it is written."
_TOO_LITTLE = " Too little free memory: some of it may come from a cache."


def dram_kernels(windows: Windows, team: Team) -> Iterator[CeilingKernel]:
    """Read, and read and write, memory that has left the caches since it was last used."""
    each = windows.count * windows.size // team.threads
    memory = Memory(team, _BLOCK.row, each)
    size = f"{windows.count * windows.size // 1024**2} MiB"
    doubt = "" if windows.enough else _TOO_LITTLE

    def kernel(name: str, prepare: Callable[[], Prepared], note: str) -> CeilingKernel:
        return CeilingKernel(
            f"{name} {size}",
            "bandwidth",
            prepare,
            level=MemoryLevel.DRAM,
            threads=team.threads,
            note=note + doubt,
            how="measured" if windows.enough else "framework-reachable",
        )

    yield kernel("XLA fold", passing(memory, _BLOCK), f"{_READ} Compiled by XLA.")
    yield kernel("XLA rewrite", passing(memory, REWRITE), f"{REWRITE.note} Compiled by XLA.")
    if windows.count >= _FEWEST:
        yield kernel("ResourceApplyGradientDescent", descending(Walk(windows)), _IN_PLACE)
    for mix in MIXES:
        own = Memory(team, _BLOCK.row, each, mix.arrays)
        beside = kernel(f"XLA {mix.name}", passing(own, mix), f"{mix.note} Compiled by XLA.")
        yield dataclasses.replace(beside, variant=mix.variant)


def passing(memory: Memory, loop: Fold | Mix) -> Callable[[], Prepared]:
    """Pass over the memory of each thread, some rows in each call."""
    return lambda: Walker(memory, loop).by_parts(memory.rows, _TRAFFIC, fits=False)


class Walk:
    """Windows of memory for an op of TensorFlow; the memory is taken when the first one is asked for.

    Args:
        windows: How many, how large.
    """

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._memory: list[Any] = []

    def next_window(self) -> Callable[[], Any]:
        """A function that gives the next window, a variable, each time, round and round."""
        import tensorflow

        if not self._memory:
            elements = self._windows.size // FLOAT
            self._memory = [
                on_cpu(lambda: tensorflow.Variable(filled(1, elements)[0], trainable=False))
                for _ in range(self._windows.count)
            ]
        return itertools.cycle(self._memory).__next__


def descending(walk: Walk) -> Callable[[], Prepared]:
    """A step of gradient descent on a window, with the next one as its gradient and a rate of zero."""

    def prepare() -> Prepared:
        import tensorflow

        window, rate = walk.next_window(), constant(0.0)
        nbytes = 3.0 * window().shape[0] * FLOAT
        step = tensorflow.raw_ops.ResourceApplyGradientDescent

        def call() -> None:
            on_cpu(lambda: step(var=window().handle, alpha=rate, delta=window()))

        return call, nbytes

    return prepare
