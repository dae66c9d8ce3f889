"""Memory: the most that the process has had resident so far."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB$", re.MULTILINE)


def peak_memory(status: Path = _STATUS) -> int | None:
    """Bytes that the process had resident at most up to now; None where the system does not say.

    Where Linux tells it of the program itself, that is taken: what ``getrusage`` says there may be of the process that
    started the program.

    Args:
        status: The file in which Linux tells it.
    """
    with contextlib.suppress(OSError, UnicodeDecodeError):
        match = _PEAK.search(status.read_text(encoding="ascii", errors="replace"))
        if match is not None:
            return int(match[1]) * 1024
    return _by_usage()


def _by_usage() -> int | None:
    """As the system accounts for the process, where Python can ask it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if peak <= 0:
        return None
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024
