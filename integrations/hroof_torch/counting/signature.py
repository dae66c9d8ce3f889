"""Signatures: shapes and dtypes of an op's tensor arguments, equal for counted and for timed ops.

``torch.profiler`` gives, per argument in schema order, a shape and a type name: a tensor has its dtype, a list
of tensors is ``TensorList`` with one shape per tensor and no dtype, numbers are ``Scalar`` or ``ScalarList``
and what is absent is an empty text. A signature has one entry per tensor; that of a list says ``TensorList@``
and the place of the list among the arguments. A list with gaps (``Tensor?[]``, as of ``index``) has no shapes at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hroof_torch.counting.schema import Kind, OpInfo

Shape = tuple[int, ...]
Signature = tuple[tuple[Shape, str], ...]

LIST = "TensorList"
_NOT_TENSORS = frozenset({"", "Scalar", "ScalarList", "GenericList"})

DTYPE_NAMES: dict[Any, str] = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.int64: "long int",
    torch.int32: "int",
    torch.int16: "short int",
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
    torch.bool: "bool",
    torch.complex32: "c10::complex<c10::Half>",
    torch.complex64: "c10::complex<float>",
    torch.complex128: "c10::complex<double>",
    torch.uint16: "short unsigned int",
    torch.uint32: "unsigned int",
    torch.uint64: "long unsigned int",
    torch.float8_e4m3fn: "c10::Float8_e4m3fn",
    torch.float8_e5m2: "c10::Float8_e5m2",
    torch.float8_e4m3fnuz: "c10::Float8_e4m3fnuz",
    torch.float8_e5m2fnuz: "c10::Float8_e5m2fnuz",
    torch.qint8: "c10::qint8",
    torch.quint8: "c10::quint8",
    torch.qint32: "c10::qint32",
}
"""How the profiler spells dtypes."""

DTYPES: dict[str, Any] = {name: dtype for dtype, name in DTYPE_NAMES.items()}

NUMBER_DTYPES = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}
"""Dtype of a Python number in the place of a tensor."""


def signature_of(info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Signature:
    """The signature of a call that a dispatch mode sees."""
    entries = []
    for argument, value in info.tensors(args, kwargs):
        if argument.kind is Kind.OPTIONAL_TENSORS:
            continue
        if isinstance(value, torch.Tensor):
            listed = argument.kind is Kind.TENSORS
            spelled = list_name(argument.position) if listed else dtype_name(value.dtype)
            entries.append((tuple(value.shape), spelled))
        elif type(value) in NUMBER_DTYPES:
            entries.append(((), DTYPE_NAMES[NUMBER_DTYPES[type(value)]]))
    return tuple(entries)


def list_name(position: int) -> str:
    """What stands for the dtype of the tensors of a list, which the profiler does not tell.

    Args:
        position: Place of the list among the arguments.
    """
    return f"{LIST}@{position}"


def list_position(dtype: str) -> int | None:
    """Place of the list that an entry of a signature belongs to; None for a tensor of its own."""
    return int(dtype.removeprefix(f"{LIST}@")) if dtype.startswith(LIST) else None


def dtype_name(dtype: Any) -> str:
    """How the profiler spells a dtype; its own name where that is not known."""
    return DTYPE_NAMES.get(dtype) or str(dtype)


def profiler_signature(structured_input_shapes: Sequence[Any], dtypes: Sequence[str]) -> Signature:
    """The signature of an event of ``torch.profiler`` (``record_shapes=True``).

    Args:
        structured_input_shapes: The event's ``structured_input_shapes()``.
        dtypes: The event's ``dtypes()``, of the same length.

    Returns:
        The value that ``CountedOp.signature`` has for the same call.
    """
    entries: list[tuple[Shape, str]] = []
    for position, (shape, dtype) in enumerate(zip(structured_input_shapes, dtypes, strict=False)):
        if dtype in _NOT_TENSORS:
            continue
        if dtype == LIST:
            spelled = list_name(position)
            entries.extend((tuple(item), spelled) for item in shape)
        else:
            entries.append((tuple(shape), dtype))
    return tuple(entries)
