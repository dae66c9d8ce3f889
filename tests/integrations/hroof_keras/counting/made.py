"""Nodes made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from hroof.launches import Work
from hroof_keras.counting import Buffers, work_of
from hroof_keras.graph.nodes import Node, TensorSpec

Known = tuple[int, ...] | TensorSpec | None


def attribute(value: Any) -> Any:
    """The message of one attribute."""
    message = tf.compat.v1.AttrValue()
    if isinstance(value, bool):
        message.b = value
    elif isinstance(value, int):
        message.i = value
    elif isinstance(value, float):
        message.f = value
    elif isinstance(value, str):
        message.s = value.encode()
    elif isinstance(value, tf.DType):
        message.type = value.as_datatype_enum
    elif all(isinstance(item, int) for item in value):
        message.list.i.extend(value)
    else:
        message.list.s.extend(item.encode() for item in value)
    return message


def spec(known: Known, dtype: str = "float32") -> TensorSpec | None:
    """A shape of this type; a whole spec and None as they are."""
    return TensorSpec(known, dtype) if isinstance(known, tuple) else known


def node(op: str, inputs: int, *, constants: dict[int, Any] | None = None, **attrs: Any) -> Node:
    """A node ``n`` with inputs ``i0:0``, ``i1:0``, …; its type is fp32 unless ``T`` says otherwise."""
    values = {place: np.asarray(value) for place, value in (constants or {}).items()}
    attrs.setdefault("T", tf.float32)
    return Node(
        "n",
        op,
        tuple(f"i{place}:0" for place in range(inputs)),
        {name: attribute(value) for name, value in attrs.items()},
        values,
    )


def work(
    op: str,
    *inputs: Known,
    out: Known | list[Known] = None,
    constants: dict[int, Any] | None = None,
    buffers: Buffers | None = None,
    **attrs: Any,
) -> Work:
    """Work of a node made by hand; shapes are fp32 ones or of the type ``T``."""
    dtype = attrs["T"].name if "T" in attrs else "float32"
    made = node(op, len(inputs), constants=constants, **attrs)
    results = out if isinstance(out, list) else [out]
    return work_of(
        made,
        [spec(known, dtype) for known in inputs],
        [spec(known, dtype) for known in results if known is not None],
        buffers or Buffers(),
    )
