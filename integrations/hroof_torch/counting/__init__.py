"""Counted work: FLOP and bytes of every op from its schema and shapes."""

from hroof_torch.counting.mode import CountedOp, CountingMode
from hroof_torch.counting.overloads import is_composite
from hroof_torch.counting.paper import count_step, on_paper
from hroof_torch.counting.recount import recount
from hroof_torch.counting.signature import Signature, profiler_signature
from hroof_torch.counting.template import Spec, Template

__all__ = [
    "CountedOp",
    "CountingMode",
    "Signature",
    "Spec",
    "Template",
    "count_step",
    "is_composite",
    "on_paper",
    "profiler_signature",
    "recount",
]
