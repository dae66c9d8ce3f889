"""What hroof does inside the program that ``hroof run`` starts, once a framework is there."""

from __future__ import annotations

import atexit
import functools
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hroof import integration
from hroof.errors import HroofError
from hroof.integration import Stage
from hroof.regions import open_regions, steps_in_words, still_interrupted, switched_off
from hroof.run import Run, forget_progress, program_name


def watch(name: str, settings: Mapping[str, Any]) -> None:
    """Let the integration watch the program; regions of the program's own come first.

    Args:
        name: Of the integration.
        settings: ``skip`` and ``steps`` of the region that stands in, and its ``name`` or None.

    Raises:
        MissingError: The integration cannot be imported.
    """
    if switched_off():
        return
    _prepare()

    def begin() -> StandIn:
        return StandIn(
            name=settings["name"] or program_name(),
            skip=settings["skip"],
            steps=settings["steps"],
        )

    integration.load(name).watch_program(begin)


@functools.cache
def _prepare() -> None:
    """Once per process, however many frameworks it imports."""
    _end_regions_on_terminate()
    os.register_at_fork(after_in_child=_abandon)


@dataclass(eq=False)
class StandIn(Run):
    """The region of a program that opens none itself: it ends with the program, or is dropped."""

    show: bool = False

    def __enter__(self) -> StandIn:
        atexit.register(self.close)
        super().__enter__()
        return self

    def close(self) -> None:
        """The program ends, perhaps with an exception."""
        atexit.unregister(self.close)
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        self.__exit__(type(error) if error is not None else None, error, None)
        if isinstance(error, KeyboardInterrupt):
            still_interrupted()

    def drop(self) -> None:
        """End without a result; one that was saved already goes too."""
        atexit.unregister(self.close)
        super().drop()
        forget_progress()
        if self.folder is not None:
            for path in (self.folder / "run.json", *self.folder.glob("launches-*.parquet")):
                path.unlink(missing_ok=True)
            self.folder = None

    def _why(self, error: BaseException | None) -> str:
        """As for every region, but the call that would fit is one of the command line."""
        if error is not None or self._capture is None:
            return super()._why(error)
        short = self._shortfall()
        saw = (
            f"The program did {steps_in_words(short.seen)} and needs {short.needs()}. "
            f"{self._capture.seen()}"
        )
        call = "hroof run --counters" if self.only_marks else "hroof run"
        # The region opens in the first step, which counts as skipped.
        fitting = short.fitting(least=1)
        if fitting is None:
            few = short.at_once * (short.counted + 2)
            return f"{saw} Let it do at least {few} steps, and call {call} --skip 1 --steps 1."
        return f"{saw} This would fit: {call} --skip {fitting[0]} --steps {fitting[1]}."


class _Terminated(HroofError):
    """The signal that ends a program."""


def _end_regions_on_terminate() -> None:
    """Save what there is when the program is told to end; then it ends as it would have."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_terminate)


def _on_terminate(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # it may come twice: to the process group, and forwarded
    try:
        for region in open_regions():
            if region.stage is not Stage.DONE:
                region.__exit__(_Terminated, _Terminated("SIGTERM"), None)
    finally:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _abandon() -> None:
    """In a forked child nothing is measured, and the signal does what it always did."""
    for region in open_regions():
        region.abandon()
    if signal.getsignal(signal.SIGTERM) is _on_terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
