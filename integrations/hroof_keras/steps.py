"""Where steps begin and end: the executions of ``fit``, ``evaluate`` and ``predict``, or those of a loop of the user's.

Keras' own loops say where each execution begins and ends, so a step is exactly that: what lies between two of them
(callbacks, validation, checkpoints) belongs to no step. In a loop of the user's own (``train_on_batch``, an eager
``optimizer.apply``) a step lasts until the next one begins, as other work in between may belong to it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from hroof.integration import Stage, StepSink
from hroof_keras import executions
from hroof_keras.executions import Execution, Kind
from hroof_keras.private import steps as private_steps

_CAPTURED = (Stage.COUNT, Stage.TIME)
_FORGET_AFTER = 2
"""Steps after which a model that no longer takes part is not waited for."""


def _nobody() -> None:
    """In place of a reference to a model."""


class Around(Protocol):
    """Who is told of captured executions of Keras' own loops; a capture synchronises devices there."""

    def execution_begins(self, execution: Execution) -> None:
        """A captured one begins: ``execution.planned`` steps at once."""

    def execution_ends(self, execution: Execution, steps: int) -> None:
        """It has ended after so many steps; then the region hears of the boundary."""

    def execution_fails(self, execution: Execution) -> None:
        """It ran nothing, or not to its end: no step."""


class StepFinder:
    """Tells a region where steps end; training comes before inference.

    Executions of ``evaluate`` and ``predict`` are steps where the region sees no training, and never those of a
    validation inside ``fit``.

    Args:
        sink: Hears where steps end. It may have a method ``takes(kind, source)``, which says whether a loop
            is one of its own.
        around: Hears of captured executions.

    Attributes:
        executions: How many were seen.
        own_loop: Some of them in a loop of the user's own, where a step is what hroof takes for one.
        at_once: The most steps of one execution.
    """

    def __init__(self, sink: StepSink, around: Around | None = None) -> None:
        self._sink = sink
        self._around = around
        self._takes = getattr(sink, "takes", lambda kind, source: True)
        self._taken: Callable[[], Any] = _nobody
        self._kind: Kind | None = None
        self._home: int | None = None
        self._cycle = Cycle()
        self._model: Callable[[], Any] = _nobody
        self.executions = 0
        self.own_loop = False
        self.at_once = 1

    @property
    def model(self) -> Any:
        """The model that ran last, as long as it lives."""
        return self._model()

    def start(self) -> None:
        """Begin to listen."""
        executions.listen(self)

    def stop(self) -> None:
        """Listen no more; safe to call twice."""
        executions.unlisten(self)

    # --- as a listener of executions --------------------------------------------------------------

    def loop_begins(self, kind: Kind, source: Any) -> None:
        """Until its first batch no step begins."""
        if self._takes(kind, source) and self._is_home() and self._counts(kind):
            self._sink.pause()

    def loop_ends(self, kind: Kind, source: Any) -> None:
        """Its last execution has ended already."""

    def begins(self, execution: Execution) -> None:
        """A step begins, or several at once."""
        if not execution.own_loop and not self._captured():
            return
        if not self._is_step(execution):
            return
        if execution.own_loop:
            self._tell(self._cycle.begins(execution.source))
            self._sink.resume()
        else:
            if self._around is not None and not self._explicit():
                self._around.execution_begins(execution)
            self._sink.resume(execution.planned)

    def ends(self, execution: Execution, steps: int) -> None:
        """It has ended."""
        if not self._is_step(execution):
            return
        self._note(execution)
        self.at_once = max(self.at_once, steps)
        if execution.own_loop:
            self._tell(self._cycle.ends(execution.source))
        elif steps != 1 or not self._sink.let_pass():
            if self._captured() and self._around is not None and not self._explicit():
                self._around.execution_ends(execution, steps)
            self._sink.pause()
            self._sink.boundary(count=steps, at_once=steps > 1)

    def _note(self, execution: Execution) -> None:
        self.executions += 1
        self.own_loop = self.own_loop or execution.own_loop
        if self._model() is None:
            model = private_steps.model_of(execution.source) or execution.source
            self._model = weakref.ref(model) if private_steps.is_model(model) else _nobody

    def fails(self, execution: Execution) -> None:
        """It is no step."""
        if self._is_step(execution) and not execution.own_loop and self._captured():
            if self._around is not None and not self._explicit():
                self._around.execution_fails(execution)
            self._sink.pause()

    def _tell(self, whole: bool) -> None:
        """Of a loop of the user's own; the next step begins at once."""
        if whole and not self._sink.let_pass():
            self._sink.boundary()

    def _captured(self) -> bool:
        return getattr(self._sink, "stage", Stage.SKIP) in _CAPTURED

    def _explicit(self) -> bool:
        """Whether the program itself says where steps end: then several executions may make one."""
        return bool(getattr(self._sink, "explicit", False))

    def _is_step(self, execution: Execution) -> bool:
        kind, source = execution.kind, execution.source
        if source is None or self._taken() is not source or kind is not self._kind:
            if not self._takes(kind, source):
                return False
            self._taken = execution.origin  # one loop has many executions: it is asked for once
        return self._is_home() and self._counts(kind)

    def _is_home(self) -> bool:
        """Whether this thread is the first that ran anything: others train models of their own."""
        here = threading.get_ident()
        if self._home is None:
            self._home = here
        return self._home == here

    def _counts(self, kind: Kind) -> bool:
        """Whether executions of this kind are steps here; the first training makes the region one of training."""
        if kind is Kind.TRAIN and self._kind is not Kind.TRAIN and not self._captured():
            if self._kind is not None:
                self._sink.forget_steps()
                self.executions = 0
                self.own_loop = False
            self._kind = kind
        elif self._kind is None:
            self._kind = kind
        return self._kind is kind

    def seen(self) -> str:
        """What was seen of steps, in words, for a region that got too few."""
        if not self.executions:
            return (
                "It saw no execution of fit, evaluate, predict or train_on_batch, and no optimizer.apply "
                "outside a tf.function."
            )
        word = "execution" if self.executions == 1 else "executions"
        of = f" of up to {self.at_once} steps (steps_per_execution)" if self.at_once > 1 else ""
        return f"It saw {self.executions} {word}{of}."


class Cycle:
    """Which of the models or optimizers of a loop ends a step of it.

    A step ends with the one after which all of the loop have had their turn, and at the latest when one has its
    second. Which belong to the loop is learnt from the first step.
    """

    def __init__(self) -> None:
        self._last: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._done: weakref.WeakSet[Any] = weakref.WeakSet()
        self._number = 0
        self._known = False

    def begins(self, source: Any) -> bool:
        """One has its turn; whether that says that a step had ended before."""
        if source not in self._done:
            return False
        self._known = True
        self._next()
        return True

    def ends(self, source: Any) -> bool:
        """Its turn is over; whether that ends the step."""
        self._done.add(source)
        self._last[source] = self._number
        loop = (one for one, step in self._last.items() if self._number - step <= _FORGET_AFTER)
        if not self._known or not all(one in self._done for one in loop):
            return False
        self._next()
        return True

    def _next(self) -> None:
        self._number += 1
        self._done.clear()
