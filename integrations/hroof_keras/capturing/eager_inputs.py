"""What layers are called with eagerly, from outside of any other layer: it tells whether steps do the same work."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from hroof_keras.private import runtime as private
from hroof_keras.profiling.events import INPUT


class EagerInputs:
    """Notes the shapes in the running profile, between ``start`` and ``stop``.

    Attributes:
        calls: How many such calls there were.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._local = threading.local()
        self._undo: Callable[[], None] | None = None

    def start(self) -> None:
        """Note from now on."""
        original = keras.Operation.__call__
        wrapper = self._wrapped(original)
        keras.Operation.__call__ = wrapper

        def undo() -> None:
            if keras.Operation.__call__ is wrapper:
                keras.Operation.__call__ = original

        self._undo = undo

    def stop(self) -> None:
        """Put the class back as it was; safe to call twice."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def _wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __call__(operation: Any, /, *args: Any, **kwargs: Any) -> Any:
            inside = getattr(self._local, "inside", False) or self._undo is None
            if inside or not tf.executing_eagerly() or _is_symbolic(args):
                return original(operation, *args, **kwargs)
            self._local.inside = True
            try:
                self._note(args)
                return original(operation, *args, **kwargs)
            finally:
                self._local.inside = False

        return __call__

    def _note(self, args: tuple[Any, ...]) -> None:
        self.calls += 1
        if private.profiler_runs():
            private.trace_event(f"{INPUT}{' '.join(_shapes(args))}")


def _is_symbolic(args: tuple[Any, ...]) -> bool:
    """Whether a model is being made, so that nothing is computed."""
    return any(isinstance(value, keras.KerasTensor) for value in _leaves(args))


def _shapes(args: tuple[Any, ...]) -> Iterator[str]:
    """Shapes of all arrays, as the profiler writes those of batches."""
    for value in _leaves(args):
        if hasattr(value, "shape"):
            yield f"[{','.join(map(str, value.shape))}]"


def _leaves(value: Any) -> Iterator[Any]:
    """What nested lists and dicts hold."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
