"""How often the loops of a program turn: its counters are followed, everything else is left out.

Compilers write down the turns of some loops only. The counters of a loop are single integers that start from
constants; computing them, and nothing else, tells when the condition fails. A condition that depends on data
stays unknown.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from hroof_keras.hlo.messages import Computation, Hlo, Module

Scalar = Any
"""An integer or truth value, a tuple of such for a tuple, or None for what is not known."""

_MOST_STEPS = 1_000_000
"""Instructions that are looked at in all; a loop beyond that stays unknown."""

_SAME = frozenset({"bitcast", "copy", "convert", "reshape", "broadcast", "opt-barrier"})

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "maximum": max,
    "minimum": min,
}

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


class _TooLong(Exception):
    """The counters were followed long enough."""


class Turns:
    """Turns of the loops of a module.

    Args:
        module: The module.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._seen: dict[Hlo, list[float]] = {}
        self._left = _MOST_STEPS
        try:
            self._run(module.entry, [None] * len(module.entry.parameters))
        except _TooLong:
            self._seen.clear()

    def of(self, loop: Hlo) -> float:
        """Turns of one execution of a ``while``, on average; NaN where they are not known."""
        seen = self._seen.get(loop, [])
        found = sum(seen) / len(seen) if seen else math.nan
        return written_down(loop) if math.isnan(found) else found

    def _run(self, computation: Computation, arguments: Sequence[Scalar]) -> Scalar:
        values: dict[Hlo, Scalar] = {}
        for hlo in computation.instructions:
            self._left -= 1
            if self._left < 0:
                raise _TooLong
            if hlo.opcode == "parameter":
                known = hlo.parameter < len(arguments)
                values[hlo] = arguments[hlo.parameter] if known else None
            else:
                values[hlo] = self._value(hlo, [values[operand] for operand in hlo.operands])
        return values[computation.root]

    def _value(self, hlo: Hlo, operands: list[Scalar]) -> Scalar:
        if hlo.opcode == "tuple":
            return tuple(operands)
        if hlo.opcode == "get-tuple-element":
            whole = operands[0]
            return whole[hlo.tuple_index] if isinstance(whole, tuple) else None
        if hlo.opcode == "while":
            return self._loop(hlo, operands[0])
        if hlo.opcode == "call" or (hlo.opcode == "fusion" and _is_small(hlo)):
            return self._run(self._module.computations[hlo.called[0]], operands)
        return _scalar(hlo, operands) if hlo.shape.size == 1 else None

    def _loop(self, loop: Hlo, state: Scalar) -> Scalar:
        body, condition = (self._module.computations[number] for number in loop.called[:2])
        turns = 0
        while (goes_on := self._run(condition, [state])) is not None:
            if not goes_on:
                self._seen.setdefault(loop, []).append(turns)
                return state
            state = self._run(body, [state])
            turns += 1
        self._seen.setdefault(loop, []).append(math.nan)
        return None


def _is_small(hlo: Hlo) -> bool:
    return all(shape.size <= 1 for _, shape in hlo.shape.leaves())


def _scalar(hlo: Hlo, operands: list[Scalar]) -> Scalar:
    """One operation on single numbers; truth values are followed as far as they do not depend on what is unknown."""
    if hlo.opcode == "constant":
        return hlo.constant
    if hlo.opcode in ("and", "or") and len(operands) == 2:
        decisive = hlo.opcode == "or"
        if decisive in operands and hlo.shape.dtype == "bool":
            return decisive
    if not operands or any(value is None or isinstance(value, tuple) for value in operands):
        return None
    if hlo.opcode in _BINARY:
        return _BINARY[hlo.opcode](*operands)
    if hlo.opcode == "compare":
        return _COMPARE[hlo.direction](*operands) if hlo.direction in _COMPARE else None
    if hlo.opcode in ("and", "or"):
        return (operator.and_ if hlo.opcode == "and" else operator.or_)(*operands)
    if hlo.opcode == "select":
        return operands[1] if operands[0] else operands[2]
    if hlo.opcode == "not" and hlo.shape.dtype == "bool":
        return not operands[0]
    if hlo.opcode == "negate":
        return -operands[0]
    return operands[0] if hlo.opcode in _SAME else None


def written_down(loop: Hlo) -> float:
    """Turns of a loop as the compiler wrote them down; NaN where it did not."""
    try:
        config = json.loads(loop.backend_config or b"{}")
        return float(config["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError):
        return math.nan
