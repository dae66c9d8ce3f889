"""Stale: every change of the device since its ceilings were measured has its sentence."""

from __future__ import annotations

from typing import Any

import pytest

from hroof.ceilings import differences, stale
from hroof.integration import Device
from hroof.machine import Machine

FACTS: dict[str, Any] = {
    "driver": "550.54",
    "threads": 8,
    "versions": {"torch": "2.12", "python": "3.11"},
    "clock_limits": {"governor": "performance", "max": 3e9},
    "caches": [{"level": "l1", "size": 1}],
}


def now(**changes: Any) -> Device:
    """The device of the ceilings, but for the given facts."""
    return Device("cuda:0", "chip", facts=FACTS | changes)


@pytest.fixture
def machine() -> Machine:
    """Ceilings measured under the facts above, with facts of the measurement beside them."""
    return Machine("chip", "cuda:0", facts={**FACTS, "measured_at": "2026-01-01", "quick": False})


def test_the_same_conditions_are_not_stale(machine: Machine) -> None:
    assert stale(machine, now()) == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"driver": "560.1"}, "driver was 550.54 when they were measured and is 560.1 now."),
        ({"threads": 4}, "threads was 8 when they were measured and is 4 now."),
        (
            {"versions": {"torch": "2.13", "python": "3.11"}},
            "versions torch was 2.12 when they were measured and is 2.13 now.",
        ),
        (
            {"clock_limits": {"governor": "performance", "max": 2e9}},
            "clock_limits max was 3000000000.0 when they were measured and is 2000000000.0 now.",
        ),
        (
            {"clock_limits": {"governor": "performance"}},
            "clock_limits max was 3000000000.0 when they were measured and is unset now.",
        ),
    ],
    ids=["driver", "threads", "version", "clock", "no clock"],
)
def test_a_change_is_named(machine: Machine, changes: dict[str, Any], text: str) -> None:
    assert stale(machine, now(**changes)) == (text,)


def test_every_change_has_its_sentence(machine: Machine) -> None:
    assert len(stale(machine, now(driver="1", threads=1))) == 2


def test_a_fact_that_one_side_lacks_is_not_compared(machine: Machine) -> None:
    assert stale(machine, now(reductions={"fp16": True})) == ()
    assert stale(machine, Device("cuda:0", "chip")) == ()


def test_facts_compare_as_they_come_back_from_a_file(machine: Machine) -> None:
    assert stale(machine, now(caches=({"level": "l1", "size": 1},))) == ()


@pytest.mark.parametrize(("device", "name"), [("cuda:0", "other"), ("cpu", "chip")])
def test_another_device_is_said_once(machine: Machine, device: str, name: str) -> None:
    (text,) = stale(machine, Device(device, name, facts={"threads": 1}))
    assert text == f"They are those of chip (cuda:0), and this is {name} ({device})."


def test_differences_keep_the_order_of_the_names() -> None:
    then, here = {"a": 1, "b": {"x": 1, "y": 2}}, {"b": {"x": 2, "y": 2}, "a": 3}
    assert differences(then, here, ("b", "a")) == [("b x", 1, 2), ("a", 1, 3)]
    assert differences(then, here, ("c",)) == []
    assert differences({"a": {"x": 1}}, {"a": 1}, ("a",)) == [("a", {"x": 1}, 1)]
