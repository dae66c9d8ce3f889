"""What a fusion needs of its operands and which of them it updates in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hroof_keras.hlo.messages import Computation, Hlo

SLICES = frozenset({"slice", "dynamic-slice", "gather"})
"""Instructions that take a part of their first operand."""

_PASSING = frozenset({"bitcast", "reshape", "copy", "convert"})
"""What may stand between a parameter and the slice that is taken of it."""


@dataclass(frozen=True, slots=True)
class Update:
    """A result that is an operand, changed in one place.

    Attributes:
        parameter: Number of the operand.
        nbytes: Bytes that are changed.
        reads: Whether what was there is needed, too.
    """

    parameter: int
    nbytes: float
    reads: bool


def users_of(computation: Computation) -> dict[Hlo, list[Hlo]]:
    """Users of every instruction, in order."""
    users: dict[Hlo, list[Hlo]] = {hlo: [] for hlo in computation.instructions}
    for hlo in computation.instructions:
        for operand in dict.fromkeys(hlo.operands):
            users[operand].append(hlo)
    return users


def touched(body: Computation) -> dict[int, float]:
    """Bytes that a fusion reads of each parameter, by number; all of it unless it only takes slices."""
    users = users_of(body)
    return {
        number: min(_touched(parameter, users), parameter.shape.nbytes)
        for number, parameter in body.parameters.items()
    }


def _touched(value: Hlo, users: dict[Hlo, list[Hlo]]) -> float:
    total = 0.0
    for user in users[value]:
        if user.opcode in SLICES and user.operands[0] is value:
            total += user.shape.nbytes
        elif user.opcode == "scatter" and user.operands[0] is value:
            total += user.operands[-1].shape.nbytes
        elif user.opcode in _PASSING and users[user]:
            total += _touched(user, users) * value.shape.nbytes / max(1.0, user.shape.nbytes)
        elif user.opcode != "dynamic-update-slice" or user.operands[0] is not value:
            return value.shape.nbytes
    return total


def results(root: Hlo) -> Iterator[tuple[tuple[int, ...], Hlo]]:
    """Position and value of every result of a fusion."""
    if root.opcode != "tuple":
        yield (), root
        return
    for index, operand in enumerate(root.operands):
        yield (index,), operand


def update_of(value: Hlo) -> Update | None:
    """How a result updates a parameter in place; None where it is a value of its own."""
    value = _beneath(value)
    if value.opcode not in ("dynamic-update-slice", "scatter"):
        return None
    base = _beneath(value.operands[0])
    if base.opcode != "parameter":
        return None
    adds = value.opcode == "scatter"
    change = value.operands[-1 if adds else 1]
    return Update(base.parameter, change.shape.nbytes, adds)


def _beneath(value: Hlo) -> Hlo:
    while value.opcode in _PASSING:
        value = value.operands[0]
    return value
