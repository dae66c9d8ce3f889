"""Which values of a module share their memory.

Values get the same buffer where HLO says so: views, tuples and their parts, what a loop carries from one turn
to the next, what is updated in place, and results that are written over parameters.
"""

from __future__ import annotations

from collections.abc import Iterator

from hroof_keras.hlo.fusions import results, update_of
from hroof_keras.hlo.messages import Computation, Hlo, Module

Position = tuple[Hlo, tuple[int, ...]]
"""An array: a result and, in a tuple, which part of it."""

_VIEWS = frozenset(
    {"bitcast", "opt-barrier", "domain", "add-dependency", "copy-done", "async-done"}
)
_IN_PLACE = frozenset({"dynamic-update-slice", "scatter"})


class Buffers:
    """Numbers the buffers of a module.

    Args:
        module: The module.
        first: Number of the first buffer; further ones follow.
    """

    def __init__(self, module: Module, first: int = 0) -> None:
        self._parent: dict[Position, Position] = {}
        self._numbers: dict[Position, int] = {}
        self._first = first
        for computation in module.computations.values():
            if not computation.is_fusion:
                for hlo in computation.instructions:
                    self._link(module, hlo)
        parameters = module.entry.parameters
        for alias in module.aliases:
            if alias.operand in parameters:
                self._join(
                    (parameters[alias.operand], alias.path), (module.entry.root, alias.output)
                )

    def of(self, hlo: Hlo, path: tuple[int, ...] = ()) -> int:
        """Number of the buffer of an array."""
        found = self._find((hlo, path))
        return self._numbers.setdefault(found, self._first + len(self._numbers))

    def _find(self, position: Position) -> Position:
        root = position
        while (above := self._parent.get(root, root)) != root:
            root = above
        while position != root:
            self._parent[position], position = root, self._parent.get(position, root)
        return root

    def _join(self, one: Position, other: Position) -> None:
        first, second = self._find(one), self._find(other)
        if first != second:
            self._parent[second] = first

    def _link(self, module: Module, hlo: Hlo) -> None:
        for mine, its in _shared(module, hlo):
            self._join(its, mine)
        for alias in hlo.aliasing:
            self._join((hlo.operands[alias.operand], alias.path), (hlo, alias.output))


def _shared(module: Module, hlo: Hlo) -> Iterator[tuple[Position, Position]]:
    """Pairs of arrays that are one, the second defined before the first."""
    if hlo.opcode in _VIEWS or hlo.opcode in _IN_PLACE:
        if hlo.operands:
            yield from _alike(hlo, (), hlo.operands[0], ())
    elif hlo.opcode == "get-tuple-element":
        yield from _alike(hlo, (), hlo.operands[0], (hlo.tuple_index,))
    elif hlo.opcode == "tuple":
        for index, operand in enumerate(hlo.operands):
            for path, _ in operand.shape.leaves():
                yield (hlo, (index, *path)), (operand, path)
    elif hlo.opcode == "while":
        yield from _alike(hlo, (), hlo.operands[0], ())
        for computation in _called(module, hlo):
            parameter = computation.parameters.get(0)
            if parameter is not None:
                yield from _alike(parameter, (), hlo.operands[0], ())
            if computation.root.shape.dtype == "tuple":
                yield from _alike(hlo, (), computation.root, ())
    elif hlo.opcode == "fusion":
        yield from _updates(module, hlo)
    elif hlo.opcode in ("call", "async-start"):
        for computation in _called(module, hlo):
            yield from _into(computation, hlo.operands)
            if hlo.opcode == "call":
                yield from _alike(hlo, (), computation.root, ())
    elif hlo.opcode == "conditional":
        for operand, computation in zip(hlo.operands[1:], _called(module, hlo), strict=False):
            yield from _into(computation, (operand,))
            yield from _alike(hlo, (), computation.root, ())


def _updates(module: Module, hlo: Hlo) -> Iterator[tuple[Position, Position]]:
    """Results of a fusion that are operands, updated in place."""
    for computation in _called(module, hlo):
        for path, value in results(computation.root):
            update = update_of(value)
            if update is not None and update.parameter < len(hlo.operands):
                yield (hlo, path), (hlo.operands[update.parameter], ())


def _called(module: Module, hlo: Hlo) -> list[Computation]:
    return [module.computations[number] for number in hlo.called if number in module.computations]


def _into(
    computation: Computation, operands: tuple[Hlo, ...]
) -> Iterator[tuple[Position, Position]]:
    parameters = computation.parameters
    for number, operand in enumerate(operands):
        if number in parameters:
            yield from _alike(parameters[number], (), operand, ())


def _alike(
    mine: Hlo, at: tuple[int, ...], its: Hlo, beneath: tuple[int, ...]
) -> Iterator[tuple[Position, Position]]:
    """Two values of the same shape, array by array."""
    for path, _ in mine.shape.at(at).leaves():
        yield (mine, (*at, *path)), (its, (*beneath, *path))
