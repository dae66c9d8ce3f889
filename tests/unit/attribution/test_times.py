"""Times of a run without counters, for the launches of a run with them."""

from __future__ import annotations

from typing import Any

import pytest

from hroof.attribution import with_times
from hroof.errors import UsageError
from hroof.profile import Profile

GEMM = "void gemm<float, (int)4>(T1::Params)"


def profile(*rows: dict[str, Any], **run: Any) -> Profile:
    """Launches of one kernel in one layer and step, where a row does not say otherwise."""
    usual = {
        "rank": 0,
        "recompute": False,
        "kernel": GEMM,
        "layer": "fc",
        "phase": "forward",
        "step": 0,
        "duration": 1.0,
    }
    counted = [{**usual, "source_time": "counter", **row} for row in rows]
    return Profile.from_rows(counted, run)


def times(found: Profile) -> list[float]:
    return [float(value) for value in found.launches["duration"]]


def test_launches_are_known_again_by_their_order() -> None:
    counted = profile({"duration": 8.0}, {"duration": 9.0}, {"duration": 4.0, "layer": "head"})
    plain = profile({"duration": 2.0}, {"duration": 3.0}, {"duration": 1.0, "layer": "head"})
    found, share = with_times(counted, plain)
    assert times(found) == [2.0, 3.0, 1.0]
    assert share == 1.0
    assert set(found.launches["source_time"]) == {"measured"}


def test_the_time_is_the_median_over_the_steps() -> None:
    plain = profile(*({"step": n, "duration": t} for n, t in enumerate([5.0, 1.0, 2.0])))
    found, _ = with_times(profile({"duration": 9.0}, {"duration": 8.0, "step": 1}), plain)
    assert times(found) == [2.0, 2.0]


def test_template_arguments_are_spelt_differently_by_other_tools() -> None:
    plain = profile({"kernel": "void gemm<float, 4>(Params)", "duration": 0.5})
    assert times(with_times(profile({}), plain)[0]) == [0.5]


@pytest.mark.parametrize(
    "other",
    [{"phase": "backward"}, {"layer": "fc2"}, {"kernel": "copy"}, {"rank": 1}, {"recompute": True}],
)
def test_another_place_gives_no_time(other: dict[str, Any]) -> None:
    counted = profile({"duration": 3.0}, {"duration": 1.0, "layer": "same"})
    plain = profile({"duration": 0.5, **other}, {"duration": 0.5, "layer": "same"})
    found, share = with_times(counted, plain)
    assert times(found) == [3.0, 0.5]
    assert share == 0.25
    assert list(found.launches["source_time"]) == ["counter", "measured"]


def test_another_number_of_launches_is_no_order_to_trust() -> None:
    counted = profile({"duration": 3.0}, {"duration": 4.0})
    found, share = with_times(counted, profile({"duration": 0.5}))
    assert times(found) == [3.0, 4.0]
    assert share == 0.0


def test_a_number_that_differs_between_the_plain_steps_is_none_either() -> None:
    plain = profile({"duration": 0.5}, {"duration": 0.5}, {"step": 1, "duration": 0.5})
    assert times(with_times(profile({"duration": 3.0}), plain)[0]) == [3.0]
    assert times(with_times(profile({}, {}), plain)[0]) == [1.0, 1.0]


def test_a_step_that_lacks_a_launch_is_left_alone() -> None:
    counted = profile({}, {}, {"step": 1})
    found, _ = with_times(counted, profile({"duration": 0.5}, {"duration": 0.25}))
    assert times(found) == [0.5, 0.25, 1.0]


def test_launches_without_layer_or_kernel() -> None:
    counted = profile({"layer": None}, {"kernel": None, "op": "aten::copy_"})
    plain = profile({"layer": None, "duration": 0.5}, {"kernel": None, "duration": 0.25})
    assert times(with_times(counted, plain)[0]) == [0.5, 1.0]


def test_work_counters_and_the_rest_stay() -> None:
    counted = profile({"bytes_dram": 64.0, "stream": 7}, status="complete")
    found, share = with_times(counted, profile({"duration": 0.5}))
    assert found.launches["bytes_dram"].tolist() == [64.0]
    assert found.launches["stream"].tolist() == [7]
    assert found.run["status"] == "complete"
    assert found.run["times_joined"] == share == 1.0
    assert "100.0 %" in found.run["how"]["time"]


def test_flushed_caches_do_not_go_with_other_times() -> None:
    counted = profile({}, counters_mode={"cache": "all", "clock": "base"})
    with pytest.raises(UsageError, match="flushed caches"):
        with_times(counted, profile({}))


def test_nothing_counted_takes_no_time() -> None:
    found, share = with_times(profile(), profile({}))
    assert found.launches.empty
    assert share == 0.0
