"""Loops for ceilings that XLA compiles: reading, rewriting, copying, and chains of multiply-adds.

A turn of a loop costs XLA a tenth of a microsecond, so a turn works on some 30 kB and more. Every slice begins where a
number says that XLA does not know: otherwise it would be taken out of the loop. What a turn gives is written into a row
of a larger array: XLA divides everything else among threads, turn by turn, which costs more than the work.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

Function = Callable[..., Any]

FLOAT = 4
_LINE = 16
"""Floats of a vector of 64 bytes."""
_APART = 64
"""Floats between slices that overlap: four vectors, as many as a turn of an unrolled loop loads of each of them."""


def joined(parts: Sequence[Any]) -> Any:
    """One tensor of some of equal shape, a power of three: of each three, first × second + third.

    Three loads cost one operation so; additions alone would need as many operations as loads.
    """
    while len(parts) > 1:
        threes = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        parts = [first * second + third for first, second, third in threes]
    return parts[0]


def _read_row(tensorflow: Any, x: Any, row: Any, begin: int = 0, width: int | None = None) -> Any:
    """A part of a row of a matrix; the whole row without ``width``."""
    width = x.shape[1] if width is None else width
    where = tensorflow.stack([row, begin])
    return tensorflow.reshape(tensorflow.slice(x, where, [1, width]), [width])


def _write_row(tensorflow: Any, x: Any, row: Any, values: Any) -> Any:
    """The matrix with another row; XLA writes it in place."""
    return tensorflow.tensor_scatter_nd_update(x, [[row]], [values])


def _repeat(tensorflow: Any, times: Any, turn: Function, start: Any) -> Any:
    """Run ``turn(number, value)`` again and again; the last value."""

    def body(number: Any, value: Any) -> tuple[Any, Any]:
        return number + 1, turn(number, value)

    return tensorflow.while_loop(lambda number, _: number < times, body, [0, start])[1]


def _over_rows(tensorflow: Any, first: Any, count: Any, turn: Function, start: Any) -> Any:
    """Run ``turn(row, value)`` for some rows; the last value."""
    end = first + count

    def body(row: Any, value: Any) -> tuple[Any, Any]:
        return row + 1, turn(row, value)

    return tensorflow.while_loop(lambda row, _: row < end, body, [first, start])[1]


@dataclasses.dataclass(frozen=True, slots=True)
class Fold:
    """Reads slices of a row of memory and adds what they give to a small sum.

    Attributes:
        parts: Slices of a row, a power of three.
        width: Floats of each.
        step: Floats from the begin of one slice to the begin of the next.
    """

    parts: int
    width: int
    step: int

    @classmethod
    def apart(cls, parts: int, width: int) -> Fold:
        """Slices that lie one after the other: every float is read once."""
        return cls(parts, width, width)

    @classmethod
    def overlapping(cls, parts: int, row: int) -> Fold:
        """Slices that overlap within a row of so many floats: memory is read many times in one turn of the loop."""
        return cls(parts, (row - _APART * (parts - 1)) // _LINE * _LINE, _APART)

    @property
    def row(self) -> int:
        """Floats of a row that are touched."""
        return self.step * (self.parts - 1) + self.width

    @property
    def nbytes(self) -> int:
        """Bytes that are read of one row; those of the sum are not counted."""
        return self.parts * self.width * FLOAT

    def _read(self, tensorflow: Any, x: Any, row: Any, sums: Any, place: Any) -> Any:
        """The sums with what a row of x gives added to one of their rows."""
        begins = [part * self.step for part in range(self.parts)]
        slices = [_read_row(tensorflow, x, row, begin, self.width) for begin in begins]
        total = _read_row(tensorflow, sums, place) * 0.5 + joined(slices)
        return _write_row(tensorflow, sums, place, total)

    def walk(self) -> Function:
        """(x, sums, last, times, first, count) → sums: so many rows from the first one on, so many times.

        x, which may be a variable, has the shape (R, ``row``), the sums (2, ``width``); ``last`` is 0, so only their
        first row is used.
        """
        import tensorflow

        def walk(x: Any, sums: Any, last: Any, times: Any, first: Any, count: Any) -> Any:
            x = tensorflow.convert_to_tensor(x)

            def rows(_: Any, value: Any) -> Any:
                def read(row: Any, value: Any) -> Any:
                    return self._read(tensorflow, x, row, value, tensorflow.minimum(row, last))

                return _over_rows(tensorflow, first, count, read, value)

            return _repeat(tensorflow, times, rows, sums)

        return walk

    def stay(self) -> Function:
        """(x, sums, last, times) → sums: the first row of two, so many times; ``last`` is 0."""
        import tensorflow

        def stay(x: Any, sums: Any, last: Any, times: Any) -> Any:
            def read(number: Any, value: Any) -> Any:
                row = tensorflow.minimum(number, last)
                return self._read(tensorflow, x, row, value, row)

            return _repeat(tensorflow, times, read, sums)

        return stay


@dataclasses.dataclass(frozen=True, slots=True)
class Mix:
    """A loop over rows that reads some arrays and writes one.

    Attributes:
        variant: Its usual name (McCalpin's STREAM), or empty.
        sources: Arrays that are read and not written.
        note: Which traffic is counted.
    """

    variant: str
    sources: int
    note: str

    @property
    def arrays(self) -> int:
        """How many arrays there are."""
        return self.sources + 1

    @property
    def passes(self) -> int:
        """How many arrays a turn reads or writes; rewriting in place does both with one."""
        return max(self.sources, 1) + 1

    @property
    def name(self) -> str:
        """What it is called."""
        return self.variant or "rewrite"

    def walk(self) -> Function:
        """(y, sources…, scale, times, first, count): writes so many rows of y, a variable, so many times."""
        import tensorflow

        def walk(y: Any, *arguments: Any) -> None:
            *sources, scale, times, first, count = arguments

            def rows(_: Any, value: Any) -> Any:
                def write(row: Any, value: Any) -> Any:
                    read = [_read_row(tensorflow, each, row) for each in (sources or [value])]
                    return _write_row(tensorflow, value, row, _mixed(self, read, scale))

                return _over_rows(tensorflow, first, count, write, value)

            y.assign(_repeat(tensorflow, times, rows, y.read_value()))

        return walk


_WRITE_ALLOCATE = (
    "tensor bytes: a line that is read only because it is written (write-allocate) is not counted."
)
REWRITE = Mix("", 0, "Reads and writes in place are counted; every thread has memory of its own.")
MIXES = (
    Mix("copy", 1, f"One read and one write, {_WRITE_ALLOCATE}"),
    Mix("triad", 2, f"Two reads and one write, {_WRITE_ALLOCATE}"),
)


def _mixed(mix: Mix, read: Sequence[Any], scale: Any) -> Any:
    if mix.sources == 1:
        return read[0]
    return read[0] * scale + (read[1] if mix.sources == 2 else 0.25)


@dataclasses.dataclass(frozen=True, slots=True)
class Chains:
    """Independent chains of multiply-adds on every element.

    Attributes:
        count: How many chains; odd, so that multiply-adds alone can join them.
        steps: Multiply-adds of each.
        fused: Multiply-adds; otherwise every second chain only multiplies and the others only add.
    """

    count: int
    steps: int
    fused: bool = True

    @property
    def flop(self) -> int:
        """Per element: a multiply-add is two, and those that join three results into one count, if all are fused."""
        if not self.fused:
            return self.count * (self.steps - 1)
        return 2 * (self.count * self.steps + (self.count - 1) // 2)

    def function(self) -> Function:
        """(x, y, z, last, times) → x after so many turns: chains c = c·y + z begin with its first row and make it anew.

        x has two rows; ``last`` is 0.
        """
        import tensorflow

        def chains(x: Any, y: Any, z: Any, last: Any, times: Any) -> Any:
            def turn(number: Any, value: Any) -> Any:
                row = tensorflow.minimum(number, last)
                made = self._turn(_read_row(tensorflow, value, row), y, z)
                return _write_row(tensorflow, value, row, made)

            return _repeat(tensorflow, times, turn, x)

        return chains

    def _turn(self, x: Any, y: Any, z: Any) -> Any:
        links = [x * (0.5 + k / 64) + (0.25 + k / 64) for k in range(self.count)]
        for _ in range(self.steps - 1):
            links = [self._next(number, link, y, z) for number, link in enumerate(links)]
        while len(links) > 1:
            links = [*links[3:], links[0] * links[1] + links[2]]
        return links[0]

    def _next(self, number: int, link: Any, y: Any, z: Any) -> Any:
        if self.fused:
            return link * y + z
        return link * y if number % 2 else link + z
