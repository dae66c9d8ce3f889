"""Templates: enough of a call to count it again with other shapes, without keeping a tensor alive."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Spec(NamedTuple):
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
        strided = tensor.layout is torch.strided and not tensor.is_nested
        return Spec(
            tuple(tensor.shape),
            tensor.dtype,
            tensor.stride() if strided else None,
            tensor.device.type,
        )


class Template(NamedTuple):
    """A call with every tensor replaced by its spec, every list by a tuple.

    Attributes:
        function: The overload that was called.
        args: Positional arguments.
        kwargs: Names and values of keyword arguments.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]

    @staticmethod
    def of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Template:
        """The template of a call."""
        light_kwargs = tuple([(name, light(value)) for name, value in kwargs.items()])
        return Template(function, tuple([light(value) for value in args]), light_kwargs)

    def key(self, args: tuple[Any, ...]) -> Any:
        """What tells this call from others of the same op: 1 and 1.0 and True are not the same."""
        return (self, tuple(map(type, args)))


_PLAIN: dict[type, None] = dict.fromkeys(
    (
        *(bool, int, float, complex, str, type(None)),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    )
)


def light(value: Any) -> Any:
    """A value without tensors: specs in their places, and None for what may hold one unseen."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        return Spec.of(value)
    if isinstance(value, list | tuple):
        return tuple([light(item) for item in value])
    return None
