"""Ops that follow the tables of weights: elementwise, reductions, norms, ``_foreach_`` lists."""

from __future__ import annotations

from typing import Any

import torch

from hroof_torch.counting import weights
from hroof_torch.counting.rules.flop import NO_FLOP, Call, Flop, Rule, vector

_LARGEST_INPUT = frozenset({"_weight_norm_interface", "_weight_norm_interface_backward"})
_FIRST_LIST = frozenset({"_amp_foreach_non_finite_check_and_unscale_"})


def table_rule(base: str) -> Rule | None:
    """The rule of an op that one of the tables knows."""
    if base in weights.ZERO:
        return _nothing
    if base in weights.PER_OUTPUT:
        return _per_output
    if base in weights.PER_INPUT:
        return _per_input
    return None


def _nothing(call: Call) -> Flop:
    return NO_FLOP


def computing_dtype(tensors: list[Any]) -> Any:
    """The first floating or complex dtype of these tensors, else the first dtype."""
    for tensor in tensors:
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            return tensor.dtype
    return tensors[0].dtype if tensors else torch.bool


def _weighted(base: str, dtype: Any, elements: float, weight: float) -> Flop:
    if dtype.is_complex:
        factor = weights.COMPLEX.get(base, weights.COMPLEX_OTHER)
        return vector(dtype, elements, weight * factor)
    return vector(dtype, elements, weight)


def _per_output(call: Call) -> Flop:
    base = call.info.base
    if call.info.foreach:
        tensors = call.outputs or list(call["self"])
    elif call.outputs:
        tensors = call.outputs[:1]
    else:
        tensors = call.inputs[:1]
    elements = sum(tensor.numel() for tensor in tensors)
    dtype = computing_dtype([*tensors[:1], *call.inputs[:2]])
    if tensors and tensors[0].dtype == torch.bool:
        return NO_FLOP
    return _weighted(base, dtype, elements, weights.PER_OUTPUT[base])


def _per_input(call: Call) -> Flop:
    base, inputs = call.info.base, call.inputs
    if call.info.foreach or base in _FIRST_LIST:
        tensors = list(call["self"])
    elif base in _LARGEST_INPUT:
        tensors = [max(inputs, key=lambda tensor: tensor.numel())]
    else:
        tensors = inputs[:1]
    elements = sum(tensor.numel() for tensor in tensors)
    dtype = computing_dtype([*tensors[:1], *call.outputs[:1]])
    return _weighted(base, dtype, elements, weights.PER_INPUT[base])
