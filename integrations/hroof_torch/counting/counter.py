"""Counting one call: FLOP by rule, bytes by schema, never an error for the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from hroof.launches import Work
from hroof.traffic import Touch
from hroof.units import Source
from hroof_torch.counting import sparse_access
from hroof_torch.counting.operands import Buffers, Meter, Traffic
from hroof_torch.counting.rules.flop import Call, Flop, UncountableError
from hroof_torch.counting.rules.registry import find_rule
from hroof_torch.counting.schema import OpInfo
from hroof_torch.counting.signature import Signature, signature_of
from hroof_torch.counting.template import Template

_VIEW = Work({}, {}, 0.0, 0.0, Source.COUNTED, is_view=True)


def tensors_in(value: Any, depth: int = 3) -> list[Any]:
    """Tensors of a result, lists and tuples opened."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple) and depth:
        return [tensor for item in value for tensor in tensors_in(item, depth - 1)]
    return []


@dataclass(slots=True)
class Seen:
    """What is the same for every call with these shapes.

    Attributes:
        signature: Shapes and dtypes, as the profiler gives them.
        template: The call without its tensors; None for an op without a schema.
        flop: Its FLOP once they are counted; None without a rule.
        counted: Whether ``flop`` is known.
    """

    signature: Signature
    template: Template | None
    flop: Flop | None = None
    counted: bool = False


class Counter:
    """Counts calls of one stream.

    Attributes:
        faults: Why calls could not be counted, each text once, in order of appearance.
    """

    def __init__(self) -> None:
        self.faults: dict[str, None] = {}
        self._meter = Meter(Buffers())
        self._seen: dict[Any, Seen] = {}

    def note(self, name: str, problem: object) -> None:
        """Remember why something of an op is missing."""
        self.faults.setdefault(f"{name}: {problem}")

    def look(self, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Seen:
        """What calls with these shapes have in common; call it before the op runs."""
        if not info.known:
            return Seen((), None)
        template = Template.of(info.function, args, kwargs)
        key = template.key(args)
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = Seen(signature_of(info, args, kwargs), template)
        return seen

    def count(
        self,
        info: OpInfo,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        seen: Seen | None = None,
    ) -> Work:
        """The work of one call that has run.

        Args:
            info: The op.
            args: Positional arguments.
            kwargs: Keyword arguments.
            result: What it returned.
            seen: What ``look`` gave for this call.
        """
        outputs = tensors_in(result)
        call = Call(info, args, kwargs, outputs)
        traffic = self._traffic(info, call, args, kwargs)
        if traffic.is_view:
            return _VIEW
        flop = self._flop(info, call, seen)
        touch = Touch(traffic.accesses(), flop.matrix if flop else None)
        read, written = traffic.bytes_read, traffic.bytes_written
        if flop is None:
            return Work(None, None, read, written, Source.MISSING, touch)
        source = Source.COUNTED if flop.exact else Source.CONVENTION
        return Work(flop.nominal, flop.least, read, written, source, touch)

    def _traffic(
        self, info: OpInfo, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Traffic:
        try:
            traffic = self._meter.traffic(info, args, kwargs, call.outputs)
            special = sparse_access.RULES.get(info.base)
            if special is not None and not traffic.is_view:
                special(call, traffic, self._meter)
        except Exception as problem:  # a fault in counting must not become one of the program
            self.note(info.name, f"its bytes cannot be counted ({_reason(problem)})")
            return Traffic({(0,): float("nan")}, {(0,): float("nan")})
        return traffic

    def _flop(self, info: OpInfo, call: Call, seen: Seen | None) -> Flop | None:
        if seen is not None and seen.counted:
            return seen.flop
        flop = self._apply_rule(info, call)
        dense = all(tensor.layout is torch.strided for tensor in call.inputs)
        if seen is not None and dense:
            seen.flop, seen.counted = flop, True
        return flop

    def _apply_rule(self, info: OpInfo, call: Call) -> Flop | None:
        rule = find_rule(info.base)
        if rule is None:
            return None
        try:
            return rule(call)
        except Exception as problem:  # as above
            self.note(info.name, f"its FLOP cannot be counted ({_reason(problem)})")
            return None


def _reason(problem: Exception) -> str:
    if isinstance(problem, UncountableError):
        return str(problem)
    return f"{type(problem).__name__}: {problem}".splitlines()[0]
