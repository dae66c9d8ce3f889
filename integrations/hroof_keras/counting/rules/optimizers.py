"""Fused optimizers: per parameter element, what the loop of simple ops counts.

Keras writes its optimizers as simple ops, which have rules of their own; these are the fused kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from hroof_keras.counting import weights
from hroof_keras.counting.flop import Call, Flop, Rule, rule, size, vector


@dataclass(frozen=True, slots=True)
class Update:
    """One fused update.

    Attributes:
        weight: FLOP per element of the gradient.
        states: Variables that are read and written, the first inputs; the parameter is the first of them.
        gradient: Position of the gradient.
    """

    weight: float
    states: int
    gradient: int


UPDATES = {
    "ApplyGradientDescent": Update(weights.SGD, 1, 2),
    "ApplyMomentum": Update(weights.SGD + weights.SGD_MOMENTUM, 2, 3),
    "ApplyKerasMomentum": Update(weights.SGD + weights.SGD_MOMENTUM, 2, 3),
    "ApplyAdam": Update(weights.ADAM, 3, 9),
    "ApplyAdamWithAmsgrad": Update(weights.ADAM + weights.ADAM_AMSGRAD, 4, 10),
    "ApplyAdaMax": Update(weights.ADAMAX, 3, 8),
    "ApplyAdagrad": Update(weights.ADAGRAD, 2, 3),
    "ApplyAdagradV2": Update(weights.ADAGRAD, 2, 4),
    "ApplyAdadelta": Update(weights.ADADELTA, 3, 6),
    "ApplyRMSProp": Update(weights.RMSPROP, 3, 7),
    "ApplyFtrl": Update(weights.FTRL, 3, 3),
    "ApplyFtrlV2": Update(weights.FTRL, 3, 3),
    "SparseApplyMomentum": Update(weights.SGD + weights.SGD_MOMENTUM, 2, 3),
    "SparseApplyKerasMomentum": Update(weights.SGD + weights.SGD_MOMENTUM, 2, 3),
    "SparseApplyAdagrad": Update(weights.ADAGRAD, 2, 3),
    "SparseApplyAdagradV2": Update(weights.ADAGRAD, 2, 4),
    "SparseApplyAdadelta": Update(weights.ADADELTA, 3, 6),
    "SparseApplyRMSProp": Update(weights.RMSPROP, 3, 7),
    "SparseApplyFtrl": Update(weights.FTRL, 3, 3),
    "SparseApplyFtrlV2": Update(weights.FTRL, 3, 3),
}
"""By op type without ``Resource``; a sparse update is charged for the rows of its gradient."""


def _rule_of(update: Update) -> Rule:
    def count(call: Call) -> Flop:
        """Least is one per element of everything that is written."""
        elements = size(call.shape(update.gradient))
        return vector(call.dtype(), elements, update.weight, least=elements * update.states)

    return count


for _name, _update in UPDATES.items():
    rule(_name, f"Resource{_name}")(_rule_of(_update))


def update_of(op: str) -> Update | None:
    """The update of a fused optimizer op; None for another op."""
    return UPDATES.get(op.removeprefix("Resource"))
