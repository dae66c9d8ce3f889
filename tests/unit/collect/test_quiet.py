"""What collecting must not do to a program: its collector of garbage and its standard error are as before."""

from __future__ import annotations

import gc
import os

import pytest

from hroof.collect.quiet import quiet_stderr, without_collector


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_before(monkeypatch: pytest.MonkeyPatch, enabled: bool) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ZeroDivisionError), without_collector():
            assert not gc.isenabled()
            raise ZeroDivisionError
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


def test_native_words_are_hidden_for_a_while(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), quiet_stderr():
        os.write(2, b"from a library")
        raise ZeroDivisionError
    os.write(2, b"from the program")
    assert capfd.readouterr().err == "from the program"


def test_who_asks_for_the_words_gets_them(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_LOG_LEVEL", "3")
    with quiet_stderr("OTHER_LOG_LEVEL", "SOME_LOG_LEVEL"):
        os.write(2, b"asked for")
    assert capfd.readouterr().err == "asked for"


def test_nothing_stays_open() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("this system does not list the files of a process")
    before = descriptors()
    for _ in range(3):
        with quiet_stderr():
            pass
    assert descriptors() == before
