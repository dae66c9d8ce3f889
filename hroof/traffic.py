"""Predicted traffic: which bytes of an op stream cross each memory level, by a last-recently-used model."""

from __future__ import annotations

from dataclasses import dataclass


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
