"""Ceilings are measured once per machine, framework and settings, then read from a file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from hroof.ceilings import checks
from hroof.ceilings.suite import measure
from hroof.errors import OutputError, ProfileError
from hroof.files import json_ready
from hroof.integration import Device, Integration
from hroof.machine import Ceiling, Machine

K = TypeVar("K")

_ATTEMPTS = 3
CACHE_VARIABLE = "HROOF_CACHE"
"""Environment variable that names another folder for the measured machines."""


def cache_folder() -> Path:
    """Where measured machines lie: ``HROOF_CACHE``, or the user's cache folder of the system."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("hroof", appauthor=False))


def cache_path(integration: Integration, device: Device, folder: Path | None = None) -> Path:
    """The file that holds the ceilings of a device under the settings that it has now.

    The name ends in a hash of everything that the integration says about the device: its name,
    caches, threads, versions, environment variables and precision switches.
    """
    identity = {
        "framework": integration.FRAMEWORK,
        "device": device.device,
        "name": device.name,
        "caches": {str(level): size for level, size in device.caches.items()},
        "shared_pipes": device.shared_pipes,
        "facts": device.facts,
    }
    text = json.dumps(json_ready(identity), sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", f"{integration.FRAMEWORK}-{device.device}")
    return (folder or cache_folder()) / f"ceilings-{readable}-{digest}.json"


def known(integration: Integration, device: str | None = None) -> Machine | None:
    """The ceilings of a device if they were measured before; the file is taken as it is.

    Returns:
        The machine; None where there is no file, or a damaged one.

    Raises:
        MissingError: There is no such device.
    """
    return _read(cache_path(integration, integration.device(device)))[0]


def cached(
    integration: Integration,
    device: str | None = None,
    *,
    refresh: bool = False,
    quick: bool = False,
    **how: Any,
) -> Machine:
    """The ceilings of a device: from the cache, or measured now and put there.

    Several processes may do this at once: a file appears whole or not at all, the last one stays.
    Where other programs disturbed a measurement, it is repeated the next two times, and of each
    ceiling the better one stays.

    Args:
        integration: Whose kernels.
        device: ``cpu`` or ``cuda:0``; without it the framework's default.
        refresh: Measure again although there is a file.
        quick: A quick measurement is good enough.
        how: Further arguments of ``measure``.

    Returns:
        The machine. A damaged file or a folder that cannot be written is one of its ``warnings``.

    Raises:
        MissingError: There is no such device.
    """
    path = cache_path(integration, integration.device(device))
    known, doubts = (None, []) if refresh else _read(path)
    if known is not None and not quick and known.facts.get("quick") is not False:
        known = None
    if known is not None and (not checks.is_disturbed(known) or _attempts(known) >= _ATTEMPTS):
        return known
    machine = measure(integration, device, quick=quick, **how)
    if known is not None:
        machine = better(known, machine)
    try:
        machine.save(path)
    except OutputError as error:
        doubts.append(f"{error.fact} The ceilings will be measured again next time.")
    return dataclasses.replace(machine, warnings=(*machine.warnings, *doubts))


def _attempts(machine: Machine) -> int:
    attempts = machine.facts.get("attempts", 1)
    return attempts if isinstance(attempts, int) else 1


def better(before: Machine, now: Machine) -> Machine:
    """The better of each ceiling of two measurements: interference only lowers a rate."""
    costs = [cost for cost in (now.launch_cost, before.launch_cost) if cost is not None]
    machine = dataclasses.replace(
        now,
        peaks=_higher(before.peaks, now.peaks),
        bandwidths=_higher(before.bandwidths, now.bandwidths),
        launch_cost=min(costs, key=lambda cost: cost.rate, default=None),
        facts={**now.facts, "attempts": _attempts(before) + 1},
    )
    of_now = set(checks.warnings(now))
    kept = [warning for warning in now.warnings if warning not in of_now]
    return dataclasses.replace(machine, warnings=(*kept, *checks.warnings(machine)))


def _higher(before: Mapping[K, Ceiling], now: Mapping[K, Ceiling]) -> dict[K, Ceiling]:
    both = {**before, **now}
    return {
        key: max(
            (side[key] for side in (now, before) if key in side), key=lambda ceiling: ceiling.rate
        )
        for key in both
    }


def _read(path: Path) -> tuple[Machine | None, list[str]]:
    try:
        return Machine.load(path), []
    except ProfileError as error:
        if not os.path.exists(path):
            return None, []
        return None, [f"{error.fact} It was measured again."]
