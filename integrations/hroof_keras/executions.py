"""Executions: what Keras runs at once, a batch or several of them, and who hears where each begins and ends.

Keras tells its list of callbacks where the executions of ``fit``, ``evaluate`` and ``predict`` begin and end. While
somebody listens, the methods of that list are wrapped on its class, and so are ``train_on_batch`` and its kin, which
call no callback, and the ``apply`` of optimizers, for loops that call it eagerly. All of them are public. The wrappers
run in the thread that trains, also where Keras hands the callbacks themselves to another one.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from hroof_keras.private import runtime as private
from hroof_keras.private import steps as private_steps


class Kind(StrEnum):
    """What an execution is for."""

    TRAIN = "train"
    TEST = "test"
    PREDICT = "predict"


class Execution(NamedTuple):
    """One execution; a tuple, since one is made for each batch.

    Attributes:
        kind: What it is for.
        origin: Weakly, who said so: a list of callbacks, or a model or optimizer of a loop of the user's own. That the
            list dies tells that ``fit`` has ended with an exception.
        first: Index of its first batch in the epoch; 0 in a loop of the user's own.
        planned: Batches that it is going to run: ``steps_per_execution``, fewer where the epoch is known to end.
        own_loop: The loop around it is the user's, so that other work may belong to the same step.
    """

    kind: Kind
    origin: weakref.ref[Any]
    first: int = 0
    planned: int = 1
    own_loop: bool = False

    @property
    def source(self) -> Any:
        """Who said so; None once it is gone."""
        return self.origin()


class Listener(Protocol):
    """Somebody who hears of executions; it must not raise: hroof never breaks the program."""

    def loop_begins(self, kind: Kind, source: Any) -> None:
        """``fit``, ``evaluate`` or ``predict`` is about to run its first batch."""

    def loop_ends(self, kind: Kind, source: Any) -> None:
        """It has run its last one; not said where an exception ends it."""

    def begins(self, execution: Execution) -> None:
        """An execution begins just now."""

    def ends(self, execution: Execution, steps: int) -> None:
        """It has just ended, after so many batches."""

    def fails(self, execution: Execution) -> None:
        """It has run nothing, since the data had ended, or it was broken off."""


_changing = threading.Lock()
_listeners: tuple[Listener, ...] = ()
_put: list[Patch] = []


def listen(listener: Listener) -> None:
    """Let a listener hear of every execution from now on."""
    global _listeners
    with _changing:
        if not any(other is listener for other in _listeners):
            _listeners = (*_listeners, listener)
        if not _put:
            _put.extend(_patches())


def unlisten(listener: Listener) -> None:
    """Let a listener hear no more; the last one takes the wrappers away."""
    global _listeners
    with _changing:
        _listeners = tuple(other for other in _listeners if other is not listener)
        if not _listeners:
            while _put:
                _put.pop().remove()


class _Open(NamedTuple):
    """An execution that has begun, and the frame of the loop around it, by its address."""

    execution: Execution
    frame: int


class _Thread(threading.local):
    """What runs in a thread.

    Attributes:
        open: Executions that have begun, outermost first.
        before: Optimizer steps done before the innermost one; None where nobody has to know.
        in_list: Callbacks are being called by their list.
    """

    def __init__(self) -> None:
        self.open: list[_Open] = []
        self.before: int | None = None
        self.in_list = False


_thread = _Thread()


# --- what is heard -------------------------------------------------------------------------------


def loop_begins(kind: Kind, source: Any) -> None:
    """A loop of Keras' own begins."""
    _drop_open(source)
    for listener in _listeners:
        listener.loop_begins(kind, source)


def loop_ends(kind: Kind, source: Any) -> None:
    """A loop of Keras' own has ended."""
    _drop_open(source)
    for listener in _listeners:
        listener.loop_ends(kind, source)


def batch_begins(kind: Kind, source: Any, first: int, loop: Any) -> None:
    """An execution of such a loop begins.

    Args:
        kind: What it is for.
        source: The list of callbacks, or a callback that is called without one.
        first: Index of its first batch.
        loop: The frame of the loop.
    """
    _drop_open(source)
    model = private_steps.model_of(source)
    at_once = int(getattr(model, "steps_per_execution", None) or 1)
    total = None if at_once == 1 else _total(source)
    planned = at_once if total is None or first >= total else min(at_once, total - first)
    execution = Execution(kind, weakref.ref(source), int(first), planned)
    _thread.open.append(_Open(execution, id(loop)))
    if len(_thread.open) > 1:
        return
    unknown = planned > 1 and total is None and kind is Kind.TRAIN
    _thread.before = private_steps.optimizer_steps(model) if unknown else None
    for listener in _listeners:
        listener.begins(execution)


def batch_ends(source: Any) -> None:
    """The execution that began last for this list of callbacks has ended."""
    opened = _thread.open
    if not opened or opened[-1].execution.source is not source:
        return
    execution = opened.pop().execution
    if opened:
        return
    steps = _ran(execution)
    for listener in _listeners:
        listener.ends(execution, steps)


def _ran(execution: Execution) -> int:
    """Batches that an execution really ran; Keras names the last one that it could have run."""
    before, _thread.before = _thread.before, None
    if before is None:
        return execution.planned
    after = private_steps.optimizer_steps(private_steps.model_of(execution.source))
    done = execution.planned if after is None else after - before
    return done if 0 < done <= execution.planned else execution.planned


def _total(source: Any) -> int | None:
    """Batches of the epoch, where Keras knows them."""
    total = (getattr(source, "params", None) or {}).get("steps")
    return total if isinstance(total, int) and total > 0 else None


def _drop_open(source: Any = None) -> None:
    """What is still open for a list of callbacks never ran, nor did what belongs to a loop that is gone.

    The data had ended, or the loop was broken off. An exception that somebody keeps holds its frames, and with them
    the list of callbacks; but they are not those that run.
    """
    opened = _thread.open
    if not opened:
        return
    running = set(_frames())
    while opened and (
        _is_over(opened[-1].execution.source, source) or opened[-1].frame not in running
    ):
        execution = opened.pop().execution
        if not opened:
            for listener in _listeners:
                listener.fails(execution)


def _is_over(of: Any, source: Any) -> bool:
    return of is None or of is source


def _frames() -> Iterator[int]:
    """Addresses of the frames that run in this thread."""
    frame: Any = sys._getframe()
    while frame is not None:
        yield id(frame)
        frame = frame.f_back


def call_in_own_loop(kind: Kind, source: Any, call: Callable[[], Any]) -> Any:
    """Run an execution of a loop of the user's own; within another one it is a part of that."""
    _drop_open()
    if _thread.open:
        return call()
    execution = Execution(kind, weakref.ref(source), own_loop=True)
    _thread.open.append(_Open(execution, id(sys._getframe())))
    for listener in _listeners:
        listener.begins(execution)
    try:
        result = call()
    except BaseException:
        _thread.open.clear()
        for listener in _listeners:
            listener.fails(execution)
        raise
    _thread.open.clear()
    for listener in _listeners:
        listener.ends(execution, 1)
    return result


# --- how it is heard -----------------------------------------------------------------------------


class Patch:
    """Another function in place of a class's own, until it is removed.

    Args:
        owner: The class.
        name: The method, which the class itself defines.
        make: Makes the wrapper from what is there.
    """

    def __init__(self, owner: type, name: str, make: Callable[[Any], Any]) -> None:
        self._owner, self._name = owner, name
        self._original = vars(owner)[name]
        self._wrapper = functools.wraps(self._original)(make(self._original))
        setattr(owner, name, self._wrapper)

    def remove(self) -> None:
        """Put the class's own back; where somebody else has wrapped it meanwhile, theirs stays."""
        if vars(self._owner).get(self._name) is self._wrapper:
            setattr(self._owner, self._name, self._original)


def _patches() -> Iterator[Patch]:
    import keras

    callbacks = keras.callbacks.CallbackList
    for kind in Kind:
        yield Patch(callbacks, f"on_{kind}_begin", functools.partial(_loop_begin, kind))
        yield Patch(callbacks, f"on_{kind}_end", functools.partial(_loop_end, kind))
        yield Patch(callbacks, f"on_{kind}_batch_begin", functools.partial(_batch_begin, kind))
        yield Patch(callbacks, f"on_{kind}_batch_end", _batch_end)
        name = f"{kind}_on_batch"
        yield Patch(_definer(keras.Model, name), name, functools.partial(_on_batch, kind))
    yield Patch(callbacks, "on_epoch_end", _epoch_end)
    for optimizer in private.optimizer_classes():
        yield Patch(optimizer, "apply", _apply)


def _definer(kind: type, name: str) -> type:
    """The class that a method of a class comes from."""
    return next(base for base in kind.__mro__ if name in vars(base))


def _loop_begin(kind: Kind, original: Any) -> Any:
    def on_begin(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
        result = _call(original, callbacks, *args, **kwargs)
        loop_begins(kind, callbacks)
        return result

    return on_begin


def _loop_end(kind: Kind, original: Any) -> Any:
    def on_end(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
        loop_ends(kind, callbacks)
        return _call(original, callbacks, *args, **kwargs)

    return on_end


def _batch_begin(kind: Kind, original: Any) -> Any:
    """The execution begins when the callbacks are done with their hooks."""

    def on_batch_begin(callbacks: Any, batch: int, *args: Any, **kwargs: Any) -> Any:
        result = _call(original, callbacks, batch, *args, **kwargs)
        batch_begins(kind, callbacks, batch, sys._getframe(1))
        return result

    return on_batch_begin


def _batch_end(original: Any) -> Any:
    """The execution has ended before the callbacks' hooks begin."""

    def on_batch_end(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
        batch_ends(callbacks)
        return _call(original, callbacks, *args, **kwargs)

    return on_batch_end


def _call(original: Any, callbacks: Any, *args: Any, **kwargs: Any) -> Any:
    """Let a list of callbacks call them."""
    before, _thread.in_list = _thread.in_list, True
    try:
        return original(callbacks, *args, **kwargs)
    finally:
        _thread.in_list = before


def _epoch_end(original: Any) -> Any:
    def on_epoch_end(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
        _drop_open(callbacks)
        return original(callbacks, *args, **kwargs)

    return on_epoch_end


def _on_batch(kind: Kind, original: Any) -> Any:
    def on_batch(model: Any, *args: Any, **kwargs: Any) -> Any:
        return call_in_own_loop(kind, model, lambda: original(model, *args, **kwargs))

    return on_batch


def _apply(original: Any) -> Any:
    """An optimizer step of an eager loop; while a function is traced nothing is computed."""

    def apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if private_steps.is_traced():
            return original(optimizer, *args, **kwargs)
        return call_in_own_loop(Kind.TRAIN, optimizer, lambda: original(optimizer, *args, **kwargs))

    return apply


def called_by_list() -> bool:
    """Whether a list of callbacks calls the hook that runs now in this thread, and the list is heard."""
    return _thread.in_list
