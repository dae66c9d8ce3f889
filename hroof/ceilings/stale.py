"""Conditions that have changed since ceilings were measured, so that they may no longer hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hroof.integration import Device
from hroof.machine import Machine

CHANGING: frozenset[str] = frozenset({"affinity", "clock_limits", "denormals"})
"""Facts of a device that change from job to job: ceilings measured before are still used, with a warning."""

Difference = tuple[str, Any, Any]


def differences(
    then: Mapping[str, Any], now: Mapping[str, Any], names: Collection[str]
) -> list[Difference]:
    """Which facts differ, as (name, value then, value now).

    Of an object only the entries that differ are told, by names such as ``versions torch``. A fact that one side does
    not have is not compared: another version of hroof may not have known it.

    Args:
        then: Facts of one side.
        now: Facts of the other.
        names: Which to compare.
    """
    both = [name for name in names if name in then and name in now]
    return [found for name in both for found in _different(name, then[name], now[name])]


def _different(name: str, then: Any, now: Any) -> Iterator[Difference]:
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for entry in sorted({*then, *now}):
            if then.get(entry) != now.get(entry):
                yield f"{name} {entry}", then.get(entry), now.get(entry)
    elif then != now:
        yield name, then, now


def stale(machine: Machine, device: Device) -> tuple[str, ...]:
    """Why ceilings may no longer hold: what has changed since they were measured, one sentence each.

    Args:
        machine: The ceilings.
        device: As the integration describes it now: its name, and the facts driver, versions, threads, limits of the
            clock and so on that it knows.

    Returns:
        Nothing where they hold.
    """
    if (machine.name, machine.device) != (device.name, device.device):
        return (
            f"They are those of {machine.name} ({machine.device}), and this is {device.name} ({device.device}).",
        )
    facts = _plain(device.facts)
    changed = differences(machine.facts, facts, sorted(facts))
    return tuple(
        f"{name} was {_said(then)} when they were measured and is {_said(now)} now."
        for name, then, now in changed
    )


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as they come back from a file, where tuples are lists."""
    from hroof.files import json_ready

    plain: dict[str, Any] = json_ready(facts)
    return plain


def _said(value: Any) -> str:
    return "unset" if value is None else str(value)
