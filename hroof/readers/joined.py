"""Several files of one run as one."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from hroof.readers.doubts import check_same_devices
from hroof.readers.raw import Raw


def concatenated(raws: Sequence[Raw]) -> Raw:
    """One after the other, each a process of its own; metrics that one lacks are missing there.

    Args:
        raws: At least one.

    Raises:
        ProfileError: They are of devices of different kinds.
    """
    import pandas as pd

    if len(raws) == 1:
        return raws[0]
    for raw in raws[1:]:
        kinds = [list(one.devices.values()) for one in (raws[0], raw)]
        check_same_devices(kinds[0], kinds[1], (_name(raws[0]), _name(raw)))
    offsets = [0, *itertools.accumulate(len(raw.ranges) for raw in raws)]
    launches = [
        raw.launches.assign(
            ranges=raw.launches["ranges"].where(
                raw.launches["ranges"] < 0, raw.launches["ranges"] + offset
            ),
            process=number,
        )
        for number, (raw, offset) in enumerate(zip(raws, offsets, strict=False))
    ]
    return dataclasses.replace(
        raws[0],
        launches=pd.concat(launches, ignore_index=True),
        counters=pd.concat([raw.counters for raw in raws], ignore_index=True),
        ranges=tuple(state for raw in raws for state in raw.ranges),
        devices={number: facts for raw in reversed(raws) for number, facts in raw.devices.items()},
        facts={**raws[0].facts, "files": [f for raw in raws for f in raw.facts.get("files", [])]},
        problems=tuple(dict.fromkeys(text for raw in raws for text in raw.problems)),
        incomplete=any(raw.incomplete for raw in raws),
    )


def _name(raw: Raw) -> str:
    return ", ".join(map(repr, raw.facts.get("files", ())))
