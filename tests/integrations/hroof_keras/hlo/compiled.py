"""Programs of XLA as TensorFlow compiles them, with and without its profiler.

Without the profiler the values of constants are left out, so the turns of loops are known only where XLA wrote them
down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import tensorflow as tf

from hroof_keras.hlo import HloModule
from hroof_keras.profiling.profiler import Session

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


def profiled(function: Callable[..., Any], *arguments: Any) -> tuple[HloModule, Counter[str]]:
    """A function, compiled and run once under the profiler: its program and how often each instruction ran."""
    jitted = tf.function(function, jit_compile=True)
    jitted(*arguments)
    session = Session(shapes=False)
    session.start()
    session.begin_step()
    jitted(*arguments)
    session.end_step()
    recorded = session.stop()
    events = [event for event in recorded.events if event.kind == "hlo"]
    (number,) = {event.hlo_program for event in events}
    assert number is not None
    module = HloModule.read(recorded.hlo_modules[number])
    return module, Counter(event.name for event in events)
