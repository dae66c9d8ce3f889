"""Launches that serve several layers, as one row per part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hroof.profile import SCHEMA, Profile
from hroof.readers.places import Place

if TYPE_CHECKING:
    import pandas as pd

_SHARED = [name for name, column in SCHEMA.items() if column.dtype == "float" and name != "start"]
"""What is shared among parts: counts, times, work and bytes."""


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
    for name in ("phase", "layer", "layer_type"):
        result[name] = result[name].astype(object)
    places_of = [number for number, part in enumerate(parts) if part is not None]
    divided = [part for part in parts if part is not None]
    at = result.columns.get_indexer(["phase", "layer", "layer_type"])
    result.iloc[places_of, at] = np.array(
        [[str(part.phase), part.layer, types.get(part.layer or "")] for part in divided],
        dtype=object,
    )
    return result


def once(profile: Profile) -> Profile:
    """The profile with one row of raw counters per launch, however many parts it has."""
    if profile.counters is None:
        return profile
    keys = ["launch_id", "rank"]
    return profile.replace(counters=profile.counters.drop_duplicates(keys, ignore_index=True))
