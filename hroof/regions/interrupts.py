"""Ctrl-C while a result is saved: it must not take the result away."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore SIGINT in the block; only in the main thread, where alone it can be set."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if main else None
    if before in (None, signal.SIG_IGN):
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def still_interrupted() -> None:
    """Let Python end by SIGINT, as it does after an interrupt that nothing handled.

    It notes such an interrupt when the code that it runs from text ends, and forgets it when other
    such code runs, as many imports do. For what is called at the end of the program.
    """
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")
