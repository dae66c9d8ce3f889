"""From what a file says of launches to the launch table and the machine that it knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hroof import counters
from hroof.collect import tsl
from hroof.counters import Chip
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.readers.executions import steps_of
from hroof.readers.parts import once, split
from hroof.readers.places import Place, place
from hroof.readers.raw import Raw
from hroof.units import Phase

if TYPE_CHECKING:
    import pandas as pd

HOW = {
    "time": "by the profiler, each kernel alone",
    "flop": "hardware counters",
    "bytes": "hardware counters",
}
LOSS = "(loss)"
"""The layer of a loss that no module computes."""
_UNNAMED_LOSS = (Phase.LOSS, None)
_CUT = "A file was cut off; the launches before the cut are here."


def profile_of(
    raw: Raw, run: Mapping[str, Any] | None = None, *, chip: Chip | None = None
) -> tuple[Profile, Machine | None]:
    """Derive work, place and machine of every launch.

    Args:
        raw: What the files say.
        run: What is known of the run already, as ``Profile.run``; its ``nvtx`` gives the true names behind ranges,
            its ``places`` what nodes of TensorFlow serve, and its ``layers`` their types.
        chip: The chip, where the files do not say it.

    Returns:
        The profile with the raw counters, and the machine whose peaks the counters carry, or None.
    """
    known = dict(run or {})
    chips = _chips(raw, chip)
    worked = _work(raw, chips)
    places = _places(raw, known)
    rows = _rows(raw, places, known, worked.columns)
    first = next(iter(chips.values()), None)
    name = str(_device_facts(raw).get("name") or "")
    machine = counters.machine(raw.counters, first, name=name)
    description = _describe(raw, known, chips, worked.notes, _clock(worked))
    profile = Profile.from_rows(rows, description, raw.counters.loc[rows.index])
    return once(profile), machine


def _chips(raw: Raw, given: Chip | None) -> dict[str, Chip | None]:
    """By compute capability; a chip that was named stands for those of which nothing is known."""
    names = {str(f.get("capability", "")): str(f.get("name", "")) for f in raw.devices.values()}
    stated = raw.launches["capability"].unique()
    found = {str(cap): counters.chip(str(cap), names.get(str(cap), "")) for cap in stated}
    return {cap: chip or given for cap, chip in found.items()}


def _work(raw: Raw, chips: Mapping[str, Chip | None]) -> counters.Work:
    """The work of all launches, chip by chip."""
    import pandas as pd

    parts = []
    for capability, chip in chips.items():
        rows = raw.launches["capability"] == capability
        kernels = raw.launches.loc[rows, "kernel"].tolist()
        parts.append(counters.work(raw.counters[rows], chip, kernels))
    if len(parts) == 1:
        return parts[0]
    return counters.Work(
        columns=pd.concat([part.columns for part in parts]).sort_index(),
        clock=pd.concat([part.clock for part in parts]).sort_index(),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _places(raw: Raw, known: Mapping[str, Any]) -> list[Place]:
    """The place of every launch; the last of the states stands for a launch without any."""
    nodes = tsl.read(known["places"]) if known.get("places") else None
    found = (place(state, known.get("nvtx"), nodes) for state in raw.ranges)
    states = [*(_of_region(state, known.get("name")) for state in found), Place()]
    return [states[int(number)] for number in raw.launches["ranges"]]


def _of_region(found: Place, region: object) -> Place:
    """Steps of another region of the program are none of this one; a loss that no module computes has its name."""
    if found.region is not None and region is not None and found.region != region:
        found = dataclasses.replace(found, step=None)
    parts = tuple(
        part._replace(layer=LOSS) if (part.phase, part.layer) == _UNNAMED_LOSS else part
        for part in found.parts
    )
    layer = LOSS if (found.phase, found.layer) == _UNNAMED_LOSS else found.layer
    return dataclasses.replace(found, layer=layer, parts=parts)


def _rows(
    raw: Raw, places: list[Place], known: Mapping[str, Any], work: pd.DataFrame
) -> pd.DataFrame:
    """The rows in order of launches, numbered within their places; parts of a launch have its index."""
    types = {str(e["name"]): str(e["type"]) for e in known.get("layers") or () if "type" in e}
    rows = split(_whole(raw, places, types).join(work), places, types)
    order = ["step", "phase", "recompute", "layer", "op"]
    numbers = rows[order].reset_index(drop=True).fillna("").groupby(order).cumcount()
    return rows.assign(ordinal=numbers.to_numpy())


def _whole(raw: Raw, places: list[Place], types: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    launches = raw.launches
    steps = steps_of(launches, places)
    order = sorted({step for step in steps if step is not None})
    number = {step: index for index, step in enumerate(order)}
    return pd.DataFrame(
        {
            "launch_id": range(len(launches)),
            "launches": launches["launches"],
            "aggregate": launches["aggregate"],
            "rank": _ranks(launches["process"]),
            "device": [f"cuda:{device}" for device in launches["device"]],
            "stream": launches["stream"],
            "step": [-1 if step is None else number[step] for step in steps],
            "phase": [str(p.phase) for p in places],
            "recompute": [p.recompute for p in places],
            "layer": [p.layer for p in places],
            "layer_type": [types.get(p.layer or "") for p in places],
            "op": [p.op for p in places],
            "kernel": launches["kernel"],
        },
        index=launches.index,
    )


def _ranks(processes: pd.Series) -> np.ndarray[Any, Any]:
    """Processes in the order in which they first launch."""
    import pandas as pd

    return np.asarray(pd.factorize(processes)[0])


def _scopes(raw: Raw, known: Mapping[str, Any]) -> Iterator[str]:
    """A sentence where nodes of TensorFlow stand for layers by their names alone."""
    names = {domain for state in raw.ranges for domain, _ in state.pushed}
    if tsl.DOMAIN in names and not known.get("places"):
        yield (
            "The program left no table of what TensorFlow's nodes serve: layers are called as the scopes of nodes are, "
            "of phases only backward is told. hroof run --counters leaves one."
        )


def _device_facts(raw: Raw) -> Mapping[str, Any]:
    return next(iter(raw.devices.values()), {})


def _clock(worked: counters.Work) -> float | None:
    clock = worked.clock.dropna()
    return float(clock.median()) if len(clock) else None


def _describe(
    raw: Raw,
    known: Mapping[str, Any],
    chips: Mapping[str, Chip | None],
    notes: tuple[str, ...],
    clock: float | None,
) -> dict[str, Any]:
    """What ``run.json`` holds."""
    numbers = sorted({int(device) for device in raw.launches["device"]})
    devices = {str(n): {**raw.devices.get(n, {})} for n in numbers}
    for entry in devices.values():
        chip = chips.get(str(entry.get("capability", "")))
        entry["chip"] = chip.name if chip is not None else None
    name = _device_facts(raw).get("name") or next(
        (f"GPU of chip {chip.name}" for chip in chips.values() if chip is not None), None
    )
    complete = known.get("status", "complete") == "complete" and not raw.incomplete
    reason = known.get("status_reason") or (_CUT if raw.incomplete else "")
    return {
        "name": "imported",
        "device": f"cuda:{numbers[0]}" if numbers else "cuda:0",
        "device_name": name,
        **known,
        "devices": devices,
        "clock": clock,
        "how": HOW,
        "source": dict(raw.facts),
        "status": "complete" if complete else "partial",
        "status_reason": reason,
        "warnings": [
            *(known.get("warnings") or ()),
            *raw.problems,
            *_scopes(raw, known),
            *notes,
        ],
    }
