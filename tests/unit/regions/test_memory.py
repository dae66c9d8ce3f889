"""The most memory that a process had: as Linux tells it, else as the system accounts for it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hroof.regions.memory import peak_memory

MB = 2**20


def test_what_linux_tells(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t  900 kB\nVmHWM:\t    123 kB\nVmRSS:\t 7 kB\n")
    assert peak_memory(status) == 123 * 1024


@pytest.mark.parametrize("text", ["", "VmHWM: many kB\n", "Name:\tVmHWM: 3 kB x\n"])
def test_otherwise_the_account_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    usage = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda who: SimpleNamespace(ru_maxrss=5))
    monkeypatch.setitem(sys.modules, "resource", usage)
    status = tmp_path / "status"
    status.write_text(text)
    monkeypatch.setattr(sys, "platform", "linux")
    assert peak_memory(status) == peak_memory(tmp_path / "absent") == 5 * 1024
    monkeypatch.setattr(sys, "platform", "darwin")
    assert peak_memory(status) == 5


def test_where_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_memory(tmp_path / "absent") is None
    usage = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda who: SimpleNamespace(ru_maxrss=0))
    monkeypatch.setitem(sys.modules, "resource", usage)
    assert peak_memory(tmp_path / "absent") is None


def test_it_stays_when_memory_is_given_back() -> None:
    before = peak_memory()
    if before is None:
        pytest.skip("this system does not say")
    held = bytearray(64 * MB)
    held[::4096] = b"x" * len(held[::4096])  # touched: pages that nobody touched are not resident
    after = peak_memory()
    del held
    left = peak_memory()
    assert after is not None
    assert left is not None
    # The system keeps its books by pages of several threads: a little is always late.
    assert before - MB < after
    assert after - MB < left
    assert 10 * MB < left < 2**40
