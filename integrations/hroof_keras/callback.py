"""The callback: a region that ``fit``, ``evaluate`` or ``predict`` opens and ends, over as many calls as it takes."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from hroof.errors import UsageError
from hroof.integration import Stage
from hroof.profile import Profile
from hroof_keras import FRAMEWORK, executions
from hroof_keras.executions import Kind
from hroof_keras.fit_run import FitRun


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
        UsageError: An argument cannot be what it is: it is told here, not after the training.
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
        _check_path("out", out, "runs/mine")
        _check_path("report", report, "roofline.html")
        _check_kind(report)
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


def _check_path(what: str, value: Any, example: str) -> None:
    """Refuse what is no path.

    Raises:
        UsageError: It is none.
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if value is not None and (not isinstance(text, str) or not text):
        raise UsageError(
            f"{what}={value!r} is no path.", f"Give text or a Path: {what}={example!r}."
        )


def _check_kind(report: str | Path | None) -> None:
    """Refuse a file of no kind that there is.

    Raises:
        UsageError: Its suffix stands for none.
    """
    from hroof.report.export import check_kind

    if report is not None:
        check_kind(report)
