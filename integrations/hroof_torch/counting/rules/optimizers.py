"""Fused optimizers: per parameter element, what the loop of simple ops counts."""

from __future__ import annotations

from hroof_torch.counting import weights
from hroof_torch.counting.rules.flop import Call, Flop, rule, vector


def _update(call: Call, weight: float, states: int) -> Flop:
    """``weight`` FLOP per parameter element; least is one per element of everything that is written."""
    parameters = call["self"]
    elements = sum(parameter.numel() for parameter in parameters)
    dtype = parameters[0].dtype
    return vector(dtype, elements, weight, least=elements * states)


@rule("_fused_adam_", "_fused_adamw_", "_fused_adam", "_fused_adamw")
def _adam(call: Call) -> Flop:
    decays = call["weight_decay"] != 0 or "adamw" in call.info.base
    weight = weights.ADAM + weights.WEIGHT_DECAY * decays + weights.ADAM_AMSGRAD * call["amsgrad"]
    return _update(call, weight, 4 if call["amsgrad"] else 3)


@rule("_fused_sgd_", "_fused_sgd")
def _sgd(call: Call) -> Flop:
    moves = call["momentum"] != 0
    weight = weights.SGD + weights.SGD_MOMENTUM * moves
    weight += weights.WEIGHT_DECAY * (call["weight_decay"] != 0)
    return _update(call, weight, 2 if moves else 1)


@rule("_fused_adagrad_", "_fused_adagrad")
def _adagrad(call: Call) -> Flop:
    return _update(call, weights.ADAGRAD + weights.WEIGHT_DECAY * (call["weight_decay"] != 0), 2)
