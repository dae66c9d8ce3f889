"""One session of TensorFlow's profiler, in process.

The session's own ``stop()`` gives a trace for a viewer, without compiled programs; its export has the whole profile, so
that is written to a folder for the time of reading it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hroof.collect.quiet import quiet_stderr
from hroof_keras.private import runtime as private
from hroof_keras.profiling.events import BEGIN, END, Recorded, read_events
from hroof_keras.profiling.xplane import read_space

_LEVEL = 2
_LEVEL_WITH_SHAPES = 3

RUNNING = "The program's own profiler was running, so hroof took no times beside it"
STARTED = "The program started its own profiler, so hroof stopped taking times"


class Session:
    """Takes a profile of some steps.

    Only one profiler can run in a process: beside one of the program's own none is started, and when the program
    starts one, the session ends first. ``foreign`` then says so.

    Args:
        shapes: Note the shapes of the inputs of every op; costs more with many tiny ops.
    """

    def __init__(self, shapes: bool) -> None:
        self.foreign = ""
        self._shapes = shapes
        self._session: Any = None
        self._folder: Any = None
        self._kept = b""
        self._unwatch: Callable[[], None] = _nothing

    @property
    def running(self) -> bool:
        """Whether a profile is being taken."""
        return self._session is not None

    def start(self) -> None:
        """Begin, after all devices have done their work.

        Raises:
            MissingError: TensorFlow's profiler is not where hroof looks for it.
        """
        if private.profiler_runs():
            self.foreign = RUNNING
            return
        private.sync_devices()
        session = private.profiler_session()
        self._folder = tempfile.TemporaryDirectory(prefix="hroof-", ignore_cleanup_errors=True)
        try:
            with quiet_stderr("TF_CPP_VMODULE", "TF_CPP_MAX_VLOG_LEVEL"):
                session.start(self._folder.name, self._options())
        except Exception as error:
            self._folder.cleanup()
            if type(error).__name__ != "AlreadyExistsError":
                raise
            self.foreign = RUNNING
            return
        self._session = session
        self._unwatch = private.before_profiling(self._give_way)
        self._raise_level()
        self.begin_step()

    def _options(self) -> dict[str, int]:
        level = _LEVEL_WITH_SHAPES if self._shapes else _LEVEL
        return {"host_tracer_level": level, "python_tracer_level": 0, "device_tracer_level": 1}

    def _raise_level(self) -> None:
        """TensorFlow ignores the level that was asked for since 2.20."""
        level = private.trace_level() if self._shapes else None
        if level is not None and level.value > 0:
            level.value = _LEVEL_WITH_SHAPES

    def begin_step(self) -> None:
        """A step begins here, or the last one that began is void and begins anew; waits for all devices."""
        self._mark(BEGIN)

    def end_step(self, count: int = 1) -> None:
        """The step that began ends here; ``count`` steps do that were executed at once. Waits for all devices."""
        self._mark(f"{END}{count}")

    def _mark(self, name: str) -> None:
        if self._session is not None:
            private.sync_devices()
            private.trace_event(name)

    def _give_way(self) -> None:
        """The program starts a profiler of its own: keep what was seen."""
        self.foreign = STARTED
        self.end()

    def end(self) -> None:
        """Let the profiler go; safe to call twice."""
        session, self._session = self._session, None
        if session is None:
            return
        self._unwatch()
        private.sync_devices()
        with self._folder as folder:
            with quiet_stderr("TF_CPP_VMODULE", "TF_CPP_MAX_VLOG_LEVEL"):
                session.export_to_tb()
            files = sorted(Path(folder).rglob("*.xplane.pb"))
            self._kept = b"".join(path.read_bytes() for path in files)

    def stop(self) -> Recorded:
        """End, and read what was seen: the steps that began and ended.

        Raises:
            MissingError: TensorFlow brings no description of its profiles.
        """
        self.end()
        return read_events(read_space(self._kept)) if self._kept else Recorded()


def _nothing() -> None:
    """Nothing to undo."""
