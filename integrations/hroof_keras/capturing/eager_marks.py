"""Layers and phases of a program that runs eagerly, as marks on the thread that runs it.

Eager ops are launched by the thread that calls them, so a range of that thread covers them. What the gradient tape runs
in the backward pass does not say which layer it is for: there the phase is known, and no layer.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from hroof.regions import Kind, Mark, marks
from hroof.units import Phase
from hroof_keras.executions import Patch
from hroof_keras.private import runtime as private
from hroof_keras.scopes.layers import LayerMap


class _Thread(threading.local):
    """What is under way on a thread."""

    def __init__(self) -> None:
        self.layers: list[tuple[int, Any]] = []
        self.phase: Phase | None = None


class EagerMarks:
    """Marks layers and phases of what runs eagerly, between ``start`` and ``stop``.

    Args:
        layers: Learns the layers that are called.

    Attributes:
        on: Mark; otherwise layers are only learnt, since the name of one depends on which others there are.
        seen: Something ran eagerly while it was on.
    """

    def __init__(self, layers: LayerMap) -> None:
        self._layers = layers
        self._thread = _Thread()
        self._patches: list[Patch] = []
        self._names: list[str] = []
        self.on = False
        self.seen = False

    def start(self) -> None:
        """Follow from now on."""
        self._patches = [
            Patch(keras.Operation, "__call__", self._layer),
            Patch(keras.losses.Loss, "__call__", functools.partial(self._phase, Phase.LOSS)),
            Patch(tf.GradientTape, "gradient", functools.partial(self._phase, Phase.BACKWARD)),
            *(
                Patch(kind, "apply", functools.partial(self._phase, Phase.OPTIMIZER))
                for kind in private.optimizer_classes()
            ),
        ]

    def stop(self) -> None:
        """Follow no more, and put everything back; safe to call twice. What is under way is ended where it ends."""
        self.on = False
        while self._patches:
            self._patches.pop().remove()

    # --- Wrappers: their own names are as few as can be, for they show in tracebacks ---

    def _layer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __call__(operation: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(operation, keras.Layer) or not tf.executing_eagerly():
                return original(operation, *args, **kwargs)
            if any(isinstance(a, keras.KerasTensor) for a in keras.tree.flatten((args, kwargs))):
                return original(operation, *args, **kwargs)  # a model is being wired
            with self._in_layer(operation):
                return original(operation, *args, **kwargs)

        return __call__

    def _phase(self, phase: Phase, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(owner: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not self.on or not tf.executing_eagerly():
                return original(owner, *args, **kwargs)
            with self._in_phase(phase):
                return original(owner, *args, **kwargs)

        return call

    # --- Marks ---

    @contextmanager
    def _in_phase(self, phase: Phase) -> Iterator[None]:
        """One phase at a time: what it calls serves it."""
        here = self._thread
        if here.phase is not None or not self.on:
            yield
            return
        here.phase, self.seen = phase, True
        begun = marks.start(Mark(Kind.PHASE, str(phase)))
        try:
            yield
        finally:
            here.phase = None
            marks.end(begun)

    @contextmanager
    def _in_layer(self, layer: Any) -> Iterator[None]:
        """A layer within a backward pass computes forward work again."""
        here = self._thread
        parent, holder = here.layers[-1] if here.layers else (None, None)
        number = self._layers.at(layer, parent, holder)
        again = here.phase is Phase.BACKWARD
        phase = Phase.LOSS if here.phase is Phase.LOSS else Phase.FORWARD
        here.layers.append((number, layer))
        try:
            with self._in_phase(Phase.FORWARD):
                mark = Mark(Kind.LAYER, self._name(number), str(phase), again)
                heard = marks.push(mark) if self.on else ()
                try:
                    yield
                finally:
                    marks.pop(heard)
        finally:
            here.layers.pop()

    def _name(self, number: int) -> str:
        if number >= len(self._names):
            self._names = self._layers.names()
        return self._names[number]
