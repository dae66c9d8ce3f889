"""Memory of every thread that one program reads: all of it, or a part in each call."""

from __future__ import annotations

import itertools
from typing import Any

from hroof_keras.ceilings_loops import Fold
from hroof_keras.ceilings_xla import Call, Prepared, Program, Team, filled, scalar


class Memory:
    """Rows of memory on every thread, which several working sets share, and the program that reads them.

    Nothing is taken from the system, and nothing compiled, before it is needed.

    Args:
        team: The threads.
        fold: How a row is read.
        nbytes: Of each thread, at most.
    """

    def __init__(self, team: Team, fold: Fold, nbytes: int) -> None:
        self.team = team
        self.fold = fold
        self._rows = max(nbytes // fold.nbytes, 1)
        self._program = Program(fold.walk())
        self._memories: list[Any] = []

    def calls(self, times: int, first: int, count: int) -> list[Call]:
        """A call for each thread, that reads ``count`` rows from ``first`` on so many times."""
        if not self._memories:
            self._memories = [
                (filled(self._rows, self.fold.row), filled(2, self.fold.width))
                for _ in range(self.team.threads)
            ]
        numbers = [scalar(number) for number in (0, times, first, count)]
        return [self._program.call(*memory, *numbers) for memory in self._memories]

    def again(self, rows: int, traffic: float) -> Prepared:
        """Read the first rows again and again in one call.

        Args:
            rows: How many.
            traffic: Bytes per thread and call, about; more where there are many threads.
        """
        nbytes = rows * self.fold.nbytes
        times = max(round(self.team.scaled(traffic) / nbytes), 1)
        calls = self.calls(times, 0, rows)
        return self.team.together(calls), float(self.team.threads * times * nbytes)

    def by_parts(self, rows: int, traffic: float, *, fits: bool) -> Prepared:
        """Read the first rows as a whole, some of them in each call.

        Args:
            rows: How many.
            traffic: Bytes per thread and call, about; more where there are many threads.
            fits: A cache may hold them, or a part of them: read them once before.
        """
        each = min(max(round(self.team.scaled(traffic) / self.fold.nbytes), 1), rows)
        firsts = range(0, rows - each + 1, each)
        parts = [self.team.together(self.calls(1, first, each)) for first in firsts]
        for part in parts if fits else ():
            part()
        following = itertools.cycle(parts).__next__
        return lambda: following()(), float(self.team.threads * each * self.fold.nbytes)
