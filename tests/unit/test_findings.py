"""Findings, warnings and the verdict: what is claimed, what is not, and how much at most."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hroof.findings import Finding, findings, machine_mismatch, verdict, warnings
from hroof.findings.finding import count, launches_text, severity_of
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.roofline import totals
from hroof.units import MemoryLevel, Pipe, Precision

RUN = {"steps": [{"step": i, "wall": 1e-4} for i in range(3)], "device": "cpu"}


def steps(rows: list[dict[str, Any]], run: dict[str, Any] | None = None) -> Profile:
    """Three equal steps of some rows."""
    return Profile.from_rows(
        [row | {"step": i} for i in range(3) for row in rows], RUN if run is None else run
    )


def of(kind: str, found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.kind == kind]


def only(kind: str, found: list[Finding]) -> Finding:
    chosen = of(kind, found)
    assert len(chosen) == 1, [finding.kind for finding in found]
    return chosen[0]


class TestRanking:
    def test_largest_saving_first(self, profile: Profile, machine: Machine) -> None:
        found = findings(profile, machine)
        saves = [finding.saves for finding in found]
        assert saves == sorted(saves, reverse=True)
        assert [finding.kind for finding in found[:2]] == ["precision", "compute"]

    def test_nothing_without_ceilings_or_launches(self, profile: Profile, machine: Machine) -> None:
        assert findings(profile, None) == []
        assert findings(Profile.from_rows([]), machine) == []

    def test_no_ceiling_no_claim_about_layers(self, profile: Profile) -> None:
        kinds = {finding.kind for finding in findings(profile, Machine("none"))}
        assert kinds <= {"no-rule", "idle", "data"}

    def test_every_finding_says_what_to_do_and_what_it_assumes(
        self, profile: Profile, machine: Machine
    ) -> None:
        for finding in findings(profile, machine):
            assert finding.title.endswith(".")
            assert finding.action.endswith(".")
            assert finding.assumption.endswith(".")
            assert 0 <= finding.share_of_step <= 1

    @pytest.mark.parametrize(
        ("saves", "severity"), [(0.1, "high"), (0.05, "medium"), (0.01, "low"), (0.0, "info")]
    )
    def test_severity_is_the_share_of_the_step(self, saves: float, severity: str) -> None:
        assert severity_of(saves, 1.0) == severity
        assert severity_of(saves, 0.0) == "info"

    def test_numbers_of_launches(self) -> None:
        assert count(1234.0) == "1,234"
        assert count(0.25) == "0.250"
        assert count(1234.5) == "1,234"
        assert launches_text(1.0) == "1 launch"
        assert launches_text(2.0) == "2 launches"


class TestLayers:
    def test_a_matrix_layer_below_its_roof(self, profile: Profile, machine: Machine) -> None:
        finding = of("compute", findings(profile, machine))[0]
        assert finding.layers == ("fc1",)
        assert finding.saves == pytest.approx(1.1 * 200e-6 - 130e-6)
        assert "matrix fp32" in finding.title

    def test_what_a_layer_finding_leaves_out_is_said(self, build: SimpleNamespace) -> None:
        mm = build.row("a", "forward", "mm", 50, **build.flop(matrix_fp32=1e6))
        update = build.row("a", "optimizer", "add", 9, bytes_l1=8.0, **build.flop(vector_fp32=1.0))
        plain = only("compute", findings(steps([mm]), build.machine()))
        assert plain.title.startswith("Layer a takes 50.0 µs a step")
        part = only("compute", findings(steps([mm, update]), build.machine()))
        assert part.title.startswith("Layer a, without its optimizer work, takes 50.0 µs a step")

    def test_a_memory_bound_layer(self, build: SimpleNamespace) -> None:
        row = build.row("norm", "forward", "add", 50, bytes_dram=1e5, **build.flop(vector_fp32=1e3))
        finding = only("memory", findings(steps([row]), build.machine()))
        assert finding.saves == pytest.approx(40e-6)
        assert "DRAM" in finding.action

    def test_a_launch_bound_layer_could_become_one_launch(self, build: SimpleNamespace) -> None:
        row = build.row("act", "forward", "add", 5, bytes_l1=8e2, **build.flop(vector_fp32=100.0))
        finding = only("launch", findings(steps([row] * 4), build.machine()))
        assert finding.saves == pytest.approx(20e-6 - 2e-6)
        assert "compile" in finding.action

    def test_a_layer_at_its_roof_has_nothing_to_gain(self, build: SimpleNamespace) -> None:
        row = build.row("fc", "forward", "mm", 11, **build.flop(matrix_fp32=1e6))
        finding = only("at-roof", findings(steps([row]), build.machine()))
        assert finding.saves == 0
        assert finding.severity == "info"
        assert "bf16 is 4.0 times higher" in finding.action

    def test_at_the_roof_without_a_faster_format(self, build: SimpleNamespace) -> None:
        row = build.row("act", "forward", "exp", 11, **build.flop(vector_fp32=2e5))
        finding = only("at-roof", findings(steps([row]), build.machine()))
        assert finding.action == "Leave it as it is, or compute less."

    def test_a_mostly_uncounted_layer_gets_no_claim(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("fc", "forward", "mm", 10, **build.flop(matrix_fp32=1e5)),
            build.row("fc", "forward", "sort", 50, source_flop="missing", bytes_l1=1e3),
        ]
        found = findings(steps(rows), build.machine())
        assert not of("compute", found)
        assert only("no-rule", found).title.startswith("sort has no FLOP rule")

    def test_small_gains_are_left_out(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("big", "forward", "mm", 2000, **build.flop(matrix_fp32=1e8)),
            build.row("small", "forward", "mm", 15, **build.flop(matrix_fp32=1e6)),
        ]
        found = findings(steps(rows, {}), build.machine())
        assert [finding.layers for finding in of("compute", found)] == [("big",)]


class TestWholeRun:
    def test_lower_precision_names_the_ratio(self, profile: Profile, machine: Machine) -> None:
        finding = only("precision", findings(profile, machine))
        assert "bf16 is 4.0 times higher" in finding.title
        assert finding.saves == pytest.approx(1.1 * 235e-6 * 0.75)
        assert finding.layers == ("fc1", "fc2")

    def test_no_precision_finding_where_the_peak_is_not_higher(
        self, profile: Profile, build: SimpleNamespace
    ) -> None:
        peaks = dict(build.machine().peaks)
        peaks[Pipe.MATRIX, Precision.BF16] = Ceiling(101e9)
        assert not of("precision", findings(profile, build.machine(peaks=peaks)))

    def test_small_launches_of_all_layers(self, build: SimpleNamespace) -> None:
        rows = [
            build.row(f"l{i}", "forward", "add", 4, bytes_l1=8.0, **build.flop(vector_fp32=1.0))
            for i in range(10)
        ]
        finding = only("small-launches", findings(steps(rows), build.machine()))
        assert finding.title.startswith("10 launches a step bound by the launch itself")
        assert finding.saves == pytest.approx(40e-6 - 2e-6)
        assert len(finding.layers) == 10

    def test_elementwise_chain(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", "add", 30, bytes_dram=1e5, **build.flop(vector_fp32=1e3)),
            build.row("a", "forward", "mul", 30, bytes_dram=1e5, **build.flop(vector_fp32=1e3)),
        ]
        finding = only("elementwise", findings(steps(rows), build.machine()))
        assert finding.saves == pytest.approx(40e-6)
        assert "Fuse" in finding.action

    def test_matrix_work_is_no_elementwise_chain(self, build: SimpleNamespace) -> None:
        row = build.row("a", "forward", "mm", 30, bytes_dram=1e5, **build.flop(matrix_fp32=1e3))
        assert not of("elementwise", findings(steps([row] * 2), build.machine()))

    def optimizer(self, build: SimpleNamespace, launches: int) -> Finding:
        row = build.row("a", "optimizer", "add", 40 / launches, bytes_dram=8e3 / launches,
                        **build.flop(vector_fp32=100.0))  # fmt: skip
        return only("optimizer", findings(steps([row] * launches), build.machine()))

    def test_an_optimizer_of_many_launches(self, build: SimpleNamespace) -> None:
        finding = self.optimizer(build, 8)
        assert "fused variant" in finding.action
        assert finding.saves == pytest.approx(40e-6 - 2e-6)

    def test_an_optimizer_of_one_launch_is_fused_already(self, build: SimpleNamespace) -> None:
        assert "few already" in self.optimizer(build, 1).action

    def test_ops_without_a_rule_and_without_a_count(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", op, 9, source_flop="missing") for op in ("x", "y")]
        found = findings(steps(rows, RUN | {"ops_without_rule": ["x"]}), build.machine())
        titles = [finding.title for finding in of("no-rule", found)]
        assert titles == [
            "x has no FLOP rule and takes 50.0 % of the launch time.",
            "y found no count and takes 50.0 % of the launch time.",
        ]

    def test_unknown_python_that_loads_data_spoils_no_verdict(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", "mm", 40, bytes_l1=8.0, **build.flop(matrix_fp32=1e3)),
            build.row(None, "data", "PyFunc", 60, source_flop="missing"),
        ]
        run, machine = steps(rows, RUN | {"ops_without_rule": ["PyFunc"]}), build.machine()
        found = findings(run, machine)
        assert verdict(run, machine, found).supported
        assert of("no-rule", found) == []
        assert not any("known FLOP" in text for text in warnings(run, machine))
        assert "60.0 % of the launch time" in only("data", found).title

    def test_what_is_unknown_beside_data_loading_still_does(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", "odd", 40, source_flop="missing"),
            build.row("a", "forward", "mm", 10, bytes_l1=8.0, **build.flop(matrix_fp32=1e3)),
            build.row(None, "data", "to", 60, bytes_l1=8.0, **build.flop(vector_fp32=0.0)),
        ]
        run, machine = steps(rows), build.machine()
        said = verdict(run, machine, findings(run, machine))
        assert not said.supported
        assert "Only 20.0 % of the launch time beside data loading has known FLOP." in said.why
        assert any("beside data loading" in text for text in warnings(run, machine))

    def test_data_loading(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", "mm", 10, **build.flop(matrix_fp32=1e6)),
            build.row(None, "data", "to", 30, bytes_l1=8.0, **build.flop(vector_fp32=0.0)),
        ]
        finding = only("data", findings(steps(rows), build.machine()))
        assert finding.saves == pytest.approx(30e-6)
        assert finding.share_of_step == pytest.approx(0.75)

    def test_idle_wall_time(self, build: SimpleNamespace) -> None:
        row = build.row("a", "forward", "mm", 10, start=0.0, **build.flop(matrix_fp32=1e6))
        finding = only("idle", findings(steps([row]), build.machine()))
        assert finding.saves == pytest.approx(90e-6)
        assert finding.share_of_step == pytest.approx(0.9)

    def test_idle_time_is_that_of_an_undisturbed_step(self, build: SimpleNamespace) -> None:
        row = build.row("a", "forward", "mm", 10, start=0.0, **build.flop(matrix_fp32=1e6))
        known = findings(steps([row], RUN | {"undisturbed_step": 40e-6}), build.machine())
        assert only("idle", known).saves == pytest.approx(30e-6)
        assert "75.0 % of an undisturbed step" in only("idle", known).title
        unknown = only("idle", findings(steps([row]), build.machine()))
        assert "profiler's own cost is in it" in unknown.title

    @pytest.mark.parametrize("seconds", [5e-6, 10e-6, 10.4e-6])
    def test_nothing_idle_where_the_launches_fill_the_undisturbed_step(
        self, build: SimpleNamespace, seconds: float
    ) -> None:
        row = build.row("a", "forward", "mm", 10, start=0.0, **build.flop(matrix_fp32=1e5))
        found = findings(steps([row], RUN | {"undisturbed_step": seconds}), build.machine())
        assert not of("idle", found)
        assert all(finding.saves <= seconds for finding in found)

    def test_a_saving_is_capped_by_the_undisturbed_step(self, build: SimpleNamespace) -> None:
        row = build.row("a", "forward", "mm", 90, **build.flop(matrix_fp32=1e5))
        found = findings(steps([row], RUN | {"undisturbed_step": 50e-6}), build.machine())
        assert max(finding.saves for finding in found) == pytest.approx(50e-6)

    def test_recomputed_work(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "backward", "mm", 10, **build.flop(matrix_fp32=1e6)),
            build.row("b", "backward", "mm", 10, recompute=True, **build.flop(matrix_fp32=1e6)),
        ]
        finding = only("recompute", findings(steps(rows), build.machine()))
        assert finding.saves == pytest.approx(10e-6)
        assert finding.layers == ("b",)

    def test_a_saving_is_never_more_than_the_step(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", "mm", 900, stream=s, start=0.0, **build.flop(matrix_fp32=1e6))
            for s in range(4)
        ]
        for finding in findings(
            steps(rows, {"steps": [{"step": 0, "wall": 1e-3}]}), build.machine()
        ):
            assert finding.saves <= 1e-3


numbers = st.floats(1e-7, 1e-2)
work = st.one_of(st.none(), st.just(0.0), st.floats(1.0, 1e9))
any_row = st.fixed_dictionaries(
    {
        "layer": st.sampled_from([None, "a", "b.0"]),
        "phase": st.sampled_from(["forward", "backward", "optimizer", "data"]),
        "op": st.sampled_from(["mm", "add"]),
        "duration": st.one_of(st.none(), st.just(0.0), numbers),
        "start": st.one_of(st.none(), numbers),
        "recompute": st.booleans(),
        "flop_least_matrix_fp32": work,
        "flop_nominal_matrix_fp32": work,
        "flop_least_vector_fp32": work,
        "bytes_l1": work,
        "bytes_dram": work,
        "step": st.integers(-1, 3),
    }
)


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(any_row, max_size=10), wall=st.one_of(st.none(), numbers))
def test_whatever_was_captured_claims_stay_within_the_step(
    build: SimpleNamespace, rows: list[dict[str, Any]], wall: float | None
) -> None:
    machine = build.machine()
    profile = Profile.from_rows(rows, {"steps": [{"step": 0, "wall": wall}]})
    total = profile.launches["duration"].sum()
    for finding in findings(profile, machine):
        assert 0 <= finding.saves <= max(wall or 0.0, total) + 1e-12
        assert math.isfinite(finding.share_of_step)
    for text in [verdict(profile, machine).why, *warnings(profile, machine)]:
        assert "nan" not in text.lower().split()
        assert text


class TestVerdict:
    def test_what_bounds_the_run(self, profile: Profile, machine: Machine) -> None:
        said = verdict(profile, machine)
        assert said.supported
        assert said.text.startswith("matrix fp32 bounds 86 % of the attainable time")
        first = findings(profile, machine)[0]
        assert said.next == first.action
        assert said.why == f"{first.title} Layers fc1, fc2 hold 87 % of the recoverable time."
        assert "Doubtful" not in said.text

    def test_one_layer_holds_it_all(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", "mm", 30, **build.flop(matrix_fp32=1e6))]
        why = verdict(steps(rows), build.machine()).why
        assert why.endswith(". Layer a holds 100 % of the recoverable time.")

    def slow(self, build: SimpleNamespace, microseconds: float) -> Profile:
        return steps([build.row("a", "forward", "mm", microseconds, **build.flop(matrix_fp32=1e6))])

    def test_a_huge_headroom_on_a_cpu_is_contention(self, build: SimpleNamespace) -> None:
        profile, machine = self.slow(build, 300), build.machine()
        said = verdict(profile, machine)
        assert "Doubtful: more than 20 times is nearly always other programs" in said.text
        assert (said.supported, said.doubtful, said.sound) == (True, True, False)
        severities = {finding.severity for finding in findings(profile, machine)}
        assert "medium" in severities
        assert "high" not in severities
        calm = verdict(self.slow(build, 150), machine)
        assert "Doubtful" not in calm.text
        assert calm.sound

    def test_a_huge_headroom_elsewhere_is_not(self, build: SimpleNamespace) -> None:
        profile = self.slow(build, 300).replace(run=RUN | {"device": "cuda:0"})
        assert "Doubtful" not in verdict(profile, build.machine(device="cuda:0")).text

    @pytest.mark.parametrize(
        "changes",
        [
            {"warnings": ("fp32 is slow: other programs were running.",)},
            {"launch_cost": Ceiling(2e-6, spread=0.6)},
        ],
    )
    def test_disturbed_ceilings_make_doubtful_findings(
        self, build: SimpleNamespace, changes: dict[str, Any]
    ) -> None:
        profile, machine = self.slow(build, 150), build.machine(**changes)
        assert "other programs probably disturbed the ceilings" in verdict(profile, machine).text
        assert all(finding.severity != "high" for finding in findings(profile, machine))

    def check_refused(self, profile: Profile, machine: Machine | None, why: str) -> None:
        said = verdict(profile, machine)
        assert not said.supported
        assert said.text == "No verdict: this run cannot support one."
        assert why in said.why
        assert said.next

    def test_none_without_launches(self, machine: Machine) -> None:
        self.check_refused(Profile.from_rows([]), machine, "No launch with a time")

    def test_none_without_ceilings(self, profile: Profile) -> None:
        self.check_refused(profile, None, "There are no ceilings")

    def test_none_for_another_device(self, profile: Profile, build: SimpleNamespace) -> None:
        other = build.machine(name="H200", device="cuda:0")
        self.check_refused(profile, other, "the ceilings are from 'H200'")

    def test_none_from_too_few_steps(self, build: SimpleNamespace) -> None:
        profile = Profile.from_rows(build.rows((1.0, 1.0)), build.run())
        self.check_refused(profile, build.machine(), "2 steps were captured, 3 are needed.")

    def test_none_where_steps_differ_wildly(self, build: SimpleNamespace) -> None:
        profile = Profile.from_rows(build.rows((1.0, 2.0, 9.0)), build.run())
        self.check_refused(profile, build.machine(), "Steps differ by 400 %")

    def test_none_where_little_is_counted(self, build: SimpleNamespace) -> None:
        rows = [
            build.row("a", "forward", "mm", 10, **build.flop(matrix_fp32=1e6)),
            build.row("a", "forward", "sort", 20, source_flop="missing"),
        ]
        self.check_refused(steps(rows), build.machine(), "Only 33.3 % of the launch time has known")

    def test_none_where_little_has_a_bound(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", "mm", 10, **build.flop(matrix_fp64=1e6))]
        self.check_refused(
            steps(rows), build.machine(), "Only 0.0 % of the launch time has a bound"
        )

    def test_none_where_the_step_beats_its_ceilings(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", "mm", 5, **build.flop(matrix_fp32=1e6))]
        self.check_refused(steps(rows), build.machine(), "faster than its ceilings allow")

    def test_nothing_to_gain(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", "exp", 10, **build.flop(vector_fp32=2e5))]
        said = verdict(steps(rows), build.machine())
        assert said.supported
        assert said.why == "No layer has recoverable time."
        assert said.next.startswith("Nothing stands out")


class TestWarnings:
    def test_a_good_run_has_none(self, profile: Profile, machine: Machine) -> None:
        assert warnings(profile, machine) == []

    @pytest.mark.parametrize(
        ("run", "text"),
        [
            ({"status": "partial", "status_reason": "killed."}, "The run is partial: killed."),
            ({"status": "partial"}, "The run is partial."),
            (
                {"nan_loss": True},
                "The loss was not finite: a healthy run may compute something else.",
            ),
            ({"warnings": ["Odd."]}, "Odd."),
            (
                {"clock": 1e9},
                "The run's clock is 0.500 times the one that the ceilings were measured at.",
            ),
        ],
    )
    def test_what_the_run_says(
        self, build: SimpleNamespace, run: dict[str, Any], text: str
    ) -> None:
        profile = Profile.from_rows(build.rows(), build.run() | run)
        assert warnings(profile, build.machine(facts={"clock": 2e9})) == [text]

    def test_equal_clocks_are_fine(self, build: SimpleNamespace) -> None:
        profile = Profile.from_rows(build.rows(), build.run() | {"clock": 2.02e9})
        assert warnings(profile, build.machine(facts={"clock": 2e9})) == []
        assert warnings(profile, build.machine(facts={"clock": 0.0})) == []

    def test_steps_slowed_by_the_profiler(self, build: SimpleNamespace) -> None:
        slow = Profile.from_rows(build.rows(), build.run() | {"undisturbed_step": 2.2e-4})
        assert warnings(slow, build.machine()) == [
            "Timed steps took 2.0 times an undisturbed one: times of short ops include the "
            "profiler's own cost."
        ]
        like = Profile.from_rows(build.rows(), build.run() | {"undisturbed_step": 4e-4})
        assert warnings(like, build.machine()) == []

    def test_negative_times_are_told_and_left_out(self, build: SimpleNamespace) -> None:
        good = build.row("a", "forward", "mm", 40, **build.flop(matrix_fp32=1e6))
        bad = build.row("a", "forward", "mm", -30, **build.flop(matrix_fp32=1e6))
        found = warnings(steps([good, bad]), build.machine())
        assert "3 rows have a negative time: it counts as not known." in found
        assert totals(steps([good, bad])).time == pytest.approx(40e-6)
        alone = Profile.from_rows([bad])
        assert "1 row has a negative time: it counts as not known." in warnings(alone, None)
        assert not any("negative" in text for text in warnings(steps([good]), build.machine()))

    @pytest.mark.parametrize(
        "wrong",
        [
            {"bytes_dram": -1.0}, {"bytes_l1": math.inf}, {"flop_nominal_matrix_fp32": -1.0},
            {"launches": -1.0}, {"start": math.inf}, {"duration": math.inf},
        ],
    )  # fmt: skip
    def test_numbers_that_cannot_be_are_told(
        self, build: SimpleNamespace, wrong: dict[str, float]
    ) -> None:
        rows = build.rows()
        assert warnings(Profile.from_rows(rows, build.run()), build.machine()) == []
        rows[0] |= wrong
        found = warnings(Profile.from_rows(rows, build.run()), build.machine())
        said = "1 row has infinite numbers, or work below 0: nothing computed from them can be trusted."
        assert said in found
        assert not any("inf %" in text for text in found)

    def test_other_settings_than_those_of_the_ceilings(self, build: SimpleNamespace) -> None:
        profile = Profile.from_rows(build.rows(), build.run() | {"facts": {"threads": 2, "x": 1}})
        machine = build.machine(facts={"threads": 8, "x": 2})
        text = "Settings differ: threads was 2 in the run and 8 for the ceilings."
        assert warnings(profile, machine) == [text]
        assert warnings(profile, build.machine(facts={"threads": 2})) == []

    def test_of_several_switches_only_those_that_differ_are_told(
        self, build: SimpleNamespace
    ) -> None:
        run = {"reductions": {"fp16": True, "bf16": True}, "denormals": "kept", "affinity": "0-1"}
        ceilings = {"reductions": {"fp16": True, "bf16": False}, "denormals": "flushed"}
        profile = Profile.from_rows(build.rows(), build.run() | {"facts": run})
        assert warnings(profile, build.machine(facts=ceilings)) == [
            "Settings differ: reductions bf16 was True in the run and False for the ceilings.",
            "Settings differ: denormals was kept in the run and flushed for the ceilings.",
        ]

    def test_few_and_unequal_steps(self, build: SimpleNamespace) -> None:
        one = Profile.from_rows(build.rows((1.0,)), build.run())
        assert warnings(one, build.machine()) == ["Only 1 step was captured: noise is unknown."]
        odd = Profile.from_rows(build.rows((1.0, 1.0, 1.5)), build.run())
        assert warnings(odd, build.machine())[0].startswith("Steps differ by 50 % of their median")

    def test_low_coverage(self, build: SimpleNamespace) -> None:
        rows = [
            build.row(None, "forward", "x", 10, source_flop="missing"),
            build.row("a", "forward", "mm", 40, **build.flop(matrix_fp32=1e6)),
        ]
        found = warnings(steps(rows), build.machine())
        assert "Only 80.0 % of the launch time has a layer." in found
        assert "Only 80.0 % of the launch time has known FLOP." in found

    def test_work_outside_steps(self, build: SimpleNamespace) -> None:
        extra = build.row("a", "forward", "mm", 400, **build.flop(matrix_fp32=1e6))
        profile = Profile.from_rows(
            [*build.rows(), extra | {"launch_id": 999, "step": -1, "start": 1.0}], build.run()
        )
        assert any(
            "outside the captured steps" in text for text in warnings(profile, build.machine())
        )

    def test_no_ceilings_and_doubtful_ceilings(
        self, profile: Profile, build: SimpleNamespace
    ) -> None:
        assert any("no ceilings" in text for text in warnings(profile, None))
        doubtful = build.machine(warnings=("L2 is slower than DRAM.",))
        assert warnings(profile, doubtful) == ["Ceilings: L2 is slower than DRAM."]

    def test_points_above_a_roof_are_named(self, build: SimpleNamespace) -> None:
        rows = [
            build.row(f"l{i}", "forward", "mm", 5, **build.flop(matrix_fp32=1e6)) for i in range(7)
        ]
        text = next(t for t in warnings(steps(rows), build.machine()) if t.startswith("Faster"))
        assert text.startswith("Faster than the ceilings allow: l0, l1, l2, l3, l4 and 2 more.")
        assert "Likely causes" in text

    def test_each_warning_once(self, build: SimpleNamespace) -> None:
        profile = Profile.from_rows(build.rows(), build.run() | {"warnings": ["Odd.", "Odd."]})
        assert warnings(profile, build.machine()) == ["Odd."]


class TestMismatch:
    @pytest.mark.parametrize(
        "device",
        [
            None,
            "cpu",
            "small cpu",
            "Small  CPU",
            {"name": "small cpu", "device": "cpu"},
            {"device": "cpu"},
        ],
    )
    def test_the_same_device(self, build: SimpleNamespace, device: Any) -> None:
        profile = Profile.from_rows([], {"device": device})
        assert machine_mismatch(profile, build.machine()) is None

    @pytest.mark.parametrize("device", ["cuda:0", {"name": "other cpu", "device": "cpu"}])
    def test_another_device(self, build: SimpleNamespace, device: Any) -> None:
        text = machine_mismatch(Profile.from_rows([], {"device": device}), build.machine())
        assert text is not None
        assert "'small cpu'" in text

    def test_another_number_of_the_same_kind(self, build: SimpleNamespace) -> None:
        profile = Profile.from_rows([], {"device": "cuda:3"})
        assert machine_mismatch(profile, build.machine(device="cuda:0")) is None

    def test_the_name_of_the_chip_decides(self, build: SimpleNamespace) -> None:
        profile = Profile.from_rows([], {"device": "cpu", "device_name": "other cpu"})
        assert machine_mismatch(profile, build.machine()) is not None


def test_levels_without_bytes_are_no_finding(build: SimpleNamespace) -> None:
    machine = build.machine(bandwidths={MemoryLevel.L2: Ceiling(1e9)})
    row = build.row("a", "forward", "add", 50, bytes_l1=1e5, **build.flop(vector_fp32=0.0))
    assert not of("memory", findings(steps([row]), machine))


class TestKernelsWithoutLayers:
    """What a tool outside measured knows kernels, but no layer."""

    KERNELS = ("void gemm<float>(T1::Params)", "void copy<float>(int)")

    def profile(self, build: SimpleNamespace, **more: Any) -> Profile:
        rows = [
            build.row(None, "other", None, 100, kernel=name, source_time="counter",
                      bytes_dram=4e5, **build.flop(vector_fp32=0.0), **more)
            for name in self.KERNELS
        ]  # fmt: skip
        return Profile.from_rows(rows, {"device": "cpu"})

    def test_findings_are_about_kernels(self, build: SimpleNamespace) -> None:
        found = findings(self.profile(build), build.machine())
        titles = [f.title for f in found if f.kind == "memory"]
        assert [title.split(" takes ")[0] for title in titles] == ["Kernel copy", "Kernel gemm"]
        assert all(f.layers == () for f in found if f.kind == "memory")

    def test_the_verdict_names_kernels(self, build: SimpleNamespace) -> None:
        profile = self.profile(build)
        ranked = findings(profile, build.machine())
        told = verdict(profile, build.machine(), ranked)
        assert told.supported
        assert "Kernels gemm, copy hold" in told.why or "Kernels copy, gemm hold" in told.why

    def test_one_layer_is_enough_to_speak_of_layers(self, build: SimpleNamespace) -> None:
        profile = self.profile(build)
        launches = profile.launches.astype({"layer": "object"})
        launches.loc[0, "layer"] = "fc"
        found = findings(Profile.from_rows(launches), build.machine())
        assert [f.title.split(" takes ")[0] for f in found if f.kind == "memory"] == ["Layer fc"]

    def test_unknown_flop_of_kernels_want_counters_not_rules(self, build: SimpleNamespace) -> None:
        rows = [build.row(None, "other", None, 100, kernel=self.KERNELS[0], source_flop="missing",
                          source_time="counter")]  # fmt: skip
        counters = pd.DataFrame({"gpu__time_duration.sum": [1e-4]})
        profile = Profile.from_rows(rows, {"device": "cpu"}, counters)
        found = [f for f in findings(profile, build.machine()) if f.kind == "no-rule"]
        assert [f.title for f in found] == [
            "gemm has unknown FLOP and takes 100.0 % of the launch time."
        ]
        assert "hroof run --counters" in found[0].action
        told = verdict(profile, build.machine(), found)
        assert not told.supported
        assert "hroof run --counters" in told.next

    def counted(self, build: SimpleNamespace, **more: Any) -> Profile:
        row = build.row(None, "other", None, 100, kernel=self.KERNELS[0], source_time="counter",
                        source_flop="counter", **build.flop(matrix_fp32=1e6), **more)  # fmt: skip
        return Profile.from_rows([row], {"device": "cpu"}, pd.DataFrame({"m": [1.0]}))

    def test_without_bytes_memory_may_be_the_bound_all_the_same(
        self, build: SimpleNamespace
    ) -> None:
        profile = self.counted(build)
        told = verdict(profile, build.machine())
        assert not told.supported
        assert "0.0 % of the launch time has known bytes" in told.why
        assert not [f for f in findings(profile, build.machine()) if f.kind == "compute"]
        assert verdict(self.counted(build, bytes_dram=8.0), build.machine()).supported

    def test_spread_of_peaks_that_counters_carry_is_no_disturbance(
        self, build: SimpleNamespace
    ) -> None:
        wide = {
            pair: dataclasses.replace(ceiling, how="counter peak", spread=0.9)
            for pair, ceiling in build.machine().peaks.items()
        }
        machine = dataclasses.replace(build.machine(), peaks=wide)
        told = verdict(self.counted(build, bytes_dram=8.0), machine)
        assert "Doubtful" not in told.text

    def test_ceilings_of_this_computer_do_not_help_a_device_elsewhere(
        self, build: SimpleNamespace
    ) -> None:
        assert "on the device of the run" in verdict(self.counted(build), None).next
        plain = Profile.from_rows([build.row("a", "forward", "mm", 1)])
        assert verdict(plain, None).next == "Measure them once with: hroof ceilings"
