"""Ceilings are measured once per machine, framework and settings, then read from a file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hroof.ceilings import checks
from hroof.ceilings.stale import CHANGING, stale
from hroof.ceilings.suite import measure
from hroof.errors import OutputError, ProfileError
from hroof.files import json_ready
from hroof.integration import Device, Integration
from hroof.machine import Ceiling, Machine

K = TypeVar("K")

_ATTEMPTS = 3
_KEPT = ("measured_at", "quick", "attempts", "seconds")
"""Facts of a whole measurement, which renewing some ceilings does not change."""
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

    The name ends in a hash of what the integration says about the device: its name, caches, threads,
    versions, environment variables and precision switches. What changes from job to job is left out: see
    ``stale``.
    """
    identity = {
        "framework": integration.FRAMEWORK,
        "device": device.device,
        "name": device.name,
        "caches": {str(level): size for level, size in device.caches.items()},
        "shared_pipes": device.shared_pipes,
        "facts": {name: fact for name, fact in device.facts.items() if name not in CHANGING},
    }
    text = json.dumps(json_ready(identity), sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", f"{integration.FRAMEWORK}-{device.device}")
    return (folder or cache_folder()) / f"ceilings-{readable}-{digest}.json"


def known(integration: Integration, device: str | None = None) -> Machine | None:
    """The ceilings of a device if they were measured before; nothing is measured now.

    Returns:
        The machine, with a warning where conditions have changed since; None where there is no file, a damaged one,
        or one that holds only the ceilings that somebody asked for.

    Raises:
        MissingError: There is no such device.
    """
    found = integration.device(device)
    machine = _read(cache_path(integration, found))[0]
    return None if machine is None or _is_partial(machine) else _with_age(machine, found)


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
        The machine. A damaged file, a folder that cannot be written, and conditions that have changed are among its
        ``warnings``.

    Raises:
        MissingError: There is no such device.
    """
    found = integration.device(device)
    path = cache_path(integration, found)
    known, doubts = (None, []) if refresh else _read(path)
    if known is not None and not _is_enough(known, quick):
        known = None
    if known is not None and (not checks.is_disturbed(known) or _attempts(known) >= _ATTEMPTS):
        return _with_age(known, found)
    machine = measure(integration, device, quick=quick, **how)
    if known is not None:
        machine = better(known, machine)
    return _saved(machine, path, doubts)


def renewed(
    integration: Integration, device: str | None = None, *, only: Collection[str], **how: Any
) -> Machine:
    """Measure some ceilings now and put them in the place of those in the cache; the others stay.

    Args:
        integration: Whose kernels.
        device: ``cpu`` or ``cuda:0``; without it the framework's default.
        only: Names of the ceilings; see ``measure``.
        how: Further arguments of ``measure``.

    Returns:
        The machine with all ceilings that are known now. Where the cache held none, it is kept for the next time, but
        serves nobody who wants all of them.

    Raises:
        MissingError: There is no such device.
        UsageError: It has no kernel for a name in ``only``.
    """
    path = cache_path(integration, integration.device(device))
    before, doubts = _read(path)
    machine = measure(integration, device, only=only, **how)
    if before is not None:
        machine = merged(before, machine)
    return _saved(machine, path, doubts)


def _saved(machine: Machine, path: Path, doubts: list[str]) -> Machine:
    try:
        machine.save(path)
    except OutputError as error:
        doubts = [*doubts, f"{error.fact} The ceilings will be measured again next time."]
    return dataclasses.replace(machine, warnings=(*machine.warnings, *doubts))


def _is_partial(machine: Machine) -> bool:
    return bool(machine.facts.get("only"))


def _is_enough(machine: Machine, quick: bool) -> bool:
    return not _is_partial(machine) and (quick or machine.facts.get("quick") is False)


def _with_age(machine: Machine, device: Device) -> Machine:
    changed = stale(machine, device)
    if not changed:
        return machine
    doubt = f"These ceilings are stale: {' '.join(changed)} Measure again with: hroof ceilings --refresh"
    return dataclasses.replace(machine, warnings=(*machine.warnings, doubt))


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """A machine in the cache.

    Attributes:
        path: Its file.
        machine: What it holds.
    """

    path: Path
    machine: Machine


def listed(folder: Path | None = None) -> list[Kept]:
    """Every machine in the cache, the newest first; damaged files are left out."""
    paths = (folder or cache_folder()).glob("ceilings-*.json")
    read = [(path, _read(path)[0]) for path in sorted(paths)]
    found = [Kept(path, machine) for path, machine in read if machine is not None]
    return sorted(
        found, key=lambda kept: str(kept.machine.facts.get("measured_at", "")), reverse=True
    )


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
        others={**before.others, **now.others},
        sweep=now.sweep or before.sweep,
        facts={**now.facts, "attempts": _attempts(before) + 1},
    )
    return _warned(machine, now)


def merged(before: Machine, now: Machine) -> Machine:
    """A machine with some ceilings measured again: those take the place of the ones before.

    Where other programs took much of the time meanwhile, the better of both stays, since they only lower a rate.

    Args:
        before: All ceilings, or some.
        now: The new ones; its facts say which in ``only``.
    """
    asked = set(now.facts["only"])
    facts = {**now.facts, **{key: before.facts[key] for key in _KEPT if key in before.facts}}
    facts["candidates"] = {**before.facts.get("candidates", {}), **now.facts["candidates"]}
    facts["renewed"] = {
        **before.facts.get("renewed", {}),
        **dict.fromkeys(sorted(asked), now.facts["measured_at"]),
    }
    facts["own_share"] = _lower(before.facts.get("own_share"), now.facts.get("own_share"))
    facts["only"] = sorted(asked | set(before.facts["only"])) if _is_partial(before) else []
    if any(checks.busy(now)):
        chosen = better(before, now)
    else:
        chosen = dataclasses.replace(
            now,
            peaks={**before.peaks, **now.peaks},
            bandwidths={**before.bandwidths, **now.bandwidths},
            launch_cost=now.launch_cost or before.launch_cost,
        )
    machine = dataclasses.replace(
        chosen,
        others={**before.others, **now.others},
        sweep=now.sweep or before.sweep,
        facts=facts,
    )
    return _warned(machine, before, now)


def _lower(*shares: object) -> float | None:
    return min((share for share in shares if isinstance(share, float)), default=None)


def _warned(machine: Machine, *parts: Machine) -> Machine:
    """The machine with its own doubts, and with what was said of its parts beside theirs."""
    kept = [
        warning
        for part in parts
        for warning in part.warnings
        if warning not in checks.warnings(part)
    ]
    warnings = dict.fromkeys((*kept, *checks.warnings(machine)))
    return dataclasses.replace(machine, warnings=tuple(warnings))


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
