"""One session of JAX' profiler, in process and without files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hroof_keras.on_jax.space import read_space
from hroof_keras.private import jax as private_jax
from hroof_keras.private import steps as private_steps
from hroof_keras.profiling.events import BEGIN, END, Recorded, read_events

RUNNING = "The program's own profiler was running, so hroof took no times beside it"
STARTED = "The program started its own profiler, so hroof stopped taking times"


class JaxSession:
    """Takes a profile of some steps.

    Only one profiler can run in a process: beside one of the program's own none is started, and when the program
    starts one, the session ends first. ``foreign`` then says so.
    """

    def __init__(self) -> None:
        self.foreign = ""
        self._session: Any = None
        self._kept = b""
        self._unwatch: Callable[[], None] = _nothing

    def start(self) -> None:
        """Begin, after everything that was started has been done.

        Raises:
            MissingError: The profiler of JAX is not where hroof looks for it.
        """
        if private_jax.profiler_runs():
            self.foreign = RUNNING
            return
        private_steps.synchronize()
        self._session = private_jax.profiler_session()
        self._unwatch = private_jax.before_profiling(self._give_way)

    def begin_step(self) -> None:
        """A step begins; of two beginnings the later one counts."""
        self._mark(BEGIN)

    def end_step(self, count: int = 1) -> None:
        """It ends; so many steps were executed at once."""
        self._mark(f"{END}{count}")

    def _mark(self, name: str) -> None:
        if self._session is not None:
            private_steps.synchronize()
            private_jax.mark(name)

    def _give_way(self) -> None:
        """The program starts a profiler of its own: keep what was seen."""
        if self._session is not None:
            self.foreign = STARTED
            self.end()

    def end(self) -> None:
        """Let the profiler go; safe to call twice."""
        session, self._session = self._session, None
        if session is None:
            return
        self._unwatch()
        private_steps.synchronize()
        self._kept = session.stop()

    def stop(self) -> Recorded:
        """End, and read what was seen. Steps are those between the marks."""
        self.end()
        return read_events(read_space(self._kept)) if self._kept else Recorded()


def _nothing() -> None:
    """Nothing to undo."""
