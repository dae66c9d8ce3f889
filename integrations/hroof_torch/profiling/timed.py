"""The timed steps: one profiler session, ranges in its trace, marks between the steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from hroof.collect.quiet import quiet_stderr
from hroof_torch import private
from hroof_torch.counting import is_composite, profiler_signature
from hroof_torch.profiling import ranges
from hroof_torch.profiling.events import read_kineto
from hroof_torch.profiling.rows import Trace, read_trace


class TimedSteps:
    """Runs the framework's profiler over the timed steps."""

    def __init__(self) -> None:
        self._profiler: Any = None
        self._finished: Any = None
        self._unwatch: Callable[[], None] = _nothing
        self.ranges = ranges.TraceRanges()
        self.foreign = ""

    def start(self, *, all_threads: bool = False) -> None:
        """Begin a session, dropping an earlier one.

        Only one profiler can run in a process: beside one of the program's own none is started, and when the
        program starts one, the session ends first. ``foreign`` then says so.

        Args:
            all_threads: Hear every thread, not only this one and those of the autograd engine.
        """
        self.stop()
        self._finished = None
        if private.foreign_profiler():
            self.foreign = (
                "The program's own profiler was running, so hroof took no times beside it"
            )
            return
        activities = [ProfilerActivity.CPU]
        if private.has_cuda_events():
            activities.append(ProfilerActivity.CUDA)
            torch.cuda.synchronize()
        self._profiler = profile(
            activities=activities,
            record_shapes=True,
            experimental_config=private.all_threads() if all_threads else None,
        )
        with quiet_stderr("KINETO_LOG_LEVEL"):
            self._profiler.start()
        self._unwatch = private.before_profiling(self._give_way)
        self.ranges.running = True
        ranges.mark(ranges.STEP)

    def _give_way(self) -> None:
        """The program starts a profiler of its own: end the session, keep what is whole."""
        self.stop()
        self.foreign = "The program started its own profiler, so hroof stopped taking times"

    def step_ended(self) -> None:
        """A step has just ended."""
        self._mark(ranges.STEP)

    def execution_begins(self) -> None:
        """What ran since the last step ended belongs to no step."""
        self._mark(ranges.BEGIN)

    def execution_ends(self) -> None:
        """What runs until the next step begins belongs to no step."""
        self._mark(ranges.END)

    def _mark(self, name: str) -> None:
        if self._profiler is None:
            return
        if private.has_cuda_events():
            torch.cuda.synchronize()
        ranges.mark(name)

    def stop(self) -> None:
        """End the session; safe to call twice."""
        if self._profiler is None:
            return
        profiler, self._profiler = self._profiler, None
        self.ranges.running = False
        self._unwatch()
        if private.has_cuda_events():
            torch.cuda.synchronize()
        with quiet_stderr("KINETO_LOG_LEVEL"):
            profiler.stop()
        self._finished = profiler

    def trace(self) -> Trace | None:
        """What the session saw; None without one."""
        if self._finished is None:
            return None
        results = self._finished.profiler.kineto_results
        return read_trace(read_kineto(results.events(), profiler_signature), is_composite)


def _nothing() -> None:
    """Nothing to undo."""
