"""Numbers that a budget can limit: the same as in a report, or missing with the reason."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hroof.budgets import QUANTITIES, Verdict
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.export import to_json

STEPS = 3


def test_numbers_of_the_step_are_those_of_the_report(
    checking: Any, profile: Profile, machine: Machine
) -> None:
    names = ("time", "wall", "headroom", "launches", "zero_flop_launches", "flop", "mfu")
    sums = to_json(profile, machine)["totals"]
    for name, reading in checking.readings(*names).items():
        assert reading.value == pytest.approx(sums[name], rel=1e-12), name
    assert sums["mfu"] > 0


def test_work_by_unit_and_bytes_by_level(checking: Any, profile: Profile, machine: Machine) -> None:
    sums = to_json(profile, machine)["totals"]
    work = [f"flop_{pair}" for pair in ("matrix_fp32", "matrix_int8", "matrix_bf16")]
    found = checking.readings(*work, "bytes_l1", "bytes_dram")
    assert [found[name].value for name in work] == [
        sums["flop_by"]["matrix_fp32"], sums["flop_by"]["matrix_int8"], 0,
    ]  # fmt: skip
    assert found["bytes_l1"].value == sums["bytes"]["l1"]
    assert found["bytes_dram"].value == sums["bytes"]["dram"]


def test_coverage(checking: Any, profile: Profile, machine: Machine) -> None:
    known = to_json(profile, machine)["coverage"]
    assert checking.value("share_unattributed") == pytest.approx(1 - known["time_attributed"])
    assert checking.value("share_with_flop") == pytest.approx(known["time_with_flop"])


def test_numbers_of_layers_are_those_of_the_report(
    checking: Any, profile: Profile, machine: Machine
) -> None:
    rows = {row["layer"]: row for row in to_json(profile, machine)["rows"]}
    names = ("time", "headroom", "launches", "flop", "flop_rate")
    for row in checking({"layer": {"*": {name: {"max": 1} for name in names}}}).rows:
        expected = rows[row.name][row.limit.quantity.name]
        assert row.reading.value == pytest.approx(expected, rel=1e-12)


def test_time_without_flop_is_that_of_launches_that_compute_nothing(checking: Any) -> None:
    # copy 10 µs and to 6 µs of 340 µs; the sort is not known, and no zero.
    assert checking.value("share_zero_flop") == pytest.approx(16 / 340)
    row = checking.row({"layer": {"fc1": {"forward": {"share_zero_flop": {"max": 1}}}}})
    assert row.reading.value == pytest.approx(10 / 70)


def test_share_of_the_step(checking: Any) -> None:
    row = checking.row({"layer": {"fc1": {"share_of_step": {"max": 1}}}})
    assert row.reading.value == pytest.approx(250 / 340)
    # Of each step its own share: here every launch is slower by the same factor.
    assert row.reading.steps == pytest.approx([250 / 340] * STEPS)
    whole = checking.row({"step": {"share_of_step": {"max": 1}}})
    assert whole.reading.value == pytest.approx(1)


def test_every_step_is_kept_where_steps_scatter(checking: Any) -> None:
    found = checking.readings("time", "wall", "headroom", "flop_rate", "mfu")
    for name, reading in found.items():
        assert len(reading.steps) == STEPS, name
        assert np.median(reading.steps) == pytest.approx(reading.value), name
        assert max(reading.steps) / min(reading.steps) == pytest.approx(1.2), name


def test_every_number_says_where_it_comes_from_or_why_it_is_missing(checking: Any) -> None:
    found = checking.readings(*QUANTITIES)
    assert set(found) == set(QUANTITIES)
    for name, reading in found.items():
        assert bool(reading.source) is not math.isnan(reading.value), name
        assert reading.note or not math.isnan(reading.value), name


def test_sources(checking: Any) -> None:
    expected = {
        "time": "measured",
        "headroom": "measured, ceilings",
        "launches": "captured",
        "flop": "convention",
        "bytes_l1": "counted",
        "bytes_dram": "predicted",
    }
    found = checking.readings(*expected)
    assert {name: reading.source for name, reading in found.items()} == expected


def test_work_that_is_known_in_part_is_at_least_that(checking: Any) -> None:
    reading = checking.row({"step": {"flop": {"max": 1}}}).reading
    assert reading.lower
    assert reading.note == "at least: 5.9 % of the time has no known FLOP"
    reading = checking.row({"step": {"bytes_dram": {"max": 1}}}).reading
    assert reading.lower
    assert "no known bytes" in reading.note
    whole = checking.row({"layer": {"fc2": {"flop": {"max": 1}}}}).reading
    assert (whole.lower, whole.note) == (False, "")


class TestWhatIsMissing:
    def test_without_ceilings(self, of_run: Any, profile: Profile) -> None:
        found = of_run(profile, None)({"step": {"headroom": {"max": 1}, "mfu": {"min": 1}}})
        assert {row.verdict for row in found.rows} == {Verdict.UNKNOWN}
        assert {row.judged.note for row in found.rows} == {"no ceilings are known"}

    def test_ceilings_of_another_device(self, of_run: Any, profile: Profile, build: Any) -> None:
        elsewhere = build.machine(name="big gpu", device="cuda:0")
        row = of_run(profile, elsewhere).row({"step": {"headroom": {"max": 100}}})
        assert row.verdict is Verdict.UNKNOWN
        assert "big gpu" in row.judged.note

    def test_a_headroom_below_1_is_no_success(
        self, of_run: Any, profile: Profile, build: Any
    ) -> None:
        roofs = build.machine().bandwidths.items()
        slow = build.machine(bandwidths={level: type(c)(c.rate / 20, c.how) for level, c in roofs})
        row = of_run(profile, slow).row({"step": {"headroom": {"max": 4}}})
        assert row.verdict is Verdict.UNKNOWN
        assert "below 1" in row.judged.note

    def test_launches_without_a_bound(self, of_run: Any, profile: Profile, build: Any) -> None:
        bare = build.machine(bandwidths={}, peaks={}, launch_cost=None)
        row = of_run(profile, bare).row({"step": {"headroom": {"max": 4}}})
        assert row.judged.note == "no launch has a bound"

    def test_a_bound_for_less_than_half_of_the_time(self, of_run: Any, build: Any) -> None:
        rows = build.rows()
        for row in rows:
            if row["op"] != "copy":
                for name in [n for n in row if n.startswith(("flop_", "bytes_"))]:
                    del row[name]
        part = of_run(Profile.from_rows(rows, build.run()), build.machine())
        assert "of the time has a bound" in part.row({"step": {"headroom": {"max": 4}}}).judged.note

    def test_times(self, of_run: Any, build: Any, machine: Machine) -> None:
        rows = [row | {"duration": math.nan} for row in build.rows()]
        run = of_run(Profile.from_rows(rows, build.run() | {"steps": []}), machine)
        names = ("time", "headroom", "share_zero_flop", "flop_rate", "wall", "mfu", "undisturbed")
        found = run({"step": {name: {"max": 1} for name in names}})
        assert {row.verdict for row in found.rows} == {Verdict.UNKNOWN}
        assert run.row({"step": {"flop": {"max": "1 TFLOP"}}}).verdict is Verdict.OK

    def test_work(self, of_run: Any, build: Any, machine: Machine) -> None:
        rows = [
            {k: v for k, v in row.items() if not k.startswith(("flop_", "bytes_"))}
            for row in build.rows()
        ]
        run = of_run(Profile.from_rows(rows, build.run()), machine)
        names = ("flop", "flop_matrix_fp32", "bytes_l1", "flop_rate")
        found = run({"step": {name: {"max": 1} for name in names}})
        assert {row.verdict for row in found.rows} == {Verdict.UNKNOWN}

    @pytest.mark.parametrize("value", [None, True, "4 GB", 0, -1, math.nan])
    def test_memory(self, of_run: Any, profile: Profile, value: Any) -> None:
        told = profile.replace(run={**profile.run, "peak_memory": value})
        row = of_run(told, None).row({"step": {"peak_memory": {"max": "1 GB"}}})
        assert (row.verdict, row.judged.note) == (Verdict.UNKNOWN, "the run does not say")


def test_memory_that_the_run_knows(of_run: Any, profile: Profile) -> None:
    told = profile.replace(run={**profile.run, "peak_memory": 2e9, "peak_device_memory": 3e9})
    run = of_run(told, None)
    assert run.row({"step": {"peak_memory": {"max": "2 GB"}}}).verdict is Verdict.OK
    assert run.row({"step": {"peak_device_memory": {"max": "2.9 GB"}}}).verdict is Verdict.OVER


def test_an_undisturbed_step(of_run: Any, profile: Profile) -> None:
    told = profile.replace(run={**profile.run, "undisturbed_step": 3e-4})
    row = of_run(told, None).row({"step": {"undisturbed": {"max": "299 us"}}})
    assert row.verdict is Verdict.OVER
    assert "one number in a run" in row.judged.note
