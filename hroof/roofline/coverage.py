"""Coverage: how much of the time has a layer and known FLOP, and what stays out by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hroof.roofline.bounds import Flags, Floats, bytes_values, flop_known, values
from hroof.roofline.grouping import captured, sum_by
from hroof.roofline.once import remembered
from hroof.units import MemoryLevel, Phase, Source

if TYPE_CHECKING:
    import pandas as pd

    from hroof.profile import Profile


@dataclass(frozen=True)
class Coverage:
    """Shares of the time of all captured steps; NaN where no time is known at all.

    Attributes:
        time_attributed: Share that has a layer.
        time_attributed_by_phase: The same within each phase.
        time_with_flop: Share with known FLOP, of the time without data loading (see ``computes``).
        ops_without_rule: Ops with unknown FLOP → their share of the whole time, largest first. Where
            the run names the ops without a rule, only these (an op of no time has share 0), and never
            those that only load data.
        ops_unjoined: The other ops with unknown FLOP → their share: their rows found no count.
        time_unjoined: Share of the rows whose FLOP have no source, of the time without data loading.
        time_on_containers: Share that rests on a layer with layers inside, by its depth (0 is the
            root).
        time_outside_steps: Time outside captured steps ÷ time inside; these rows count nowhere
            else.
        launches: Σ launches of all captured steps.
        launches_with_bytes: Σ launches whose bytes are known, by level.
        time_loading: Share of the launches that load data, which FLOP coverage leaves out.
    """

    time_attributed: float
    time_attributed_by_phase: Mapping[str, float]
    time_with_flop: float
    ops_without_rule: Mapping[str, float]
    ops_unjoined: Mapping[str, float]
    time_unjoined: float
    time_on_containers: Mapping[int, float]
    time_outside_steps: float
    launches: float = 0.0
    launches_with_bytes: Mapping[MemoryLevel, float] = field(default_factory=dict)
    time_loading: float = 0.0


def computes(launches: pd.DataFrame) -> Flags:
    """Rows that are to have known FLOP: all but those that load data.

    What loads data is the program's own Python, decoders and copies: nothing that a FLOP rule could be about, and no
    part of the model. Unknown FLOP there say nothing about how well the model is known.
    """
    return np.asarray(launches["phase"].astype(object) != Phase.DATA.value, dtype=bool)


@remembered
def coverage(profile: Profile) -> Coverage:
    """Say how much of a run's time the report can speak for."""
    launches = captured(profile.launches)
    time = _Shares(launches)
    judged = computes(launches)
    beside = _Shares(launches[judged])
    uncounted = _by_op(launches, time, judged)
    named = profile.run.get("ops_without_rule")
    listed = set(uncounted) if named is None else {str(name) for name in named}
    listed -= set(_by_op(launches, time, ~judged)) - set(uncounted)
    ruleless = {name: uncounted.get(name, 0.0) for name in listed}
    return Coverage(
        time_attributed=time.of(launches["layer"].notna().to_numpy()),
        time_attributed_by_phase=_by_phase(launches),
        time_with_flop=beside.of(flop_known(launches)[judged]),
        ops_without_rule=_largest_first(ruleless),
        ops_unjoined=_largest_first(
            {n: share for n, share in uncounted.items() if n not in listed}
        ),
        time_unjoined=beside.of(_without_source(launches)[judged]),
        time_on_containers=_containers(profile, launches, time),
        time_outside_steps=_outside(profile.launches, launches),
        launches=_sum(values(launches, "launches")),
        launches_with_bytes={
            level: _sum(values(launches, "launches")[~np.isnan(column)])
            for level, column in bytes_values(launches).items()
        },
        time_loading=time.of(~judged) if not judged.all() else 0.0,
    )


class _Shares:
    """Shares of the known time of some rows."""

    def __init__(self, launches: pd.DataFrame) -> None:
        self.duration = np.nan_to_num(values(launches, "duration"), nan=0.0)
        self.total = _sum(self.duration)

    def of(self, rows: np.ndarray) -> float:
        return _sum(self.duration[rows]) / self.total if self.total > 0 else float("nan")


def _sum(column: Floats) -> float:
    return float(np.sort(column).sum())


def _without_source(launches: pd.DataFrame) -> np.ndarray:
    source = launches["source_flop"]
    return np.asarray(source.isna() | (source == Source.MISSING))


def _by_phase(launches: pd.DataFrame) -> dict[str, float]:
    found = sorted(
        launches["phase"].dropna().unique(), key=list(launches["phase"].cat.categories).index
    )
    parts = {str(phase): launches[launches["phase"] == phase] for phase in found}
    return {
        phase: _Shares(part).of(part["layer"].notna().to_numpy()) for phase, part in parts.items()
    }


def _by_op(launches: pd.DataFrame, time: _Shares, chosen: Flags) -> dict[str, float]:
    """Share of the time of chosen rows with unknown FLOP, by op (by kernel where there is no op)."""
    unknown = ~flop_known(launches) & chosen
    names = (
        launches["op"]
        .astype(object)
        .where(launches["op"].notna(), launches["kernel"].astype(object))
    )
    names = names.where(names.notna(), "(no op)")[unknown]
    codes, uniques = names.factorize(sort=True)
    sums = sum_by(codes.astype(np.int64), time.duration[unknown], len(uniques))
    return {
        str(name): float(s) / time.total if time.total > 0 else float("nan")
        for name, s in zip(uniques, sums, strict=True)
    }


def _largest_first(shares: dict[str, float]) -> dict[str, float]:
    return dict(sorted(shares.items(), key=lambda item: (-np.nan_to_num(item[1]), item[0])))


def _containers(profile: Profile, launches: pd.DataFrame, time: _Shares) -> dict[int, float]:
    """Share of the time on layers that contain layers, by depth."""
    depths = _container_depths(profile, launches)
    layer = launches["layer"].astype(object)
    shares = {
        depth: time.of(layer.isin([name for name, d in depths.items() if d == depth]).to_numpy())
        for depth in sorted(set(depths.values()))
    }
    return {depth: share for depth, share in shares.items() if share > 0}


def _container_depths(profile: Profile, launches: pd.DataFrame) -> dict[str, int]:
    """Name → depth of the root and of every layer that is a prefix of another one."""
    entries = [entry for entry in profile.run.get("layers") or () if isinstance(entry, dict)]
    names = {str(entry.get("name", "")) for entry in entries}
    names |= {str(name) for name in launches["layer"].dropna().unique()}
    inner = {
        ".".join(parts[:n])
        for parts in (name.split(".") for name in names)
        for n in range(1, len(parts))
    }
    depths = {name: name.count(".") + 1 for name in inner & names}
    roots = [entry for entry in entries if entry.get("depth") == 0]
    # A root's own work carries the name of its class.
    return depths | {
        str(entry.get(key)): 0 for entry in roots for key in ("name", "type") if entry.get(key)
    }


def _outside(everything: pd.DataFrame, inside: pd.DataFrame) -> float:
    total = _sum(np.nan_to_num(values(inside, "duration")))
    whole = _sum(np.maximum(np.nan_to_num(values(everything, "duration")), 0.0))
    return max(whole - total, 0.0) / total if total > 0 else float("nan")
