"""Machine: the ceilings of one device; balance, attainable rates, saving and loading."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from hroof.errors import ProfileError
from hroof.files import json_ready, read_json, write_json
from hroof.units import MemoryLevel, Pipe, Precision

MACHINE_SCHEMA = 1
_KIND = "hroof machine"

_DESCRIBED = (
    "how",
    "kernel",
    "median",
    "spread",
    "samples",
    "note",
    "threads",
    "size",
    "clock",
)
"""What is said of each ceiling beside its rate."""

How = Literal["measured", "framework-reachable", "counter peak", "datasheet", "given"]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One limit of the machine.

    Attributes:
        rate: Best sustained rate: FLOP/s (OP/s for integers), B/s, or seconds for the launch cost.
        how: What kind of evidence it is; ``given`` where a file of the user's own does not say.
        kernel: Which kernel reached it.
        median: Median of the samples, same unit.
        spread: (highest − lowest quartile) / median of the samples.
        samples: How many samples.
        note: What a reader has to know, e.g. which traffic was counted.
        threads: Threads that the kernel used; 0 where that is not known, or means nothing.
        size: Bytes that each thread touched, where the kernel says so.
        clock: Clock of the cores right after the kernel, in Hz; NaN where it is not known.
    """

    rate: float
    how: How = "framework-reachable"
    kernel: str = ""
    median: float = math.nan
    spread: float = math.nan
    samples: int = 0
    note: str = ""
    threads: int = 0
    size: int | None = None
    clock: float = math.nan


@dataclass(frozen=True)
class Sweep:
    """Bandwidth over the size of the working set.

    Attributes:
        sizes: Bytes that each thread touches, rising.
        rates: Best B/s of all threads together at each size.
        kernel: Which kernel was swept.
        threads: How many threads it used.
        plateaus: Levels that the curve itself shows, from the cores outwards, as (B/s, bytes of the last size on it).
    """

    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    kernel: str = ""
    threads: int = 1
    plateaus: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True)
class Machine:
    """A device seen as its ceilings.

    Attributes:
        name: Name of the device.
        device: ``cpu`` or ``cuda:0``.
        peaks: FLOP/s per (pipe, precision).
        bandwidths: B/s per memory level.
        launch_cost: Seconds that one launch takes when launches serialise (CPU: one op's dispatch);
            None where it is not known.
        caches: Capacity in bytes of each cache level, all cores together.
        shared_pipes: Vector and matrix work run in the same unit, so their times add up.
        facts: Threads, versions, clock, date, environment variables that matter; plain JSON values.
        warnings: What is doubtful about the ceilings, one sentence each.
        others: Rates beside the ceilings by name: ``dram copy``, ``vector_fp32 no fma``, ``matrix_bf16 burst``.
        sweep: Bandwidth over working sets, where it was measured.
    """

    name: str
    device: str = "cpu"
    peaks: Mapping[tuple[Pipe, Precision], Ceiling] = field(default_factory=dict)
    bandwidths: Mapping[MemoryLevel, Ceiling] = field(default_factory=dict)
    launch_cost: Ceiling | None = None
    caches: Mapping[MemoryLevel, int] = field(default_factory=dict)
    shared_pipes: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    others: Mapping[str, Ceiling] = field(default_factory=dict)
    sweep: Sweep | None = None

    def __post_init__(self) -> None:
        # One order, whatever the order of measuring or of the file: reports are the same before and after saving.
        pairs = [(pipe, precision) for pipe in Pipe for precision in Precision]
        object.__setattr__(self, "peaks", _in_order(self.peaks, pairs))
        object.__setattr__(self, "bandwidths", _in_order(self.bandwidths, MemoryLevel))
        object.__setattr__(self, "caches", _in_order(self.caches, MemoryLevel))

    def balance(self, pipe: Pipe, precision: Precision, level: MemoryLevel) -> float | None:
        """Machine balance, peak ÷ bandwidth in FLOP/B: the intensity of the ridge point."""
        peak, bandwidth = self.peaks.get((pipe, precision)), self.bandwidths.get(level)
        return None if peak is None or bandwidth is None else peak.rate / bandwidth.rate

    def attainable(
        self, intensity: float, pipe: Pipe, precision: Precision, level: MemoryLevel
    ) -> float | None:
        """The Roofline: min(peak, intensity × bandwidth) in FLOP/s (Williams et al. 2009)."""
        peak, bandwidth = self.peaks.get((pipe, precision)), self.bandwidths.get(level)
        if peak is None or bandwidth is None:
            return None
        return min(peak.rate, intensity * bandwidth.rate)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, base SI units, missing as None; the keys are stable."""
        ceilings: dict[str, Ceiling] = {f"{p}_{q}": c for (p, q), c in self.peaks.items()}
        ceilings |= {str(level): ceiling for level, ceiling in self.bandwidths.items()}
        if self.launch_cost is not None:
            ceilings["launch_cost"] = self.launch_cost
        ceilings |= self.others
        data = {
            "kind": _KIND,
            "schema": MACHINE_SCHEMA,
            "name": self.name,
            "device": self.device,
            "peaks": {f"{pipe}_{precision}": c.rate for (pipe, precision), c in self.peaks.items()},
            "bandwidths": {str(level): c.rate for level, c in self.bandwidths.items()},
            "launch_cost": None if self.launch_cost is None else self.launch_cost.rate,
            "others": {name: c.rate for name, c in self.others.items()},
            "sweep": None if self.sweep is None else asdict(self.sweep),
            "caches": {str(level): size for level, size in self.caches.items()},
            "shared_pipes": self.shared_pipes,
            "facts": dict(self.facts),
            "warnings": list(self.warnings),
            **{key: {n: getattr(c, key) for n, c in ceilings.items()} for key in _DESCRIBED},
        }
        return {key: json_ready(value) for key, value in data.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, where: str = "machine") -> Machine:
        """Read what ``to_json`` gave.

        Raises:
            ProfileError: The data are not a machine, or of a newer schema.
        """
        if data.get("kind") != _KIND:
            raise ProfileError(
                f"{where!r} is not a machine.", "Give a file that hroof ceilings wrote."
            )
        if type(data.get("schema")) is not int or not 1 <= data["schema"] <= MACHINE_SCHEMA:
            raise ProfileError(
                f"{where!r} has machine schema {data.get('schema')!r}; "
                f"this hroof reads up to {MACHINE_SCHEMA}.",
                "Upgrade hroof, or measure the ceilings again.",
            )
        try:
            return _machine(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProfileError(
                f"{where!r} is a damaged machine: {error!r}.", "Measure the ceilings again."
            ) from error

    def save(self, path: str | Path) -> Path:
        """Write ``machine.json`` atomically.

        Raises:
            OutputError: It cannot be written there.
        """
        write_json(Path(path), self.to_json())
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Machine:
        """Read a machine file.

        Raises:
            ProfileError: It is absent, damaged or not a machine.
        """
        return cls.from_json(read_json(Path(path), "a machine"), where=str(path))


def _machine(data: Mapping[str, Any]) -> Machine:
    cost = data.get("launch_cost")
    warnings = data.get("warnings", [])
    if not isinstance(warnings, list):
        raise TypeError(f"warnings are {warnings!r}")
    return Machine(
        name=str(data["name"]),
        device=str(data["device"]),
        peaks={_pair(key): _ceiling(data, key, rate) for key, rate in data["peaks"].items()},
        bandwidths={
            MemoryLevel(key): _ceiling(data, key, rate) for key, rate in data["bandwidths"].items()
        },
        launch_cost=None if cost is None else _ceiling(data, "launch_cost", cost),
        caches={MemoryLevel(key): int(size) for key, size in data.get("caches", {}).items()},
        shared_pipes=bool(data.get("shared_pipes", False)),
        facts=dict(data.get("facts", {})),
        warnings=tuple(map(str, warnings)),
        others={k: _ceiling(data, k, rate) for k, rate in data.get("others", {}).items()},
        sweep=_sweep(data.get("sweep")),
    )


def _sweep(data: Mapping[str, Any] | None) -> Sweep | None:
    if data is None:
        return None
    return Sweep(
        sizes=tuple(int(size) for size in data["sizes"]),
        rates=tuple(float(rate) for rate in data["rates"]),
        kernel=str(data["kernel"]),
        threads=int(data["threads"]),
        plateaus=tuple((float(rate), int(size)) for rate, size in data["plateaus"]),
    )


Named = TypeVar("Named")
Value = TypeVar("Value")


def _in_order(found: Mapping[Named, Value], order: Iterable[Named]) -> dict[Named, Value]:
    return {name: found[name] for name in order if name in found}


def _pair(key: str) -> tuple[Pipe, Precision]:
    pipe, precision = key.split("_", 1)
    return Pipe(pipe), Precision(precision)


def _ceiling(data: Mapping[str, Any], key: str, rate: float) -> Ceiling:
    said = {name: data[name][key] for name in _DESCRIBED if data.get(name, {}).get(key) is not None}
    ceiling = Ceiling(float(rate), **{"how": "given", **said})
    if not (math.isfinite(ceiling.rate) and ceiling.rate > 0):
        raise ValueError(f"{key} is {rate!r}")
    if ceiling.how not in get_args(How):
        raise ValueError(f"how of {key} is {ceiling.how!r}")
    return ceiling
