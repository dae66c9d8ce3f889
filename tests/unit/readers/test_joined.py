"""Several reports as one run."""

from __future__ import annotations

import pandas as pd
import pytest

from hroof.errors import ProfileError
from hroof.readers.joined import concatenated
from hroof.readers.raw import IDENTITY, Ranges, Raw


def raw(kernels: list[str], metric: str = "dram__bytes.sum", **changes: object) -> Raw:
    launches = pd.DataFrame({"kernel": kernels, "ranges": range(len(kernels))})
    counters = pd.DataFrame({metric: [1.0] * len(kernels)})
    ranges = tuple(Ranges(pushed=(("d", name),)) for name in kernels)
    facts = {"files": [f"{kernels[0]}.ncu-rep"], "dialect": "report"}
    return Raw(launches, counters, ranges, facts=facts, **changes)  # type: ignore[arg-type]


def test_what_a_file_does_not_say_has_its_default() -> None:
    found = raw(["a"]).launches
    assert set(found) == set(IDENTITY)
    assert found.loc[0, "launches"] == 1.0
    assert not found.loc[0, "aggregate"]


def test_launches_and_counters_belong_together() -> None:
    with pytest.raises(ProfileError, match="1 launches and 2 rows"):
        Raw(pd.DataFrame({"kernel": ["a"]}), pd.DataFrame({"m": [1.0, 2.0]}))


def test_one_file_stays_as_it_is() -> None:
    one = raw(["a"])
    assert concatenated([one]) is one


def test_each_file_is_a_process_and_keeps_its_ranges() -> None:
    both = concatenated([raw(["a", "b"]), raw(["c"])])
    assert both.launches["process"].tolist() == [0, 0, 1]
    assert [both.ranges[n].pushed[0][1] for n in both.launches["ranges"]] == ["a", "b", "c"]
    assert both.facts["files"] == ["a.ncu-rep", "c.ncu-rep"]


def test_launches_without_ranges_stay_without() -> None:
    without = raw(["x"])
    without.launches["ranges"] = -1
    assert concatenated([raw(["a"]), without]).launches["ranges"].tolist() == [0, -1]


def test_a_metric_that_one_file_lacks_is_missing_there() -> None:
    both = concatenated([raw(["a"], "one"), raw(["b"], "two")])
    assert both.counters.isna().to_numpy().tolist() == [[False, True], [True, False]]


def test_problems_cuts_and_devices_add_up() -> None:
    first = raw(["a"], problems=("p",), devices={0: {"name": "A"}})
    second = raw(["b"], problems=("p", "q"), devices={0: {"name": "A"}, 1: {"name": "C"}})
    both = concatenated([first, second, raw(["c"], incomplete=True)])
    assert both.problems == ("p", "q")
    assert both.incomplete
    assert both.devices == {0: {"name": "A"}, 1: {"name": "C"}}


A100 = {"name": "A100", "capability": "8.0"}
V100 = {"name": "V100", "capability": "7.0"}


def test_reports_of_different_devices_are_refused() -> None:
    first, second = raw(["a"], devices={0: A100}), raw(["b"], devices={0: V100})
    with pytest.raises(
        ProfileError, match=r"'a\.ncu-rep' is of A100 \(8\.0\) and 'b\.ncu-rep'"
    ) as caught:
        concatenated([first, second])
    assert "V100 (7.0)" in str(caught.value)
    assert "one by one" in str(caught.value)


def test_processes_on_devices_of_one_kind_are_one_run() -> None:
    both = concatenated([raw(["a"], devices={0: A100}), raw(["b"], devices={1: A100})])
    assert both.devices == {0: A100, 1: A100}


def test_a_device_without_a_name_is_of_the_kind_of_its_capability() -> None:
    nameless = {"name": "", "capability": "8.0"}
    assert (
        len(
            concatenated(
                [raw(["a"], devices={0: A100}), raw(["b"], devices={0: nameless})]
            ).launches
        )
        == 2
    )
