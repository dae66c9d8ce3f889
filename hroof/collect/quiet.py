"""What collecting must not do to the program: be stopped by the collector of garbage, or fill its standard error."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Leave the garbage collector off while a large table is built: it would take half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def quiet_stderr(*wanted: str) -> Iterator[None]:
    """Hide what a native library writes to standard error while its profiler starts and stops.

    Args:
        wanted: Variables of the environment by which a user asks for that output; if one is set, all is shown.
    """
    if any(os.environ.get(name) for name in wanted):
        yield
        return
    saved, sink = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)
