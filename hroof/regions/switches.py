"""Switches in the environment: ``HROOF=off`` disables everything, ``HROOF=marks`` leaves only marks."""

from __future__ import annotations

import os


def switched_off() -> bool:
    """Whether the environment variable ``HROOF`` is ``off``."""
    return os.environ.get("HROOF", "").strip().lower() in {"off", "0", "no", "false"}


def marks_only() -> bool:
    """Whether a profiler outside the process collects, so that regions only mark (``HROOF=marks``)."""
    return os.environ.get("HROOF", "").strip().lower() == "marks"
