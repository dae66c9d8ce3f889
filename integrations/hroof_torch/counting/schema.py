"""What the schema of an op says about its arguments; analysed once per op."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch

_BACKENDS = ("CPU", "CUDA")


class Kind(StrEnum):
    """What an argument can hold."""

    TENSOR = "tensor"
    TENSORS = "tensors"
    OPTIONAL_TENSORS = "optional tensors"
    OTHER = "other"


_KINDS = {
    "Tensor": Kind.TENSOR,
    "Optional[Tensor]": Kind.TENSOR,
    "List[Tensor]": Kind.TENSORS,
    "Optional[List[Tensor]]": Kind.TENSORS,
    "List[Optional[Tensor]]": Kind.OPTIONAL_TENSORS,
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a schema.

    Attributes:
        name: Its name.
        position: Its place in the schema.
        kind: What it can hold.
        written: The op writes to it.
        is_out: It only receives a result.
        required: It has no default.
        type: The type as the schema spells it.
    """

    name: str
    position: int
    kind: Kind
    written: bool
    is_out: bool
    required: bool
    type: str


@dataclass(frozen=True, slots=True)
class OpInfo:
    """What is known of one overload before it is called.

    Attributes:
        function: The overload.
        name: Name without the overload, e.g. ``aten::addmm``.
        base: The name that rules look up: without namespace, ``_foreach_`` and the in-place underscore.
        arguments: All arguments in schema order.
        holders: Those that can hold tensors.
        positional: Names of the arguments that may be passed by position.
        defaults: Values of arguments that are not passed.
        composite: It only calls other ops.
        foreach: It does the same to every tensor of its lists.
        known: It has a schema; higher-order ops have none.
    """

    function: Any
    name: str
    base: str
    arguments: tuple[Argument, ...]
    holders: tuple[Argument, ...]
    positional: tuple[str, ...]
    defaults: dict[str, Any]
    composite: bool
    foreach: bool
    known: bool = True

    def tensors(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[tuple[Argument, Any]]:
        """Every tensor argument in schema order, lists opened, with its argument.

        A Python number in the place of a tensor is yielded as it is.
        """
        for argument in self.holders:
            position = argument.position
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            if value is None:
                continue
            if argument.kind is Kind.TENSOR:
                yield argument, value
            else:
                for item in value:
                    if item is not None:
                        yield argument, item


_infos: dict[Any, OpInfo] = {}


def op_info(function: Any) -> OpInfo:
    """What is known of an overload; cached."""
    info = _infos.get(function)
    if info is None:
        info = _infos[function] = _analyse(function)
    return info


def _analyse(function: Any) -> OpInfo:
    schema = getattr(function, "_schema", None)
    if schema is None:
        name = f"higher_order::{getattr(function, '_name', function)}"
        return OpInfo(function, name, name, (), (), (), {}, False, False, known=False)
    arguments = tuple(_argument(index, raw) for index, raw in enumerate(schema.arguments))
    base, foreach = base_name(schema.name)
    return OpInfo(
        function,
        schema.name,
        base,
        arguments,
        tuple(argument for argument in arguments if argument.kind is not Kind.OTHER),
        tuple(raw.name for raw in schema.arguments),
        {raw.name: raw.default_value for raw in schema.arguments if raw.has_default_value()},
        overload_is_composite(function.name()),
        foreach,
    )


def _argument(position: int, raw: Any) -> Argument:
    alias = raw.alias_info
    spelled = str(raw.type)
    return Argument(
        raw.name,
        position,
        _KINDS.get(spelled, Kind.OTHER),
        alias is not None and alias.is_write,
        bool(raw.is_out),
        not raw.has_default_value(),
        spelled,
    )


def base_name(name: str) -> tuple[str, bool]:
    """The name that rules look up, and whether the op is a ``_foreach_`` op.

    ``aten::_foreach_add_`` gives ``("add", True)``; fused and AMP ops keep their underscore.
    """
    namespace, _, short = name.partition("::")
    if namespace != "aten":
        return name, False
    if short.startswith(("_fused_", "_amp_")):
        return short, False
    if short.startswith("__") and short.endswith("__"):
        return short, False
    foreach = short.startswith("_foreach_")
    short = short.removeprefix("_foreach_")
    return short.removesuffix("_"), foreach


def overload_is_composite(qualified: str) -> bool:
    """Whether an overload only calls other ops: CompositeImplicit, and no kernel of a backend.

    Args:
        qualified: Name with the overload, e.g. ``aten::max.other``.
    """
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    try:
        if not has(qualified, "CompositeImplicitAutograd"):
            return False
        return not any(has(qualified, key) for key in (*_BACKENDS, "CompositeExplicitAutograd"))
    except RuntimeError:  # an overload of TorchScript alone, which the dispatcher does not have
        return False
