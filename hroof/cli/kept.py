"""``hroof ceilings --list``: the machines in the cache, how old they are, and what has changed since."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hroof import integration
from hroof.cli.command import print_json
from hroof.errors import HroofError
from hroof.integration import Device

if TYPE_CHECKING:
    from hroof.ceilings import Kept

_UNITS = ((86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"))


def show_list(*, as_json: bool, now: datetime | None = None) -> None:
    """Print every machine that is known, the newest first.

    Args:
        as_json: One JSON object instead of text.
        now: Date and time, with its zone; by default that of this computer.
    """
    from hroof import ceilings

    devices = _Devices()
    rows = [_row(entry, devices, now or datetime.now(UTC)) for entry in ceilings.listed()]
    if as_json:
        print_json({"folder": str(ceilings.cache_folder()), "machines": rows})
        return
    text = [line for row in rows for line in _lines(row)]
    nothing = (
        f"No ceilings are known in {ceilings.cache_folder()}. Measure them with: hroof ceilings"
    )
    sys.stdout.write("\n".join(text or [nothing]) + "\n")


class _Devices:
    """The devices that are here, each asked for once."""

    def __init__(self, describe: Callable[[str, str], Device] | None = None) -> None:
        self._describe = describe or (
            lambda framework, name: integration.load(framework).device(name)
        )
        self._known: dict[tuple[str, str], Device | HroofError] = {}

    def find(self, framework: str, name: str) -> Device | HroofError:
        """A device as its framework describes it now, or why it cannot be described."""
        key = framework, name
        if key not in self._known:
            try:
                self._known[key] = self._describe(framework, name)
            except HroofError as error:
                self._known[key] = error
        return self._known[key]


def _row(entry: Kept, devices: _Devices, now: datetime) -> dict[str, Any]:
    """What is told of one machine, as plain values; ``stale`` is None where it cannot be told."""
    from hroof.ceilings import stale

    machine, facts = entry.machine, entry.machine.facts
    found = devices.find(str(facts.get("framework", "")), machine.device)
    is_known = isinstance(found, Device)
    return {
        "file": str(entry.path),
        "name": machine.name,
        "device": machine.device,
        "framework": facts.get("framework"),
        "measured_at": facts.get("measured_at"),
        "age": _age(facts.get("measured_at"), now),
        "quick": facts.get("quick"),
        "only": list(facts.get("only") or ()),
        "threads": facts.get("threads"),
        "stale": list(stale(machine, found)) if isinstance(found, Device) else None,
        "unknown": "" if is_known else str(found),
        "warnings": len(machine.warnings),
    }


def _age(measured_at: object, now: datetime) -> float | None:
    """Seconds since a date in ISO form; None where it is none."""
    try:
        return max((now - datetime.fromisoformat(str(measured_at))).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return None


def _lines(row: dict[str, Any]) -> list[str]:
    kind = f"only {', '.join(row['only'])}" if row["only"] else "quick" if row["quick"] else "full"
    facts = [str(row["framework"] or "unknown framework"), kind, said_age(row["age"])]
    facts += [f"{row['threads']} threads"] if row["threads"] else []
    facts += [f"{row['warnings']} warning{'s' * (row['warnings'] > 1)}"] if row["warnings"] else []
    lines = [f"{row['name']} ({row['device']}): {', '.join(facts)}", f"  {row['file']}"]
    if row["stale"] is None:
        return [*lines, f"  It cannot be told whether it is stale: {row['unknown']}"]
    return [*lines, *(f"  stale: {reason}" for reason in row["stale"])]


def said_age(seconds: float | None) -> str:
    """An age in words, e.g. ``3 hours old``."""
    if seconds is None:
        return "of unknown age"
    for size, unit in _UNITS:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'} old"
    return "new"
