"""Switches in the environment: ``HROOF=off`` disables everything, ``HROOF=marks`` leaves only marks."""

from __future__ import annotations

import os

_OFF = frozenset({"off", "0", "no", "false"})
_ON = frozenset({"", "on", "1", "yes", "true"})
_MARKS = "marks"


def switched_off() -> bool:
    """Whether the environment variable ``HROOF`` is ``off``."""
    return _value() in _OFF


def marks_only() -> bool:
    """Whether a profiler outside the process collects, so that regions only mark (``HROOF=marks``)."""
    return _value() == _MARKS


def unknown_value() -> str:
    """A sentence about a value of ``HROOF`` that means nothing; empty where it means something."""
    if _value() in {*_OFF, *_ON, _MARKS}:
        return ""
    return f"HROOF={os.environ['HROOF']} is ignored: the values are off, marks and on."


def _value() -> str:
    return os.environ.get("HROOF", "").strip().lower()
