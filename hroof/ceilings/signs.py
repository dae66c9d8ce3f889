"""Signs of disturbance that Linux shows without root: other programs, throttling, heat, a quota."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hroof.ceilings.host import CPU_FOLDER, text

_ROOT = Path("/")
_STEAL = 7
"""Place of the stolen time among the numbers of ``/proc/stat``."""
_TICKS_WITHOUT_GUEST = 8
_MILLI = 1e-3


@dataclass(frozen=True, slots=True)
class Signs:
    """What is seen at one moment; NaN or None where the system does not show it.

    Attributes:
        load: Programs that wanted a core, averaged over the last minute.
        ticks: Time of all cores since the start, in ticks of the system.
        stolen: Those of them that a hypervisor gave to other machines.
        quota_hits: Times that a quota of the container stopped its programs.
        throttles: Times that cores slowed down because they were too hot.
        temperature: Of the hottest sensor, in °C.
    """

    load: float = math.nan
    ticks: int | None = None
    stolen: int | None = None
    quota_hits: int | None = None
    throttles: int | None = None
    temperature: float = math.nan


def look(root: Path = _ROOT) -> Signs:
    """See how the machine is now.

    Args:
        root: Folder in which ``proc`` and ``sys`` lie.
    """
    ticks, stolen = _ticks(root / "proc/stat")
    return Signs(
        load=_load(root / "proc/loadavg"),
        ticks=ticks,
        stolen=stolen,
        quota_hits=_quota_hits(root / "sys/fs/cgroup"),
        throttles=_sum(
            (root / CPU_FOLDER.relative_to("/")).glob(
                "cpu[0-9]*/thermal_throttle/core_throttle_count"
            )
        ),
        temperature=_hottest((root / "sys/class/thermal").glob("thermal_zone*/temp")),
    )


def _ticks(stat: Path) -> tuple[int | None, int | None]:
    match = re.search(r"^cpu +([\d ]+)$", text(stat), re.MULTILINE)
    numbers = [int(word) for word in match[1].split()] if match else []
    if len(numbers) <= _STEAL:
        return None, None
    return sum(numbers[:_TICKS_WITHOUT_GUEST]), numbers[_STEAL]


def _load(loadavg: Path) -> float:
    words = text(loadavg).split()
    try:
        return float(words[0])
    except (IndexError, ValueError):
        return math.nan


def _quota_hits(cgroup: Path) -> int | None:
    """Both versions of control groups count them under the same name."""
    for name in ("cpu.stat", "cpu/cpu.stat"):
        match = re.search(r"^nr_throttled (\d+)$", text(cgroup / name), re.MULTILINE)
        if match:
            return int(match[1])
    return None


def _sum(paths: Iterable[Path]) -> int | None:
    counts = [int(found) for found in map(text, paths) if found.isdigit()]
    return sum(counts) if counts else None


def _hottest(paths: Iterable[Path]) -> float:
    found = [int(word) for word in map(text, paths) if re.fullmatch(r"-?\d+", word)]
    return max(found) * _MILLI if found else math.nan


def facts(before: Signs, after: Signs) -> dict[str, Any]:
    """What happened between two looks, as facts of a machine; what is not known is left out.

    Returns:
        ``load`` (before, after), ``stolen_share`` (of the time of all cores), ``quota_hits``, ``throttles``,
        ``temperature`` (before, after; °C).
    """
    found: dict[str, Any] = {
        "stolen_share": _stolen_share(before, after),
        "quota_hits": _rise(before.quota_hits, after.quota_hits),
        "throttles": _rise(before.throttles, after.throttles),
    }
    if math.isfinite(before.load + after.load):
        found["load"] = [before.load, after.load]
    if math.isfinite(before.temperature + after.temperature):
        found["temperature"] = [before.temperature, after.temperature]
    return {key: value for key, value in found.items() if value is not None}


def _stolen_share(before: Signs, after: Signs) -> float | None:
    ticks, stolen = _rise(before.ticks, after.ticks), _rise(before.stolen, after.stolen)
    return None if not ticks or stolen is None else stolen / ticks


def _rise(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(after - before, 0)
