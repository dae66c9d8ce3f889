"""Kernels that measure the DRAM of a CPU with TensorFlow: XLA's loop on every thread, and ops on windows of memory."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hroof.ceilings.sizes import Windows
from hroof.integration import CeilingKernel
from hroof.units import MemoryLevel
from hroof_keras.ceilings_loops import FLOAT, Fold
from hroof_keras.ceilings_memory import Memory
from hroof_keras.ceilings_xla import Prepared, Team, filled, on_cpu

_BLOCK = Fold.apart(9, 912)
_TRAFFIC = 16e6
"""Bytes per thread and call: some two milliseconds."""
_FEWEST = 4
"""Windows, so that an op never meets one twice in a call."""
_READ = "Reads are counted."
_NEW = (
    "One read and one write, into memory that TensorFlow takes for each result; a line that is read only because it is "
    "written (write-allocate) is not counted."
)
_IN_PLACE = "Two reads and one write in place: nothing is read only because it is written."
_TOO_LITTLE = " Too little free memory: some of it may come from a cache."


@dataclasses.dataclass(frozen=True, slots=True)
class Op:
    """An op of TensorFlow on windows of DRAM.

    Attributes:
        name: What runs.
        variants: The rates it measures: the ceiling itself (empty) and rates beside it.
        arrays: How many windows a call takes.
        passes: How many times the bytes of a window are read or written.
        run: The op: TensorFlow, variables.
        note: Which traffic is counted.
    """

    name: str
    variants: tuple[str, ...]
    arrays: int
    passes: int
    run: Callable[[Any, Sequence[Any]], object]
    note: str


OPS = (
    Op("Sum", ("",), 1, 1, lambda tf, w: tf.raw_ops.Sum(input=w[0], axis=[0]), _READ),
    Op(
        "ResourceApplyGradientDescent",
        ("", "triad"),
        2,
        3,
        lambda tf, w: tf.raw_ops.ResourceApplyGradientDescent(
            var=w[0].handle, alpha=0.0, delta=w[1]
        ),
        _IN_PLACE,
    ),
    Op("Mul", ("copy",), 1, 2, lambda tf, w: tf.raw_ops.Mul(x=w[0], y=1.0), _NEW),
)


def dram_kernels(windows: Windows, team: Team) -> Iterator[CeilingKernel]:
    """Read, and read and write, memory that has left the caches since it was last used."""
    doubt = "" if windows.enough else _TOO_LITTLE
    plain = CeilingKernel(
        f"XLA fold of {windows.count} × {windows.size // 1024**2} MiB",
        "bandwidth",
        reading(windows.count * windows.size, team),
        level=MemoryLevel.DRAM,
        threads=team.threads,
        note=f"{_READ} Compiled by XLA.{doubt}",
        how="measured" if windows.enough else "framework-reachable",
    )
    yield plain
    walk = Walk(windows)
    for op in OPS if windows.count >= _FEWEST else OPS[:1]:
        kernel = dataclasses.replace(
            plain,
            name=f"{op.name} of {windows.count} × {windows.size // 1024**2} MiB",
            prepare=operating(op, walk),
            note=op.note + doubt,
        )
        for variant in op.variants:
            yield dataclasses.replace(kernel, variant=variant)


def reading(total: int, team: Team) -> Callable[[], Prepared]:
    """Walk through memory of which every thread has its part, some rows in each call.

    Args:
        total: Bytes of all threads together.
        team: The threads.
    """
    rows = max(total // team.threads // _BLOCK.nbytes, 2)

    def prepare() -> Prepared:
        memory = Memory(team, _BLOCK, rows * _BLOCK.nbytes)
        return memory.by_parts(rows, _TRAFFIC, fits=False)

    return prepare


class Walk:
    """Windows of memory that the ops share; the memory is taken when the first one needs it.

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
            shape = 1, self._windows.size // FLOAT
            self._memory = [
                on_cpu(lambda: tensorflow.Variable(filled(*shape)[0], trainable=False))
                for _ in range(self._windows.count)
            ]
        return itertools.cycle(self._memory).__next__


def operating(op: Op, walk: Walk) -> Callable[[], Prepared]:
    """Run an op on the next windows with each call."""

    def prepare() -> Prepared:
        import tensorflow

        window = walk.next_window()
        nbytes = float(window().shape[0] * FLOAT * op.passes)

        def call() -> object:
            return on_cpu(lambda: op.run(tensorflow, [window() for _ in range(op.arrays)]))

        return call, nbytes

    return prepare
