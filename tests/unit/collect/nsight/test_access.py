"""Who may read counters, from made-up files of the driver and the kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hroof.collect.nsight import Permission, permission
from hroof.collect.nsight.access import PARAMETERS

MODULE = permission.__module__
ALL, NONE = "Name:\tx\nCapEff:\t000001ffffffffff\n", "CapEff:\t00000000a80425fb\n"


@pytest.mark.parametrize(
    ("parameters", "status", "user", "expected"),
    [
        ("RmProfilingAdminOnly: 1\n", NONE, 1000, Permission.REFUSED),
        ("RmProfilingAdminOnly: 1\n", NONE, 0, Permission.REFUSED),  # root of a container
        ("Other: 0\nRmProfilingAdminOnly: 1\n", ALL, 0, Permission.ADMINISTRATOR),
        ("RmProfilingAdminOnly: 1\n", ALL, 1000, Permission.ADMINISTRATOR),
        ("RmProfilingAdminOnly: 1\n", None, 0, Permission.ADMINISTRATOR),
        ("RmProfilingAdminOnly: 1\n", None, 1000, Permission.REFUSED),
        ("RmProfilingAdminOnly: 0\n", NONE, 1000, Permission.EVERYBODY),
        ("RmProfilingAdminOnly: 10\n", NONE, 1000, Permission.EVERYBODY),
        ("", NONE, 1000, Permission.EVERYBODY),
        (None, ALL, 0, Permission.UNKNOWN),
    ],
)
def test_who_may_read_counters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    parameters: str | None, status: str | None, user: int, expected: Permission,
) -> None:  # fmt: skip
    for name, content in (("parameters", parameters), ("status", status)):
        monkeypatch.setattr(f"{MODULE}.{name.upper()}", tmp_path / name)
        if content is not None:
            (tmp_path / name).write_text(content)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert permission() is expected


def test_the_file_of_the_driver() -> None:
    assert str(PARAMETERS).startswith("/proc/driver/")
