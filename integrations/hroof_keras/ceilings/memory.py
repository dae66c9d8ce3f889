"""Memory of every thread that one program passes over: all of it again and again, or a part in each call."""

from __future__ import annotations

import itertools
from typing import Any

from hroof_keras.ceilings.loops import FLOAT, Fold, Mix
from hroof_keras.ceilings.xla import Call, Prepared, Program, Team, constant, filled, on_cpu, scalar


class Memory:
    """Matrices of memory on every thread, which several kernels share; none is taken before it is needed.

    The first of a thread is a variable, since XLA copies whatever else it is to write, before every call.

    Args:
        team: The threads.
        row: Floats of a row.
        nbytes: Of each thread, at most.
        arrays: How many matrices that are.
    """

    def __init__(self, team: Team, row: int, nbytes: int, arrays: int = 1) -> None:
        self.team = team
        self.row = row
        self.rows = max(nbytes // (row * FLOAT * arrays), 1)
        self._arrays = arrays
        self._taken: list[list[Any]] = []

    def take(self) -> list[list[Any]]:
        """The matrices of each thread."""
        if not self._taken:
            self._taken = [self._of_one() for _ in range(self.team.threads)]
        return self._taken

    def _of_one(self) -> list[Any]:
        import tensorflow

        first = on_cpu(lambda: tensorflow.Variable(filled(self.rows, self.row), trainable=False))
        return [first, *(filled(self.rows, self.row) for _ in range(self._arrays - 1))]


class Walker:
    """A program that passes over the rows of a memory, on every thread.

    Args:
        memory: With as many arrays as the loop needs.
        loop: What is done with a row.
    """

    def __init__(self, memory: Memory, loop: Fold | Mix) -> None:
        self._memory = memory
        self._loop = loop
        self._program = Program(loop.walk())
        self.row_bytes = loop.nbytes if isinstance(loop, Fold) else loop.passes * memory.row * FLOAT

    @property
    def team(self) -> Team:
        """The threads."""
        return self._memory.team

    def calls(self, times: int, first: int, count: int) -> list[Call]:
        """A call for each thread, that passes over ``count`` rows from ``first`` on so many times."""
        numbers = [scalar(number) for number in (times, first, count)]
        taken = self._memory.take()
        return [self._program.call(*arrays, *self._others(), *numbers) for arrays in taken]

    def _others(self) -> list[Any]:
        """What the loop needs beside the memory."""
        if isinstance(self._loop, Fold):
            return [filled(2, self._loop.width), scalar(0)]
        return [constant(0.5)]

    def again(self, rows: int, traffic: float) -> Prepared:
        """Pass over the first rows again and again in one call.

        Args:
            rows: How many.
            traffic: Bytes per thread and call, about; more where there are many threads.
        """
        nbytes = rows * self.row_bytes
        times = max(round(self.team.scaled(traffic) / nbytes), 1)
        calls = self.calls(times, 0, rows)
        return self.team.together(calls), float(self.team.threads * times * nbytes)

    def by_parts(self, rows: int, traffic: float, *, fits: bool) -> Prepared:
        """Pass over the first rows as a whole, some of them in each call.

        Args:
            rows: How many.
            traffic: Bytes per thread and call, about; more where there are many threads.
            fits: A cache may hold them, or a part of them: pass over them once before.
        """
        each = min(max(round(self.team.scaled(traffic) / self.row_bytes), 1), rows)
        firsts = range(0, rows - each + 1, each)
        parts = [self.team.together(self.calls(1, first, each)) for first in firsts]
        for part in parts if fits else ():
            part()
        following = itertools.cycle(parts).__next__
        return lambda: following()(), float(self.team.threads * each * self.row_bytes)
