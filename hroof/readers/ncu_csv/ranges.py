"""The NVTX columns of ncu's tables: which ranges were open when a kernel was launched.

A cell of push/pop ranges holds the thread and one quoted block per range, outermost first; one of
start/end ranges begins each block with the number of the range:

    13416  "<default domain>:step:none:none:none:none:none:none"  "<default domain>:fc:none:none:none:none:none:none"
    "3:<default domain>:train:none:none:none:none:none:none"

The fields behind the name are payload, colour and message; older versions have two, newer ones six.
ncu protects nothing in a name, so a block is read from its right end, and by its message where it
repeats the name. [Read from tables of ncu 2020 to 2025.]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hroof.readers.raw import Ranges

Named = tuple[tuple[str, str], ...]

_BETWEEN = re.compile(r'"\s{1,2}"')
_THREAD = re.compile(r"\s*\d*\s*")
_REPEATED = re.compile(r"(?P<name>.+):[^:]*:[^:]*:[^:]*:[^:]*:[^:]*:(?P=name)", re.DOTALL)


def columns(header: Sequence[str]) -> tuple[int | None, int | None]:
    """The places of the columns of push/pop and of start/end ranges in a header."""
    pushed = (at for at, name in enumerate(header) if ":Push/Pop_Range" in name)
    started = (at for at, name in enumerate(header) if ":Start/Stop_Range" in name)
    return next(pushed, None), next(started, None)


def pushed(cell: str, header: str) -> Named:
    """The push/pop ranges of a cell as (domain, name), outermost first within each domain."""
    tail = header.split("Range:", 1)[-1].count(":") + 1
    return tuple(_domain_and_name(block, tail) for block in _blocks(cell))


def started(cell: str, header: str) -> Named:
    """The start/end ranges of a cell as (domain, name)."""
    tail = header.split("Range:", 1)[-1].count(":") + 1
    return tuple(_domain_and_name(block.partition(":")[2], tail) for block in _blocks(cell))


def nested(cell: str, domain: str, header: str) -> Named:
    """The ranges of a summary, whose domain has a column of its own."""
    tail = header.split("Range:", 1)[-1].count(":") + 1
    return tuple((domain, _name(block, tail)) for block in _blocks(cell))


def readable(cell: str) -> bool:
    """Whether a cell is empty or has whole blocks.

    A quote in a name breaks the row, since ncu does not protect it.
    """
    rest = cell[_THREAD.match(cell).end() :].strip()  # type: ignore[union-attr]
    if not rest:
        return True
    whole = len(rest) > 1 and rest[0] == rest[-1] == '"' and '""' not in rest
    return whole and all(":" in block for block in _blocks(cell))


class States:
    """The different NVTX states of a file, each once.

    Args:
        header: The columns of the table.
    """

    def __init__(self, header: Sequence[str]) -> None:
        self._pushed, self._started = columns(header)
        self._header = header
        self._places: dict[Ranges, int] = {}

    @property
    def known(self) -> bool:
        """Whether the table has NVTX columns."""
        return self._pushed is not None or self._started is not None

    @property
    def found(self) -> tuple[Ranges, ...]:
        """The states, in the order of their places."""
        return tuple(self._places)

    def place(self, push_cell: str, start_cell: str) -> int:
        """The place of the state that two cells describe."""
        inner = pushed(push_cell, self._header[self._pushed]) if self._pushed is not None else ()
        outer = (
            started(start_cell, self._header[self._started]) if self._started is not None else ()
        )
        return self.add(Ranges(inner, outer))

    def add(self, state: Ranges) -> int:
        """The place of a state."""
        return self._places.setdefault(state, len(self._places))


def renamed(kernels: Iterable[str], states: Iterable[Ranges]) -> bool:
    """Whether the names of kernels begin with a range, as ``--print-nvtx-rename kernel`` has it.

    Args:
        kernels: The names.
        states: The NVTX state of each.
    """
    some = False
    for kernel, state in zip(kernels, states, strict=True):
        if state.pushed:
            some = True
            if prefix(kernel, state) == 0:
                return False
    return some


def prefix(kernel: str, state: Ranges) -> int:
    """How many characters of a kernel's name are the name of a range and a slash."""
    fitting = (len(name) + 1 for _, name in state.pushed if kernel.startswith(f"{name}/"))
    return max(fitting, default=0)


def _blocks(cell: str) -> list[str]:
    rest = cell[_THREAD.match(cell).end() :].strip()  # type: ignore[union-attr]
    return [block.strip('"') for block in _BETWEEN.split(rest)] if rest else []


def _domain_and_name(block: str, tail: int) -> tuple[str, str]:
    domain, _, rest = block.partition(":")
    return domain, _name(rest, tail)


def _name(rest: str, tail: int) -> str:
    repeated = _REPEATED.fullmatch(rest) if tail == 6 else None
    return repeated["name"] if repeated else rest.rsplit(":", tail)[0]
