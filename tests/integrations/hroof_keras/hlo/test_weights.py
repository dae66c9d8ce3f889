"""The weights of instructions are those of the ops that they come from."""

from __future__ import annotations

import pytest

pytest.importorskip("keras")

from hroof_keras.counting import weights as ops
from hroof_keras.counting.names import MOVES as OP_MOVES
from hroof_keras.hlo import weights

SAME = {
    "abs": "Abs",
    "negate": "Neg",
    "sign": "Sign",
    "add": "AddV2",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "RealDiv",
    "remainder": "FloorMod",
    "maximum": "Maximum",
    "minimum": "Minimum",
    "clamp": "ClipByValue",
    "power": "Pow",
    "sqrt": "Sqrt",
    "rsqrt": "Rsqrt",
    "exponential": "Exp",
    "exponential-minus-one": "Expm1",
    "log": "Log",
    "log-plus-one": "Log1p",
    "sine": "Sin",
    "cosine": "Cos",
    "tan": "Tan",
    "tanh": "Tanh",
    "atan2": "Atan2",
    "erf": "Erf",
    "logistic": "Sigmoid",
    "ceil": "Ceil",
    "floor": "Floor",
    "round-nearest-even": "Round",
    "iota": "Range",
}
MOVED = {
    "select": "SelectV2",
    "compare": "Equal",
    "convert": "Cast",
    "gather": "GatherV2",
    "pad": "PadV2",
    "sort": "TopKV2",
    "and": "LogicalAnd",
    "concatenate": "ConcatV2",
    "rng": "RandomUniform",
}


@pytest.mark.parametrize(("instruction", "op"), SAME.items())
def test_one_convention(instruction: str, op: str) -> None:
    assert weights.PER_ELEMENT[instruction] == ops.PER_OUTPUT[op]


@pytest.mark.parametrize(("instruction", "op"), MOVED.items())
def test_what_moves_in_a_graph_moves_in_a_program(instruction: str, op: str) -> None:
    assert instruction in weights.MOVES
    assert op in OP_MOVES


def test_no_instruction_stands_in_two_tables() -> None:
    tables = [set(weights.PER_ELEMENT), set(weights.FREE), set(weights.MOVES)]
    assert sum(map(len, tables)) == len(set().union(*tables))
