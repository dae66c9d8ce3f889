"""Cache: measured once per machine and settings; damage and read-only folders are no errors."""

from __future__ import annotations

import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.ceilings import Plan, Senses, cache_folder, cached, checks, known, listed, renewed
from hroof.ceilings.cache import better, cache_path
from hroof.ceilings.signs import Signs
from hroof.machine import Machine, Sweep
from hroof.units import MemoryLevel, Pipe, Precision

PLAN = Plan(seconds=0.001, spread_seconds=0.001)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, not there yet."""
    monkeypatch.setenv("HROOF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def chip(fake: SimpleNamespace) -> Any:
    """An integration with one kernel per cache."""
    levels = [(300e9, MemoryLevel.L1), (200e9, MemoryLevel.L2)]
    return fake.integration([fake.level("sum", *level) for level in levels], threads=2)


@pytest.fixture
def get(chip: Any, clock: Any) -> Any:
    """Asks for the ceilings of the chip on the fake clock."""
    return lambda own=1.0, **more: cached(chip, plan=PLAN, senses=senses(clock, own), **more)


def senses(clock: Any, own: float = 1.0) -> Senses:
    """A fake clock, of which this thread has a share; nothing else is seen."""
    return Senses(clock, lambda: own * clock.now, lambda: None, Signs)


def test_the_second_time_nothing_is_measured(folder: Path, chip: Any, get: Any) -> None:
    first, second = get(), get()
    assert first == second
    assert chip.searches == 1
    assert [path.name for path in folder.iterdir()] == [cache_path(chip, chip.device()).name]


def test_refresh_measures_again(folder: Path, chip: Any, get: Any) -> None:
    get()
    get(refresh=True)
    assert chip.searches == 2


def test_a_full_measurement_serves_a_quick_wish_but_not_the_other_way(
    folder: Path, chip: Any, get: Any
) -> None:
    assert get(quick=True).facts["quick"] is True
    assert get(quick=True).facts["quick"] is True
    assert chip.searches == 1
    assert get().facts["quick"] is False
    assert chip.searches == 2
    assert get(quick=True).facts["quick"] is False
    assert chip.searches == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kind": "other"}', '{"kind": "hroof mach'])
def test_a_damaged_file_is_measured_again_with_a_warning(
    folder: Path, chip: Any, get: Any, content: str
) -> None:
    path = cache_path(chip, chip.device())
    folder.mkdir()
    path.write_text(content)
    machine = get()
    assert machine.warnings[-1].endswith("It was measured again.")
    assert str(path) in machine.warnings[-1]
    # The damage is over, and so is the warning.
    assert get() == dataclasses.replace(machine, warnings=machine.warnings[:-1])
    assert chip.searches == 1


def test_an_unwritable_folder_is_only_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, get: Any, chip: Any
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HROOF_CACHE", str(tmp_path / "file" / "cache"))
    machine = get()
    assert MemoryLevel.L1 in machine.bandwidths
    assert machine.warnings[-1].startswith("Cannot write ")
    assert machine.warnings[-1].endswith("The ceilings will be measured again next time.")
    get()
    assert chip.searches == 2


def test_racing_writers_leave_one_whole_file(folder: Path, chip: Any, get: Any) -> None:
    machine = get()
    path = cache_path(chip, chip.device())
    with ThreadPoolExecutor(4) as pool:
        saved = [pool.submit(machine.save, path) for _ in range(20)]
        read = [pool.submit(Machine.load, path) for _ in range(20)]
        assert all(job.result() == path for job in saved)
        assert all(job.result() == machine for job in read)
    assert list(folder.iterdir()) == [path]


# --- disturbed measurements ---


def test_a_disturbed_measurement_is_repeated_twice(
    folder: Path, chip: Any, get: Any, clock: Any
) -> None:
    busy = {"own": 0.5}
    for searches, attempts in ((1, 1), (2, 2), (3, 3), (3, 3)):
        machine = get(**busy)
        assert chip.searches == searches
        assert machine.facts.get("attempts", 1) == attempts
        assert any("Other programs took" in warning for warning in machine.warnings)


def test_a_quiet_repetition_ends_the_disturbance(
    folder: Path, chip: Any, get: Any, clock: Any
) -> None:
    get(own=0.5)
    assert get().warnings == ()
    get()
    assert chip.searches == 2


def test_of_two_measurements_each_better_ceiling_stays(fake: SimpleNamespace) -> None:
    pair = (Pipe.MATRIX, Precision.FP32)
    before = Machine(
        "chip",
        peaks={pair: fake.ceiling(9e9)},
        bandwidths={MemoryLevel.L1: fake.ceiling(5e9), MemoryLevel.L2: fake.ceiling(6e9)},
        launch_cost=fake.ceiling(1e-6),
        caches={MemoryLevel.L1: 1},
    )
    doubts = checks.warnings(before)
    assert "L1 (5.00 GB/s) is slower" in doubts[0]
    now = dataclasses.replace(
        before,
        peaks={pair: fake.ceiling(8e9), (Pipe.MATRIX, Precision.FP64): fake.ceiling(4e9)},
        bandwidths={MemoryLevel.L1: fake.ceiling(7e9)},
        launch_cost=fake.ceiling(2e-6),
        warnings=("mm could not run.",),
    )
    both = better(before, now)
    assert {key: ceiling.rate for key, ceiling in both.peaks.items()} == {
        pair: 9e9,
        (Pipe.MATRIX, Precision.FP64): 4e9,
    }
    assert {level: ceiling.rate for level, ceiling in both.bandwidths.items()} == {
        MemoryLevel.L1: 7e9,
        MemoryLevel.L2: 6e9,
    }
    assert both.launch_cost is not None and both.launch_cost.rate == 1e-6
    assert both.warnings == ("mm could not run.",)
    assert better(dataclasses.replace(before, launch_cost=None), now).launch_cost == now.launch_cost


# --- the key ------------------------------------------------------------------------------------


def names(chip: Any, **changes: Any) -> tuple[str, str]:
    """File names of the chip as it is and with some changes."""
    device = chip.device()
    changed = dataclasses.replace(device, **changes)
    return cache_path(chip, device).name, cache_path(chip, changed).name


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other chip"},
        {"device": "cuda:0"},
        {"caches": {MemoryLevel.L1: 1}},
        {"facts": {"threads": 1}},
        {"facts": {"threads": 2, "environment": {"OMP_PROC_BIND": "true"}}},
    ],
    ids=["name", "device", "caches", "threads", "environment"],
)
def test_whatever_decides_the_ceilings_decides_the_file(
    folder: Path, chip: Any, changes: dict[str, Any]
) -> None:
    before, after = names(chip, **changes)
    assert before != after


def test_the_order_of_facts_does_not_matter(folder: Path, fake: SimpleNamespace) -> None:
    first = fake.integration([], threads=2, cpu="x")
    second = fake.integration([], cpu="x", threads=2)
    assert cache_path(first, first.device()) == cache_path(second, second.device())


def test_a_file_name_is_plain_and_readable(folder: Path, chip: Any) -> None:
    name = cache_path(chip, chip.device("cuda:0")).name
    assert name.startswith("ceilings-fake-cuda-0-")
    assert name.endswith(".json") and ":" not in name


def test_the_variable_chooses_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HROOF_CACHE", os.path.join("~", "roofs"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert cache_folder() == tmp_path / "roofs"


def test_without_the_variable_it_is_the_user_cache_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import platformdirs

    monkeypatch.delenv("HROOF_CACHE", raising=False)
    assert cache_folder() == Path(platformdirs.user_cache_dir("hroof", appauthor=False))


# --- conditions that have changed ---------------------------------------------------------------


def test_what_changes_from_job_to_job_leaves_the_file_and_makes_it_stale(
    folder: Path, chip: Any, get: Any
) -> None:
    chip.facts |= {"affinity": "0-1", "clock_limits": {"governor": "performance"}}
    assert get().warnings == ()
    chip.facts |= {"affinity": "2-3", "clock_limits": {"governor": "powersave"}}
    machine = get()
    assert chip.searches == 1
    assert machine.warnings == (
        "These ceilings are stale: affinity was 0-1 when they were measured and is 2-3 now. "
        "clock_limits governor was performance when they were measured and is powersave now. "
        "Measure again with: hroof ceilings --refresh",
    )
    again = known(chip)
    assert again is not None and again.warnings == machine.warnings
    assert get(refresh=True).warnings == ()


# --- only some ----------------------------------------------------------------------------------


@pytest.fixture
def renew(chip: Any, clock: Any) -> Any:
    """Measures some ceilings of the chip again, on the fake clock."""
    return lambda *only: renewed(chip, only=only, plan=PLAN, senses=senses(clock))


def test_some_ceilings_are_replaced_and_the_others_stay(
    folder: Path, chip: Any, get: Any, renew: Any, fake: SimpleNamespace
) -> None:
    before = get()
    chip.kernels = [fake.level("fold", 280e9, MemoryLevel.L1), *chip.kernels[1:]]
    after = renew("l1")
    assert after.bandwidths[MemoryLevel.L1].kernel == "fold"
    assert after.bandwidths[MemoryLevel.L1].rate < before.bandwidths[MemoryLevel.L1].rate
    assert after.bandwidths[MemoryLevel.L2] == before.bandwidths[MemoryLevel.L2]
    assert set(after.facts["candidates"]) == {"L1", "L2"}
    assert after.facts["measured_at"] == before.facts["measured_at"]
    assert list(after.facts["renewed"]) == ["l1"] and after.facts["only"] == []
    assert get() == after and chip.searches == 2


def test_doubts_follow_the_ceilings(
    folder: Path, chip: Any, get: Any, renew: Any, fake: SimpleNamespace
) -> None:
    l2 = chip.kernels[1]
    chip.kernels = [fake.level("slow", 100e9, MemoryLevel.L1), l2]
    assert "slower than L2" in get().warnings[0]
    chip.kernels = [fake.level("fold", 300e9, MemoryLevel.L1), l2]
    assert renew("l1").warnings == ()


def test_some_ceilings_alone_serve_nobody_who_wants_all(
    folder: Path, chip: Any, get: Any, renew: Any
) -> None:
    assert renew("l1").facts["only"] == ["l1"]
    assert known(chip) is None
    assert renew("l2").facts["only"] == ["l1", "l2"]
    assert set(renew("l2").bandwidths) == {MemoryLevel.L1, MemoryLevel.L2}
    assert get().facts.get("only") is None
    assert known(chip) is not None


def test_on_a_busy_machine_the_better_of_both_stays(
    folder: Path, chip: Any, get: Any, clock: Any, fake: SimpleNamespace
) -> None:
    before = get()
    chip.kernels = [fake.level("slow", 50e9, MemoryLevel.L1), chip.kernels[1]]
    busy = renewed(chip, only=["l1"], plan=PLAN, senses=senses(clock, 0.5))
    assert busy.bandwidths == before.bandwidths
    assert busy.warnings[0].startswith("Other programs took 50 %")
    quiet = renewed(chip, only=["l1"], plan=PLAN, senses=senses(clock))
    assert quiet.bandwidths[MemoryLevel.L1].kernel == "slow"


def test_a_disturbed_measurement_stays_disturbed_when_some_are_renewed(
    folder: Path, chip: Any, get: Any, renew: Any
) -> None:
    get(own=0.5)
    assert renew("l1").facts["own_share"] == pytest.approx(0.5)


def test_rates_beside_the_ceilings_and_the_sweep_are_kept(fake: SimpleNamespace) -> None:
    sweep = Sweep((1024, 2048), (2e9, 1e9))
    before = Machine("chip", others={"dram copy": fake.ceiling(1e9)}, sweep=sweep)
    now = Machine("chip", others={"dram triad": fake.ceiling(2e9)})
    both = better(before, now)
    assert set(both.others) == {"dram copy", "dram triad"} and both.sweep == sweep


# --- the list -----------------------------------------------------------------------------------


def test_the_newest_machine_is_listed_first_and_damaged_ones_are_left_out(
    tmp_path: Path,
) -> None:
    for name, when in (("a", "2026-01-01T00:00:00+00:00"), ("b", "2026-02-01T00:00:00+00:00")):
        Machine(name, facts={"measured_at": when}).save(
            tmp_path / f"ceilings-torch-cpu-{name}.json"
        )
    (tmp_path / "ceilings-torch-cpu-c.json").write_text("{")
    Machine("other").save(tmp_path / "machine.json")
    assert [kept.machine.name for kept in listed(tmp_path)] == ["b", "a"]
    assert listed(tmp_path / "absent") == []
