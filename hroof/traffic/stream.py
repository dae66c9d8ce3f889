"""An op stream as the caches see it: which buffers each op touches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from hroof.errors import UsageError


@dataclass(frozen=True, slots=True)
class Access:
    """What one op does with one buffer.

    Attributes:
        buffer: Identity of the storage (its address, or a virtual one).
        nbytes: Distinct bytes touched.
        read: The op needs what was there.
        written: The op leaves something new there.
    """

    buffer: int
    nbytes: float
    read: bool
    written: bool


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """A batch of matrix products (m × k)·(k × n), for the blocking term.

    Attributes:
        batch: How many products.
        m: Rows of the result.
        n: Columns of the result.
        k: Length of the sums.
        itemsize: Bytes per element.
    """

    batch: int
    m: int
    n: int
    k: int
    itemsize: int


@dataclass(frozen=True, slots=True)
class Touch:
    """One op of the stream: its buffers and, where it is one, its matrix product."""

    accesses: tuple[Access, ...]
    matrix: MatrixShape | None = None


class Operand(NamedTuple):
    """A buffer of an op, with all of the op's accesses to it together."""

    buffer: int
    nbytes: float
    read: bool
    written: bool

    def and_also(self, other: Operand | None) -> Operand:
        """Both accesses to the same buffer together."""
        if other is None:
            return self
        nbytes = max(self.nbytes, other.nbytes)
        read, written = self.read or other.read, self.written or other.written
        return Operand(self.buffer, nbytes, read, written)


def operands(touch: Touch, index: int) -> list[Operand]:
    """The buffers of an op, each once; those that it leaves alone are left out."""
    merged: dict[int, Operand] = {}
    for access in touch.accesses:
        if not 0 <= access.nbytes < math.inf:
            raise UsageError(
                f"Op {index} touches {access.nbytes!r} bytes of a buffer.",
                "Give the distinct bytes that it touches, 0 or more.",
            )
        if access.nbytes == 0 or not (access.read or access.written):
            continue
        operand = Operand(access.buffer, access.nbytes, access.read, access.written)
        merged[access.buffer] = operand.and_also(merged.get(access.buffer))
    return list(merged.values())
