"""Templates: enough of a call to count it again with other shapes, without keeping a tensor alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Spec:
    """A tensor without its data.

    Attributes:
        shape: Elements per dimension.
        dtype: ``torch.dtype``.
        stride: Strides in elements; None where the layout has none.
        device: Device type, e.g. ``cpu``.
    """

    shape: tuple[int, ...]
    dtype: Any
    stride: tuple[int, ...] | None
    device: str

    @staticmethod
    def of(tensor: torch.Tensor) -> Spec:
        """The spec of a tensor."""
        stride = tuple(tensor.stride()) if tensor.layout is torch.strided else None
        return Spec(tuple(tensor.shape), tensor.dtype, stride, tensor.device.type)


@dataclass(frozen=True, slots=True)
class Template:
    """A call with every tensor replaced by its spec.

    Attributes:
        function: The overload that was called.
        args: Positional arguments.
        kwargs: Keyword arguments.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @staticmethod
    def of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Template:
        """The template of a call."""
        return Template(
            function,
            tuple([light(value) for value in args]),
            {name: light(value) for name, value in kwargs.items()} if kwargs else {},
        )


_PLAIN: tuple[Any, ...] = (
    *(bool, int, float, complex, str, type(None)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)


def light(value: Any) -> Any:
    """A value without tensors: specs in their places, and None for what may hold one unseen."""
    if isinstance(value, torch.Tensor):
        return Spec.of(value)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple):
        return [light(item) for item in value]
    return None
