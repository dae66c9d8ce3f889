"""A run against a budget: which launches a limit is about, baselines, and the sentences."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hroof.budgets import Budget, Scope, Verdict, check, losses, summary
from hroof.budgets.subjects import matches
from hroof.errors import UsageError
from hroof.machine import Machine
from hroof.profile import Profile

OK, OVER, UNKNOWN, NOISE = Verdict.OK, Verdict.OVER, Verdict.UNKNOWN, Verdict.NOISE


def names(found: Any) -> list[str]:
    return [row.name for row in found.rows]


class TestScopes:
    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("fc1", ["fc1"]),
            ("fc*", ["fc1", "fc2"]),
            ("fc?", ["fc1", "fc2"]),
            ("fc[2-9]", ["fc2"]),
            ("*", ["fc1", "fc2", "Net"]),
            ("(no layer)", ["(no layer)"]),
            ("*no layer*", [""]),
            ("FC1", [""]),
            ("fc", [""]),
        ],
    )
    def test_patterns(self, checking: Any, pattern: str, expected: list[str]) -> None:
        found = checking({"layer": {pattern: {"time": {"max": 1}}}})
        shown = [row.name if row.subject else "" for row in found.rows]
        assert shown == expected

    @pytest.mark.parametrize("name", ["blocks.0", "a[0]", "a*b", "[", "x\ny", "\x1b[2J", "", "!"])
    def test_names_that_look_like_patterns_are_found_as_they_are(
        self, of_run: Any, build: Any, name: str
    ) -> None:
        run = of_run(build.other(names={"fc1": name}), build.machine())
        row = run.row({"layer": {name: {"time": {"max": 1}}}})
        assert row.subject is not None
        assert row.name == name

    @pytest.mark.parametrize(
        ("key", "pattern", "name", "found"),
        [
            ("op", "addmm", "aten::addmm", True),
            ("op", "aten::addmm", "aten::addmm", True),
            ("op", "add*", "aten::addmm", True),
            ("op", "copy_*", "aten::_foreach_copy_", False),
            ("op", "aten", "aten::addmm", False),
            ("kernel", "sum", "void at::sum", False),
        ],
    )
    def test_an_op_needs_no_namespace(self, key: str, pattern: str, name: str, found: bool) -> None:
        assert matches(name, Scope(key, pattern)) is found

    def test_what_is_not_there_is_not_passed(self, checking: Any) -> None:
        row = checking.row({"layer": {"fc9": {"time": {"max": 1}}}})
        assert row.verdict is UNKNOWN
        assert row.judged.note == "the run has no layer of this name"
        row = checking.row({"layer": {"fc1": {"loss": {"time": {"max": 1}}}}})
        assert row.judged.note == "the run has no layer of this name in phase loss"

    def test_phases(self, checking: Any) -> None:
        found = checking({"phase": {"*": {"time": {"max": 1}}}})
        assert set(names(found)) == {"forward", "loss", "backward", "optimizer", "data"}
        row = checking.row({"phase": {"backward": {"time": {"max": 1}}}})
        assert row.reading.value == pytest.approx(1.1 * 180e-6)

    def test_a_phase_of_a_layer(self, checking: Any) -> None:
        row = checking.row({"layer": {"fc1": {"backward": {"time": {"max": 1}}}}})
        assert row.reading.value == pytest.approx(1.1 * 150e-6)

    def test_together(self, checking: Any) -> None:
        row = checking.row({"layer": {"fc*": {"together": True, "time": {"max": 1}}}})
        assert row.reading.value == pytest.approx(1.1 * 313e-6)
        assert row.subject is not None
        assert (row.name, row.subject.count, len(row.reading.steps)) == ("fc*", 2, 3)
        part = {"together": True, "backward": {"time": {"max": 1}}}
        assert checking.row({"layer": {"fc*": part}}).reading.value == pytest.approx(1.1 * 180e-6)
        row = checking.row({"layer": {"x*": {"together": True, "time": {"max": 1}}}})
        assert row.verdict is UNKNOWN

    @pytest.mark.parametrize("key", ["op", "block", "layer_type", "family"])
    def test_other_keys(self, checking: Any, key: str) -> None:
        found = checking({key: {"*": {"time": {"max": 1}, "headroom": {"max": 1e9}}}})
        assert len(found.rows) > 2
        assert {row.limit.scope.key for row in found.rows} == {key}

    def test_a_run_without_launches(self, of_run: Any, build: Any) -> None:
        empty = of_run(Profile.from_rows([], build.run()), build.machine())
        row = empty.row({"step": {"time": {"max": 1}}})
        assert (row.verdict, row.judged.note) == (UNKNOWN, "the run holds no launch")

    def test_a_run_without_steps(self, of_run: Any, build: Any) -> None:
        rows = [row | {"step": -1} for row in build.rows((1.0,))]
        found = of_run(Profile.from_rows(rows, build.run()), build.machine())(
            {"step": {"time": {"max": "341 us"}}}
        )
        assert found.verdict is OK
        assert any("belong to no step" in text for text in found.caveats)


class TestOutcome:
    def test_noise_passes_and_says_so(self, checking: Any) -> None:
        budget = {"step": {"time": {"max": "350 us"}}}  # 374 µs, and steps that lie 68 µs apart
        found = checking(budget)
        assert (found.verdict, [row.verdict for row in found.rows]) == (OK, [NOISE])
        assert "step: time" in summary(found).why
        assert checking(budget, strict=True).verdict is OVER

    def test_over_comes_before_unknown(self, checking: Any) -> None:
        over, unknown = {"launches": {"max": 1}}, {"peak_memory": {"max": 1}}
        assert checking({"step": over | unknown}).verdict is OVER
        assert checking({"step": unknown}).verdict is UNKNOWN

    def test_those_that_miss_most_come_first(self, checking: Any) -> None:
        found = checking({"layer": {"fc*": {"time": {"max": "1 us"}}, "Net": {"time": {"max": 0}}}})
        assert [row.name for row in found.of(OVER)] == ["Net", "fc1", "fc2"]

    def test_caveats_are_those_of_the_run(self, of_run: Any, build: Any) -> None:
        partial = build.other(status="partial", status_reason="it was stopped")
        found = of_run(partial, build.machine())({"step": {"launches": {"max": 100}}})
        assert any("it was stopped" in text for text in found.caveats)


class TestBaseline:
    def against(self, base: Profile, new: Profile, budget: Budget, **more: Any) -> Any:
        machine = more.get("machine")
        return check(new, budget, baseline=base, machine=machine, baseline_machine=machine)

    def test_a_run_with_itself(self, profile: Profile, machine: Machine) -> None:
        found = self.against(profile, profile, losses(0.05), machine=machine)
        assert found.verdict is OK
        assert {row.verdict for row in found.rows} == {OK}
        assert {row.limit.quantity.name for row in found.rows} == {
            "time", "wall", "headroom", "launches", "flop", "bytes_l1", "bytes_dram",
            "share_zero_flop", "share_unattributed", "share_with_flop",
        }  # fmt: skip

    def test_slower(self, profile: Profile, machine: Machine, build: Any) -> None:
        found = self.against(profile, build.other({"fc1": 3.0}), losses(0.05), machine=machine)
        over = {row.limit.quantity.name for row in found.of(OVER)}
        assert over == {"time", "headroom"}

    def test_slower_by_less_than_both_scatter(self, profile: Profile, build: Any) -> None:
        found = self.against(profile, build.other({"fc1": 1.3}), losses(0.05))
        assert found.verdict is OK
        assert [row.limit.quantity.name for row in found.of(NOISE)] == ["time"]

    def test_accidental_work(self, profile: Profile, build: Any) -> None:
        rows = build.rows()
        rows += [row | {"launch_id": row["launch_id"] + 1000} for row in rows if row["op"] == "mm"]
        found = self.against(profile, Profile.from_rows(rows, build.run()), losses(0.05))
        over = {row.limit.quantity.name for row in found.of(OVER)}
        assert {"flop", "launches", "bytes_l1", "bytes_dram"} <= over

    def test_less_that_is_known_is_a_loss(self, profile: Profile, build: Any) -> None:
        rows = build.rows()
        for row in rows:
            if row["op"] == "mm":
                row["source_flop"] = "missing"
                for name in [n for n in row if n.startswith("flop_")]:
                    del row[name]
        found = self.against(profile, Profile.from_rows(rows, build.run()), losses(0.05))
        assert "share_with_flop" in {row.limit.quantity.name for row in found.of(OVER)}

    def test_what_both_hardly_know_is_no_loss(self, build: Any) -> None:
        rows = build.rows()
        for row in rows:
            if row["op"] in ("mm", "adamw"):
                for name in [n for n in row if n.startswith("flop_")]:
                    del row[name]
        hardly = Profile.from_rows(rows, build.run())
        found = self.against(hardly, hardly, losses(0.05))
        assert found.verdict is OK
        assert "flop" not in {row.limit.quantity.name for row in found.rows}

    def test_what_only_the_baseline_knows_is_unknown(self, profile: Profile) -> None:
        knows = profile.replace(run={**profile.run, "peak_memory": 1e9})
        found = self.against(knows, profile, losses(0.05))
        assert [row.limit.quantity.name for row in found.of(UNKNOWN)] == ["peak_memory"]
        found = self.against(profile, knows, losses(0.05))
        assert found.verdict is OK

    def test_layers_are_matched_as_in_a_comparison(self, profile: Profile, build: Any) -> None:
        budget = Budget.read({"layer": {"*": {"time": {"rise": "5 %"}}}})
        new = build.other({"fc2": 3.0}, {"fc2": "module.fc2"})
        found = self.against(profile, new, budget)
        assert {row.name: row.verdict for row in found.rows} == {
            "fc1": OK, "Net": OK, "module.fc2": OVER,
        }  # fmt: skip

    def test_what_is_new_cannot_be_judged(self, profile: Profile, build: Any) -> None:
        rows = [*build.rows(), *(build.rows()[0] | {"layer": "new", "step": s} for s in range(3))]
        new = Profile.from_rows(rows, build.run())
        budget = Budget.read(
            {"layer": {"new": {"time": {"rise": 0.1}}}, "op": {"mm": {"launches": {"rise": 1}}}}
        )
        found = self.against(profile, new, budget)
        assert [row.verdict for row in found.rows] == [UNKNOWN, OK]
        assert "nothing of that name in the baseline" in found.rows[0].judged.note

    def test_groups_together(self, profile: Profile, build: Any) -> None:
        budget = Budget.read({"layer": {"fc*": {"together": True, "launches": {"rise": 0.1}}}})
        assert self.against(profile, build.other(), budget).verdict is OK

    def test_times_of_another_device_are_no_times_of_this_one(
        self, profile: Profile, build: Any
    ) -> None:
        here = profile.replace(run={**profile.run, "device_name": "chip a"})
        there = build.other(device_name="chip b")
        found = self.against(here, there, losses(0.05))
        assert {row.limit.quantity.name for row in found.of(OK)} >= {"flop", "launches"}
        assert not [row for row in found.rows if row.limit.quantity.timed]
        strict = Budget.read({"step": {"time": {"rise": 0.5}}})
        (row,) = self.against(here, there, strict).rows
        assert row.verdict is UNKNOWN
        assert "chip a" in row.judged.note

    def test_conditions_that_differ_are_told(self, profile: Profile, build: Any) -> None:
        other = build.other(facts={"threads": 8})
        base = profile.replace(run={**profile.run, "facts": {"threads": 2}})
        found = self.against(base, other, losses(0.05))
        assert any("threads" in text for text in found.caveats)
        assert found.caveats[0].startswith("BASE is the baseline")

    def test_that_there_are_no_ceilings_is_told_where_a_limit_needs_them(
        self, profile: Profile, build: Any
    ) -> None:
        def caveats(quantity: str) -> list[str]:
            budget = Budget.read({"step": {quantity: {"rise": 0.1}}})
            told = self.against(profile, build.other(), budget).caveats
            return [text for text in told if "ceilings" in text]

        assert len(caveats("headroom")) == 2
        assert caveats("launches") == []

    def test_is_needed(self, profile: Profile) -> None:
        budget = Budget.read({"step": {"time": {"rise": 0.1}}}, name="b.toml")
        with pytest.raises(UsageError, match=r"b\.toml holds limits relative to a baseline"):
            check(profile, budget)

    def test_that_holds_nothing(self, profile: Profile, build: Any) -> None:
        with pytest.raises(UsageError, match="holds no launch"):
            self.against(Profile.from_rows([], build.run()), profile, losses(0.05))


class TestSummary:
    def test_of_one_that_is_kept(self, checking: Any) -> None:
        said = summary(checking({"step": {"launches": {"max": 100}}}))
        assert (said.text, said.supported) == ("Within budget: 1 limit kept.", True)

    def test_of_some_that_are_not(self, checking: Any) -> None:
        step = {"launches": {"max": 5}, "flop": {"max": 1e12}, "peak_memory": {"max": 1}}
        said = summary(checking({"step": step}))
        assert said.text == "1 of 3 limits over budget; 1 of 3 limits cannot be judged; 1 kept."
        assert "step: launches misses its limit by" in said.why
        assert "step: peak_memory: the run does not say" in said.why
        assert not said.supported

    def test_of_many(self, checking: Any) -> None:
        said = summary(checking({"op": {"*": {"launches": {"max": 0}}}}))
        assert "and 5 more" in said.why

    def test_the_next_step_is_that_of_the_first_finding(self, checking: Any) -> None:
        found = checking({"step": {"time": {"max": "1 us"}}})
        first = next(one for one in found.findings if one.saves > 0)
        assert summary(found).next == first.action

    def test_the_next_step_of_work(self, checking: Any, profile: Profile) -> None:
        assert "hroof report" in summary(checking({"step": {"launches": {"max": 1}}})).next
        found = checking({"step": {"launches": {"max": 1}}}, baseline=profile)
        assert "hroof compare" in summary(found).next
        assert "Collect" in summary(checking({"step": {"peak_memory": {"max": 1}}})).next

    def test_of_a_limit_of_nothing(self, checking: Any) -> None:
        said = summary(checking({"step": {"flop": {"max": 0}}}))
        assert "misses its limit;" not in said.why
        assert math.isfinite(len(said.why))
        assert said.why == "step: flop misses its limit."
