"""Context: what every rule needs of a run, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hroof.findings.finding import Finding, severity_of
from hroof.findings.honesty import disturbed
from hroof.machine import Machine
from hroof.roofline import Point, Totals, bounds, captured, select, totals, usual_key
from hroof.roofline.grouping import FAMILY, group
from hroof.units import MemoryLevel, Phase, Pipe, Precision, percent

if TYPE_CHECKING:
    import pandas as pd

    from hroof.kernels import Family
    from hroof.profile import Profile

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

LEVELS = tuple(level.label for level in MemoryLevel)
_NAMED = 3
_SAID = 0.005


@dataclass(frozen=True)
class Context:
    """What every rule needs of a run.

    Attributes:
        profile: The run.
        machine: Its ceilings.
        totals: Its sums.
        launches: Rows of captured steps.
        bound: Rows: name of the bound, or None.
        step: Seconds of a step: undisturbed where known, else wall time, else the sum of its
            launches.
        doubtful: Other programs disturbed the run or its ceilings, see ``honesty.disturbed``.
    """

    profile: Profile
    machine: Machine
    totals: Totals
    launches: pd.DataFrame
    bound: NDArray[np.object_]
    step: float
    doubtful: bool = False

    @classmethod
    def of(cls, profile: Profile, machine: Machine) -> Context:
        """Prepare the numbers that the rules share."""
        sums, launches = totals(profile, machine), captured(profile.launches)
        bound = bounds(launches, machine)["bound"].to_numpy(dtype=object)
        step = sums.undisturbed or sums.wall or sums.time
        doubtful = disturbed(machine, sums.headroom) is not None
        return cls(profile, machine, sums, launches, bound, step, doubtful)

    @property
    def per(self) -> str:
        """What sums are about: `` a step``, or `` in all`` where there are no steps."""
        return " a step" if self.totals.steps else " in all"

    @property
    def subject(self) -> str:
        """What findings are about: ``layer``, or ``kernel`` where no layer is known."""
        return usual_key(self.launches)

    @cached_property
    def model_work(self) -> Flags:
        """Rows that are neither the optimizer's nor load data."""
        left_out = [Phase.OPTIMIZER.value, Phase.DATA.value]
        return ~np.isin(self.launches["phase"].to_numpy(dtype=str), left_out)

    @cached_property
    def _bounds(self) -> NDArray[np.str_]:
        """Rows: name of the bound as text, so that many rules can compare it."""
        return self.bound.astype(str)

    @cached_property
    def matrix(self) -> Flags:
        """Rows with matrix FLOP."""
        found = np.zeros(len(self.launches), dtype=bool)
        for q in Precision:
            found |= self.column(f"flop_least_{Pipe.MATRIX}_{q}") > 0
        return found

    def column(self, name: str) -> Floats:
        """A column of numbers."""
        return self.launches[name].to_numpy(dtype=np.float64)

    def rows(self, bound: tuple[str, ...], *, work: bool = True) -> Flags:
        """Rows with one of the bounds; ``work`` leaves optimizer and data loading out."""
        found = np.isin(self._bounds, bound)
        return found & self.model_work if work else found

    def of_family(self, *chosen: Family) -> Flags:
        """Rows of some families."""
        groups, names = group(self.launches, (FAMILY,)), [str(each) for each in chosen]
        return np.array([name in names for (name,) in groups.keys], dtype=bool)[groups.codes]

    def phase(self, phase: Phase) -> Flags:
        """Rows of one phase."""
        return np.asarray(self.launches["phase"] == phase)

    def point(self, rows: Flags) -> Point | None:
        """The work of some rows, or None where they take no time."""
        if not rows.any():
            return None
        point = select(self.profile, self.machine, rows)
        return point if point is not None and point.time > 0 else None

    def noticeable(self, rows: Flags, least: float) -> Point | None:
        """The work of some rows, or None where it takes less than a share of the launch time."""
        point = self.point(rows)
        return point if point is not None and self.share(point.time) >= least else None

    def share(self, seconds: float) -> float:
        """Share of the time of a step's launches; the median steps of a part and of the whole may differ."""
        return min(seconds / self.totals.time, 1.0) if self.totals.time > 0 else 0.0

    def layers(self, rows: Flags) -> tuple[str, ...]:
        """Layers of some rows by falling time, then by name."""
        return tuple(self._by_time(rows, "layer"))

    def named(self, rows: Flags, column: str) -> str:
        """The names that take most of the time of some rows, at most three; empty where none has one."""
        names = list(self._by_time(rows, column))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return ", ".join(names[:_NAMED]) + more

    def _by_time(self, rows: Flags, column: str) -> dict[str, float]:
        chosen = self.launches.loc[rows, [column, "duration"]]
        times = chosen.groupby(column, observed=True, sort=True)["duration"].sum()
        named = {str(name): float(time) for name, time in times.items()}
        return dict(sorted(named.items(), key=lambda pair: (-pair[1], pair[0])))

    def finding(
        self, kind: str, title: str, saves: float, share: float, action: str, assumption: str,
        layers: tuple[str, ...] = (), *, cause: str = "", evidence: tuple[str, ...] = (),
    ) -> Finding:  # fmt: skip
        """A finding whose saving is capped by the step."""
        saves = min(max(saves, 0.0), self.step)
        severity = severity_of(saves, self.step, doubtful=self.doubtful)
        return Finding(
            kind, title, layers, saves, share, action, assumption, severity, cause, evidence
        )

    def explained(self, point: Point) -> tuple[str, ...]:
        """How much of a point's time each of its ceilings explains, with where the counts come from."""
        if not point.time > 0:
            return ()
        found = [("arithmetic", point.compute_time, f" ({point.sources.get('flop')} FLOP)")]
        found += [
            (level.label, seconds, f" ({point.sources.get(level.value)} bytes)")
            for level, seconds in point.memory_times.items()
        ]
        found.append(("launches", point.launch_time, ""))
        parts = [
            f"{name} {percent(seconds / point.time, 0)}{source}"
            for name, seconds, source in found
            if seconds and seconds >= _SAID * point.time
        ]
        return (f"Of its time the ceilings explain: {', '.join(parts)}.",) if parts else ()
