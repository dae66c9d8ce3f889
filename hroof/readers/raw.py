"""Raw: what a profiler's file says of each launch, before anything is derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hroof.errors import ProfileError

if TYPE_CHECKING:
    import pandas as pd

Facts = Mapping[str, Any]
"""What is known of one device."""

IDENTITY: Mapping[str, Any] = {
    "kernel": "",
    "process": -1,
    "device": 0,
    "context": 0,
    "stream": 0,
    "capability": "",
    "grid": "",
    "block": "",
    "ranges": -1,
    "launches": 1.0,
    "aggregate": False,
}
"""Columns of ``Raw.launches`` and what they hold where a file does not say."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """The NVTX ranges that were open when a kernel was launched, each as (domain, name).

    Attributes:
        pushed: Push/pop ranges of the launching thread, within each domain outermost first.
        started: Start/end ranges of the process, in the order of the file.
    """

    pushed: tuple[tuple[str, str], ...] = ()
    started: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Raw:
    """The launches of one file, or of several that were joined.

    Attributes:
        launches: One row per launch in launch order, or per aggregate; index 0, 1, …; the columns of ``IDENTITY``:
            ``kernel`` (the name as the tool printed it), ``process`` (id), ``device``, ``context``, ``stream``,
            ``capability`` (compute capability, e.g. ``8.0``), ``grid`` and ``block`` (text), ``ranges`` (place in
            ``Raw.ranges``; -1 where the file knows no NVTX), ``launches`` (n for an aggregate of n), ``aggregate``.
        counters: The same rows; one float column per metric under the tool's own name, e.g. ``dram__bytes.sum``, in
            base SI units (s, B, Hz, B/s, percent as percent, plain counts); NaN where there is no value. The value of
            one instance of a metric has the column ``metric:instance``.
        ranges: The different NVTX states.
        devices: Facts by device number, as far as the file has them: ``name``, ``capability``.
        facts: About the whole: ``files``, ``tool`` (version), ``command``, ``dialect``; plain JSON values.
        problems: What the reader of a report has to know, one sentence each.
        incomplete: A file was cut off; whole rows before the cut are there.
    """

    launches: pd.DataFrame
    counters: pd.DataFrame
    ranges: tuple[Ranges, ...] = ()
    devices: Mapping[int, Facts] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    incomplete: bool = False

    def __post_init__(self) -> None:
        for name, default in IDENTITY.items():
            if name not in self.launches:
                self.launches[name] = default
        if len(self.launches) != len(self.counters):
            raise ProfileError(
                f"There are {len(self.launches)} launches and {len(self.counters)} rows of counters."
            )
