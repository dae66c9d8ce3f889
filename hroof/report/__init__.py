"""Reports: text, exports, charts and HTML, each from a Profile and a Machine alone."""

from __future__ import annotations

import contextlib
import sys

__all__ = ["say"]


def say(text: str) -> None:
    """Print to standard error, never failing: a closed stream or a poor encoding costs only text."""
    stream = sys.stderr
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        encoding = getattr(stream, "encoding", None) or "utf-8"
        line = text.rstrip("\n")
        print(line.encode(encoding, "replace").decode(encoding), file=stream, flush=True)
