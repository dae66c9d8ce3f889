"""Notes which layer's ops bear which name scope, while JAX traces a function.

Keras opens a scope of the layer's own name around its call, and JAX keeps the scopes that are open in the names of
ops. In a loop or a checkpoint the scopes begin anew, so the path is made of the layers that are under way. The
outermost model has no scope in a training step.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import keras

from hroof_keras import private
from hroof_keras.jax_names import path_of
from hroof_keras.layers import LayerMap, Mark


class JaxRecorder:
    """Fills a layer map while functions are traced; between ``start`` and ``stop``.

    Args:
        layers: The map.
    """

    def __init__(self, layers: LayerMap) -> None:
        self._layers = layers
        self._local = threading.local()
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        """Watch from now on; safe to call twice."""
        if not self._undo:
            self._replace(keras.Operation, "__call__", self._operation_call)
            for kind in private.optimizer_classes():
                self._replace(kind, "apply", self._optimizer_apply)

    def stop(self) -> None:
        """Put everything back as it was; safe to call twice."""
        while self._undo:
            self._undo.pop()()

    def _replace(self, kind: type, name: str, wrap: Callable[[Any], Any]) -> None:
        original = vars(kind)[name]
        wrapper = wrap(original)
        setattr(kind, name, wrapper)

        def restore() -> None:
            # Somebody else may have wrapped the wrapper; it then only passes calls on.
            if vars(kind).get(name) is wrapper:
                setattr(kind, name, original)

        self._undo.append(restore)

    def _operation_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        is_layer = keras.Layer

        @functools.wraps(original)
        def __call__(operation: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not self._undo or not isinstance(operation, is_layer):
                return original(operation, *args, **kwargs)
            frames = self._frames()
            frames.append(self._entered(operation, frames))
            try:
                return original(operation, *args, **kwargs)
            finally:
                frames.pop()

        return __call__

    def _optimizer_apply(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def apply(optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
            self._layers.note_optimizer(optimizer.name)
            return original(optimizer, *args, **kwargs)

        return apply

    def _frames(self) -> list[tuple[Any, int, tuple[str, ...]]]:
        """The layers under way on this thread: each with its number and its path."""
        if not hasattr(self._local, "frames"):
            self._local.frames = []
        frames: list[tuple[Any, int, tuple[str, ...]]] = self._local.frames
        return frames

    def _entered(
        self, layer: Any, frames: list[tuple[Any, int, tuple[str, ...]]]
    ) -> tuple[Any, int, tuple[str, ...]]:
        holder, parent, outer = frames[-1] if frames else (None, None, ())
        number = self._layers.at(layer, parent, holder)
        if not private.jax_traces():
            return layer, number, outer
        scopes = path_of(private.jax_scopes()).scopes
        begun_anew = scopes[: len(outer)] != outer
        path = (*outer, *scopes) if begun_anew else scopes
        self._layers.note("/".join(path), Mark("layer", number))
        return layer, number, path


def learn_model(layers: LayerMap, model: Any) -> None:
    """Note the scopes of a model that was traced before anybody watched: they follow from its layers' names."""
    root = layers.at(model, None)
    _learn(layers, model, root, ())
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        layers.note_optimizer(optimizer.name)


def _learn(layers: LayerMap, holder: Any, number: int, path: tuple[str, ...]) -> None:
    for layer in private.sublayers(holder):
        inner = (*path, layer.name)
        child = layers.at(layer, number, holder)
        layers.note("/".join(inner), Mark("layer", child))
        _learn(layers, layer, child, inner)
