"""Signs: load, stolen time, quotas, heat and throttling, read from made-up descriptions of a computer."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hroof.ceilings import signs
from hroof.ceilings.signs import Signs, facts, look


def put(root: Path, path: str, text: str) -> None:
    """Write one file of the system."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


@pytest.fixture
def computer(tmp_path: Path) -> Path:
    """A computer that shows everything."""
    put(tmp_path, "proc/loadavg", "1.25 0.80 0.50 2/300 4242")
    put(tmp_path, "proc/stat", "cpu  100 0 50 800 10 0 5 35 20 0\ncpu0 1 2 3 4 5 6 7 8 9 10")
    put(tmp_path, "sys/fs/cgroup/cpu.stat", "usage_usec 5\nnr_periods 90\nnr_throttled 7")
    for cpu, count in ((0, 3), (1, 4)):
        path = f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count"
        put(tmp_path, path, str(count))
    put(tmp_path, "sys/class/thermal/thermal_zone0/temp", "51000")
    put(tmp_path, "sys/class/thermal/thermal_zone1/temp", "67500")
    return tmp_path


def test_everything_that_is_shown_is_seen(computer: Path) -> None:
    assert look(computer) == Signs(1.25, 1000, 35, 7, 7, 67.5)


def test_what_is_not_shown_is_missing(tmp_path: Path) -> None:
    seen = look(tmp_path)
    assert math.isnan(seen.load) and math.isnan(seen.temperature)
    assert (seen.ticks, seen.stolen, seen.quota_hits, seen.throttles) == (None,) * 4
    assert facts(seen, seen) == {}


def test_the_older_kind_of_control_group_is_read(tmp_path: Path) -> None:
    put(tmp_path, "sys/fs/cgroup/cpu/cpu.stat", "nr_periods 90\nnr_throttled 2\nthrottled_time 5")
    assert look(tmp_path).quota_hits == 2


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("proc/loadavg", "much"),
        ("proc/stat", "cpu 1 2 3"),
        ("sys/class/thermal/thermal_zone0/temp", "hot"),
        ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "-"),
        ("sys/fs/cgroup/cpu.stat", "nr_throttled"),
    ],
)
def test_odd_content_is_missing(tmp_path: Path, path: str, text: str) -> None:
    put(tmp_path, path, text)
    assert facts(look(tmp_path), look(tmp_path)) == {}


def test_what_happened_lies_between_two_looks() -> None:
    before = Signs(0.5, 1000, 10, 3, 100, 40.0)
    after = Signs(2.0, 3000, 110, 5, 100, 71.5)
    assert facts(before, after) == {
        "load": [0.5, 2.0],
        "stolen_share": pytest.approx(0.05),
        "quota_hits": 2,
        "throttles": 0,
        "temperature": [40.0, 71.5],
    }


def test_no_time_between_two_looks_has_no_share() -> None:
    seen = Signs(ticks=1000, stolen=10)
    assert "stolen_share" not in facts(seen, seen)


def test_a_counter_that_starts_again_is_not_negative() -> None:
    assert facts(Signs(quota_hits=9), Signs(quota_hits=1)) == {"quota_hits": 0}


def test_this_computer_can_be_looked_at() -> None:
    first, second = signs.look(), signs.look()
    assert isinstance(facts(first, second), dict)
    if first.ticks is not None and second.ticks is not None:
        assert second.ticks >= first.ticks > 0
