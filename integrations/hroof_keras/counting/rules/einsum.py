"""Einsum: one or two operands, repeated labels, ellipses.

Labels that only one operand has and the result lacks are summed first. What is left is a batch of matrix
products when labels are summed over both operands, and a product per element of the result when none are.
"""

from __future__ import annotations

import string

from hroof_keras.counting.flop import (
    NO_FLOP,
    Call,
    Flop,
    UncountableError,
    gemm,
    rule,
    size,
    vector,
)

Labels = tuple[str, ...]


def _expanded(subscript: str, rank: int, widest: int) -> Labels:
    """Labels of one operand; the dimensions of an ellipsis get capitals with a mark, aligned at the right."""
    if "..." not in subscript:
        return tuple(subscript)
    before, after = subscript.split("...")
    covered = rank - len(before) - len(after)
    ellipsis = tuple(f".{number}" for number in range(widest - covered, widest))
    return (*before, *ellipsis, *after)


def _covered(subscript: str, rank: int) -> int:
    return rank - len(subscript) + 3 if "..." in subscript else 0


def parse(equation: str, ranks: list[int]) -> tuple[list[Labels], Labels]:
    """Labels of the operands and of the result.

    Args:
        equation: In the form ``ab,bc->ac``; a missing result means the labels that occur once, sorted.
        ranks: Rank of every operand.

    Raises:
        UncountableError: The equation does not fit the operands.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    subscripts = left.split(",")
    if len(subscripts) != len(ranks):
        raise UncountableError(f"the equation {equation!r} does not fit {len(ranks)} operands")
    widest = max(map(_covered, subscripts, ranks))
    operands = [
        _expanded(subscript, rank, widest)
        for subscript, rank in zip(subscripts, ranks, strict=True)
    ]
    if arrow:
        return operands, _expanded(right, len(right) - 3 + widest, widest)
    every = [label for labels in operands for label in labels]
    once = [label for label in string.ascii_letters if every.count(label) == 1]
    shared = [f".{number}" for number in range(widest)]
    return operands, (*shared, *sorted(once))


def label_lengths(operands: list[Labels], shapes: list[tuple[int, ...]]) -> dict[str, int]:
    """Length of every label; a dimension of length 1 under an ellipsis broadcasts."""
    lengths: dict[str, int] = {}
    for labels, shape in zip(operands, shapes, strict=True):
        for label, length in zip(labels, shape, strict=True):
            lengths[label] = max(lengths.get(label, 1), length)
    return lengths


@rule("Einsum")
def _einsum(call: Call) -> Flop:
    shapes = [call.shape(position) for position in range(len(call.node.inputs))]
    operands, result = parse(call.node.text("equation"), [len(shape) for shape in shapes])
    lengths = label_lengths(operands, shapes)
    if len(operands) == 1:
        return _presum(call, operands[0], set(result), lengths)
    if len(operands) != 2:
        raise UncountableError("it has more than two operands")
    return _pair(call, operands, result, lengths)


def _presum(call: Call, labels: Labels, kept: set[str], lengths: dict[str, int]) -> Flop:
    """A sum over the labels that are not kept: one addition per element."""
    distinct = set(labels)
    if distinct <= kept:
        return NO_FLOP
    elements = size([lengths[label] for label in distinct])
    return vector(call.dtype(), elements, 1.0, op="Sum")


def _pair(call: Call, operands: list[Labels], result: Labels, lengths: dict[str, int]) -> Flop:
    first, second = (set(labels) for labels in operands)
    kept = set(result)
    flop = _presum(call, operands[0], kept | second, lengths)
    flop += _presum(call, operands[1], kept | first, lengths)
    summed = (first & second) - kept
    batch, rows, columns = first & second & kept, (first - second) & kept, (second - first) & kept
    b, m, n, k = (
        size([lengths[label] for label in labels]) for labels in (batch, rows, columns, summed)
    )
    if not summed:
        return flop + vector(call.dtype(), b * m * n, 1.0, op="Mul")
    return flop + gemm(call.dtype(), b, m, n, k, tf32=call.tf32)
