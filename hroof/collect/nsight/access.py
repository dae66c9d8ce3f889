"""Who may read the counters of a GPU here, as the driver and the kernel tell it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

PARAMETERS = Path("/proc/driver/nvidia/params")
STATUS = Path("/proc/self/status")
_CAP_SYS_ADMIN = 21


class Permission(StrEnum):
    """Who may read the counters of the GPUs of this machine."""

    EVERYBODY = "open to everybody"
    ADMINISTRATOR = "for administrators only, as this process is"
    REFUSED = "for administrators only"
    UNKNOWN = "unknown"


def permission() -> Permission:
    """Whether this process may read counters; unknown where there is no driver of NVIDIA's for Linux."""
    try:
        lines = PARAMETERS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return Permission.UNKNOWN
    if not any(line.replace(" ", "") == "RmProfilingAdminOnly:1" for line in lines):
        return Permission.EVERYBODY
    return Permission.ADMINISTRATOR if _administrator() else Permission.REFUSED


def _administrator() -> bool:
    """Whether this process has CAP_SYS_ADMIN; root in a container often has not."""
    try:
        text = STATUS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", text, re.MULTILINE)
    if found is not None:
        return bool(int(found[1], 16) >> _CAP_SYS_ADMIN & 1)
    user: Callable[[], int] = getattr(os, "geteuid", lambda: 1)
    return user() == 0
