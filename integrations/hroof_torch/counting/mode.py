"""The dispatch mode that counts what runs, and changes nothing about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hroof.launches import Work
from hroof_torch.counting.counter import Counter, Seen
from hroof_torch.counting.schema import OpInfo, op_info
from hroof_torch.counting.signature import Signature
from hroof_torch.counting.template import Template

W = TypeVar("W")

_SILENT = ("profiler::", "prim::")
"""Namespaces whose ops are marks and questions, not work."""

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


@dataclass(frozen=True, slots=True)
class CountedOp(Generic[W]):
    """One op that ran.

    Attributes:
        name: Name without the overload, e.g. ``aten::addmm``.
        signature: Shapes and dtypes of its tensor arguments, as ``profiler_signature`` gives them.
        work: What it computes and moves.
        where: What the caller attributed it to before it ran.
        template: The call without its tensors; None for an op without a schema.
    """

    name: str
    signature: Signature
    work: Work
    where: W | None
    template: Template | None


class CountingMode(TorchDispatchMode, Generic[W]):
    """Counts every op that reaches a backend on this thread.

    Ops run as they are. Only an op that has no kernel of its own, as ``aten::linear`` under
    ``inference_mode``, is entered, as the dispatcher would, so that the ops inside are counted.

    Args:
        record: Receives each op after it ran, in order.
        where: Called with (function, args, kwargs) in the running thread before the op runs; its value is
            stored with the op.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        record: Callable[[CountedOp[W]], object],
        where: Callable[[Any, tuple[Any, ...], dict[str, Any]], W],
    ) -> None:
        super().__init__()
        self._record = record
        self._where = where
        self._counter = Counter()
        self._entered = 0
        self._retired = False

    def retire(self) -> None:
        """Count nothing any more, for a mode that its thread has no occasion to leave."""
        self._retired = True

    @property
    def faults(self) -> tuple[str, ...]:
        """What could not be counted, and why; each reason once, in order of appearance."""
        return tuple(self._counter.faults)

    @property
    def active(self) -> bool:
        """Whether the mode is entered."""
        return self._entered > 0

    def __enter__(self) -> CountingMode[W]:
        super().__enter__()
        self._entered += 1
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered -= 1
        super().__exit__(*error)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an op and count it."""
        kwargs = kwargs or {}
        if self._retired:
            return func(*args, **kwargs)
        if types and not all(map(_is_plain, types)):
            return NotImplemented  # the subclass acts first; what it runs inside comes back here
        info = op_info(func)
        if info.name.startswith(_SILENT):
            return func(*args, **kwargs)
        if info.composite:
            with self:
                return func._op_dk(_COMPOSITE, *args, **kwargs)
        where = self._attribute(info, args, kwargs)
        seen = self._look(info, args, kwargs)
        result = func(*args, **kwargs)
        self._keep(info, args, kwargs, result, where, seen)
        return result

    def _attribute(self, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> W | None:
        try:
            return self._where(info.function, args, kwargs)
        except Exception as problem:  # attribution must not break the program
            self._note(info, "it cannot be attributed", problem)
            return None

    def _look(self, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Seen:
        """What a call looks like before it runs, which may change shapes."""
        try:
            return self._counter.look(info, args, kwargs)
        except Exception as problem:  # as above
            self._note(info, "its shapes cannot be read", problem)
            return Seen((), None)

    def _keep(
        self,
        info: OpInfo,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        where: W | None,
        seen: Seen,
    ) -> None:
        try:
            work = self._counter.count(info, args, kwargs, result, seen)
            self._record(CountedOp(info.name, seen.signature, work, where, seen.template))
        except Exception as problem:  # as above
            self._note(info, "it cannot be recorded", problem)

    def _note(self, info: OpInfo, fact: str, problem: Exception) -> None:
        self._counter.note(info.name, f"{fact} ({type(problem).__name__}: {problem})")


_plain: dict[Any, bool] = {}


def _is_plain(kind: type) -> bool:
    """Whether tensors of a class are counted themselves, not what the class makes of them."""
    known = _plain.get(kind)
    if known is None:
        from torch._subclasses.fake_tensor import FakeTensor

        own = getattr(kind, "__torch_dispatch__", None)
        disabled = own is torch._C._disabled_torch_dispatch_impl
        known = _plain[kind] = disabled or issubclass(kind, FakeTensor)
    return known
