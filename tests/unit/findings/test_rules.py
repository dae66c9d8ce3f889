"""Each rule beside the tests of ``findings``: what it claims, what it says nothing about, and how much at most."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.findings import Finding, findings
from hroof.findings.finding import KINDS
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.units import MemoryLevel, Pipe, Precision

Row = dict[str, Any]


def steps(rows: list[Row], run: dict[str, Any] | None = None) -> Profile:
    """Three equal steps of some rows, one launch after the other."""
    timed, start = [], 0.0
    for step in range(3):
        for row in rows:
            timed.append({"start": start, "step": step} | row)
            start += row["duration"] or 0.0
    known = {"steps": [{"step": i, "wall": 1e-3} for i in range(3)], "device": "cpu"}
    return Profile.from_rows(timed, known | (run or {}))


def of(kind: str, profile: Profile, machine: Machine) -> list[Finding]:
    found = findings(profile, machine)
    assert {finding.kind for finding in found} <= set(KINDS)
    return [finding for finding in found if finding.kind == kind]


def only(kind: str, profile: Profile, machine: Machine) -> Finding:
    (found,) = of(kind, profile, machine)
    return found


class TestElementwise:
    def rows(self, build: SimpleNamespace, *ops: str, **more: Any) -> list[Row]:
        known = {"bytes_read": 6e5, "bytes_written": 6e5, "bytes_l1": 1.2e6, "bytes_dram": 1e5}
        flop = build.flop(vector_fp32=1e3)
        return [build.row("a", "forward", op, 30, **known | flop | more) for op in ops]

    def test_the_traffic_that_fusing_removes(self, build: SimpleNamespace) -> None:
        profile = steps(self.rows(build, "mul", "add", "exp", "add"))
        finding = only("elementwise", profile, build.machine())
        assert finding.title == (
            "Memory-bound elementwise work, 4 launches a step in 1 chain, takes 100.0 % of the launch time; "
            "at most 75 % of the bytes (3.60 MB of 4.80 MB) go from one op to the next."
        )
        # 4.8 MB at 80 GB/s take 60 µs, more than 0.4 MB at 10 GB/s; a quarter of that is left.
        assert finding.saves == pytest.approx(120e-6 - 60e-6 / 4)
        assert finding.evidence[0] == "Most of it: add, exp, mul."

    def test_steps_that_differ_have_no_fractions_of_chains(self, build: SimpleNamespace) -> None:
        """Threads that take turns order the ops of each step anew: 1, 2 and 2 chains are about 2."""
        pair = self.rows(build, "mul", "add")
        between = build.row("a", "forward", "mm", 30, **build.flop(matrix_fp32=1e3), bytes_l1=1.0)
        orders = [[*pair, *pair, between], [*pair, between, *pair], [*pair, between, *pair]]
        rows = [row | {"step": step} for step, order in enumerate(orders) for row in order]
        timed = [row | {"start": 30e-6 * place} for place, row in enumerate(rows)]
        run = {"steps": [{"step": i, "wall": 1e-3} for i in range(3)], "device": "cpu"}
        title = only("elementwise", Profile.from_rows(timed, run), build.machine()).title
        assert "4 launches a step in about 2 chains, takes" in title

    def test_a_saving_is_what_is_left_above_the_fused_time(self, build: SimpleNamespace) -> None:
        rows = self.rows(build, "mul", "add", bytes_l1=8e5, bytes_dram=1e5)
        finding = only("elementwise", steps(rows), build.machine())
        assert finding.saves == pytest.approx(60e-6 - 0.5 * 20e-6)

    def test_one_op_is_no_chain(self, build: SimpleNamespace) -> None:
        assert of("elementwise", steps(self.rows(build, "gelu")), build.machine()) == []

    def test_two_normalisations_are_no_elementwise_chain(self, build: SimpleNamespace) -> None:
        rows = self.rows(build, "native_layer_norm", "native_layer_norm")
        assert of("elementwise", steps(rows), build.machine()) == []

    def test_a_product_in_between_ends_it(self, build: SimpleNamespace) -> None:
        one = self.rows(build, "mul")
        product = build.row("a", "forward", "mm", 30, bytes_read=6e5, bytes_written=6e5,
                            **build.flop(matrix_fp32=1e6))  # fmt: skip
        assert of("elementwise", steps([*one, product, *one]), build.machine()) == []


class TestReuse:
    def machine(self, build: SimpleNamespace) -> Machine:
        machine: Machine = build.machine()
        return machine

    def rows(self, build: SimpleNamespace, calls: int, **more: Any) -> list[Row]:
        known = {"bytes_l1": 4e5, "bytes_dram": 3.9e5, "bytes_read": 3e5, "bytes_written": 1e5}
        row = build.row("fc", "forward", "mm", 45, **known | build.flop(matrix_fp32=1e5) | more)
        return [row] * calls

    def test_the_same_weights_again_and_again(self, build: SimpleNamespace) -> None:
        finding = only("reuse", steps(self.rows(build, 4)), self.machine(build))
        assert finding.title == (
            "Matrix work that DRAM bounds takes 100.0 % of the launch time: L1 serves only 1.0 times the bytes that it "
            "fetches."
        )
        # Beside DRAM, L1 takes longest: 0.4 MB at 80 GB/s, once; the products at 100 GFLOP/s take 4 µs.
        assert finding.saves == pytest.approx(4 * 45e-6 - 5e-6)
        assert "DRAM 1.56 MB (predicted)" in finding.evidence[0]
        assert "L1 holds" in finding.action

    def test_a_product_that_runs_once_reads_what_it_must(self, build: SimpleNamespace) -> None:
        assert of("reuse", steps(self.rows(build, 1)), self.machine(build)) == []

    def test_once_but_more_than_its_operands(self, build: SimpleNamespace) -> None:
        rows = self.rows(build, 1, bytes_l1=9e5, bytes_dram=8e5)
        assert only("reuse", steps(rows), self.machine(build)).layers == ("fc",)

    def test_once_but_counted_by_hardware(self, build: SimpleNamespace) -> None:
        rows = self.rows(build, 1, bytes_read=None, bytes_written=None, source_l1="counter")
        assert only("reuse", steps(rows), self.machine(build)).layers == ("fc",)

    def test_a_level_that_serves_bytes_twice_does_its_work(self, build: SimpleNamespace) -> None:
        rows = self.rows(build, 4, bytes_l1=8e5)
        assert of("reuse", steps(rows), self.machine(build)) == []

    def test_elementwise_work_reuses_nothing(self, build: SimpleNamespace) -> None:
        row = build.row("a", "forward", "add", 45, bytes_l1=4e5, bytes_dram=4e5,
                        **build.flop(vector_fp32=1e5))  # fmt: skip
        assert of("reuse", steps([row] * 4), self.machine(build)) == []

    def test_with_one_known_level_there_is_nothing_to_compare(self, build: SimpleNamespace) -> None:
        machine = build.machine(bandwidths={MemoryLevel.DRAM: Ceiling(10e9)})
        assert of("reuse", steps(self.rows(build, 4)), machine) == []


class TestConversions:
    def rows(self, build: SimpleNamespace, read: float, written: float) -> list[Row]:
        zero = {"bytes_read": read, "bytes_written": written, "bytes_l1": read + written}
        return [
            build.row("a", "forward", "aten::copy_", 20, **zero | build.flop(vector_fp32=0.0)),
            build.row("a", "forward", "mm", 60, **build.flop(matrix_fp32=5e6)),
        ]

    def test_layout_changes(self, build: SimpleNamespace) -> None:
        profile = steps(self.rows(build, 4e5, 4e5), {"framework": "torch"})
        finding = only("conversion", profile, build.machine())
        assert finding.title == (
            "Copies, conversions and layout changes, 1 launch a step, compute nothing and move 800 kB; they take "
            "25.0 % of the launch time."
        )
        assert finding.saves == pytest.approx(20e-6)
        assert "laid out" in finding.cause
        assert "channels_last" in finding.action

    def test_conversions_of_number_formats(self, build: SimpleNamespace) -> None:
        profile = steps(self.rows(build, 4e5, 2e5), {"framework": "torch"})
        finding = only("conversion", profile, build.machine())
        assert finding.cause == "Neighbouring ops want different number formats."
        assert ".half()" in finding.action

    def test_views_move_nothing(self, build: SimpleNamespace) -> None:
        assert of("conversion", steps(self.rows(build, 0.0, 0.0)), build.machine()) == []

    @pytest.mark.parametrize(
        "more",
        [
            {"phase": "optimizer"},
            {"phase": "data"},
            {"op": "aten::embedding"},
            {"flop_least_vector_fp32": 5.0},
            {"flop_least_matrix_int8": 5.0},
        ],
    )
    def test_what_is_none(self, build: SimpleNamespace, more: Row) -> None:
        copy, product = self.rows(build, 4e5, 4e5)
        assert of("conversion", steps([copy | more, product]), build.machine()) == []

    def test_work_of_unknown_size_may_compute(self, build: SimpleNamespace) -> None:
        row = build.row("a", "forward", "aten::copy_", 20, source_flop="missing", bytes_l1=8.0)
        assert of("conversion", steps([row]), build.machine()) == []

    def test_kernels_are_named_where_ops_are_not(self, build: SimpleNamespace) -> None:
        row = build.row(None, "forward", None, 20, kernel="Memcpy DtoD", bytes_l1=8e5,
                        **build.flop(vector_fp32=0.0))  # fmt: skip
        finding = only("conversion", steps([row]), build.machine())
        assert finding.evidence[0] == "Most of it: Memcpy DtoD."


class TestPadding:
    def row(self, build: SimpleNamespace, op: str, nominal: float, least: float) -> Row:
        flop = {"flop_nominal_matrix_fp32": nominal, "flop_least_matrix_fp32": least}
        row: Row = build.row("conv", "forward", op, 50, **flop)
        return row

    def test_taps_on_padding(self, build: SimpleNamespace) -> None:
        row = self.row(build, "aten::convolution", 4e6, 3e6)
        finding = only("padding", steps([row]), build.machine())
        assert finding.title == (
            "25 % of the FLOP of convolutions that take 100.0 % of the launch time meet padding only."
        )
        assert finding.saves == pytest.approx(12.5e-6)
        assert finding.layers == ("conv",)

    def test_the_time_is_that_of_each_convolution(self, build: SimpleNamespace) -> None:
        rows = [
            self.row(build, "aten::convolution", 4e6, 2e6) | {"duration": 10e-6},
            self.row(build, "aten::convolution", 4e8, 3e8) | {"duration": 40e-6},
        ]
        assert only("padding", steps(rows), build.machine()).saves == pytest.approx(15e-6)

    @pytest.mark.parametrize(
        ("op", "nominal", "least"),
        [
            ("aten::convolution", 4e6, 3.9e6),  # the usual border
            ("aten::_scaled_dot_product_flash_attention", 4e6, 2e6),  # a causal mask
            ("aten::convolution", 0.0, 0.0),
        ],
    )
    def test_what_is_no_waste(
        self, build: SimpleNamespace, op: str, nominal: float, least: float
    ) -> None:
        assert of("padding", steps([self.row(build, op, nominal, least)]), build.machine()) == []


class TestPrecision:
    def machine(self, build: SimpleNamespace, **more: float) -> Machine:
        peaks = {"vector_fp64": 10e9, "matrix_fp64": 25e9} | more
        known = dict(build.machine().peaks)
        for name, rate in peaks.items():
            pipe, precision = name.split("_")
            known[Pipe(pipe), Precision(precision)] = Ceiling(rate)
        machine: Machine = build.machine(peaks=known)
        return machine

    def test_products_in_fp64(self, build: SimpleNamespace) -> None:
        row = build.row("a", "forward", "mm", 80, **build.flop(matrix_fp64=1e6))
        finding = only("precision", steps([row]), self.machine(build))
        assert finding.title == (
            "Work in fp64 takes 100.0 % of the launch time; in fp32 it moves half the bytes, and its peak is 4.0 times "
            "higher."
        )
        assert finding.saves == pytest.approx(60e-6)

    def test_memory_bound_work_in_fp64(self, build: SimpleNamespace) -> None:
        row = build.row("a", "forward", "add", 80, bytes_dram=4e5, **build.flop(vector_fp64=1e3))
        finding = only("precision", steps([row]), self.machine(build))
        assert finding.title.endswith("in fp32 it moves half the bytes.")
        assert finding.saves == pytest.approx(40e-6)

    def test_where_fp32_is_no_faster_nothing_is_said(self, build: SimpleNamespace) -> None:
        row = build.row("a", "forward", "mm", 80, **build.flop(matrix_fp64=1e6))
        assert of("precision", steps([row]), self.machine(build, matrix_fp64=99e9)) == []
        assert of("precision", steps([row]), build.machine()) == []

    def test_that_peaks_are_of_different_kinds_is_said(
        self, build: SimpleNamespace, profile: Profile
    ) -> None:
        peaks = dict(build.machine().peaks)
        alike = only("precision", profile, build.machine())
        assert alike.evidence[0].endswith("bf16 framework-reachable.")
        key = Pipe.MATRIX, Precision.BF16
        peaks[key] = dataclasses.replace(peaks[key], how="datasheet")
        other = only("precision", profile, build.machine(peaks=peaks))
        assert other.evidence[0].endswith("compares what was seen with what is promised.")

    @pytest.mark.parametrize(
        ("framework", "words"),
        [
            ("torch", "torch.autocast(device_type, dtype=torch.bfloat16)"),
            ("keras", 'keras.config.set_dtype_policy("mixed_bfloat16")'),
            ("none", "Train in mixed precision with bf16"),
        ],
    )
    def test_each_framework_is_told_its_own_means(
        self, build: SimpleNamespace, profile: Profile, framework: str, words: str
    ) -> None:
        told = profile.replace(run={**profile.run, "framework": framework})
        assert words in only("precision", told, build.machine()).action

    def test_tf32_needs_no_mixed_precision(self, build: SimpleNamespace, profile: Profile) -> None:
        peaks = dict(build.machine().peaks)
        peaks[Pipe.MATRIX, Precision.TF32] = Ceiling(900e9)
        told = profile.replace(run={**profile.run, "framework": "torch"})
        action = only("precision", told, build.machine(peaks=peaks)).action
        assert 'set_float32_matmul_precision("high")' in action


class TestOptimizer:
    def rows(self, build: SimpleNamespace, op: str, count: int) -> list[Row]:
        known = {"bytes_read": 4e3, "bytes_written": 4e3, "bytes_l1": 8e3, "bytes_dram": 8e3}
        flop = build.flop(vector_fp32=1e2)
        return [build.row("a", "optimizer", op, 5, **known | flop) for _ in range(count)]

    @pytest.mark.parametrize(
        ("op", "words"),
        [
            ("aten::add_", "10 launches a step, as a loop over the parameters, "),
            ("aten::_foreach_add_", "10 launches a step, as lists of parameters (foreach), "),
            ("ResourceApplyAdam", "10 launches a step, 2.5 times"),
        ],
    )
    def test_how_it_is_launched(self, build: SimpleNamespace, op: str, words: str) -> None:
        finding = only("optimizer", steps(self.rows(build, op, 10)), build.machine())
        assert words in finding.title

    def test_a_fused_one_is_as_it_should_be(self, build: SimpleNamespace) -> None:
        rows = self.rows(build, "aten::_fused_adamw_", 10)
        assert of("optimizer", steps(rows), build.machine()) == []

    def test_one_pass_for_many(self, build: SimpleNamespace) -> None:
        finding = only("optimizer", steps(self.rows(build, "aten::add_", 10)), build.machine())
        # 80 kB at 10 GB/s, of which nine tenths pass from one op to the next; one launch takes 2 µs.
        assert finding.saves == pytest.approx(50e-6 - 2e-6)
        assert "passes over each tensor once" in finding.assumption

    def test_kernels_do_not_say_how(self, build: SimpleNamespace) -> None:
        rows = [row | {"op": None, "kernel": "k"} for row in self.rows(build, "x", 10)]
        assert (
            "10 launches a step, 2.5 times" in only("optimizer", steps(rows), build.machine()).title
        )


class TestWaiting:
    def profile(self, build: SimpleNamespace, *waits: Any, **more: Any) -> Profile:
        row = build.row("a", "forward", "mm", 20, **build.flop(matrix_fp32=1e6))
        walls = [{"step": i, "wall": 1e-4, "loading": wait} for i, wait in enumerate(waits)]
        return steps([row], {"steps": walls, **more})

    def test_a_loader_that_is_waited_for(self, build: SimpleNamespace) -> None:
        profile = self.profile(build, 30e-6, 40e-6, 50e-6)
        finding = only("data", profile, build.machine())
        assert finding.title == "The step waits 40.0 µs for its loader, 40.0 % of its time."
        assert finding.saves == pytest.approx(40e-6)
        assert finding.share_of_step == pytest.approx(0.4)

    def test_idle_time_leaves_that_out(self, build: SimpleNamespace) -> None:
        idle = only("idle", self.profile(build, 40e-6, 40e-6, 40e-6), build.machine())
        assert idle.saves == pytest.approx(40e-6)
        assert idle.title.endswith("Beside it the step waits 40.0 µs for its loader.")
        assert of("idle", self.profile(build, 75e-6, 75e-6, 75e-6), build.machine()) == []

    @pytest.mark.parametrize(
        "waits", [(1e-6, 1e-6), (None, "x"), (True, -1.0), (float("inf"),), ()]
    )
    def test_little_or_nothing_known(self, build: SimpleNamespace, waits: tuple[Any, ...]) -> None:
        profile = self.profile(build, *waits)
        assert of("data", profile, build.machine()) == []

    def test_ops_that_load_are_part_of_the_wait(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", "mm", 20, **build.flop(matrix_fp32=1e6)),
            build.row(None, "data", "stack", 30, bytes_l1=8.0, **build.flop(vector_fp32=0.0)),
        ]
        walls = [{"step": i, "wall": 1e-4, "loading": 40e-6} for i in range(3)]
        profile = steps(rows, {"steps": walls})
        assert only("data", profile, build.machine()).saves == pytest.approx(40e-6)
        assert only("idle", profile, build.machine()).saves == pytest.approx(40e-6)

    def test_ops_that_take_longer_than_the_wait_speak_for_themselves(
        self, build: SimpleNamespace
    ) -> None:
        row = build.row(None, "data", "to", 30, bytes_l1=8.0, **build.flop(vector_fp32=0.0))
        walls = [{"step": i, "wall": 1e-4, "loading": 20e-6} for i in range(3)]
        finding = only("data", steps([row], {"steps": walls}), build.machine())
        assert finding.title.startswith("Loading data takes 30.0 µs a step")


class TestRanks:
    def profile(self, build: SimpleNamespace, *times: tuple[float, ...]) -> Profile:
        """Ranks × steps: microseconds of compute; the rest of 100 µs waits for the others."""
        rows = []
        for rank, of_rank in enumerate(times):
            for step, time in enumerate(of_rank):
                where = {"rank": rank, "step": step}
                rows.append(
                    build.row("a", "forward", "mm", time, **where, **build.flop(matrix_fp32=1e5))
                )
                rows.append(
                    build.row(None, "backward", "c10d::allreduce_", 100 - time, **where,
                              source_flop="missing")
                )  # fmt: skip
        return Profile.from_rows(rows, {"steps": [{"step": 0, "wall": 1e-4}], "device": "cpu"})

    def test_the_others_wait_for_the_slowest(self, build: SimpleNamespace) -> None:
        profile = self.profile(build, (40, 40, 40), (40, 40, 40), (70, 70, 70))
        finding = only("imbalance", profile, build.machine())
        assert finding.title == (
            "Rank 2 computes 70.0 µs a step, 1.40 times the mean of 3 ranks: the others wait for it."
        )
        assert finding.saves == pytest.approx(20e-6)
        assert finding.evidence == (
            "It is the slowest in 100 % of the steps; the fastest takes 40.0 µs.",
        )

    @pytest.mark.parametrize(
        "times",
        [
            ((40, 40, 40),),
            ((40, 40, 40), (41, 41, 41)),
            ((40, 90, 30, 41), (60, 40, 50, 40)),  # now one, now the other
            ((40, 40, 60), (60, 60, 40)),  # twice of three times may be chance
            ((40, 40), (80,)),  # a step that one of them lacks
        ],
    )
    def test_what_is_no_imbalance(
        self, build: SimpleNamespace, times: tuple[tuple[float, ...], ...]
    ) -> None:
        assert of("imbalance", self.profile(build, *times), build.machine()) == []


class TestLayers:
    def test_far_under_every_roof(self, build: SimpleNamespace) -> None:
        row = build.row("scan", "forward", "mm", 90, bytes_l1=8e3, **build.flop(matrix_fp32=1e6))
        far = only("latency", steps([row]), build.machine())
        assert far.layers == ("scan",)
        assert "neither arithmetic nor memory busy" in far.cause
        assert "arithmetic 11 % (counted FLOP)" in far.evidence[0]
        near = steps([row | {"duration": 70e-6}])
        assert of("latency", near, build.machine()) == []
        assert of("compute", near, build.machine())

    def test_functions_that_count_as_one_flop_may_keep_the_unit_busy(
        self, build: SimpleNamespace
    ) -> None:
        row = build.row("act", "forward", "tanh", 90, bytes_dram=8e4, source_flop="convention",
                        **build.flop(vector_fp32=1e4))  # fmt: skip
        assert of("latency", steps([row]), build.machine()) == []
        assert of("memory", steps([row]), build.machine())

    def test_a_roof_that_only_kernels_of_the_framework_reached_is_no_last_word(
        self, build: SimpleNamespace
    ) -> None:
        row = build.row("fc", "forward", "mm", 11, **build.flop(matrix_fp32=1e6))
        assert "framework-reachable" in only("at-roof", steps([row]), build.machine()).cause
        peaks = {
            key: dataclasses.replace(ceiling, how="measured")
            for key, ceiling in build.machine().peaks.items()
        }
        assert only("at-roof", steps([row]), build.machine(peaks=peaks)).cause == ""

    def test_launches_are_named_with_their_cost(self, build: SimpleNamespace) -> None:
        row = build.row("act", "forward", "add", 5, bytes_l1=8e2, **build.flop(vector_fp32=100.0))
        finding = only("small-launches", steps([row] * 4), build.machine())
        assert finding.evidence == (
            "Launching alone costs 4 × 2.00 µs (measured) = 8.00 µs of their 20.0 µs.",
        )
        layer = only("launch", steps([row] * 4), build.machine())
        assert layer.cause == "Its 4 launches cost more than the work that they do."
