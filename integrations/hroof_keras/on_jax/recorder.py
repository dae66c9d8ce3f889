"""Notes which layer's ops bear which name scope, while JAX traces a function.

Keras opens a scope of the layer's own name around its call, and JAX keeps the scopes that are open in the names of
ops. In a loop or a checkpoint the scopes begin anew, so the path is made of the layers that are under way. The
outermost model has no scope in a training step. Layers of one name in one place have one scope; each notes it as if
in a function of its own, so that this is seen.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import keras

from hroof_keras.on_jax.names import path_of
from hroof_keras.patching import Patches
from hroof_keras.private import jax as private_jax
from hroof_keras.private import runtime as private
from hroof_keras.scopes.layers import LayerMap, Mark


class _Frame:
    """A layer whose call is under way on this thread: its number once it has one, and its scopes."""

    __slots__ = ("layer", "number", "path")

    def __init__(self, layer: Any, number: int | None, path: tuple[str, ...]) -> None:
        self.layer, self.number, self.path = layer, number, path


class JaxRecorder:
    """Fills a layer map while functions are traced; between ``start`` and ``stop``.

    Args:
        layers: The map.
    """

    def __init__(self, layers: LayerMap) -> None:
        self._layers = layers
        self._local = threading.local()
        self._patches = Patches()

    def start(self) -> None:
        """Watch from now on; safe to call twice."""
        if not self._patches:
            self._patches.replace(keras.Operation, "__call__", self._operation_call)
            self._patches.replace(keras.Layer, "stateless_call", self._stateless_call)
            for kind in private.optimizer_classes():
                self._patches.replace(kind, "apply", self._optimizer_apply)

    def stop(self) -> None:
        """Put everything back as it was; safe to call twice."""
        self._patches.undo()

    def _operation_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        is_layer = keras.Layer

        @functools.wraps(original)
        def __call__(operation: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not self._patches or not isinstance(operation, is_layer):
                return original(operation, *args, **kwargs)
            frames = self._frames()
            frames.append(self._entered(operation, frames))
            try:
                return original(operation, *args, **kwargs)
            finally:
                frames.pop()

        return __call__

    def _stateless_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A step calls its model so, without a scope for the model itself."""

        @functools.wraps(original)
        def stateless_call(model: Any, /, *args: Any, **kwargs: Any) -> Any:
            frames = self._frames()
            path = frames[-1].path if frames else ()
            frames.append(_Frame(model, None, path))
            try:
                return original(model, *args, **kwargs)
            finally:
                frames.pop()

        return stateless_call

    def _optimizer_apply(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def apply(optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
            self._layers.note_optimizer(optimizer.name)
            return original(optimizer, *args, **kwargs)

        return apply

    def _frames(self) -> list[_Frame]:
        if not hasattr(self._local, "frames"):
            self._local.frames = []
        frames: list[_Frame] = self._local.frames
        return frames

    def _entered(self, layer: Any, frames: list[_Frame]) -> _Frame:
        outer = frames[-1].path if frames else ()
        if not private_jax.traces() or private_jax.is_symbolic():
            return _Frame(layer, None, outer)
        frame = _Frame(layer, None, _path(outer))
        number = self._number([*frames, frame])
        self._layers.note("/".join(frame.path), Mark("layer", number), trace=number)
        return frame

    def _number(self, frames: list[_Frame]) -> int:
        """The number of the innermost layer; layers around it are learnt by this."""
        frame, around = frames[-1], frames[:-1]
        if frame.number is None:
            # A model that is called in a step, and then calls itself, is one layer.
            around = [outer for outer in around if outer.layer is not frame.layer]
            parent = self._number(around) if around else None
            frame.number = self._layers.at(
                frame.layer, parent, around[-1].layer if around else None
            )
        return frame.number


def _path(outer: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes that are open; behind those of the layers around, where JAX has begun anew."""
    scopes = path_of(private_jax.scopes()).scopes
    return scopes if scopes[: len(outer)] == outer else (*outer, *scopes)


def learn_model(layers: LayerMap, model: Any) -> None:
    """Note the scopes of a model that was traced before anybody watched: they follow from its layers' names."""
    root = layers.at(model, None)
    _learn(layers, model, root, ())
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        layers.note_optimizer(optimizer.name)


def _learn(layers: LayerMap, holder: Any, number: int, path: tuple[str, ...]) -> None:
    for layer in private.sublayers(holder):
        if isinstance(layer, keras.layers.InputLayer):
            continue  # runs nothing
        inner = (*path, layer.name)
        child = layers.at(layer, number, holder)
        layers.note("/".join(inner), Mark("layer", child), trace=child)
        _learn(layers, layer, child, inner)
