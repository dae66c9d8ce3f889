"""Watches a program that ``hroof run`` started, and gives it a region where it opens none itself."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from hroof.regions import Region, marks_only, when_opening
from hroof.report import say
from hroof_keras import executions, tsl
from hroof_keras.executions import Execution, Kind

_watches: list[Watch] = []


def watch_program(begin: Callable[[], object]) -> None:
    """Give the program a region of its first training, or of its first inference.

    The region opens when ``fit`` begins, or the first ``train_on_batch`` or eager optimizer step. Until then the
    executions of ``evaluate``, ``predict`` and their kin count as steps of an inference region; training drops that
    one. As soon as the program opens a region itself, or with a callback, what was opened here is dropped.

    Does nothing until Keras is imported, and nothing at a second call.

    Args:
        begin: Makes the region (``hroof.regions.Region``), not yet entered.
    """
    if "keras" in sys.modules and not _watches:
        _watches.append(Watch(begin))
        _watches[0].start()
        if marks_only() and "tensorflow" in sys.modules:
            _keep_thunks_apart()


def _keep_thunks_apart() -> None:
    """For a tool outside: XLA has compiled nothing yet, so it still heeds its options."""
    why_not = tsl.keep_thunks_apart()
    if why_not:
        say(f"hroof: kernels that XLA launches as one CUDA graph cannot be told apart: {why_not}.")


class Watch:
    """Waits for the first execution; a listener of executions."""

    def __init__(self, begin: Callable[[], object]) -> None:
        self._begin = begin
        self._region: Region | None = None
        self._training = False
        self._over = False

    def start(self) -> None:
        """Begin to watch."""
        executions.listen(self)
        when_opening(self._program_opens)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def stop(self) -> None:
        """Watch no longer; a region that is open stays."""
        self._over = True
        executions.unlisten(self)

    # --- as a listener of executions --------------------------------------------------------------

    def loop_begins(self, kind: Kind, source: Any) -> None:
        """The first of them opens the region, before anything is traced."""
        self._hear(kind, own_loop=False)

    def loop_ends(self, kind: Kind, source: Any) -> None:
        """The region goes on: there may be another."""

    def begins(self, execution: Execution) -> None:
        """Of a loop of the user's own, the first is where the region begins."""
        if execution.own_loop:
            self._hear(execution.kind, own_loop=True)

    def ends(self, execution: Execution, steps: int) -> None:
        """The region's own listener takes care of steps."""

    def fails(self, execution: Execution) -> None:
        """The region's own listener takes care of steps."""

    def _hear(self, kind: Kind, *, own_loop: bool) -> None:
        if self._over or self._training:
            return
        with self._guarded():
            if kind is Kind.TRAIN:
                self._train(own_loop=own_loop)
            elif self._region is None:
                self._open(self._inference(), own_loop=own_loop)

    def _train(self, *, own_loop: bool) -> None:
        """From inference, if any was seen, to training; nothing is left to wait for."""
        self._training = True
        self._drop()
        executions.unlisten(self)
        region = self._make()
        region.skip = max(region.skip, 1)  # the first step traces and compiles
        self._open(region, own_loop=own_loop)

    def _make(self) -> Region:
        region = self._begin()
        assert isinstance(region, Region)
        return region

    def _inference(self) -> Region:
        """A region of inference; where it may be dropped, its marks must not be those of the training after it."""
        region = self._make()
        if marks_only():
            region.name = f"{region.name} (inference)"
        return region

    def _open(self, region: Region, *, own_loop: bool) -> None:
        self._region = region
        if not own_loop:
            region.pause()  # no step begins before the first batch
        region.__enter__()

    def _drop(self) -> None:
        region, self._region = self._region, None
        if region is not None:
            region.drop()

    def _program_opens(self, region: Region) -> None:
        """The program marks itself: its own region is the one that counts."""
        if region is self._region or (self._over and self._region is None):
            return
        with self._guarded():
            self._drop()
            self.stop()

    def _in_child(self) -> None:
        """A forked child does not measure; it may not take a lock that another thread had."""
        self._over = self._training = True
        region, self._region = self._region, None
        if region is not None:
            region.abandon()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """A fault of hroof never reaches the program; it ends the watching, with one line."""
        try:
            yield
        except Exception as error:
            self._over = True
            say(f"hroof: watching the program failed ({error!r}); it goes on unmeasured.")
