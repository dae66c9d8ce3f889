"""Machine: the ceilings of one device; balance, attainable rates, saving and loading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hroof.errors import ProfileError
from hroof.files import read_json, write_json
from hroof.units import MemoryLevel, Pipe, Precision

MACHINE_SCHEMA = 1
_KIND = "hroof machine"

How = Literal["measured", "framework-reachable", "counter peak", "datasheet"]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One limit of the machine.

    Attributes:
        rate: Best sustained rate, in FLOP/s (OP/s for integers), B/s, or seconds for the launch cost.
        how: What kind of evidence it is.
        kernel: Which kernel reached it.
        median: Median of the samples, same unit.
        spread: (highest − lowest quartile) / median of the samples.
        samples: How many samples.
        note: What a reader has to know, e.g. which traffic was counted.
    """

    rate: float
    how: How = "framework-reachable"
    kernel: str = ""
    median: float = float("nan")
    spread: float = float("nan")
    samples: int = 0
    note: str = ""


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

    def balance(self, pipe: Pipe, precision: Precision, level: MemoryLevel) -> float | None:
        """Machine balance, peak ÷ bandwidth in FLOP/B: the intensity of the ridge point."""
        peak, bandwidth = self.peaks.get((pipe, precision)), self.bandwidths.get(level)
        return None if peak is None or bandwidth is None else peak.rate / bandwidth.rate

    def attainable(self, intensity: float, pipe: Pipe, precision: Precision, level: MemoryLevel) -> float | None:
        """The Roofline: min(peak, intensity × bandwidth) in FLOP/s (Williams et al. 2009)."""
        peak, bandwidth = self.peaks.get((pipe, precision)), self.bandwidths.get(level)
        if peak is None or bandwidth is None:
            return None
        return min(peak.rate, intensity * bandwidth.rate)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, base SI units; the keys are stable."""
        ceilings: dict[str, Ceiling] = {f"{p}_{q}": c for (p, q), c in self.peaks.items()}
        ceilings |= {str(level): ceiling for level, ceiling in self.bandwidths.items()}
        if self.launch_cost is not None:
            ceilings["launch_cost"] = self.launch_cost
        return {
            "kind": _KIND,
            "schema": MACHINE_SCHEMA,
            "name": self.name,
            "device": self.device,
            "peaks": {f"{pipe}_{precision}": c.rate for (pipe, precision), c in self.peaks.items()},
            "bandwidths": {str(level): c.rate for level, c in self.bandwidths.items()},
            "launch_cost": None if self.launch_cost is None else self.launch_cost.rate,
            "caches": {str(level): size for level, size in self.caches.items()},
            "shared_pipes": self.shared_pipes,
            "facts": dict(self.facts),
            "warnings": list(self.warnings),
            "how": {name: c.how for name, c in ceilings.items()},
            "kernel": {name: c.kernel for name, c in ceilings.items()},
            "median": {name: c.median for name, c in ceilings.items()},
            "spread": {name: c.spread for name, c in ceilings.items()},
            "samples": {name: c.samples for name, c in ceilings.items()},
            "note": {name: c.note for name, c in ceilings.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, where: str = "machine") -> Machine:
        """Read what ``to_json`` gave.

        Raises:
            ProfileError: The data are not a machine, or of a newer schema.
        """
        if data.get("kind") != _KIND:
            raise ProfileError(f"{where!r} is not a machine.", "Give a file that hroof ceilings wrote.")
        if not isinstance(data.get("schema"), int) or data["schema"] > MACHINE_SCHEMA:
            raise ProfileError(
                f"{where!r} has machine schema {data.get('schema')!r}; this hroof reads up to {MACHINE_SCHEMA}.",
                "Upgrade hroof, or measure the ceilings again.",
            )
        try:
            return _machine(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProfileError(f"{where!r} is a damaged machine: {error!r}.", "Measure the ceilings again.") from error

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
    def ceiling(name: str, rate: float) -> Ceiling:
        optional = {
            key: data[key][name]
            for key in ("how", "kernel", "median", "spread", "samples", "note")
            if data.get(key, {}).get(name) is not None
        }
        return Ceiling(float(rate), **optional)

    def pair(name: str) -> tuple[Pipe, Precision]:
        pipe, precision = name.split("_", 1)
        return Pipe(pipe), Precision(precision)

    cost = data.get("launch_cost")
    return Machine(
        name=data["name"],
        device=data["device"],
        peaks={pair(name): ceiling(name, rate) for name, rate in data["peaks"].items()},
        bandwidths={MemoryLevel(name): ceiling(name, rate) for name, rate in data["bandwidths"].items()},
        launch_cost=None if cost is None else ceiling("launch_cost", cost),
        caches={MemoryLevel(name): int(size) for name, size in data.get("caches", {}).items()},
        shared_pipes=bool(data.get("shared_pipes", False)),
        facts=data.get("facts", {}),
        warnings=tuple(data.get("warnings", ())),
    )
