"""Impossible values and devices of different kinds."""

from __future__ import annotations

import pandas as pd
import pytest

from hroof.errors import ProfileError
from hroof.readers.doubts import check_same_devices, doubted
from hroof.readers.raw import Raw

A100 = {"name": "A100", "capability": "8.0"}
V100 = {"name": "V100", "capability": "7.0"}


def raw(counters: dict[str, list[float]], **columns: list[object]) -> Raw:
    count = len(next(iter(counters.values())))
    launches = pd.DataFrame({"kernel": ["k"] * count, **columns})
    return Raw(launches, pd.DataFrame(counters), problems=("said before.",))


def test_launches_without_doubts_stay_as_they_are() -> None:
    found = doubted(raw({"dram__bytes.sum": [0.0, 1.0]}))
    assert found.counters["dram__bytes.sum"].tolist() == [0.0, 1.0]
    assert found.problems == ("said before.",)


def test_negative_counts_are_missing_and_said() -> None:
    given = raw({"dram__bytes.sum": [-5.0, 1.0], "gpu__time_duration.sum": [-1.0, -2.0]})
    found = doubted(given)
    assert found.counters["dram__bytes.sum"].isna().tolist() == [True, False]
    assert found.counters["gpu__time_duration.sum"].isna().all()
    (_, sentence) = found.problems
    assert sentence.startswith("3 values of dram__bytes.sum, gpu__time_duration.sum are negative")
    assert given.counters["dram__bytes.sum"].tolist() == [-5.0, 1.0]


def test_one_negative_value_is_one() -> None:
    (_, sentence) = doubted(raw({"dram__bytes.sum": [-5.0]})).problems
    assert sentence == (
        "A value of dram__bytes.sum is negative, which no count can be; it is taken as missing."
    )


def test_settings_of_the_device_may_be_negative() -> None:
    found = doubted(raw({"device__attribute_x": [-1.0], "launch__y": [-1.0]}))
    assert found.counters.iloc[0].tolist() == [-1.0, -1.0]
    assert found.problems == ("said before.",)


def test_devices_of_different_kinds_in_one_file_are_named() -> None:
    found = doubted(raw({"m": [1.0, 1.0]}, device=[0, 1], capability=["8.0", "9.0"]))
    (_, sentence) = found.problems
    assert "0 (compute capability 8.0), 1 (compute capability 9.0)" in sentence
    assert "--by device" in sentence
    assert found.launches["device"].tolist() == [0, 1]


def test_two_kinds_under_one_number_are_named_too() -> None:
    found = doubted(raw({"m": [1.0, 1.0]}, capability=["8.0", "9.0"]))
    assert "0 (compute capability 8.0), 0 (compute capability 9.0)" in found.problems[1]


def test_several_devices_of_one_kind_are_no_doubt() -> None:
    found = doubted(raw({"m": [1.0, 1.0]}, device=[0, 1], capability=["8.0", "8.0"]))
    assert found.problems == ("said before.",)


def test_files_of_the_same_kinds_belong_together() -> None:
    names = ("a", "b")
    check_same_devices([A100], [A100, A100], names)
    check_same_devices([A100, V100], [V100], names)
    check_same_devices([V100], [A100, V100], names)
    check_same_devices([A100], [], names)
    check_same_devices([A100], [{"capability": "8.0"}], names)


def test_files_of_other_kinds_are_refused() -> None:
    with pytest.raises(ProfileError, match=r"a is of A100 \(8\.0\) and b of V100 \(7\.0\)"):
        check_same_devices([A100], [V100], ("a", "b"))
    with pytest.raises(ProfileError, match=r"b of a device of compute capability 9\.0"):
        check_same_devices([A100], [{"capability": "9.0"}], ("a", "b"))
