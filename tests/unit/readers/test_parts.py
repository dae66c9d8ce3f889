"""Launches that serve several layers become rows whose shares add up."""

from __future__ import annotations

import pandas as pd
import pytest

from hroof.collect.tsl import Share
from hroof.profile import Profile
from hroof.readers.parts import once, split
from hroof.readers.places import Place
from hroof.units import Phase

FUSED = (
    Share(Phase.FORWARD, "a", 0.25, recompute=True),
    Share(Phase.BACKWARD, "b", 0.5),
    Share(Phase.DATA, None, 0.25),
)
WHOLE = Place(layer="c", phase=Phase.LOSS)
SPLIT = Place(layer="b", phase=Phase.BACKWARD, parts=FUSED)


def rows(count: int) -> pd.DataFrame:
    """Launches of 8 s and 4 FLOP, one of them missing its bytes."""
    return pd.DataFrame(
        {
            "launch_id": range(count),
            "launches": 1.0,
            "phase": "loss",
            "layer": "c",
            "layer_type": "C",
            "duration": 8.0,
            "flop_nominal_vector_fp32": 4.0,
            "bytes_dram": [float("nan")] + [100.0] * (count - 1),
            "kernel": "k",
            "recompute": False,
            "step": 2,
        }
    )


def values(frame: pd.DataFrame, name: str) -> list[object]:
    """A column, with None for what is missing."""
    return [None if pd.isna(value) else value for value in frame[name]]


def test_shares_of_work_time_and_launches_add_up() -> None:
    result = split(rows(3), [WHOLE, SPLIT, WHOLE], {"a": "A"})
    assert result["launch_id"].tolist() == [0, 1, 1, 1, 2]
    assert result.index.tolist() == [0, 1, 1, 1, 2]
    assert result["launches"].tolist() == [1.0, 0.25, 0.5, 0.25, 1.0]
    assert result["duration"].tolist() == [8.0, 2.0, 4.0, 2.0, 8.0]
    assert result["flop_nominal_vector_fp32"].tolist() == [4.0, 1.0, 2.0, 1.0, 4.0]
    assert result["bytes_dram"].tolist()[1:] == [25.0, 50.0, 25.0, 100.0]
    assert result["step"].tolist() == [2] * 5


def test_each_part_has_its_place() -> None:
    result = split(rows(3), [WHOLE, SPLIT, WHOLE], {"a": "A"})
    assert values(result, "layer") == ["c", "a", "b", None, "c"]
    assert result["recompute"].tolist() == [False, True, False, False, False]
    assert values(result, "layer_type") == ["C", "A", None, None, "C"]
    assert result["phase"].tolist() == ["loss", "forward", "backward", "data", "loss"]


def test_what_is_missing_stays_missing() -> None:
    result = split(rows(1), [SPLIT], {})
    assert result["bytes_dram"].isna().all()


def test_without_parts_nothing_changes() -> None:
    given = rows(2)
    assert split(given, [WHOLE, WHOLE], {}) is given
    empty = rows(1).iloc[:0]
    assert split(empty, [], {}) is empty


def test_counters_are_kept_once_per_launch() -> None:
    result = split(rows(2), [SPLIT, WHOLE], {})
    counters = pd.DataFrame({"x": [1.0, 2.0]}).loc[result.index]
    profile = once(Profile.from_rows(result, {}, counters))
    assert profile.counters is not None
    assert profile.counters.to_dict("list") == {
        "launch_id": [0, 1],
        "rank": [0, 0],
        "x": [1.0, 2.0],
    }
    assert len(profile.launches) == 4
    uncounted = Profile.from_rows(result, {})
    assert once(uncounted) is uncounted


@pytest.mark.parametrize("first", [True, False])
def test_a_split_launch_may_be_the_first_or_the_last(first: bool) -> None:
    places = [SPLIT, WHOLE] if first else [WHOLE, SPLIT]
    result = split(rows(2), places, {})
    assert result["launches"].sum() == 2.0
    assert result.loc[result["layer"] == "c", "launches"].tolist() == [1.0]
