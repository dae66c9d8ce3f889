"""Where steps end: one counting hook on optimizer steps."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from hroof.integration import Stage, StepSink
from hroof_torch import private

_FORGET_AFTER = 2
"""Steps after which an optimizer that no longer takes part is not waited for."""


def _nobody() -> None:
    """In place of a reference to an optimizer."""


class StepFinder:
    """Tells a region where steps end.

    A step ends with the optimizer step after which every optimizer of the loop has stepped, and at the latest
    when an optimizer that already stepped in it steps again. Which optimizers belong to the loop is learnt from
    the first step; where no step is skipped, from those that are alive.

    Args:
        sink: Hears where steps end.
        first: Called with the optimizer before that, at each optimizer step.
    """

    def __init__(
        self, sink: StepSink, first: Callable[[Any], None] = lambda optimizer: None
    ) -> None:
        self._sink = sink
        self._first = first
        self._calling = False
        self._opener = threading.get_ident()
        self._home: int | None = None
        self._last: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()
        self._guessed: weakref.WeakSet[Any] = weakref.WeakSet()
        self._alone: Callable[[], Any] = _nobody
        self._cycle = 0
        self._known = False
        self._hook: Any = None
        self._stopped = False
        self._waiting = 0
        self.optimizer_steps = 0

    def start(self, *, look_around: bool) -> None:
        """Begin to count; with ``look_around`` the optimizers that are alive now are taken as the loop's."""
        if look_around:
            gc.collect()  # optimizers that are garbage are not alive
            alive = [
                value
                for value in gc.get_objects()
                if issubclass(type(value), torch.optim.Optimizer)
            ]
            for optimizer in alive:
                self._last[optimizer] = 0
                self._guessed.add(optimizer)
            self._known = bool(alive)
        self._hook = register_optimizer_step_post_hook(self._after)

    def stop(self) -> None:
        """Take the hook away; safe to call twice.

        Called from inside the hook while other hooks wait behind it, it only goes silent: call it again later.
        """
        self._stopped = True
        self._alone = _nobody
        if self._hook is None or (self._calling and not private.is_last_post_hook(self._hook)):
            return
        self._hook.remove()
        self._hook = None

    @private.left_alone_in_graphs
    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Of nearly all steps: nothing but a look at who steps where, since small steps take microseconds."""
        if (
            self._alone() is optimizer
            and threading.get_ident() == self._home
            and self._sink.let_pass()
        ):
            self.optimizer_steps += 1
            return
        self._hear(optimizer)

    @private.unseen_by_compiler
    def _hear(self, optimizer: Any) -> None:
        if self._stopped or private.within_another_step(optimizer):
            return
        self._calling = True
        try:
            self._first(optimizer)
            if self._is_home():
                self._count(optimizer)
        finally:
            self._calling = False

    def _is_home(self) -> bool:
        """Whether this thread's steps are the region's: the opener's, or those of the first that steps.

        Other threads train models of their own; a stage must begin and end in one thread.
        """
        here = threading.get_ident()
        if self._home is None or (here == self._opener and self._home != here and self._may_move()):
            self._home = here
        return self._home == here

    def _may_move(self) -> bool:
        """Whether the region has not begun to capture another thread's steps."""
        self._stepped.clear()
        return getattr(self._sink, "stage", Stage.SKIP) is Stage.SKIP

    def _count(self, optimizer: Any) -> None:
        self.optimizer_steps += 1
        if self._alone() is optimizer:
            self._tell(1, True)  # the short way of all steps but the first
            return
        repeated = optimizer in self._stepped
        if repeated:
            self._known = True
            self._drop_bystanders()
            self._next_cycle()
        self._stepped.add(optimizer)
        self._last[optimizer] = self._cycle
        whole = self._known and all(other in self._stepped for other in self._loop())
        if whole:
            self._next_cycle()
        alone = whole and len(self._last) == 1 and not private.may_nest(optimizer.__class__)
        self._alone = weakref.ref(optimizer) if alone else _nobody
        if repeated or whole:
            self._tell(int(repeated) + int(whole), whole)

    def _tell(self, count: int, clean: bool) -> None:
        """Pass a boundary on; one inside a backward pass of a captured step waits for ``flush``.

        A profiler or a dispatch mode must not end inside a backward pass: the engine would bring it back.
        """
        captured = getattr(self._sink, "stage", Stage.SKIP) in (Stage.COUNT, Stage.TIME)
        if captured and clean and private.current_graph_task_id() != -1:
            self._waiting += count
        else:
            self._sink.boundary(count=count, clean=clean)

    def flush(self) -> None:
        """Pass on the boundaries that waited for the end of a backward pass."""
        count, self._waiting = self._waiting, 0
        if count:
            self._sink.boundary(count=count, clean=True)

    def _drop_bystanders(self) -> None:
        """A step is over: whoever was only alive when it began, and took no part, is not of the loop."""
        for other in self._guessed - self._stepped:
            self._last.pop(other, None)
        self._guessed.clear()

    def _loop(self) -> list[Any]:
        return [
            other for other, cycle in self._last.items() if self._cycle - cycle <= _FORGET_AFTER
        ]

    def _next_cycle(self) -> None:
        self._cycle += 1
        self._stepped.clear()
