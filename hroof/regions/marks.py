"""Marks: what a running program says about itself, and who listens. Free when nobody does."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Kind(StrEnum):
    """What a mark names."""

    REGION = "region"
    STEP = "step"
    PHASE = "phase"
    LAYER = "layer"


@dataclass(frozen=True, slots=True)
class Mark:
    """One named span of the program.

    Attributes:
        kind: What is named.
        name: True name: of the region or the phase, the number of the step, the qualified name of
            the layer.
        phase: For a layer: the phase it runs in (``forward``, ``backward``, ``optimizer``, ...).
        recompute: For a layer: forward work that checkpointing runs again.
    """

    kind: Kind
    name: str
    phase: str = ""
    recompute: bool = False


class Listener(Protocol):
    """Somebody who hears marks.

    Regions, steps and phases are process-wide: any thread may end what another started. Layers
    nest on the thread that runs them. A listener must not raise: a mark never breaks the program.
    """

    def start(self, mark: Mark) -> Any:
        """A process-wide span begins; the result is handed back to ``end``."""

    def end(self, handle: Any) -> None:
        """A process-wide span ends."""

    def push(self, mark: Mark) -> None:
        """A layer begins on this thread."""

    def pop(self) -> None:
        """The innermost layer of this thread ends."""


_listeners: tuple[Listener, ...] = ()
_changing = threading.Lock()


def listeners() -> tuple[Listener, ...]:
    """Whoever listens now."""
    return _listeners


def listen(listener: Listener) -> None:
    """Let a listener hear every mark from now on."""
    global _listeners
    with _changing:
        if not any(other is listener for other in _listeners):
            _listeners = (*_listeners, listener)


def unlisten(listener: Listener) -> None:
    """Let a listener hear no more marks."""
    global _listeners
    with _changing:
        _listeners = tuple(other for other in _listeners if other is not listener)


def unlisten_all() -> None:
    """Let nobody hear marks any more; safe in a child process just forked."""
    global _listeners, _changing
    # Another thread of the parent may have held the lock, and does not live here to release it.
    _changing = threading.Lock()
    _listeners = ()


Handles = tuple[tuple[Listener, Any], ...]


def start(mark: Mark) -> Handles:
    """Begin a process-wide span for every listener; pass the result to ``end``."""
    return tuple((listener, listener.start(mark)) for listener in _listeners)


def end(handles: Handles) -> None:
    """End a process-wide span for those who heard it start."""
    for listener, handle in handles:
        listener.end(handle)


def push(mark: Mark) -> tuple[Listener, ...]:
    """Begin a layer on this thread; pass the result to ``pop``."""
    heard = _listeners
    for listener in heard:
        listener.push(mark)
    return heard


def pop(heard: tuple[Listener, ...]) -> None:
    """End the innermost layer for those who heard it begin."""
    for listener in heard:
        listener.pop()
