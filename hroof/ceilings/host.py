"""What the operating system says about this computer: cores, caches, memory, settings."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hroof.integration import Device
from hroof.units import MemoryLevel

CPU_FOLDER = Path("/sys/devices/system/cpu")
_CPUINFO = Path("/proc/cpuinfo")
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_LEVELS = {"1": MemoryLevel.L1, "2": MemoryLevel.L2, "3": MemoryLevel.L3}
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_SYSCTL = {
    MemoryLevel.L1: "hw.l1dcachesize",
    MemoryLevel.L2: "hw.l2cachesize",
    MemoryLevel.L3: "hw.l3cachesize",
}


@dataclass(frozen=True, slots=True)
class Cache:
    """One level of data cache, as the usable cores see it.

    Attributes:
        level: Which level.
        size: Bytes of one instance (the smallest, where they differ).
        instances: How many instances the usable cores have.
        sharers: Usable cores per instance (the most, where they differ).
        total: Bytes of all instances together.
    """

    level: MemoryLevel
    size: int
    instances: int
    sharers: int
    total: int


def cache_fact(cache: Cache) -> dict[str, Any]:
    """A cache as plain JSON values, for the fact ``caches`` of a device."""
    return {**asdict(cache), "level": str(cache.level)}


def caches_of(device: Device) -> tuple[Cache, ...]:
    """The caches in a device's facts; without those its totals, as one instance each."""
    facts = device.facts.get("caches")
    if facts is None:
        return tuple(Cache(level, size, 1, 1, size) for level, size in device.caches.items())
    return tuple(Cache(**{**fact, "level": MemoryLevel(fact["level"])}) for fact in facts)


def usable_cpus() -> tuple[int, ...]:
    """Numbers of the cores that this process may run on."""
    if sys.platform == "linux":
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def ranges(cpus: Sequence[int]) -> str:
    """Numbers of cores as Linux writes them, e.g. ``0-3,8``."""
    found: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if found and cpu == found[-1][1] + 1:
            found[-1][1] = cpu
        else:
            found.append([cpu, cpu])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in found)


def clock_limits(cpus: Sequence[int], folder: Path = CPU_FOLDER) -> dict[str, object]:
    """What the system lets the clock of some cores do; only what it says, so often nothing.

    Returns:
        ``governor``; ``max`` in Hz, the highest of the cores; ``boost``: whether turbo is allowed.
    """
    governors = {text(folder / f"cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus} - {""}
    highest = [text(folder / f"cpu{cpu}/cpufreq/scaling_max_freq") for cpu in cpus]
    known = [int(word) * 1e3 for word in highest if word.isdigit()]
    found: dict[str, object] = {"governor": ",".join(sorted(governors))} if governors else {}
    if known:
        found["max"] = max(known)
    switch, off = text(folder / "cpufreq/boost"), text(folder / "intel_pstate/no_turbo")
    if switch in ("0", "1"):
        found["boost"] = switch == "1"
    elif off in ("0", "1"):
        found["boost"] = off == "0"
    return found


def find_caches(
    cpus: Sequence[int], *, folder: Path = CPU_FOLDER, system: str = sys.platform
) -> tuple[tuple[Cache, ...], str]:
    """The data caches of some cores, nearest first, and in words where the sizes come from.

    Args:
        cpus: Numbers of the cores.
        folder: Where Linux describes its cores.
        system: Name of the operating system, as in ``sys.platform``.
    """
    caches = read_caches(cpus, folder)
    if caches:
        return caches, str(folder)
    if system == "darwin":
        return sysctl_caches(len(cpus)), "sysctl; one L2 and one L3 assumed"
    return (), f"unknown: {folder} describes no caches, and {system} is not asked otherwise"


def read_caches(cpus: Iterable[int], folder: Path = CPU_FOLDER) -> tuple[Cache, ...]:
    """Read the data caches of some cores from Linux's description; empty where there is none."""
    found: dict[MemoryLevel, dict[str, tuple[int, set[int]]]] = {}
    for cpu in cpus:
        for index in sorted((folder / f"cpu{cpu}" / "cache").glob("index*")):
            entry = _read_index(index)
            if entry is not None:
                level, shared, size = entry
                found.setdefault(level, {}).setdefault(shared or str(cpu), (size, set()))[1].add(
                    cpu
                )
    return tuple(_cache(level, found[level]) for level in MemoryLevel if level in found)


def _read_index(index: Path) -> tuple[MemoryLevel, str, int] | None:
    """Level, cores that share it and bytes of one data cache; None for anything else."""
    kind, level, size = (text(index / name) for name in ("type", "level", "size"))
    match = re.fullmatch(r"(\d+)([KMG]?)", size)
    if kind not in ("Data", "Unified") or level not in _LEVELS or match is None:
        return None
    nbytes = int(match[1]) * _UNITS[match[2]]
    return (_LEVELS[level], text(index / "shared_cpu_list"), nbytes) if nbytes else None


def _cache(level: MemoryLevel, instances: Mapping[str, tuple[int, set[int]]]) -> Cache:
    sizes = [size for size, _ in instances.values()]
    sharers = max(len(cpus) for _, cpus in instances.values())
    return Cache(level, min(sizes), len(sizes), sharers, sum(sizes))


def _run(command: Sequence[str]) -> str:
    """What a command prints; nothing where it fails."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=False
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def sysctl_caches(cores: int, run: Callable[[Sequence[str]], str] = _run) -> tuple[Cache, ...]:
    """Ask macOS for its caches: one L1 per core, the outer levels taken as one instance."""
    caches = []
    for level, name in _SYSCTL.items():
        answer = run(("sysctl", "-n", name))
        size = int(answer) if answer.isdigit() else 0
        if size:
            instances = cores if level is MemoryLevel.L1 else 1
            caches.append(Cache(level, size, instances, cores // instances, size * instances))
    return tuple(caches)


def cpu_model(cpuinfo: Path = _CPUINFO) -> str:
    """Name of the processor."""
    match = re.search(r"^model name\s*:\s*(.+)$", text(cpuinfo), re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine() or "CPU"


def cpu_flags(cpuinfo: Path = _CPUINFO) -> frozenset[str]:
    """Instruction sets that the processor offers, as Linux names them; empty where unknown."""
    match = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text(cpuinfo), re.MULTILINE)
    return frozenset(match[1].split()) if match else frozenset()


def available_memory(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int | None:
    """Bytes that this process can still use, also under a container's limit; None where unknown."""
    match = re.search(r"^MemAvailable:\s*(\d+) kB$", text(meminfo), re.MULTILINE)
    rooms = [] if match is None else [int(match[1]) * 1024]
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        ceiling, taken = text(cgroup / limit), text(cgroup / used)
        if ceiling.isdigit() and taken.isdigit():
            rooms.append(max(int(ceiling) - int(taken), 0))
    return min(rooms, default=None)


def settings(names: Sequence[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variables with one of the given names; a name ending in ``*`` is a prefix."""
    exact = {name for name in names if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    return {
        name: environment[name]
        for name in sorted(environment)
        if name in exact or (prefixes and name.startswith(prefixes))
    }


def huge_pages(
    setting: Path = Path("/sys/kernel/mm/transparent_hugepage/enabled"),
) -> str | None:
    """When Linux gives huge pages: ``always``, ``madvise`` or ``never``; None where unknown."""
    match = re.search(r"\[(\w+)\]", text(setting))
    return match[1] if match else None


def text(path: Path) -> str:
    """What a small file of the system says, without blanks around it; nothing where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
