"""A call of ``fit``, ``evaluate`` or ``predict``: whether it still runs, and with which exception it ended.

Keras says nothing where an exception ends a call. Somebody who keeps the exception (a notebook in ``sys.last_exc``, a
retry within ``except``) keeps its frames, and with them everything in them; but they do not run any more.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a method of Keras' models.

    Attributes:
        thread: Where it runs.
        frame: Address of its outermost frame within Keras, which a frame keeps until it has ended; not the frame
            itself, which would keep all that is in it. None in a loop of the user's own, whose end nobody knows.
    """

    thread: int
    frame: int | None

    @classmethod
    def around(cls, name: str) -> Call:
        """The innermost call of the method of that name that the caller is within."""
        found: FrameType | None = None
        for frame in _outwards(sys._getframe()):
            if found is not None and not _is_of_keras(frame):
                break  # whoever has called it
            if found is not None or (frame.f_code.co_name == name and _is_of_keras(frame)):
                found = frame
        return cls(threading.get_ident(), None if found is None else id(found))

    def is_over(self) -> bool:
        """Whether it certainly runs no more, though nobody has said so."""
        if self.frame is None:
            return False
        innermost = sys._current_frames().get(self.thread)
        return all(id(frame) != self.frame for frame in _outwards(innermost))

    def error(self) -> BaseException | None:
        """What it ended with: the exception that is dealt with now, or the last that nobody caught, if it was that."""
        handled = sys.exc_info()[1]
        if self.frame is None:
            return handled
        last = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        left = (error for error in (handled, last) if error is not None)
        return next((error for error in left if self._was_left_by(error)), None)

    def _was_left_by(self, error: BaseException) -> bool:
        """Keras takes its frames out of the trace, but for the outermost."""
        trace = error.__traceback__
        while trace is not None:
            if id(trace.tb_frame) == self.frame:
                return True
            trace = trace.tb_next
        return False


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_of_keras(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "keras"
