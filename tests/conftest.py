"""What holds for every test."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest

from hroof.regions import listeners, unlisten

pytest_plugins = ["pytester"]


def pytest_configure() -> None:
    """A job in the background ignores interrupts, and so would the programs that tests interrupt."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What imports have made lives on: who looks through all objects, or collects garbage, need not look at it.

    Regions look for models and functions among all objects, of which a framework alone makes some 300,000. Where speed
    is measured they do so as in any program.
    """
    if not any(item.get_closest_marker("perf") for item in session.items):
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def nobody_goes_on_listening() -> Iterator[None]:
    """Who began to hear marks in a test hears none of the next one."""
    before = listeners()
    yield
    for listener in listeners():
        if not any(listener is other for other in before):
            unlisten(listener)
