"""From a report to its launches: kernels, NVTX ranges and the value of every metric.

NVIDIA's library gives values in nanoseconds, bytes, hertz and plain counts, whatever the version that
wrote the report. It does not tell the process, the command line or the time of a launch. Its own
filter by NVTX (``actions_by_nvtx``) ends the process on some expressions, so it is never called.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hroof.errors import MissingError, ProfileError
from hroof.readers.ncu_rep.container import Container, check
from hroof.readers.raw import Ranges, Raw

if TYPE_CHECKING:
    from numpy.typing import NDArray

PACKAGE = "ncu_report"
OLDEST = (2026, 2)
"""The oldest package: 2025.3 ends the process when it is asked for some units."""
BY_OPCODE = (
    "sass__inst_executed_per_opcode_with_modifier_all",
    "sass__inst_executed_per_opcode",
    "sass__thread_inst_executed_true_per_opcode_with_modifier_all",
)
"""The metrics whose instances are kept, by the opcode that each stands for."""

_DEVICE = "device__attribute_"
_FUNCTION, _DEMANGLED = 0, 1
_KERNEL, _STRING = 0, 2
_WORKLOADS = {1: "profiled range", 2: "command list", 3: "CUDA graph", 4: "sub-grid schedule"}
_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNSAID = {"gpu__time_duration": "ns", "gpu__time_duration.sum": "ns"}
"""Units that reports of 2019 leave out, which they do for all metrics of the device."""
_UNIT = re.compile(r"([numkKMGT]?)(s|second|byte|[hH]z)")


def read(path: Path) -> Raw:
    """Read a report of Nsight Compute.

    Args:
        path: A ``.ncu-rep`` file, or a ``.nsight-cuprof-report`` of 2019.

    Returns:
        One row per kernel, graph or range that was profiled, in the order of the report.

    Raises:
        ProfileError: No report, a damaged one, one that is cut off, or one without launches.
        MissingError: The package ``ncu-report`` is not installed.
    """
    container = check(path)
    library = _library(path)
    try:
        report = library.load_report(str(path))  # kept: may its results outlive it?
        results = list(_results(report))
        if results:
            return _raw(results, container, path)
    except (TypeError, AttributeError, RuntimeError) as error:
        # What the library gives for damaged contents: names and metrics that are none.
        raise _damaged(path) from error
    raise ProfileError(
        f"Nothing was captured in {str(path)!r}: the report has no launches.",
        "See what ncu said during the run, above all about its filters, and collect again.",
    )


def _damaged(path: Path) -> ProfileError:
    return ProfileError(
        f"{str(path)!r} is damaged: some of its metrics or names cannot be read.",
        "Copy the report again in binary mode, or collect again.",
    )


def _library(path: Path) -> Any:
    try:
        library = importlib.import_module(PACKAGE)
    except ImportError as error:
        raise _missing(path, "without NVIDIA's package ncu-report") from error
    version = _version()
    if version and version < OLDEST:
        found = ".".join(map(str, version))
        raise _missing(path, f"with ncu-report {found}, which is too old")
    return library


def _missing(path: Path, why: str) -> MissingError:
    return MissingError(
        f"Cannot read {str(path)!r} {why}.",
        "Run: pip install 'hroof[ncu]' (the package is under a proprietary licence of NVIDIA); "
        "or run: ncu --import FILE --csv --page raw > FILE.csv and import that.",
    )


def _version() -> tuple[int, ...]:
    """Version of the installed package; empty for a module that comes with Nsight Compute itself."""
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def _results(report: Any) -> Iterator[Any]:
    """What was profiled, stream after stream."""
    for place in range(report.num_ranges()):
        stream = report.range_by_idx(place)
        for number in range(stream.num_actions()):
            yield stream.action_by_idx(number)


def _raw(results: Sequence[Any], container: Container, path: Path) -> Raw:
    import pandas as pd

    launches = [_launch(result) for result in results]
    place, ranges = _nvtx(results)
    devices = [launch["device"] for launch in launches]
    counters = _counters(results, devices, path)
    matrix = np.stack(list(counters.values()), axis=1)
    return Raw(
        pd.DataFrame({**_columns(launches), "ranges": place}),
        pd.DataFrame(matrix, columns=pd.Index(list(counters), dtype=object)),
        ranges,
        _devices(results, launches),
        {
            "files": [str(path)],
            "tool": f"Nsight Compute {container.tool}".strip(),
            "dialect": "report",
        },
        tuple(_problems(results)),
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _problems(results: Sequence[Any]) -> Iterator[str]:
    kinds = Counter(result.workload_type() for result in results)
    for kind, count in sorted(kinds.items()):
        if kind != _KERNEL:
            what = _WORKLOADS.get(kind, "workload")
            what = f"is a {what}: it is" if count == 1 else f"are {what}s: each is"
            told = "" if kind in _WORKLOADS else f" (kind {kind})"
            yield (
                f"{count} of {len(results)} results {what} one row, "
                f"however many kernels ran in it{told}."
            )


# --- one launch ----------------------------------------------------------------------------------


def _launch(result: Any) -> dict[str, Any]:
    """Where a launch ran and how large it was."""
    major = _whole(result, f"{_DEVICE}compute_capability_major")
    minor = _whole(result, f"{_DEVICE}compute_capability_minor")
    device = _whole(result, "launch__device_id")
    return {
        "kernel": result.name(_DEMANGLED) or result.name(_FUNCTION) or "",
        "device": _whole(result, f"{_DEVICE}device_index") or 0 if device is None else device,
        "context": _whole(result, "launch__context_id") or 0,
        "stream": _whole(result, "launch__stream_id") or 0,
        "capability": "" if major is None else f"{major}.{minor or 0}",
        "grid": _size(result, "grid"),
        "block": _size(result, "block"),
    }


def _whole(result: Any, name: str) -> int | None:
    metric = result.metric_by_name(name)
    return int(metric.as_double()) if metric is not None and metric.has_value() else None


def _size(result: Any, what: str) -> str:
    """The three sizes of a grid or a block, as ncu prints them."""
    sizes = [_whole(result, f"launch__{what}_dim_{axis}") for axis in "xyz"]
    return "" if None in sizes else f"({', '.join(map(str, sizes))})"


def _devices(results: Sequence[Any], launches: Sequence[Mapping[str, Any]]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for result, launch in zip(results, launches, strict=True):
        if launch["device"] not in found:
            name = result.metric_by_name(f"{_DEVICE}display_name")
            found[launch["device"]] = {
                "name": (name.as_string() or "") if name is not None else "",
                "capability": launch["capability"],
            }
    return found


# --- NVTX ----------------------------------------------------------------------------------------


def _nvtx(results: Sequence[Any]) -> tuple[list[int], tuple[Ranges, ...]]:
    """The place of each launch's ranges among the different ones.

    A report that was made without NVTX support and one in which no range was ever open are alike:
    ncu prints no columns for either, so both know no NVTX.
    """
    states = [_ranges(result.nvtx_state()) for result in results]
    if not any(state.pushed or state.started for state in states):
        return [-1] * len(states), ()
    places = {state: place for place, state in enumerate(dict.fromkeys(states))}
    return [places[state] for state in states], tuple(places)


def _ranges(state: Any) -> Ranges:
    if state is None:
        return Ranges()
    domains = [state.domain_by_id(number) for number in state.domains()]
    return Ranges(
        tuple((domain.name(), name) for domain in domains for name in domain.push_pop_ranges()),
        tuple((domain.name(), name) for domain in domains for name in domain.start_end_ranges()),
    )


# --- counters ------------------------------------------------------------------------------------


def _counters(
    results: Sequence[Any], devices: Sequence[int], path: Path
) -> dict[str, NDArray[np.float64]]:
    """A column per metric, a value per launch.

    A report repeats the attributes of the device for each launch, more than half of all metrics;
    they are read once per device.
    """
    columns = _Columns(len(results), path)
    rows: dict[int, list[int]] = {}
    for row, (result, device) in enumerate(zip(results, devices, strict=True)):
        known = device in rows
        rows.setdefault(device, []).append(row)
        names = result.metric_names()
        if not names:
            raise _damaged(path)
        for name in names:
            if not (known and name.startswith(_DEVICE)):
                columns.add(row, name, result.metric_by_name(name))
    for name, values in columns.values.items():
        if name.startswith(_DEVICE):
            for same in rows.values():
                values[same] = values[same[0]]
    return columns.values


class _Columns:
    """Values by metric, filled launch by launch; what is not given stays NaN."""

    def __init__(self, length: int, path: Path) -> None:
        self._length = length
        self._path = path
        self._factors: dict[str, float] = {}
        self.values: dict[str, NDArray[np.float64]] = {}

    def add(self, row: int, name: str, metric: Any) -> None:
        value = metric.as_double()
        if value == 0.0:  # which the library also gives for a text and where there is no value
            if metric.kind() == _STRING:
                return
            value = value if metric.has_value() else np.nan
        self._set(row, name, value * self._factor(name, metric))
        if name in BY_OPCODE and metric.num_instances():
            self._instances(row, name, metric)

    def _instances(self, row: int, name: str, metric: Any) -> None:
        keys = metric.correlation_ids()
        if keys is None:
            return
        for place in range(metric.num_instances()):
            self._set(row, f"{name}:{keys.as_string(place)}", metric.as_double(place))

    def _set(self, row: int, name: str, value: float) -> None:
        column = self.values.get(name)
        if column is None:
            column = self.values[name] = np.full(self._length, np.nan)
        column[row] = value

    def _factor(self, name: str, metric: Any) -> float:
        factor = self._factors.get(name)
        if factor is None:
            above, _, below = (metric.unit() or _UNSAID.get(name, "")).partition("/")
            factor = self._factors[name] = _factor(above) / _factor(below)
        return factor


def _factor(unit: str) -> float:
    """What one unit is in base units; 1 for counts of anything."""
    known = _UNIT.fullmatch(unit)
    return _PREFIXES[known[1].replace("K", "k")] if known else 1.0
