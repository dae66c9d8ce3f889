"""Families: a kernel's or an op's name → what it does, by the first rule that takes it."""

from __future__ import annotations

import re
from functools import lru_cache

from hroof.kernels.communication import COMMUNICATION
from hroof.kernels.names import display_name, operation_name, parse
from hroof.kernels.op_rules import OP_RULES
from hroof.kernels.rules import RULES, Family
from hroof.kernels.tensorflow_rules import TENSORFLOW_RULES

_COMMUNICATION = re.compile(COMMUNICATION)
_FOREACH = "_foreach_"
_CAPITAL = re.compile("_?[A-Z]")


@lru_cache(maxsize=65536)
def family(kernel: str) -> Family:
    """The family of a kernel by its name.

    Template arguments do not count (``combineKernel<DispatchLayout>`` is no dispatch), except where they are the
    kernel: in a wrapper, and in a loop that applies a functor. What the functor says goes first there
    (``vectorized_elementwise_kernel<4, FillFunctor>`` fills). The namespaces are asked last, but for communication.

    Args:
        kernel: As a tool printed it, complete or cut off.
    """
    qualified = parse(kernel).qualified
    if _COMMUNICATION.search(qualified):
        return Family.COMMUNICATION
    for subject in (operation_name(kernel), display_name(kernel), qualified):
        for rule in RULES:
            if subject and rule.pattern.search(subject):
                return rule.family
    return Family.OTHER


@lru_cache(maxsize=65536)
def op_family(op: str) -> Family:
    """The family of a framework's op by its name, such as ``aten::addmm``, ``aten::add_.Tensor`` or ``MatMul``.

    The list form ``_foreach_add_`` goes by the op that it applies.
    """
    for rule in TENSORFLOW_RULES if _CAPITAL.match(op) else ():
        if rule.pattern.fullmatch(op):
            return rule.family
    name = op.rpartition("::")[2].partition(".")[0]
    for subject in (op, name, name.removeprefix(_FOREACH).rstrip("_") or name):
        for rule in OP_RULES:
            if rule.pattern.fullmatch(subject):
                return rule.family
    return Family.OTHER
