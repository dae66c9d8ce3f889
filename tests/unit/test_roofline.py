"""Bounds, points, totals, coverage and flags: examples by hand, properties, right answers."""

from __future__ import annotations

import csv
import json
import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hroof.errors import UsageError
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.roofline import (
    Point,
    block_of,
    bounds,
    coverage,
    flag_point,
    points,
    select,
    totals,
    wall_times,
)
from hroof.units import MemoryLevel, Pipe, Precision, Source

M32, V32 = (Pipe.MATRIX, Precision.FP32), (Pipe.VECTOR, Precision.FP32)
I8 = (Pipe.MATRIX, Precision.INT8)
BY_CHOICES = [
    (), ("layer",), ("phase",), ("op",), ("block",), ("depth1",), ("depth2",), ("rank",),
    ("recompute",), ("layer", "phase"), ("layer_type", "op", "device"), ("phase", "block", "kernel"),
]  # fmt: skip


def one(profile: Profile, machine: Machine | None, **key: str) -> Point:
    """The point with a key."""
    found = [p for p in points(profile, machine, tuple(key)) if dict(p.key) == key]
    assert len(found) == 1
    return found[0]


def launches(*rows: dict[str, Any]) -> pd.DataFrame:
    return Profile.from_rows(list(rows)).launches


def case(number: str) -> Path:
    """Folder of a case with the right answers."""
    root = os.environ.get("HROOF_CASES")
    if not root:
        pytest.skip("HROOF_CASES is not set: no folder with right answers to compare with")
    return next(Path(root).glob(f"{number}-*"))


def answers(number: str) -> dict[str, Any]:
    expect: dict[str, Any] = json.loads((case(number) / "expected.json").read_text())["expect"]
    return expect


def records(number: str) -> list[dict[str, str]]:
    with (case(number) / "input.csv").open(newline="") as file:
        return list(csv.DictReader(file))


class TestWhichPoints:
    """Only some of the points are the same as those among all."""

    @pytest.mark.parametrize("most", [0, 1, 3, 100])
    def test_the_first(self, profile: Profile, machine: Machine, most: int) -> None:
        everything = points(profile, machine, ("layer", "phase"))
        assert points(profile, machine, ("layer", "phase"), most=most) == everything[:most]

    def test_those_of_a_phase(self, profile: Profile, machine: Machine) -> None:
        by = ("layer", "phase")
        found = points(profile, machine, by, where={"phase": "forward"})
        assert found == [p for p in points(profile, machine, by) if p.key["phase"] == "forward"]
        assert len(found) == 3
        assert points(profile, machine, by, where={"phase": "forward"}, most=1) == found[:1]
        assert points(profile, machine, by, where={"phase": "no such"}) == []


class TestBounds:
    def test_shared_pipes_add_up_and_the_largest_part_names_the_bound(
        self, build: SimpleNamespace
    ) -> None:
        rows = launches({"flop_least_matrix_fp32": 1e6, "flop_least_vector_fp32": 1e5})
        found = bounds(rows, build.machine(launch_cost=None)).iloc[0]
        assert found["compute"] == pytest.approx(1e6 / 100e9 + 1e5 / 20e9)
        assert found["bound"] == "matrix fp32"

    def test_separate_units_overlap(self, build: SimpleNamespace) -> None:
        rows = launches({"flop_least_matrix_fp32": 1e6, "flop_least_vector_fp32": 4e5})
        found = bounds(rows, build.machine(shared_pipes=False)).iloc[0]
        assert found["compute"] == pytest.approx(4e5 / 20e9)
        assert found["bound"] == "vector fp32"

    def test_precisions_of_the_matrix_pipe_share_it(self, build: SimpleNamespace) -> None:
        rows = launches({"flop_least_matrix_fp32": 1e6, "flop_least_matrix_bf16": 8e6})
        found = bounds(rows, build.machine(shared_pipes=False)).iloc[0]
        assert found["compute"] == pytest.approx(1e6 / 100e9 + 8e6 / 400e9)
        assert found["bound"] == "matrix bf16"

    def test_least_and_not_nominal_flop_bound_the_time(self, build: SimpleNamespace) -> None:
        rows = launches({"flop_nominal_matrix_fp32": 2e6, "flop_least_matrix_fp32": 1e6})
        assert bounds(rows, build.machine())["compute"].iloc[0] == pytest.approx(1e6 / 100e9)

    def test_memory_is_the_slowest_level_that_is_known(self, build: SimpleNamespace) -> None:
        rows = launches(
            {"flop_least_vector_fp32": 0.0, "bytes_l1": 8e5, "bytes_dram": 2e5},
            {"flop_least_vector_fp32": 0.0, "bytes_l1": 8e6, "bytes_dram": 2e5},
            {"flop_least_vector_fp32": 0.0, "bytes_l1": 8e5},
        )
        found = bounds(rows, build.machine())
        assert found["memory"].tolist() == pytest.approx([2e-5, 1e-4, 1e-5])
        assert found["bound"].tolist() == ["DRAM", "L1", "L1"]

    def test_bytes_without_a_bandwidth_bound_nothing(self, build: SimpleNamespace) -> None:
        rows = launches({"flop_least_matrix_fp32": 1e6, "bytes_l2": 1e9})
        found = bounds(rows, build.machine()).iloc[0]
        assert math.isnan(found["memory"])
        assert found["bound"] == "matrix fp32"

    def test_launch_cost_scales_with_the_share_of_a_launch(self, build: SimpleNamespace) -> None:
        rows = launches(
            {"launches": 0.25, "flop_least_vector_fp32": 0.0, "bytes_l1": 0.0},
            {"launches": 3.0, "flop_least_vector_fp32": 0.0, "bytes_l1": 0.0},
        )
        found = bounds(rows, build.machine())
        assert found["attainable"].tolist() == pytest.approx([0.5e-6, 6e-6])
        assert found["bound"].tolist() == ["launch", "launch"]

    def test_no_launch_cost_no_launch_bound(self, build: SimpleNamespace) -> None:
        rows = launches({"flop_least_vector_fp32": 0.0, "bytes_l1": 0.0})
        found = bounds(rows, build.machine(launch_cost=None)).iloc[0]
        assert math.isnan(found["launch"])
        assert math.isnan(found["attainable"])
        assert found["bound"] is None

    def test_work_without_a_ceiling_leaves_the_compute_bound_missing(
        self, build: SimpleNamespace
    ) -> None:
        rows = launches({"flop_least_matrix_fp64": 1e6, "flop_least_matrix_fp32": 1e6})
        found = bounds(rows, build.machine()).iloc[0]
        assert math.isnan(found["compute"])
        assert found["bound"] is None

    def test_zero_work_needs_no_ceiling(self, build: SimpleNamespace) -> None:
        rows = launches({"flop_least_matrix_fp64": 0.0, "flop_least_matrix_fp32": 1e6})
        assert bounds(rows, build.machine())["compute"].iloc[0] == pytest.approx(1e-5)

    def test_unknown_flop_are_not_zero(self, build: SimpleNamespace) -> None:
        rows = launches({"op": "sort"}, {"op": "copy", "flop_least_vector_fp32": 0.0})
        found = bounds(rows, build.machine())
        assert math.isnan(found["compute"].iloc[0])
        assert found["compute"].iloc[1] == 0

    def test_unknown_flop_beside_known_work_stay_unknown(self, build: SimpleNamespace) -> None:
        rows = launches({"flop_least_matrix_fp32": 1e6}, {"bytes_l1": 8e3})
        found = bounds(rows, build.machine())
        assert math.isnan(found["compute"].iloc[1])
        assert found["bound"].tolist() == ["matrix fp32", "launch"]

    def test_the_missing_ceiling_of_one_row_is_not_that_of_another(
        self, build: SimpleNamespace
    ) -> None:
        rows = launches({"flop_least_matrix_fp32": 1e6}, {"flop_least_matrix_fp64": 1e6})
        found = bounds(rows, build.machine())
        assert found["compute"].iloc[0] == pytest.approx(1e-5)
        assert math.isnan(found["compute"].iloc[1])

    def test_the_launch_cost_alone_bounds_no_unknown_op(self, build: SimpleNamespace) -> None:
        found = bounds(launches({"op": "sort", "duration": 5e-3}), build.machine()).iloc[0]
        assert found["launch"] == pytest.approx(2e-6)
        assert math.isnan(found["attainable"])
        assert found["bound"] is None

    def test_integers_have_their_own_ceiling(self, build: SimpleNamespace) -> None:
        found = bounds(launches({"flop_least_matrix_int8": 5e6}), build.machine()).iloc[0]
        assert found["compute"] == pytest.approx(5e6 / 500e9)
        assert found["bound"] == "matrix int8"

    def test_an_aggregate_has_no_bound_of_its_own(self, build: SimpleNamespace) -> None:
        rows = launches({"flop_least_matrix_fp32": 1e6, "launches": 9.0, "aggregate": True})
        found = bounds(rows, build.machine()).iloc[0]
        assert found["compute"] > 0
        assert math.isnan(found["attainable"])

    def test_ties_go_to_the_first_resource(self, build: SimpleNamespace) -> None:
        rows = launches({"flop_least_matrix_fp32": 2e5, "bytes_l1": 1.6e5})
        assert bounds(rows, build.machine())["bound"].iloc[0] == "matrix fp32"

    def test_an_empty_table_and_an_empty_machine(self, build: SimpleNamespace) -> None:
        assert bounds(launches(), build.machine()).empty
        found = bounds(launches({"flop_least_matrix_fp32": 1.0, "bytes_l1": 1.0}), Machine("none"))
        assert found.drop(columns="bound").isna().all(axis=None)

    def test_the_index_is_kept(self, build: SimpleNamespace) -> None:
        rows = launches({"op": "a"}, {"op": "b"}, {"op": "c"}).iloc[[2, 0]]
        assert list(bounds(rows, build.machine()).index) == [2, 0]

    def test_a_ceiling_of_zero_is_none(self, build: SimpleNamespace) -> None:
        machine = build.machine(
            peaks={M32: Ceiling(0.0)}, bandwidths={MemoryLevel.L1: Ceiling(0.0)}
        )
        found = bounds(launches({"flop_least_matrix_fp32": 1.0, "bytes_l1": 1.0}), machine).iloc[0]
        assert math.isnan(found["compute"])
        assert math.isnan(found["memory"])


class TestPoints:
    def test_the_numbers_of_a_layer_are_those_of_its_median_step(
        self, profile: Profile, machine: Machine
    ) -> None:
        point = one(profile, machine, layer="fc1")
        assert point.time == pytest.approx(250e-6 * 1.1)
        assert point.time_spread == pytest.approx(0.2 / 1.1)
        assert point.launches == pytest.approx(4.75)
        assert point.flop == pytest.approx({M32: 12e6, V32: 7.5e4})
        assert point.nbytes == pytest.approx({MemoryLevel.L1: 1.3e6, MemoryLevel.DRAM: 8e5})
        assert point.uncounted_time == pytest.approx(20e-6 * 1.1)
        assert point.zero_flop_launches == 1
        assert point.zero_flop_time == pytest.approx(10e-6 * 1.1)

    def test_attainable_is_the_sum_of_the_launches_bounds(
        self, profile: Profile, machine: Machine
    ) -> None:
        point = one(profile, machine, layer="fc1")
        assert point.attainable_time == pytest.approx(40e-6 + 10e-6 + 80e-6 + 3.75e-6)
        assert point.bound == "matrix fp32"
        assert point.bound_share == pytest.approx(120 / 133.75)
        assert point.headroom == pytest.approx(230 * 1.1 / 133.75)
        assert point.recoverable_time == pytest.approx(230e-6 * 1.1 - 133.75e-6)

    def test_fused_is_the_bound_of_the_summed_work(
        self, profile: Profile, machine: Machine
    ) -> None:
        point = one(profile, machine, layer="fc1")
        assert point.fused_time == pytest.approx(12e6 / 100e9 + 7.5e4 / 20e9)

    def test_time_based_roofline(self, profile: Profile, machine: Machine) -> None:
        point = one(profile, machine, layer="fc1")
        assert point.compute_time == pytest.approx(12e6 / 100e9 + 7.5e4 / 20e9)
        assert point.memory_times == pytest.approx(
            {MemoryLevel.L1: 1.3e6 / 80e9, MemoryLevel.DRAM: 8e5 / 10e9}
        )
        assert point.launch_time == pytest.approx(4.75 * 2e-6)

    def test_ratios_of_sums(self, profile: Profile, machine: Machine) -> None:
        point = one(profile, machine, layer="fc1")
        assert point.flop_rate == pytest.approx(12.075e6 / 275e-6)
        assert point.intensity[MemoryLevel.L1] == pytest.approx(12.075e6 / 1.3e6)
        assert point.byte_rate[MemoryLevel.DRAM] == pytest.approx(8e5 / 275e-6)

    def test_integers_are_no_flop(self, profile: Profile, machine: Machine) -> None:
        point = one(profile, machine, op="int_mm")
        assert point.total_flop == 0
        assert point.total_op == 2e6
        assert point.flop == {I8: 2e6}
        assert point.zero_flop_launches == 0
        assert point.zero_flop_time == 0

    def test_an_uncounted_op_has_no_flop_and_no_bound(
        self, profile: Profile, machine: Machine
    ) -> None:
        point = one(profile, machine, op="sort")
        assert math.isnan(point.total_flop)
        assert math.isnan(point.flop_rate)
        assert point.headroom is None
        assert point.bound is None
        assert point.attainable_time is None
        assert point.recoverable_time == 0
        assert point.sources["flop"] is Source.MISSING

    def test_a_copy_is_known_to_compute_nothing(self, profile: Profile, machine: Machine) -> None:
        point = one(profile, machine, op="copy")
        assert point.total_flop == 0
        assert point.intensity == {MemoryLevel.L1: 0, MemoryLevel.DRAM: 0}
        assert point.bound == "DRAM"
        assert point.zero_flop_launches == 1

    def test_a_row_without_a_layer_has_a_group(self, profile: Profile, machine: Machine) -> None:
        assert one(profile, machine, layer="(no layer)").time == pytest.approx(6.6e-6)

    def test_the_worst_source_of_the_working_rows_counts(
        self, profile: Profile, machine: Machine
    ) -> None:
        assert one(profile, machine, layer="Net").sources["flop"] is Source.CONVENTION
        assert one(profile, machine, layer="fc1").sources["flop"] is Source.COUNTED
        assert one(profile, machine, layer="fc1").sources["dram"] is Source.PREDICTED

    def test_a_row_that_computes_nothing_does_not_spoil_the_source(
        self, build: SimpleNamespace
    ) -> None:
        rows = [
            build.row(
                "a", "forward", "mm", 1, source_flop="counter", **build.flop(matrix_fp32=1.0)
            ),
            build.row(
                "a", "forward", "view", 1, source_flop="predicted", **build.flop(vector_fp32=0.0)
            ),
        ]
        assert points(Profile.from_rows(rows))[0].sources["flop"] is Source.COUNTER
        assert points(Profile.from_rows(rows[1:]))[0].sources["flop"] is Source.PREDICTED

    def test_time_without_known_bytes_is_told(self, profile: Profile, machine: Machine) -> None:
        point = one(profile, machine, layer="fc2")
        assert point.unsized_time[MemoryLevel.DRAM] == pytest.approx(18e-6 * 1.1)
        assert any("Bytes at DRAM are known for 71.4 %" in note for note in point.notes)

    def test_work_without_a_ceiling_is_noted(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", "mm", 5, **build.flop(matrix_fp64=1e6))]
        point = points(Profile.from_rows(rows), build.machine())[0]
        assert "No ceiling for matrix fp64: its compute bound is missing." in point.notes

    @pytest.mark.parametrize(("op", "noted"), [(10.0, False), (5e3, False), (1e6, True)])
    def test_a_few_integer_operations_need_no_ceiling(
        self, build: SimpleNamespace, op: float, noted: bool
    ) -> None:
        work = build.flop(matrix_fp32=1e7, vector_int32=op)
        point = points(
            Profile.from_rows([build.row("a", "forward", "mm", 5, **work)]), build.machine()
        )[0]
        assert any("No ceiling for vector int32" in note for note in point.notes) is noted
        assert point.headroom is None

    def test_without_a_machine_there_are_no_bounds(self, profile: Profile) -> None:
        for point in points(profile, None):
            assert point.headroom is None
            assert point.time > 0

    def test_order_is_by_time_then_key(self, build: SimpleNamespace) -> None:
        rows = [build.row(name, "forward", "mm", t) for name, t in [("b", 1), ("c", 2), ("a", 1)]]
        found = points(Profile.from_rows(rows))
        assert [p.key["layer"] for p in found] == ["c", "a", "b"]

    def test_no_rows_no_points(self, machine: Machine) -> None:
        assert points(Profile.from_rows([]), machine) == []

    @pytest.mark.parametrize("by", [("layers",), ("depth0",), ("layer", "layer")])
    def test_unknown_and_repeated_keys_are_refused(self, profile: Profile, by: Any) -> None:
        with pytest.raises(UsageError, match="grouping key"):
            points(profile, None, by)
        with pytest.raises(UsageError):
            points(Profile.from_rows([]), None, by)

    def test_notes_come_for_an_empty_machine_too(self, profile: Profile) -> None:
        found = points(profile, Machine("none"))
        assert all(p.attainable_time is None for p in found)

    def test_no_durations_at_all(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", "mm", math.nan, **build.flop(matrix_fp32=1e6))]
        point = points(Profile.from_rows(rows), build.machine())[0]
        assert math.isnan(point.time)
        assert point.attainable_time == pytest.approx(1e-5)
        assert point.headroom is None
        assert point.flop[M32] == 1e6

    def test_zero_durations(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", "mm", 0.0, **build.flop(matrix_fp32=1e6))]
        point = points(Profile.from_rows(rows), build.machine())[0]
        assert point.headroom is None
        assert math.isnan(point.flop_rate)
        assert point.byte_rate == {}


class TestSteps:
    def rows(self, build: SimpleNamespace, *times: tuple[int, str, float]) -> Profile:
        return Profile.from_rows(
            [build.row(layer, "forward", "mm", t, step=step, **build.flop(matrix_fp32=t * 1e3))
             for step, layer, t in times]
        )  # fmt: skip

    def test_flop_belong_to_the_step_of_the_time(self, build: SimpleNamespace) -> None:
        profile = self.rows(build, (0, "a", 10), (1, "a", 90), (2, "a", 30))
        point = points(profile)[0]
        assert point.time == pytest.approx(30e-6)
        assert point.flop[M32] == pytest.approx(30e3)

    def test_of_an_even_number_the_two_middle_ones_are_averaged(
        self, build: SimpleNamespace
    ) -> None:
        profile = self.rows(build, (0, "a", 10), (1, "a", 20), (2, "a", 40), (3, "a", 90))
        point = points(profile)[0]
        assert point.time == pytest.approx(30e-6)
        assert point.flop[M32] == pytest.approx(30e3)
        assert point.launches == 1

    def test_a_step_without_the_group_counts_as_zero(self, build: SimpleNamespace) -> None:
        profile = self.rows(
            build, (0, "a", 10), (1, "a", 10), (2, "a", 10), (0, "b", 6), (1, "b", 4), (2, "c", 5)
        )
        times = {p.key["layer"]: p.time for p in points(profile)}
        assert times == pytest.approx({"a": 10e-6, "b": 4e-6, "c": 0.0})

    def test_rows_outside_steps_are_left_out(self, build: SimpleNamespace) -> None:
        profile = self.rows(build, (0, "a", 10), (-1, "a", 90), (-1, "b", 5))
        found = points(profile)
        assert [p.key["layer"] for p in found] == ["a"]
        assert found[0].time == pytest.approx(10e-6)
        assert coverage(profile).time_outside_steps == pytest.approx(9.5)

    def test_without_any_step_all_rows_are_one(self, build: SimpleNamespace) -> None:
        profile = self.rows(build, (-1, "a", 10), (-1, "a", 30))
        assert points(profile)[0].time == pytest.approx(40e-6)
        assert math.isnan(points(profile)[0].time_spread)

    def test_by_step_every_step_is_itself(self, build: SimpleNamespace) -> None:
        profile = self.rows(build, (0, "a", 10), (1, "a", 90), (11, "a", 30))
        found = {p.key["step"]: p.time for p in points(profile, None, ("step",))}
        assert found == pytest.approx({"0": 10e-6, "1": 90e-6, "11": 30e-6})

    def test_ranks_add_up_unless_they_are_a_key(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", "mm", 10, rank=rank, step=0) for rank in (0, 1)]
        profile = Profile.from_rows(rows)
        assert points(profile)[0].time == pytest.approx(20e-6)
        assert [p.time for p in points(profile, None, ("rank",))] == pytest.approx([1e-5, 1e-5])

    def test_a_selection_counts_absent_steps_too(self, build: SimpleNamespace) -> None:
        profile = self.rows(build, (0, "a", 10), (1, "a", 10), (2, "a", 10), (2, "b", 6))
        point = select(profile, None, np.asarray(profile.launches["layer"] == "b"))
        assert point is not None
        assert point.time == 0
        assert select(profile, None, np.zeros(4, dtype=bool)) is None


class TestKeys:
    @pytest.mark.parametrize(
        ("layer", "block"),
        [
            ("blocks.0.attn.qkv", "blocks.0"),
            ("model.layers.12.mlp.0", "model.layers.12"),
            ("head", "head"),
            ("encoder.norm", "encoder"),
            ("3", "3"),
            ("Net", "Net"),
        ],
    )
    def test_block(self, layer: str, block: str) -> None:
        assert block_of(layer) == block

    @pytest.mark.parametrize(
        ("by", "names"),
        [
            ("block", {"a.0", "a.1", "b", "(no layer)"}),
            ("depth1", {"a", "b", "(no layer)"}),
            ("depth2", {"a.0", "a.1", "b", "(no layer)"}),
            ("depth9", {"a.0.x", "a.0.y", "a.1.x", "b", "(no layer)"}),
        ],
    )
    def test_cuts_of_the_path(self, build: SimpleNamespace, by: str, names: set[str]) -> None:
        layers = ["a.0.x", "a.0.y", "a.1.x", "b", None]
        profile = Profile.from_rows([build.row(name, "forward", "mm", 1) for name in layers])
        assert {p.key[by] for p in points(profile, None, (by,))} == names

    def test_missing_keys_have_names(self, build: SimpleNamespace) -> None:
        profile = Profile.from_rows([build.row(None, "forward", "mm", 1)])
        found = points(profile, None, ("layer", "layer_type", "kernel", "recompute"))[0].key
        assert found == {
            "layer": "(no layer)",
            "layer_type": "(no layer type)",
            "kernel": "(no kernel)",
            "recompute": "false",
        }

    def test_recompute_is_a_key(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", "mm", t, recompute=again)
            for t, again in [(3, True), (1, False)]
        ]
        found = [p.key["recompute"] for p in points(Profile.from_rows(rows), None, ("recompute",))]
        assert found == ["true", "false"]

    def test_no_key_is_one_group(self, profile: Profile, machine: Machine) -> None:
        found = points(profile, machine, ())
        assert len(found) == 1
        assert found[0].time == pytest.approx(340e-6 * 1.1)

    def test_many_keys_do_not_overflow(self, profile: Profile) -> None:
        by = ("layer", "layer_type", "phase", "op", "kernel", "step", "device", "rank", "recompute")
        assert len(points(profile, None, by)) == 36


class TestFlags:
    def test_tolerances(self) -> None:
        assert flag_point(1000, 1.021e14, 1e14, 1e12) == "compute"
        assert flag_point(1000, 1.019e14, 1e14, 1e12) is None
        assert flag_point(0.5, 0.526e12, 1e14, 1e12) == "bandwidth"
        assert flag_point(0.5, 0.524e12, 1e14, 1e12) is None

    @pytest.mark.parametrize("value", [math.nan, 0.0])
    def test_missing_numbers_flag_nothing(self, value: float) -> None:
        assert flag_point(value, math.nan, 1.0, 1.0) is None
        assert flag_point(value, 1e9, None, None) is None

    def point(self, build: SimpleNamespace, microseconds: float, **row: Any) -> Point:
        made = build.row("a", "forward", "mm", microseconds, **row)
        return points(Profile.from_rows([made]), build.machine())[0]

    def test_above_the_compute_roof(self, build: SimpleNamespace) -> None:
        point = self.point(build, 5, **build.flop(matrix_fp32=1e6))
        assert point.headroom == pytest.approx(0.5)
        assert "Above the compute roof: 2.00 times the peak." in point.notes[0]
        assert "Winograd" in point.notes[0]
        assert point.recoverable_time == 0

    def test_above_a_bandwidth_roof(self, build: SimpleNamespace) -> None:
        flop = build.flop(vector_fp32=0.0)
        near = self.point(build, 5, bytes_l1=8e5, **flop)
        far = self.point(build, 5, bytes_dram=1e5, **flop)
        assert "2.00 times the 80.0 GB/s of L1" in near.notes[0]
        assert "framework kernels" in near.notes[0]
        assert "nearer cache" in far.notes[0]

    def test_below_one_within_the_tolerance(self, build: SimpleNamespace) -> None:
        point = self.point(build, 9.9, **build.flop(matrix_fp32=1e6))
        assert point.notes[0].startswith("Headroom 0.990 is below 1, within the tolerance")

    def test_a_launch_that_costs_less_than_the_launch_cost(self, build: SimpleNamespace) -> None:
        point = self.point(build, 1, bytes_l1=8.0, **build.flop(vector_fp32=0.0))
        assert "launch cost" in point.notes[0]

    def counted(self, build: SimpleNamespace, **nbytes: float) -> tuple[str, ...]:
        """Notes of a launch whose bytes were counted by hardware."""
        trust = {f"source_{name.removeprefix('bytes_')}": "counter" for name in nbytes}
        found = self.point(build, 1e4, **nbytes, **build.flop(matrix_fp32=1e6), **trust)
        return found.notes

    def test_a_far_level_that_moves_more_than_a_near_one(self, build: SimpleNamespace) -> None:
        notes = self.counted(build, bytes_l1=1e3, bytes_l2=3.2e3, bytes_dram=6.4e3)
        assert [note.split(" (")[0] for note in notes] == [
            "More bytes at L2",
            "More bytes at DRAM",
        ]
        assert "bypass" in notes[0]

    def test_traffic_that_grows_towards_the_cores_is_as_it_should_be(
        self, build: SimpleNamespace
    ) -> None:
        assert self.counted(build, bytes_l1=1e4, bytes_l2=1e4, bytes_dram=1.005e4) == ()

    def test_only_counters_can_be_compared_between_levels(self, build: SimpleNamespace) -> None:
        bytes_ = {"bytes_l1": 1e3, "bytes_dram": 6e3}
        assert self.point(build, 1e4, **bytes_, **build.flop(matrix_fp32=1e6)).notes == ()

    def test_no_traffic_at_a_level_is_said_and_is_no_intensity(
        self, build: SimpleNamespace
    ) -> None:
        point = self.point(
            build, 1e4, bytes_dram=0.0, source_dram="counter", **build.flop(matrix_fp32=1e6)
        )
        assert point.notes == ("No DRAM traffic: there is no intensity at that level.",)
        assert point.intensity == {}

    def test_at_and_below_the_roof_there_is_no_flag(self, build: SimpleNamespace) -> None:
        assert self.point(build, 10, **build.flop(matrix_fp32=1e6)).notes == ()
        assert self.point(build, 30, **build.flop(matrix_fp32=1e6)).notes == ()


class TestLaunchesWithoutTime:
    """Rates are those of the launches whose time is known."""

    def point(self, build: SimpleNamespace) -> Point:
        work = {"bytes_dram": 1e3, **build.flop(matrix_fp32=500.0)}
        rows = [build.row("a", "forward", "mm", 1, **work)]
        rows.append({**rows[0], "duration": float("nan")})
        return points(Profile.from_rows(rows), build.machine())[0]

    def test_work_is_whole_and_rates_are_not_doubled(self, build: SimpleNamespace) -> None:
        point = self.point(build)
        assert point.total_flop == 1000.0
        assert point.flop_rate == pytest.approx(500 / 1e-6)
        assert point.byte_rate[MemoryLevel.DRAM] == pytest.approx(1e3 / 1e-6)
        assert any("No time is known of 1 of 2 launches" in note for note in point.notes)

    def test_the_time_with_known_bytes(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", "mm", 3, bytes_dram=1e3),
            build.row("a", "forward", "mm", 1),
        ]
        assert points(Profile.from_rows(rows))[0].sized_time == pytest.approx(3e-6)
        assert points(Profile.from_rows(rows[1:]))[0].sized_time == 0.0


def test_coverage_counts_launches_with_bytes_by_level(build: SimpleNamespace) -> None:
    rows = [
        build.row("a", "forward", "mm", 1, bytes_dram=0.0, bytes_l1=8.0),
        build.row("a", "forward", "mm", 1, bytes_l1=8.0),
    ]
    known = coverage(Profile.from_rows(rows))
    assert known.launches == 2.0
    assert known.launches_with_bytes == {MemoryLevel.L1: 2.0, MemoryLevel.DRAM: 1.0}


class TestTotals:
    def test_kinds_of_flop_stay_apart(self, profile: Profile, machine: Machine) -> None:
        sums = totals(profile, machine)
        assert sums.matrix_flop == pytest.approx(15e6)
        assert sums.elementwise_flop == pytest.approx(1.11e5)
        assert sums.hardware_flop == pytest.approx(15.111e6)
        assert sums.integer_op == pytest.approx(2e6)
        assert sums.launches == pytest.approx(11)
        assert sums.zero_flop_launches == 2

    def test_kinds_of_time_stay_apart(self, build: SimpleNamespace) -> None:
        rows = [
            {"launch_id": 0, "stream": 0, "start": 0.0, "duration": 2.0, "step": 0},
            {"launch_id": 1, "stream": 1, "start": 1.0, "duration": 2.0, "step": 0},
            {"launch_id": 2, "stream": 0, "start": 5.0, "duration": 1.0, "step": 0},
        ]
        sums = totals(Profile.from_rows(rows, {"steps": [{"step": 0, "wall": 7.0}]}))
        assert (sums.time, sums.union_time, sums.wall) == (5.0, 4.0, 7.0)

    def test_parts_of_a_launch_follow_one_another(self) -> None:
        rows = [
            {"launch_id": 7, "launches": 0.5, "start": 0.0, "duration": 1.0},
            {"launch_id": 7, "launches": 0.5, "start": 0.0, "duration": 1.0},
        ]
        assert totals(Profile.from_rows(rows)).union_time == 2.0

    def test_an_interval_inside_another_adds_nothing(self) -> None:
        rows = [
            {"start": 0.0, "duration": 9.0},
            {"start": 1.0, "duration": 1.0},
            {"start": 8.0, "duration": 2.0},
        ]
        assert totals(Profile.from_rows(rows)).union_time == 10.0

    def test_recomputed_work_is_the_hardwares_not_the_models(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", "mm", 10, step=0, **build.flop(matrix_fp32=1e6)),
            build.row(
                "a", "backward", "mm", 10, step=0, recompute=True, **build.flop(matrix_fp32=1e6)
            ),
        ]
        profile = Profile.from_rows(rows, {"steps": [{"step": 0, "wall": 1e-4}]})
        sums = totals(profile, build.machine())
        assert sums.hardware_flop == 2e6
        assert sums.model_flop == 1e6
        assert sums.mfu == pytest.approx(0.1)
        assert sums.hfu == pytest.approx(0.2)

    @pytest.mark.parametrize(
        ("stated", "seconds"),
        [(None, None), (2e-4, 2e-4), (0.0, None), (math.nan, None), ("fast", None), (True, None)],
    )
    def test_the_undisturbed_step_is_what_the_run_says(
        self, build: SimpleNamespace, stated: object, seconds: float | None
    ) -> None:
        run = build.run()
        before, after = (
            Profile.from_rows([], run),
            Profile.from_rows([], run | {"undisturbed_step": stated}),
        )
        assert totals(before).undisturbed is None
        assert totals(after).undisturbed == seconds
        assert totals(after).wall == totals(before).wall

    @pytest.mark.parametrize("wall", [None, 0.0, -1.0, math.nan, math.inf, "fast", True, [1.0]])
    def test_a_wall_time_that_is_none_is_left_out(
        self, build: SimpleNamespace, wall: object
    ) -> None:
        steps = [{"step": 0, "wall": wall}, {"step": 1}, {"step": 2, "wall": 3e-4}, 3]
        assert wall_times(Profile.from_rows([], {"steps": steps})) == (3e-4,)
        assert totals(Profile.from_rows([], {"steps": steps[:2]})).wall is None

    def test_utilisation_needs_wall_time_and_peaks(self, build: SimpleNamespace) -> None:
        assert totals(build.profile(), None).mfu is None
        assert totals(build.profile().replace(run={}), build.machine()).mfu is None
        assert totals(build.profile(), build.machine(peaks={})).mfu is None

    def test_utilisation_is_of_all_ranks(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", "mm", 10, step=0, rank=rank, **build.flop(matrix_fp32=1e6))
            for rank in (0, 1)
        ]
        profile = Profile.from_rows(rows, {"steps": [{"step": 0, "wall": 1e-4}]})
        assert totals(profile, build.machine()).mfu == pytest.approx(0.1)

    def test_nothing_captured(self, machine: Machine) -> None:
        sums = totals(Profile.from_rows([]), machine)
        assert sums.time == 0
        assert sums.union_time is None
        assert math.isnan(sums.hardware_flop)
        assert sums.headroom is None


class TestCoverage:
    def test_shares(self, profile: Profile) -> None:
        known = coverage(profile)
        assert known.time_attributed == pytest.approx(334 / 340)
        assert known.time_attributed_by_phase["data"] == 0
        assert known.time_attributed_by_phase["forward"] == 1
        assert known.time_with_flop == pytest.approx(314 / 334)
        assert known.time_loading == pytest.approx(6 / 340)
        assert known.ops_without_rule == pytest.approx({"sort": 20 / 340})
        assert known.ops_unjoined == {}
        assert known.time_unjoined == pytest.approx(20 / 334)
        assert known.time_on_containers == pytest.approx({0: 21 / 340})
        assert known.time_outside_steps == 0

    def test_ops_with_a_rule_that_found_no_count(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", op, t, source_flop="missing")
            for op, t in [("x", 1), ("y", 3)]
        ]
        known = coverage(Profile.from_rows(rows, {"ops_without_rule": ["x", "never ran"]}))
        assert known.ops_without_rule == pytest.approx({"x": 0.25, "never ran": 0.0})
        assert list(known.ops_without_rule) == ["x", "never ran"]
        assert known.ops_unjoined == pytest.approx({"y": 0.75})

    def test_what_loads_data_needs_no_flop_rule(self, build: SimpleNamespace) -> None:
        rows = [
            build.row(None, "data", "PyFunc", 8, source_flop="missing"),
            build.row("a", "forward", "mm", 1, **build.flop(matrix_fp32=1.0)),
            build.row("a", "forward", "sort", 1, source_flop="missing"),
        ]
        for named in (None, ["PyFunc", "sort"]):
            known = coverage(Profile.from_rows(rows, {"ops_without_rule": named}))
            assert known.ops_without_rule == pytest.approx({"sort": 0.1})
            assert known.ops_unjoined == {}
            assert known.time_with_flop == pytest.approx(0.5)
            assert known.time_loading == pytest.approx(0.8)

    def test_the_same_op_in_the_model_needs_one(self, build: SimpleNamespace) -> None:
        rows = [
            build.row(None, "data", "PyFunc", 3, source_flop="missing"),
            build.row("a", "forward", "PyFunc", 1, source_flop="missing"),
        ]
        known = coverage(Profile.from_rows(rows, {"ops_without_rule": ["PyFunc"]}))
        assert known.ops_without_rule == pytest.approx({"PyFunc": 0.25})
        assert known.time_with_flop == 0

    def test_where_all_launches_load_data_flop_are_unknown(self, build: SimpleNamespace) -> None:
        known = coverage(Profile.from_rows([build.row(None, "data", "PyFunc", 3)]))
        assert math.isnan(known.time_with_flop)
        assert known.time_loading == 1

    def test_a_run_that_names_no_ops_lists_all_of_them(self, build: SimpleNamespace) -> None:
        rows: list[dict[str, Any]] = [{"kernel": "gemm", "duration": 1.0}, {"duration": 3.0}]
        assert coverage(Profile.from_rows(rows)).ops_without_rule == {"(no op)": 0.75, "gemm": 0.25}

    def test_containers_by_depth(self, build: SimpleNamespace) -> None:
        rows = [build.row(name, "forward", "mm", 1) for name in ("a", "a.b", "a.b.c", "d")]
        assert coverage(Profile.from_rows(rows)).time_on_containers == {1: 0.25, 2: 0.25}

    def test_nothing_captured_is_unknown_not_zero(self) -> None:
        known = coverage(Profile.from_rows([]))
        assert math.isnan(known.time_attributed)
        assert math.isnan(known.time_with_flop)


numbers = st.floats(1e-9, 1e9, allow_subnormal=False)
maybe = st.one_of(st.none(), st.just(0.0), numbers)
table_row = st.fixed_dictionaries(
    {
        "layer": st.sampled_from([None, "a", "a.0.x", "a.0.y", "b.1"]),
        "phase": st.sampled_from(["forward", "backward", "optimizer"]),
        "op": st.sampled_from(["mm", "add", "copy"]),
        "launches": st.sampled_from([1.0, 0.25, 0.75]),
        "recompute": st.booleans(),
        "duration": numbers,
        "flop_nominal_matrix_fp32": maybe,
        "flop_least_matrix_fp32": maybe,
        "flop_least_vector_fp32": maybe,
        "flop_nominal_matrix_int8": maybe,
        "bytes_l1": maybe,
        "bytes_dram": maybe,
        "step": st.just(0),
    }
)
tables = st.lists(table_row, min_size=1, max_size=12).map(
    lambda rows: Profile.from_rows(pd.DataFrame(rows))
)
few = settings(max_examples=60, deadline=None)


class TestProperties:
    @few
    @given(profile=tables, by=st.sampled_from(BY_CHOICES))
    def test_work_adds_up_over_any_grouping(self, profile: Profile, by: tuple[str, ...]) -> None:
        found, table = points(profile, None, by), profile.launches
        for pair, column in ((M32, "flop_nominal_matrix_fp32"), (I8, "flop_nominal_matrix_int8")):
            assert math.fsum(p.flop.get(pair, 0.0) for p in found) == pytest.approx(
                table[column].sum()
            )
        for level in (MemoryLevel.L1, MemoryLevel.DRAM):
            total = math.fsum(p.nbytes.get(level, 0.0) for p in found)
            assert total == pytest.approx(table[f"bytes_{level}"].sum())
        assert math.fsum(p.time for p in found) == pytest.approx(table["duration"].sum())
        assert math.fsum(p.launches for p in found) == pytest.approx(table["launches"].sum())

    @few
    @given(profile=tables, by=st.sampled_from(BY_CHOICES))
    def test_bounds_add_up_and_are_ordered(
        self, build: SimpleNamespace, profile: Profile, by: tuple[str, ...]
    ) -> None:
        machine = build.machine()
        found = points(profile, machine, by)
        rows = bounds(profile.launches, machine)["attainable"]
        total = math.fsum(p.attainable_time or 0.0 for p in found)
        assert total == pytest.approx(rows.sum())
        for p in found:
            if p.attainable_time is None:
                assert p.headroom is None
                assert p.bound is None
                continue
            assert p.fused_time is not None
            assert p.fused_time <= p.attainable_time
            assert (p.compute_time or 0.0) <= p.attainable_time * (1 + 1e-9)
            assert all(t <= p.attainable_time * (1 + 1e-9) for t in p.memory_times.values())
            assert p.headroom is not None
            assert 0 < p.headroom < math.inf
            assert 0 < p.bound_share <= 1 + 1e-9
            assert 0 <= p.recoverable_time <= p.time

    @few
    @given(profile=tables)
    def test_every_bound_is_a_resource_bound(
        self, build: SimpleNamespace, profile: Profile
    ) -> None:
        found = bounds(profile.launches, build.machine())
        largest = found[["compute", "memory", "launch"]].max(axis=1)
        known = found["attainable"].notna()
        assert (found["attainable"][known] == largest[known]).all()
        assert (found["bound"].notna() == known).all()

    @few
    @given(profile=tables, by=st.sampled_from(BY_CHOICES))
    def test_ratios_are_those_of_sums(self, profile: Profile, by: tuple[str, ...]) -> None:
        for p in points(profile, None, by):
            for level, intensity in p.intensity.items():
                if not math.isnan(p.total_flop):
                    assert intensity * p.nbytes[level] == pytest.approx(p.total_flop)
            if not math.isnan(p.total_flop):
                assert p.flop_rate * p.time == pytest.approx(p.total_flop)

    @few
    @given(profile=tables, by=st.sampled_from(BY_CHOICES))
    def test_launches_without_flop_are_never_dropped(
        self, profile: Profile, by: tuple[str, ...]
    ) -> None:
        table = profile.launches
        flop = table[[name for name in map(str, table) if name.startswith("flop_")]]
        nothing = flop.notna().any(axis=1) & ~(flop > 0).any(axis=1)
        total = math.fsum(p.zero_flop_launches for p in points(profile, None, by))
        assert total == pytest.approx(table["launches"][nothing].sum())

    @few
    @given(profile=tables, by=st.sampled_from(BY_CHOICES), seed=st.integers(0, 99))
    def test_the_order_of_rows_does_not_matter(
        self, build: SimpleNamespace, profile: Profile, by: tuple[str, ...], seed: int
    ) -> None:
        machine = build.machine()
        mixed = profile.replace(launches=profile.launches.sample(frac=1, random_state=seed))
        assert repr(points(mixed, machine, by)) == repr(points(profile, machine, by))
        assert repr(totals(mixed, machine)) == repr(totals(profile, machine))
        assert repr(coverage(mixed)) == repr(coverage(profile))

    @few
    @given(profile=tables)
    def test_equal_steps_give_what_one_step_gives(
        self, build: SimpleNamespace, profile: Profile
    ) -> None:
        thrice = pd.concat(
            [profile.launches.assign(step=step) for step in range(3)], ignore_index=True
        )
        single = {str(p.key): p.time for p in points(profile)}
        assert {str(p.key): p.time for p in points(Profile.from_rows(thrice))} == single


class TestCases:
    def profile(self, rows: list[dict[str, Any]]) -> Profile:
        return Profile.from_rows(rows)

    def test_69_intensity_is_a_ratio_of_sums(self) -> None:
        rows = [
            {
                "layer": r["layer"],
                "kernel": r["kernel"],
                "flop_nominal_matrix_fp32": float(r["flops"]),
                "bytes_dram": float(r["bytes"]),
                "duration": float(r["time_us"]) * 1e-6,
            }
            for r in records("69")
        ]
        right, point = answers("69"), points(self.profile(rows))[0]
        assert point.total_flop == right["flops"]
        assert point.nbytes[MemoryLevel.DRAM] == right["bytes"]
        assert point.time * 1e6 == pytest.approx(right["time_us"])
        assert point.intensity[MemoryLevel.DRAM] == pytest.approx(right["ai"], rel=1e-3)
        assert point.flop_rate / 1e12 == pytest.approx(right["tflops_per_s"], rel=1e-3)

    def test_70_launches_without_flop_stay(self) -> None:
        rows = [
            {
                "kernel": r["kernel"],
                "flop_nominal_vector_fp32": float(r["flops"]),
                "flop_nominal_matrix_int8": float(r["int_ops"]),
                "bytes_dram": float(r["bytes"]),
                "duration": float(r["time_us"]) * 1e-6,
            }
            for r in records("70")
        ]
        right, profile = answers("70"), self.profile(rows)
        found = {p.key["kernel"]: p for p in points(profile, None, ("kernel",))}
        assert set(found) == set(right["listed"])
        assert [name for name, p in found.items() if p.total_flop > 0] == right["drawn"]
        copy = found["copy"].byte_rate[MemoryLevel.DRAM]
        assert copy / 1e9 == pytest.approx(right["copy_gb_per_s"])
        sums = totals(profile)
        shares = {name: 100 * p.time / sums.time for name, p in found.items()}
        assert shares == pytest.approx(right["time_share_pct"])
        assert sums.hardware_flop == right["total_flops"]
        assert sums.integer_op == right["int_ops_separate"]

    def test_72_flop_bytes_and_time_of_the_same_work(self) -> None:
        rows = [
            {
                "layer": r["shape"],
                "kernel": r["kernel"],
                "flop_nominal_matrix_fp32": float(r["flops_per_call"]),
                "bytes_dram": float(r["bytes_per_call"]),
                "duration": float(r["time_us_per_call"]) * 1e-6,
            }
            for r in records("72")
            for _ in range(int(r["calls"]))
        ]
        right, profile = answers("72"), self.profile(rows)
        rates = {p.key["layer"]: p.flop_rate / 1e12 for p in points(profile)}
        both = points(profile, None, ("kernel",))[0]
        assert rates == pytest.approx({"s": right["s_tflops"], "l": right["l_tflops"]})
        assert both.total_flop == right["all_flops"]
        assert both.nbytes[MemoryLevel.DRAM] == right["all_bytes"]
        assert both.time * 1e6 == pytest.approx(right["all_time_us"])
        assert both.flop_rate / 1e12 == pytest.approx(right["all_tflops"], rel=1e-3)
        assert both.intensity[MemoryLevel.DRAM] == pytest.approx(right["all_ai"], rel=1e-3)

    def test_74_above_a_roof_is_a_signal(self) -> None:
        given_ = json.loads((case("74") / "input.json").read_text())
        found = {
            p["n"]: flag_point(p["ai"], p["flops_per_s"], given_["peak_flops"], given_["peak_bw"])
            for p in given_["points"]
        }
        assert found == answers("74")["flags"]

    def test_75_odd_numbers_never_become_nan_in_a_level(self) -> None:
        names = [r["kernel"] for r in records("75")]
        rows = [
            {
                "kernel": r["kernel"],
                "flop_nominal_vector_fp32": float(r["gflops"]),
                "duration": 0.0,
                **{
                    f"bytes_{level}": float(r["gflops"]) / float(r[f"ai_{level}"])
                    if float(r[f"ai_{level}"]) > 0
                    else math.nan
                    for level in ("l1", "l2", "dram")
                },
            }
            for r in records("75")
        ]
        found = {p.key["kernel"]: p for p in points(self.profile(rows), None, ("kernel",))}
        assert sorted(found) == sorted(names)
        for level, drawn in answers("75")["points"].items():
            positive = [n for n in names if found[n].intensity.get(MemoryLevel(level), 0.0) > 0]
            assert positive == drawn
