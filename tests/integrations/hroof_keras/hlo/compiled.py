"""Programs of XLA as TensorFlow compiles them, without a profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import tensorflow as tf

from hroof_keras.hlo import HloModule

Stage = Literal["hlo_serialized", "optimized_hlo_serialized", "optimized_hlo_proto_serialized"]


def serialized(
    function: Callable[..., Any],
    *arguments: Any,
    stage: Stage = "optimized_hlo_proto_serialized",
) -> bytes:
    """A function, compiled for these arguments."""
    jitted = tf.function(function, jit_compile=True)
    return bytes(jitted.experimental_get_compiler_ir(*arguments)(stage=stage))


def compiled(
    function: Callable[..., Any],
    *arguments: Any,
    stage: Stage = "optimized_hlo_proto_serialized",
) -> HloModule:
    """The same, read."""
    return HloModule.read(serialized(function, *arguments, stage=stage))
