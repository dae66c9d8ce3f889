"""Peaks that vendors print for common devices: dashed lines and a check, never the ceilings themselves."""

from __future__ import annotations

import functools
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from hroof.ceilings.limits import highest_clock
from hroof.machine import Ceiling, Machine
from hroof.units import MemoryLevel, Pipe, Precision

ABOVE = 1.01
"""A measured rate above this share of its sheet counts something that does not exist."""
BELOW = 0.6
"""Below this share a clock or power limit, another load or the kernel holds the device back."""
SPARSE = 2.0
"""Peaks with 2:4 structured sparsity, over dense ones."""
_SPARSE_TOLERANCE = 0.02
_OVERCLOCKED = 1.3
"""No device clocks higher than this over its sheet."""

_FILE = "datasheets.toml"
_NAMES = {f"{pipe}_{precision}": (pipe, precision) for pipe in Pipe for precision in Precision}
_VENDORS = frozenset({"nvidia", "tesla", "geforce", "amd", "instinct"})
_NEUTRAL = re.compile(r"\d+gb?|sxm\d?|pcie|hbm\d?e?")
"""Words that name no other chip: size and kind of the memory, form factor."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a vendor prints of one device.

    Attributes:
        words: Sets of words, of which one must be part of the device's name.
        source: Name of the document.
        boost: Clock of the peaks, in Hz.
        rates: Dense peaks in FLOP/s and ``dram`` in B/s, by name of the ceiling.
        unverified: Names of those that nobody compared with a copy of the document.
    """

    words: tuple[frozenset[str], ...]
    source: str
    boost: float
    rates: Mapping[str, float]
    unverified: frozenset[str]

    def match(self, words: frozenset[str]) -> int:
        """How many words of a name are this device's; 0 where the name is another's."""
        fitting = [own for own in self.words if own <= words and _are_neutral(words - own)]
        return max(map(len, fitting), default=0)


def _are_neutral(words: Iterable[str]) -> bool:
    return all(_NEUTRAL.fullmatch(word) for word in words)


@functools.cache
def sheets() -> tuple[Sheet, ...]:
    """Every sheet of the data file that lies beside this module."""
    text = resources.files("hroof.ceilings").joinpath(_FILE).read_text(encoding="utf-8")
    return tuple(_sheet(entry) for entry in tomllib.loads(text)["device"])


def _sheet(entry: Mapping[str, Any]) -> Sheet:
    known = (*_NAMES, MemoryLevel.DRAM.value)
    return Sheet(
        words=tuple(map(frozenset, (entry["match"], *entry.get("also", ())))),
        source=entry["source"],
        boost=entry["boost"],
        rates={name: entry[name] for name in known if name in entry},
        unverified=frozenset(entry.get("unverified", ())),
    )


def find_sheet(name: str) -> Sheet | None:
    """The sheet of a device by the name that a framework gives it; None for a device that has none."""
    words = frozenset(re.split(r"[^a-z0-9]+", name.casefold())) - _VENDORS - {""}
    best = max(sheets(), key=lambda sheet: sheet.match(words))
    return best if best.match(words) else None


def datasheet(name: str, device: str = "cuda:0") -> Machine | None:
    """The peaks that the vendor prints for a device.

    Args:
        name: As a framework names it, e.g. ``NVIDIA A100-SXM4-80GB``.
        device: ``cuda:0`` or the like.

    Returns:
        A machine whose ceilings are all of the kind ``datasheet``; None where no sheet is known.
    """
    sheet = find_sheet(name)
    if sheet is None:
        return None
    ceilings = {key: _ceiling(sheet, key) for key in sheet.rates}
    return Machine(
        name=name,
        device=device,
        peaks={_NAMES[key]: ceiling for key, ceiling in ceilings.items() if key in _NAMES},
        bandwidths={
            MemoryLevel(key): ceiling for key, ceiling in ceilings.items() if key not in _NAMES
        },
        facts={"clock": sheet.boost, "source": sheet.source},
    )


def _ceiling(sheet: Sheet, key: str) -> Ceiling:
    note = sheet.source + ("; dense" if key.startswith(Pipe.MATRIX) else "")
    note += "; unverified" if key in sheet.unverified else ""
    return Ceiling(sheet.rates[key], how="datasheet", note=f"{note}.")


def shares(machine: Machine) -> dict[str, float]:
    """Each ceiling ÷ what the sheet prints, by name of the ceiling; empty for a device without a sheet.

    A device that clocked higher than its sheet may compute faster by that much; where its clock is not known, by up to
    30 %, which then counts as 1.
    """
    sheet = find_sheet(machine.name)
    if sheet is None:
        return {}
    clock = highest_clock(machine)
    faster = max(clock / sheet.boost, 1.0) if math.isfinite(clock) else math.nan
    return {name: _share(sheet, name, rate, faster) for name, rate in _rates(machine, sheet)}


def _rates(machine: Machine, sheet: Sheet) -> Iterator[tuple[str, float]]:
    """The rates of a machine that its sheet knows as well."""
    rates = {f"{pipe}_{precision}": c.rate for (pipe, precision), c in machine.peaks.items()}
    rates |= {str(level): c.rate for level, c in machine.bandwidths.items()}
    return ((name, rate) for name, rate in rates.items() if name in sheet.rates)


def _share(sheet: Sheet, name: str, rate: float, faster: float) -> float:
    share = rate / sheet.rates[name]
    if name not in _NAMES:
        return share
    if math.isnan(faster):
        return max(min(share, 1.0), share / _OVERCLOCKED)
    return share / faster


def sparse_peaks(machine: Machine) -> list[str]:
    """Names of the matrix peaks that are twice what the sheet prints as dense: those with structured sparsity."""
    sheet = find_sheet(machine.name)
    if sheet is None:
        return []
    return [
        name
        for name, rate in _rates(machine, sheet)
        if name.startswith(Pipe.MATRIX)
        and abs(rate / (SPARSE * sheet.rates[name]) - 1) <= _SPARSE_TOLERANCE
    ]
