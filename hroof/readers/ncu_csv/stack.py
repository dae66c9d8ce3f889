"""Several tables of one file: launches of several processes, or of several runs that were appended."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hroof.errors import ProfileError
from hroof.readers.ncu_csv import join
from hroof.readers.ncu_csv.launches import Part
from hroof.readers.raw import Ranges


def stacked(parts: Sequence[Part]) -> Part:
    """One part of the tables of a file.

    Tables with the same metrics hold launches of several processes and come one below the other; tables
    that have no metric in common are runs of one program and are joined.

    Raises:
        ProfileError: The same launches stand in two tables.
    """
    if len(parts) == 1:
        return parts[0]
    metrics = [set(part.counters) for part in parts]
    if all(not (one & other) for at, one in enumerate(metrics) for other in metrics[:at]):
        return join.joined(parts)
    _check_different(parts)
    return _below(parts)


def _check_different(parts: Sequence[Part]) -> None:
    seen: set[tuple[int, int]] = set()
    for part in parts:
        frame = part.launches
        if (frame["id"] < 0).any():
            continue
        own = set(zip(frame["process"], frame["id"], strict=True))
        if own & seen:
            raise ProfileError(
                f"{part.names[0]} holds the same launches in two tables.",
                "A file was probably appended to itself; keep one of the tables.",
            )
        seen |= own


def _below(parts: Sequence[Part]) -> Part:
    import pandas as pd

    states: tuple[Ranges, ...] = ()
    frames = []
    for part in parts:
        frame = part.launches
        known = frame["ranges"] >= 0
        frames.append(
            frame.assign(ranges=frame["ranges"].where(~known, frame["ranges"] + len(states)))
        )
        states += part.ranges
    devices = {number: facts for part in parts for number, facts in part.devices.items()}
    programs = {process: name for part in parts for process, name in part.programs.items()}
    return dataclasses.replace(
        parts[0],
        launches=pd.concat(frames, ignore_index=True),
        counters=pd.concat([part.counters for part in parts], ignore_index=True),
        ranges=states,
        devices=devices,
        programs=programs,
        problems=tuple(dict.fromkeys(problem for part in parts for problem in part.problems)),
        incomplete=any(part.incomplete for part in parts),
    )
