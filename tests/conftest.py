"""What holds for every test."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """A job in the background ignores interrupts, and so would the programs that tests interrupt."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
