"""The values that flow into an instruction and out of it, through tuples and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hroof_keras.hlo.fusions import users_of
from hroof_keras.hlo.messages import Computation, Hlo, Module

Value = tuple[Hlo, int | None]
"""A result, or the part of a tuple with this number."""

_VIEWS = frozenset(
    {"bitcast", "opt-barrier", "domain", "add-dependency", "get-tuple-element", "tuple"}
)
"""Passed over without a step: they do nothing."""

_COPIES = frozenset({"copy", "convert"})


class Neighbours:
    """Finds what uses a value and what it is made of.

    Args:
        module: The module.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._users: dict[int, dict[Hlo, list[Hlo]]] = {}
        self._home: dict[Hlo, Computation] = {}
        self._callers: dict[int, Hlo] = {}
        for computation in module.computations.values():
            for hlo in computation.instructions:
                self._home[hlo] = computation
                if hlo.opcode in ("while", "call", "conditional", "async-start"):
                    self._callers.update(dict.fromkeys(hlo.called, hlo))

    def caller(self, hlo: Hlo) -> Hlo | None:
        """The loop, branch or call in which an instruction is executed; None in the entry computation."""
        return self._callers.get(self._home[hlo].id)

    def users(self, hlo: Hlo) -> list[Hlo]:
        """What uses the result of an instruction, views and loops passed over, in order."""
        return _beyond((hlo, None), self._used_by)

    def sources(self, hlo: Hlo) -> list[Hlo]:
        """What the operands of an instruction come from, likewise."""
        found: dict[Hlo, None] = {}
        for operand in hlo.operands:
            reached = _beyond((operand, None), self._made_of)
            found |= dict.fromkeys(reached if _passes(operand) else [operand, *reached][:1])
        return list(found)

    def rounds(
        self, hlo: Hlo, reach: Callable[[Hlo], Iterable[Hlo]], far: int = 6
    ) -> Iterator[list[Hlo]]:
        """Instructions at one step from another, at two steps, and so on.

        Args:
            hlo: Where to begin.
            reach: ``users`` or ``sources``.
            far: Number of steps.
        """
        seen, here = {hlo}, [hlo]
        for _ in range(far):
            found = dict.fromkeys(near for one in here for near in reach(one))
            here = [near for near in found if near not in seen]
            seen.update(here)
            yield here

    def parameters(
        self, hlo: Hlo, moves: Callable[[Hlo], bool] = lambda hlo: hlo.opcode in _COPIES
    ) -> list[Hlo]:
        """Parameters of the program that an instruction takes, themselves or as copies.

        Args:
            hlo: The instruction.
            moves: What counts as a copy.
        """
        found: dict[Hlo, None] = {}
        waiting: list[Value] = [(operand, None) for operand in hlo.operands]
        seen: set[Value] = set()
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            if value[0].opcode == "parameter" and self._home[value[0]] is self._module.entry:
                found[value[0]] = None
            elif moves(value[0]):
                waiting.extend((operand, None) for operand in value[0].operands)
            elif value[0].opcode != "while":
                waiting.extend(self._made_of(value))
        return list(found)

    def _used_by(self, value: Value) -> Iterator[Value]:
        hlo, part = value
        computation = self._home[hlo]
        if computation.id not in self._users:
            self._users[computation.id] = users_of(computation)
        for user in self._users[computation.id][hlo]:
            yield from _passed_on(user, hlo, part)
        if computation.root is hlo:
            yield from self._returned(computation, part)
        if hlo.opcode == "while":
            yield from self._inside(hlo, part)

    def _inside(self, loop: Hlo, part: int | None) -> Iterator[Value]:
        """What a loop carries, at the beginning of its body."""
        for number in loop.called:
            parameter = self._module.computations[number].parameters.get(0)
            if parameter is not None:
                yield parameter, part

    def _returned(self, computation: Computation, part: int | None) -> Iterator[Value]:
        """Where the result of a computation goes: its caller's result, and the next turn of a loop."""
        caller = self._callers.get(computation.id)
        if caller is None or computation.root.shape.dtype == "bool":
            return
        yield caller, part

    def _made_of(self, value: Value) -> Iterator[Value]:
        hlo, part = value
        if hlo.opcode == "tuple":
            chosen = hlo.operands if part is None else hlo.operands[part : part + 1]
            yield from ((operand, None) for operand in chosen)
        elif hlo.opcode == "get-tuple-element":
            yield hlo.operands[0], hlo.tuple_index
        elif hlo.opcode == "while":
            # What the last turn leaves; what a turn passes on unchanged leads to where the loop began.
            yield self._module.computations[hlo.called[0]].root, part
        elif hlo.opcode == "parameter":
            yield from self._passed_in(hlo, part)
        elif hlo.opcode in _VIEWS:
            yield from ((operand, None) for operand in hlo.operands[:1])

    def _passed_in(self, parameter: Hlo, part: int | None) -> Iterator[Value]:
        caller = self._callers.get(self._home[parameter].id)
        if caller is not None:
            position = 0 if caller.opcode == "while" else parameter.parameter
            yield from ((operand, part) for operand in caller.operands[position : position + 1])


def _passes(hlo: Hlo) -> bool:
    return hlo.opcode in _VIEWS or hlo.opcode in ("while", "parameter")


def _passed_on(user: Hlo, hlo: Hlo, part: int | None) -> Iterator[Value]:
    """The value as its user hands it on."""
    if user.opcode == "get-tuple-element":
        if part is None or part == user.tuple_index:
            yield user, None
    elif user.opcode == "tuple":
        for position, operand in enumerate(user.operands):
            if operand is hlo:
                yield user, position
    elif user.opcode == "while":
        yield user, part
    else:
        yield user, None


def _beyond(start: Value, step: Callable[[Value], Iterator[Value]]) -> list[Hlo]:
    """The nearest instructions that do something."""
    found: dict[Hlo, None] = {}
    seen = {start}
    waiting = list(step(start))
    while waiting:
        value = waiting.pop(0)
        if value in seen:
            continue
        seen.add(value)
        if _passes(value[0]):
            waiting.extend(step(value))
        else:
            found[value[0]] = None
    return list(found)
