"""Clock: the machine code, the arithmetic on a fake clock, and this processor."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from hroof.ceilings import clock
from hroof.ceilings.clock import can_run, chain, machine_code, measured_clock


class Core:
    """A core of a given clock that a neighbour slows down now and then; it advances the time that it is asked."""

    def __init__(self, hertz: float, *slowed: float) -> None:
        self.hertz = hertz
        self.now = 0.0
        self._slowed: Iterator[float] = iter(slowed)

    def run(self, loops: int) -> None:
        self.now += 64 * loops / self.hertz * next(self._slowed, 1.0)

    def time(self) -> float:
        return self.now


def test_the_clock_is_additions_per_second() -> None:
    core = Core(3.1e9)
    assert measured_clock(core.run, clock=core.time) == pytest.approx(3.1e9)


def test_a_neighbour_during_some_tries_does_no_harm() -> None:
    core = Core(3.1e9, 5.0, 1.7, 1.0, 30.0, 1.2)
    assert measured_clock(core.run, clock=core.time) == pytest.approx(3.1e9)


@pytest.mark.parametrize("hertz", [1e6, 1e12])
def test_a_clock_that_no_core_has_is_not_known(hertz: float) -> None:
    core = Core(hertz)
    assert measured_clock(core.run, clock=core.time) is None


def test_a_time_of_zero_is_not_known() -> None:
    assert measured_clock(lambda loops: None, clock=lambda: 1.0) is None


def test_the_loop_jumps_back_to_its_first_addition() -> None:
    code = machine_code()
    assert code.count(b"\x48\x01\xd0") == 64
    jump = code.index(b"\x0f\x85")
    (back,) = struct.unpack("<i", code[jump + 2 : jump + 6])
    assert jump + 6 + back == 4  # behind endbr64
    assert code[-1:] == b"\xc3"


@pytest.mark.parametrize(
    ("system", "machine", "can"),
    [
        ("linux", "x86_64", True),
        ("darwin", "x86_64", True),
        ("linux", "aarch64", False),
        ("win32", "AMD64", False),
    ],
)
def test_only_where_the_code_and_its_convention_fit(system: str, machine: str, can: bool) -> None:
    assert can_run(system, machine) is can


def test_a_system_that_forbids_it_leaves_the_clock_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    chain.cache_clear()
    monkeypatch.setattr(clock, "_make_executable", lambda address, size: False)
    try:
        assert chain() is None
        assert measured_clock() is None
    finally:
        chain.cache_clear()


def test_an_error_of_the_system_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise PermissionError

    chain.cache_clear()
    monkeypatch.setattr("mmap.mmap", refuse)
    try:
        assert chain() is None
    finally:
        chain.cache_clear()


def test_this_processor_has_a_clock() -> None:
    if chain() is None:
        pytest.skip("the clock cannot be measured on this system")
    found = measured_clock()
    assert found is not None and 1e8 < found < 1e10
