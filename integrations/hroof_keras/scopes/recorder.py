"""Notes which layer's ops lie in which name scope, while functions are traced.

Inside ``keras.Operation.__call__`` the name scope of a layer is open, and the layer is at hand: both are noted, for
names alone cannot tell (Keras opens a layer's scope twice, so the numbers at their ends mean nothing). Functions are
traced once and run many times: nothing is noted, and nothing costs anything, when they run. What is called eagerly is
not noted.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from hroof_keras.patching import Patches
from hroof_keras.private import runtime as private
from hroof_keras.scopes.layers import LayerMap, Mark

_MEANWHILE = re.compile(r"replica_\d+|gradient_tape")


class _Frame:
    """A layer whose call is under way on this thread; its number once it has one."""

    __slots__ = ("layer", "number")

    def __init__(self, layer: Any, number: int | None) -> None:
        self.layer = layer
        self.number = number


class Recorder:
    """Fills a layer map while functions are traced; between ``start`` and ``stop``.

    Args:
        layers: The map.
    """

    _attached: Recorder | None = None
    _lock = threading.Lock()

    def __init__(self, layers: LayerMap) -> None:
        self.layers = layers
        self._local = threading.local()
        self._patches = Patches()

    def start(self) -> None:
        """Watch from now on.

        Raises:
            RuntimeError: Another recorder watches.
        """
        with Recorder._lock:
            if Recorder._attached is self:
                return
            if Recorder._attached is not None:
                raise RuntimeError("another hroof recorder is attached")
            Recorder._attached = self
            self._patches.replace(keras.Operation, "__call__", self._operation_call)
            self._patches.replace(keras.losses.Loss, "__call__", self._loss_call)
            if "rematerialized_call" in vars(keras.Operation):
                self._patches.replace(
                    keras.Operation, "rematerialized_call", self._rematerialized_call
                )
            for kind in private.optimizer_classes():
                self._patches.replace(kind, "apply", self._optimizer_apply)

    def stop(self) -> None:
        """Put everything back as it was; safe to call twice."""
        with Recorder._lock:
            if Recorder._attached is not self:
                return
            self._patches.undo()
            Recorder._attached = None

    # --- Wrappers: their own names are as few as can be, for they show in tracebacks ---

    def _operation_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        is_layer = keras.Layer

        # The module of the original, which this copies, keeps AutoGraph from converting the wrapper.
        @functools.wraps(original)
        def __call__(operation: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(operation, is_layer) or Recorder._attached is not self:
                return original(operation, *args, **kwargs)
            stack = self._stack()
            stack.append(self._entered(operation, stack, (args, kwargs)))
            # An empty name opens the root scope, so that the names of its ops alone are known.
            graph = None if operation.name else self._graph()
            before = 0 if graph is None else len(graph.get_operations())
            try:
                return original(operation, *args, **kwargs)
            finally:
                number = stack.pop().number
                if graph is not None and number is not None:
                    self._note_operations(graph, before, Mark("layer", number))

        return __call__

    def _loss_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __call__(loss: Any, /, *args: Any, **kwargs: Any) -> Any:
            graph = self._graph()
            if graph is not None:
                # The loss opens this scope next, before anything else.
                scope = graph.unique_name(loss.name, mark_as_used=False)
                self.layers.note(scope, Mark("loss"), self._trace(graph))
            return original(loss, *args, **kwargs)

        return __call__

    def _optimizer_apply(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def apply(optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
            graph = self._graph()
            if graph is None:
                return original(optimizer, *args, **kwargs)
            self.layers.note_optimizer(optimizer.name)
            before = len(graph.get_operations())
            try:
                return original(optimizer, *args, **kwargs)
            finally:
                self._note_operations(graph, before, Mark("optimizer"))

        return apply

    def _rematerialized_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A layer that Keras makes compute its activations again: then its scope is not open."""

        @functools.wraps(original)
        def rematerialized_call(operation: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                graph = self._graph()
                number = self.layers.number_of(operation)
                if graph is None or number is None or not private.inside_gradient(sys._getframe()):
                    return function(*args, **kwargs)
                before = len(graph.get_operations())
                try:
                    return function(*args, **kwargs)
                finally:
                    self._note_operations(graph, before, Mark("layer", number, recompute=True))

            return original(operation, call, *args, **kwargs)

        return rematerialized_call

    # --- Notes ---

    def _stack(self) -> list[_Frame]:
        try:
            return self._local.stack
        except AttributeError:
            self._local.stack = []
            return self._local.stack

    def _entered(self, layer: Any, stack: list[_Frame], arguments: Any) -> _Frame:
        graph = self._graph()
        if graph is None or any(
            isinstance(a, keras.KerasTensor) for a in keras.tree.flatten(arguments)
        ):
            # Symbolic: a model is being wired, even inside a trace, where a Sequential model learns its input's shape.
            return _Frame(layer, None)
        number = self.layers.at(layer, *_parent(self.layers, stack))
        scope = graph.get_name_scope()
        recompute = private.inside_gradient(sys._getframe())
        self.layers.note(scope, Mark("layer", number, recompute), self._trace(graph))
        return _Frame(layer, number)

    def _note_operations(self, graph: Any, before: int, mark: Mark) -> None:
        """Every op that was made meanwhile is meant, in a scope of its own or out of any."""
        around = f"{graph.get_name_scope()}/".lstrip("/")
        trace = self._trace(graph)
        for operation in graph.get_operations()[before:]:
            name = operation.name.removeprefix(around).split("/")[0]
            # Replicas of a distributed step wait for each other here, and trace their other work meanwhile.
            if operation.name.startswith(around) and not _MEANWHILE.fullmatch(name):
                self.layers.note(around + name, mark, trace)

    def _graph(self) -> Any:
        """The graph that is being traced; None while ops run at once, or serve only the inference of shapes."""
        if Recorder._attached is not self or tf.executing_eagerly():
            return None
        graph = private.default_graph()
        return None if private.is_scratch(graph) else graph

    def _trace(self, graph: Any) -> int:
        """Number of the function that is being traced."""
        return self.layers.trace(private.outermost_graph(graph))


def _parent(layers: LayerMap, stack: list[_Frame]) -> tuple[int | None, Any]:
    """The layer that calls, by number and itself; layers around it that run eagerly are learnt by this."""
    if not stack:
        return None, None
    caller = stack[-1]
    if caller.number is None:
        caller.number = layers.at(caller.layer, *_parent(layers, stack[:-1]))
    return caller.number, caller.layer
