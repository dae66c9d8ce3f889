"""Ops that follow the tables of weights: elementwise ops, reductions, plumbing, moves."""

from __future__ import annotations

from hroof_keras.counting import weights
from hroof_keras.counting.flop import (
    NO_FLOP,
    Call,
    Flop,
    Rule,
    UncountableError,
    is_floating,
    rule,
    size,
    vector,
)
from hroof_keras.counting.names import MOVES, NOTHING, VIEWS, makes_dataset


def table_rule(op: str) -> Rule | None:
    """The rule of an op that one of the tables knows."""
    if op in VIEWS or op in NOTHING or op in MOVES or makes_dataset(op):
        return _nothing
    if op in weights.PER_OUTPUT:
        return _per_output
    if op in weights.PER_INPUT:
        return _per_input
    return None


def _nothing(call: Call) -> Flop:
    return NO_FLOP


def _computing_dtype(call: Call) -> str:
    """The first floating type of the result and the first two inputs, else the type of the data."""
    specs = [call.output(), call.input(0), call.input(1)]
    dtypes = [spec.dtype for spec in specs if spec is not None]
    return next((dtype for dtype in dtypes if is_floating(dtype)), call.dtype())


def _per_output(call: Call) -> Flop:
    elements = size(call.out_shape())
    return vector(_computing_dtype(call), elements, weights.PER_OUTPUT[call.op], op=call.op)


def _per_input(call: Call) -> Flop:
    elements = size(call.shape(0))
    return vector(_computing_dtype(call), elements, weights.PER_INPUT[call.op], op=call.op)


@rule("AddN", "AccumulateNV2")
def _add_n(call: Call) -> Flop:
    """One addition per element and further summand; lists of tensors do not tell which of theirs are set."""
    if call.dtype() == "variant":
        raise UncountableError("it adds lists, whose elements only the data tells")
    summands = max(len(call.node.inputs) - 1, 0)
    return vector(call.dtype(), size(_first_known(call)), summands, op="AddN", least=_needed(call))


def _needed(call: Call) -> float:
    """All additions are needed: a sum of n tensors is n − 1 additions, not one per element of the result."""
    return size(_first_known(call)) * max(len(call.node.inputs) - 1, 0)


def _first_known(call: Call) -> tuple[int, ...]:
    for spec in (call.output(), *call.inputs):
        if spec is not None and spec.shape is not None:
            return spec.shape
    raise UncountableError("no shape of its summands is known")


@rule("UnaryOpsComposition")
def _composed(call: Call) -> Flop:
    """Elementwise ops that Grappler put together; each counts as it would alone."""
    elements = size(call.shape(0))
    flop = NO_FLOP
    for name in call.node.texts("op_names"):
        if name not in weights.PER_OUTPUT and name not in MOVES:
            raise UncountableError(f"the op {name!r} in it has no weight")
        flop += vector(call.dtype(), elements, weights.PER_OUTPUT.get(name, 0.0), op=name)
    return Flop(flop.nominal, vector(call.dtype(), elements, 1.0).least, False)


@rule("AssignAddVariableOp", "AssignSubVariableOp", "AssignAdd", "AssignSub")
def _assign_add(call: Call) -> Flop:
    """One addition per element of the value, which is the last input."""
    return vector(call.dtype(), size(call.shape(1)), 1.0, op="Add")
