"""The callback: a region that ``fit``, ``evaluate`` or ``predict`` opens and ends, over as many calls as it takes."""

from __future__ import annotations

import atexit
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from hroof.errors import HroofError
from hroof.integration import Stage
from hroof.profile import Profile
from hroof.regions import Region, Status, steps_in_words, still_interrupted, when_opening
from hroof.run import Run
from hroof_keras import FRAMEWORK, executions
from hroof_keras.executions import Kind

_CALLS = {Kind.TRAIN: "fit", Kind.TEST: "evaluate", Kind.PREDICT: "predict"}


class RooflineCallback(keras.callbacks.Callback):
    """Measures a part of ``fit`` and reports where its time goes, layer by layer.

    After ``skip`` steps one step is counted and ``steps`` are timed; then everything is detached again. Steps add up
    over several calls of ``fit`` until that is done. Given to ``evaluate`` or ``predict`` alone, it measures inference.
    What was collected stays when ``fit`` ends with an exception or is interrupted.

    Args:
        skip: Steps to let pass first (tracing, compilation, warm-up).
        steps: Steps to time.
        name: Shown in reports; by default the name of the model.
        out: Folder for the result; by default a new one under ``hroof-runs``.
        show: Print the report to standard error when it is there.
        report: A file that the report is also written to, of the kind that its suffix names, e.g. ``roofline.html``.

    Raises:
        UsageError: ``skip`` or ``steps`` cannot be.
    """

    def __init__(
        self,
        skip: int = 5,
        steps: int = 3,
        *,
        name: str | None = None,
        out: str | Path | None = None,
        show: bool = True,
        report: str | Path | None = None,
    ) -> None:
        super().__init__()
        self._named = name
        self.run = FitRun(
            "region" if name is None else name,
            skip,
            steps,
            out=out,
            show=show,
            framework=FRAMEWORK,
            file=report,
            callback=weakref.ref(self),
        )
        # Nobody can go on with it, or ask it for a report, once it is gone.
        weakref.finalize(self, self.run.finish).atexit = False

    def __deepcopy__(self, memo: dict[int, Any]) -> RooflineCallback:
        """Another callback of the same settings: tuners copy callbacks, one for each trial."""
        run = self.run
        return type(self)(
            run.skip,
            run.steps,
            name=self._named,
            out=run.out,
            show=run.show,
            report=run.file,
        )

    # --- the result -------------------------------------------------------------------------------

    @property
    def profile(self) -> Profile:
        """What was collected; a schedule that is not complete ends here.

        Raises:
            CaptureError: Nothing was.
        """
        self.run.finish()
        return self.run.profile

    def report(
        self,
        path: str | Path | None = None,
        *,
        by: Sequence[str] = ("layer",),
        full: bool = False,
        force: bool = False,
    ) -> str:
        """The text report, and a file of it; see ``hroof.Run.report``. A schedule that is not complete ends here.

        Raises:
            CaptureError: Nothing was collected.
            OutputError: The file is there already, or cannot be written.
        """
        self.run.finish()
        return self.run.report(path, by=by, full=full, force=force)

    # --- hooks ------------------------------------------------------------------------------------

    def on_train_begin(self, logs: Any = None) -> None:
        """``fit`` begins."""
        self._begin(Kind.TRAIN)

    def on_train_end(self, logs: Any = None) -> None:
        """``fit`` has come to its end."""
        self._end(Kind.TRAIN)

    def on_test_begin(self, logs: Any = None) -> None:
        """``evaluate`` begins, or a validation within ``fit``."""
        self._begin(Kind.TEST)

    def on_test_end(self, logs: Any = None) -> None:
        """It has come to its end."""
        self._end(Kind.TEST)

    def on_predict_begin(self, logs: Any = None) -> None:
        """``predict`` begins."""
        self._begin(Kind.PREDICT)

    def on_predict_end(self, logs: Any = None) -> None:
        """It has come to its end."""
        self._end(Kind.PREDICT)

    # That there is a hook for the end of a batch keeps Keras from calling hooks in other threads.

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A step begins."""
        self._batch_begins(Kind.TRAIN, batch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """It has ended."""
        self._batch_ends()

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A step of ``evaluate`` begins."""
        self._batch_begins(Kind.TEST, batch)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """It has ended."""
        self._batch_ends()

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A step of ``predict`` begins."""
        self._batch_begins(Kind.PREDICT, batch)

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """It has ended."""
        self._batch_ends()

    def _begin(self, kind: Kind) -> None:
        run = self.run
        if run.kind is None and self._named is None:
            run.name = str(getattr(self._model, "name", "") or run.name)
        run.loop_begins(kind)

    def _end(self, kind: Kind) -> None:
        self.run.loop_ends(kind)

    def _batch_begins(self, kind: Kind, batch: int) -> None:
        """Only for a loop that calls this callback itself: lists of callbacks are heard."""
        if self._is_called_alone():
            executions.batch_begins(kind, self, batch, sys._getframe(2))

    def _batch_ends(self) -> None:
        if self._is_called_alone():
            executions.batch_ends(self)

    def _is_called_alone(self) -> bool:
        run = self.run
        return (
            run.stage is not Stage.DONE
            and not executions.called_by_list()
            and run.thread == threading.get_ident()
        )


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
        _waiting.discard(self)
        atexit.register(self._program_ends)
        self.pause()  # no step begins before the first batch
        self.__enter__()

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
        self._leave(None)
        if self.stage is not Stage.DONE and self.outcome.status is Status.WAITING:
            _waiting.add(self)
            short = self._shortfall()
            self._say(
                f"{steps_in_words(short.seen)} so far, and {short.needs()} are needed: the next {self._of} with this "
                "callback goes on; callback.report() ends it here."
            )

    @property
    def _of(self) -> str:
        return _CALLS[self.kind or Kind.TRAIN]

    def _leave(self, error: BaseException | None) -> None:
        self._within = False
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.detach()
        atexit.unregister(self._program_ends)
        self.__exit__(None if error is None else type(error), error, None)

    def _broken_off(self) -> None:
        """``fit`` ended without a word: keep what there is, and say so."""
        if self._within:
            self._leave(sys.exc_info()[1] or _BrokenOffError())

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
        super()._tell_once()
        kept = self.outcome.status in (Status.COMPLETE, Status.PARTIAL)
        if kept and self._entered == 0 and self.file is not None and not self._wrote:
            self._wrote = True
            self._write(self.file)

    def _write(self, path: str | Path) -> None:
        """The file that was asked for; the loop must not break for it."""
        from hroof.report import say

        try:
            self.report(path)
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


def _make_way(region: Region) -> None:
    """Another region begins: one that only waits must not keep it from collecting."""
    for run in list(_waiting):
        if run is not region:
            run.finish()


when_opening(_make_way)
