"""Reports: text, exports, charts and HTML, each from a Profile and a Machine alone."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Print a line to standard error: results belong to standard output, and that to the program."""
    print(text.rstrip("\n"), file=sys.stderr, flush=True)
