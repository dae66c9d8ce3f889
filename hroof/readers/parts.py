"""Launches that serve several layers, as one row per part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hroof.collect.tsl import Share
from hroof.profile import SCHEMA, Profile
from hroof.readers.places import Place

if TYPE_CHECKING:
    import pandas as pd

_SHARED = [name for name, column in SCHEMA.items() if column.dtype == "float" and name != "start"]
"""What is shared among parts: counts, times, work and bytes."""

_PLACE: dict[str, Callable[[Share, Mapping[str, str]], str | bool | None]] = {
    "phase": lambda part, types: str(part.phase),
    "recompute": lambda part, types: part.recompute,
    "layer": lambda part, types: part.layer,
    "layer_type": lambda part, types: types.get(part.layer or ""),
}
"""What each part has of its own, from the part and the classes of layers."""


def split(rows: pd.DataFrame, places: Sequence[Place], types: Mapping[str, str]) -> pd.DataFrame:
    """The rows, with a row for each part of those whose place has several.

    Args:
        rows: One per launch, with its number as ``launch_id``.
        places: Of each.
        types: Classes of layers by name.

    Returns:
        Rows in the same order; those of one launch keep its index and its ``launch_id``.
    """
    counts = np.array([max(len(place.parts), 1) for place in places], dtype=np.int64)
    if not (counts > 1).any():
        return rows
    result = rows.loc[rows.index.repeat(counts)].copy()
    parts = [part for place in places for part in place.parts or (None,)]
    shares = np.array([1.0 if part is None else part.share for part in parts])
    for name in [name for name in _SHARED if name in result]:
        result[name] = result[name].to_numpy() * shares
    for name, told in _PLACE.items():
        values = zip(result[name].astype(object), parts, strict=True)
        own = [value if part is None else told(part, types) for value, part in values]
        result[name] = np.array(own, dtype=object)
    return result


def once(profile: Profile) -> Profile:
    """The profile with one row of raw counters per launch, however many parts it has."""
    if profile.counters is None:
        return profile
    keys = ["launch_id", "rank"]
    return profile.replace(counters=profile.counters.drop_duplicates(keys, ignore_index=True))
