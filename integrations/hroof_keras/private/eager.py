"""Private names of TensorFlow behind ops that run eagerly; each is probed where it is used."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hroof.errors import MissingError
from hroof_keras.private import runtime as private


def watch_eager_ops(call: Callable[..., None]) -> Callable[[], None]:
    """Call ``call(op type, inputs, attributes, outputs)`` after every eager op of this thread; the result ends this.

    Raises:
        MissingError: This version of TensorFlow has no such callbacks.
    """
    module = private.optional_module("tensorflow.python.framework.op_callbacks")
    if module is None or not hasattr(module, "add_op_callback"):
        raise MissingError(
            "The ops of eager steps cannot be followed in this version of TensorFlow.",
            "Compile the model with run_eagerly=False.",
        )

    def callback(
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> None:
        if graph is None:
            name = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
            call(name, inputs, attrs, outputs)

    module.add_op_callback(callback)
    return functools.partial(module.remove_op_callback, callback)


def replace_gradient_function(wrap: Callable[[Any], Any]) -> Callable[[], None]:
    """Put ``wrap(original)`` in place of what differentiates each op on a gradient tape; the result ends this.

    Raises:
        MissingError: This version of TensorFlow differentiates in another way.
    """
    tapes = private.optional_module("tensorflow.python.eager.backprop")
    native = private.optional_module("tensorflow.python.pywrap_tfe") or private.optional_module(
        "tensorflow.python._pywrap_tfe"
    )
    original = getattr(tapes, "_gradient_function", None)
    register = getattr(native, "TFE_Py_RegisterGradientFunction", None)
    if original is None or register is None:
        raise MissingError(
            "The backward pass of eager steps cannot be followed in this version of TensorFlow.",
            "Compile the model with run_eagerly=False.",
        )
    register(wrap(original))
    return functools.partial(register, original)


def tensor_number(tensor: Any) -> int:
    """A number that no other eager tensor of the process ever gets; -1 for what is none."""
    return int(getattr(tensor, "_id", -1))


def attr_kinds(op: str) -> dict[str, str]:
    """Kinds of the attributes of an op (``int``, ``type``, ``list(int)``) by name; empty where it is not known."""
    registry = private.optional_module("tensorflow.python.framework.op_def_registry")
    definition = registry.get(op) if registry is not None else None
    return {} if definition is None else {attr.name: attr.type for attr in definition.attr}


def attr_value(kind: str, value: Any) -> Any:
    """An attribute of an eager op as the message that graphs hold; None for kinds that no rule reads."""
    from tensorflow.core.framework.attr_value_pb2 import AttrValue

    if value is None:
        return None
    if kind == "type":
        return AttrValue(type=getattr(value, "as_datatype_enum", value))
    if kind == "bool":
        return AttrValue(b=bool(value))
    if kind == "int":
        return AttrValue(i=int(value))
    if kind == "float":
        return AttrValue(f=float(value))
    if kind == "string":
        return AttrValue(s=value if isinstance(value, bytes) else str(value).encode())
    if kind == "list(int)":
        return AttrValue(list=AttrValue.ListValue(i=[int(item) for item in value]))
    if kind == "list(type)":
        types = [getattr(item, "as_datatype_enum", item) for item in value]
        return AttrValue(list=AttrValue.ListValue(type=types))
    return None


def optimized(optimizer: Any) -> list[Any]:
    """The variables that an optimizer was built for."""
    return list(getattr(optimizer, "_trainable_variables", ()))
