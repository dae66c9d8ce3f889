"""Overloads of an op by name, as far as the profiler's view of the arguments tells them apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from hroof_torch.counting.schema import Argument, Kind, OpInfo, op_info
from hroof_torch.counting.signature import LIST

_NUMBER_LISTS = frozenset({"ScalarList", "", "GenericList"})
_NUMBERS = frozenset({"Scalar", ""})


@lru_cache(maxsize=4096)
def overloads(name: str) -> tuple[OpInfo, ...]:
    """The overloads that a call without ``out=`` can reach; none for an unknown op.

    Args:
        name: Name without the overload, e.g. ``aten::max``.
    """
    namespace, _, short = name.partition("::")
    if not short:
        return ()
    packet = getattr(getattr(torch.ops, namespace, None), short, None)
    if packet is None or not hasattr(packet, "overloads"):
        return ()
    # Overloads that only TorchScript calls (prim_...) never reach a profiler.
    names = [overload for overload in packet.overloads() if not overload.startswith("prim_")]
    infos = [op_info(getattr(packet, overload)) for overload in names]
    return tuple(info for info in infos if _reachable(info))


def _reachable(info: OpInfo) -> bool:
    """Whether the dispatcher has it (some belong to TorchScript alone) and a plain call can mean it."""
    named = any(argument.is_out or "Dimname" in argument.type for argument in info.arguments)
    return not named and bool(torch._C._dispatch_has_kernel(info.function.name()))


@lru_cache(maxsize=65536)
def _matching(name: str, dtypes: tuple[str, ...]) -> tuple[OpInfo, ...]:
    return tuple(
        info
        for info in overloads(name)
        if len(info.arguments) == len(dtypes) and all(map(_accepts, info.arguments, dtypes))
    )


def _accepts(argument: Argument, dtype: str) -> bool:
    """Whether the profiler can describe a value of this argument so."""
    if argument.kind is Kind.TENSOR:
        optional = argument.type.startswith("Optional")
        return dtype not in (LIST, "Scalar", "ScalarList") and (bool(dtype) or optional)
    if argument.kind is Kind.TENSORS:
        return dtype in (LIST, "", "GenericList")
    if argument.kind is Kind.OPTIONAL_TENSORS:
        return dtype in ("", LIST, "GenericList")
    if "List" in argument.type:
        return dtype in _NUMBER_LISTS
    return dtype in _NUMBERS


def is_composite(name: str, dtypes: Sequence[str] | None = None) -> bool:
    """Whether an op only calls others, so that a dispatch mode sees those instead.

    Args:
        name: Name without the overload, e.g. ``aten::linear``.
        dtypes: The profiler's ``dtypes()`` of the call. They tell the overloads apart: of ``aten::max`` only
            the one of two tensors is composite.

    Returns:
        True when every overload that fits is composite; False for an unknown op.
    """
    fitting: tuple[OpInfo, ...] = ()
    if dtypes is not None:
        fitting = _matching(name, tuple(dtypes))
    candidates: Any = fitting or overloads(name)
    return bool(candidates) and all(info.composite for info in candidates)
