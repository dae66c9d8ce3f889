"""The region of a callback: it opens and ends with ``fit``, waits between two calls, and makes way for others."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hroof.errors import HroofError, OutputError
from hroof.integration import Stage
from hroof.regions import Region, Status, steps_in_words, still_interrupted, when_opening
from hroof.run import Run
from hroof_keras.calls import Call
from hroof_keras.executions import Kind

_CALLS = {Kind.TRAIN: "fit", Kind.TEST: "evaluate", Kind.PREDICT: "predict"}


@dataclass(eq=False)
class FitRun(Run):
    """The region of a callback.

    Between two calls of ``fit`` it waits, and makes way for any other region.

    Attributes:
        file: A file that the report is to be written to.
        callback: Whose it is.
        kind: What its steps are, once it has begun.
        thread: Where its loop runs.
    """

    file: str | Path | None = None
    callback: Callable[[], Any] = lambda: None
    kind: Kind | None = None
    thread: int = 0
    _within: bool = False
    _wrote: bool = False
    _told_of_other: bool = False
    _around: Call | None = None
    _loop: weakref.finalize[Any, Any] | None = None

    _call = "hroof_keras.RooflineCallback"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._decorates = True  # steps add up over several entries

    def takes(self, kind: Kind, source: Any) -> bool:
        """Whether a loop is one of the callback's: its list of callbacks holds it."""
        callback = self.callback()
        if callback is None or kind is not self.kind:
            return False
        listed = getattr(source, "callbacks", ())
        mine = source is callback or any(one is callback for one in listed)
        if mine and self._loop is None:
            # The list lives as long as the call of fit, also where that ends with an exception.
            self._loop = weakref.finalize(source, self._broken_off)
            self._loop.atexit = False
        return mine

    def loop_begins(self, kind: Kind) -> None:
        """``fit``, ``evaluate`` or ``predict`` begins; one within another belongs to that."""
        if self._within and kind is not self.kind:
            return
        if self._within:
            self._broken_off()  # the last one never came to its end, and nobody has noticed yet
        refused = self._refusal(kind)
        if refused or self.stage is Stage.DONE:
            self._say(refused)
            return
        self.kind, self.thread, self._within = kind, threading.get_ident(), True
        self._around = Call.around(_CALLS[kind])
        _waiting.discard(self)
        _begun.add(self)
        atexit.register(self._program_ends)
        self.pause()  # no step begins before the first batch
        try:
            self.__enter__()
        except Exception as error:
            self._went_wrong(error)
        self._tell_of_other()

    def _tell_of_other(self) -> None:
        """Once, where another region is open around it, or another callback was first."""
        if self.outcome.status is Status.MARKS and not self._owns and not self._told_of_other:
            self._told_of_other = True
            self._say("another region collects; its report has these steps.")

    def _refusal(self, kind: Kind) -> str:
        """Why a loop is not measured, where its user may wonder."""
        if self.kind not in (None, kind):
            return f"this callback measures {self._of}; give {_CALLS[kind]} one of its own."
        if self.outcome.status in (Status.EMPTY, Status.PARTIAL):
            return "this callback's schedule has ended before; make a new one to measure again."
        return ""

    def loop_ends(self, kind: Kind) -> None:
        """It has come to its end; where steps are lacking, the next one goes on."""
        if not self._within or kind is not self.kind:
            return
        try:
            self._leave(None)
        except Exception as error:
            self._went_wrong(error)
        if self.stage is not Stage.DONE and self._owns:
            _waiting.add(self)
            short = self._shortfall()
            self._say(
                f"{steps_in_words(short.seen)} so far, and {short.needs()} are needed: the next {self._of} with this "
                "callback goes on; callback.report() ends it here."
            )

    def _went_wrong(self, error: Exception) -> None:
        """hroof itself failed: the training goes on, and another region can collect."""
        if self.outcome.profile is None:
            self._fail(error)
        else:
            self._tell_of_failure(error)
        if self._owns:
            with contextlib.suppress(Exception):  # what went wrong first has been told
                self._end(None)

    def _tell_of_failure(self, error: Exception) -> None:
        from hroof.report import say

        say(f"hroof: hroof failed: {error!r}. The training goes on; what was collected stays.")

    @property
    def _of(self) -> str:
        return _CALLS[self.kind or Kind.TRAIN]

    def _leave(self, error: BaseException | None) -> None:
        self._within = False
        _begun.discard(self)
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.detach()
        atexit.unregister(self._program_ends)
        self.__exit__(None if error is None else type(error), error, None)

    def _broken_off(self) -> None:
        """``fit`` ended without a word: keep what there is, and say so."""
        if self._within:
            known = self._around.error() if self._around is not None else None
            self._leave(known or _BrokenOffError())

    def make_way(self) -> None:
        """Another region begins: one that waits, or was broken off unnoticed, must not keep it from collecting."""
        try:
            if not self._within:
                self.finish()
            elif self._around is not None and self._around.is_over():
                self._broken_off()
        except Exception as error:
            self._went_wrong(error)

    def _program_ends(self) -> None:
        """The interpreter ends while ``fit`` runs, or has been broken off."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if self._within:
            self._leave(error or _BrokenOffError())
        if isinstance(error, KeyboardInterrupt):
            still_interrupted()

    def finish(self) -> None:
        """End the schedule here, unless ``fit`` is under way; what there is becomes the result."""
        if self._within and not self._is_under_way():
            self._broken_off()
        if not self._within and self.kind is not None and self.stage is not Stage.DONE:
            _waiting.discard(self)
            self._end(None)

    def _is_under_way(self) -> bool:
        """Whether the caller is within the call of ``fit``, rather than behind one that was broken off."""
        model = getattr(self.callback(), "_model", None)
        frame = sys._getframe() if model is not None else None
        while frame is not None:
            if frame.f_code.co_name == self._of and frame.f_locals.get("self") is model:
                return True
            frame = frame.f_back
        return False

    def _why(self, error: BaseException | None) -> str:
        if isinstance(error, _BrokenOffError):
            return (
                f"{self._of} ended before its end, by an exception or an interrupt, after "
                f"{steps_in_words(self.finished_steps)}."
            )
        return super()._why(error)

    def _tell_once(self) -> None:
        try:
            super()._tell_once()
            kept = self.outcome.status in (Status.COMPLETE, Status.PARTIAL)
            if kept and self._entered == 0 and self.file is not None and not self._wrote:
                self._wrote = True
                self._write(self.file)
        except Exception as error:  # of the report: the loop must not break for it
            self._tell_of_failure(error)

    def _write(self, path: str | Path) -> None:
        """The file that was asked for."""
        from hroof.report import say

        try:
            self.report(path)
        except OutputError as error:
            remedy = f"{self._call}(report=...), or write it now with callback.report(...)"
            say(f"hroof: {error.fact} Choose another file with {remedy}.")
        except HroofError as error:
            say(f"hroof: {error}")
        else:
            say(f"Wrote {path}")

    def _say(self, text: str) -> None:
        from hroof.report import say

        if text and self.show:
            say(f"hroof: {text}")


class _BrokenOffError(HroofError):
    """A call of ``fit`` ended with an exception that is no longer known."""

    def __init__(self) -> None:
        super().__init__("The call was broken off.")


_waiting: weakref.WeakSet[FitRun] = weakref.WeakSet()
"""Regions of callbacks between two calls of ``fit``."""
_begun: weakref.WeakSet[FitRun] = weakref.WeakSet()
"""Regions of callbacks whose ``fit`` has begun, and has not come to its end."""


def _make_way(region: Region) -> None:
    for run in [*_waiting, *_begun]:
        if run is not region:
            run.make_way()


when_opening(_make_way)
