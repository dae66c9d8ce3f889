"""Differences: rows that add up to the step, what cannot be compared, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hroof.compare import Change, Comparison, Difference, How, compare
from hroof.compare.differences import typical
from hroof.errors import UsageError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.roofline import totals
from hroof.units import MemoryLevel

L1, L2, _, DRAM = MemoryLevel
NAN = float("nan")


def named(rows: tuple[Difference, ...]) -> dict[str, Difference]:
    return {row.name: row for row in rows}


def adds_up(found: Comparison) -> bool:
    return all(
        math.isclose(
            math.fsum(row.time for row in rows if not math.isnan(row.time)) + found.rest(rows),
            found.total.time,
            rel_tol=1e-9,
            abs_tol=1e-15,
        )
        for rows in found.tables().values()
    )


class TestNumbers:
    def test_a_layer_that_takes_twice_as_long(
        self, profile: Profile, machine: Machine, build: Any
    ) -> None:
        new = build.other({"fc1": 2.0})
        found = compare(profile, new, base_machine=machine, new_machine=machine)
        fc1 = named(found.layers)["fc1"]
        assert fc1.times == pytest.approx((275e-6, 550e-6))
        assert fc1.time == pytest.approx(275e-6)
        assert fc1.ratio == pytest.approx(0.5)
        assert fc1.change is Change.SLOWER
        assert (fc1.flop, fc1.nbytes(L1), fc1.launches) == (0.0, 0.0, 0.0)
        assert fc1.headrooms[1] == pytest.approx(2 * fc1.headrooms[0])
        assert fc1.headroom == pytest.approx(fc1.headrooms[0])
        assert found.layers[0] is fc1
        assert {row.change for row in found.layers[1:]} == {Change.NOISE}
        assert found.rest(found.layers) == 0.0

    def test_by_phase_and_by_op(self, profile: Profile, build: Any) -> None:
        found = compare(profile, build.other({"fc1": 2.0}))
        assert found.unit == "op"
        assert list(found.tables()) == ["phase", "layer", "op"]
        assert named(found.phases)["backward"].time == pytest.approx(165e-6)
        assert named(found.kernels)["mm"].time == pytest.approx(209e-6)
        assert named(found.layers)["fc1"].base is not None
        phases = named(found.layers)["fc1"].new
        assert phases is not None
        assert phases.phases["backward"].time == pytest.approx(330e-6)

    def test_the_step_is_that_of_the_report(
        self, profile: Profile, machine: Machine, build: Any
    ) -> None:
        found = compare(profile, build.other(), base_machine=machine, new_machine=machine)
        sums = totals(profile, machine)
        assert found.total.times[0] == pytest.approx(sums.time)
        assert found.total.flops[0] == pytest.approx(sums.hardware_flop)
        assert found.total.headrooms[0] == pytest.approx(sums.headroom)

    def test_wall_times(self, profile: Profile, build: Any) -> None:
        found = compare(profile, build.other(scales=(2.0, 2.2, 2.4), undisturbed_step=8e-4))
        assert found.walls == pytest.approx((4.4e-4, 8.8e-4))
        assert found.wall.change is Change.SLOWER
        assert (found.base.undisturbed, found.new.undisturbed) == (None, 8e-4)

    def test_wall_times_that_nobody_recorded(self, profile: Profile, build: Any) -> None:
        found = compare(profile, build.other(steps=[{"step": 0}, {"wall": None}, "odd"]))
        assert math.isnan(found.walls[1])
        assert found.wall.change is Change.UNKNOWN

    def test_runs_of_other_numbers_of_steps(self, profile: Profile, build: Any) -> None:
        found = compare(profile, build.other(scales=(1.0, 1.05, 1.1, 1.1, 1.1, 1.15, 1.2, 1.2)))
        assert found.total.time == pytest.approx(0.0)
        assert found.total.change is Change.NOISE

    def test_launches_of_several_ranks_add_up(self, profile: Profile, build: Any) -> None:
        other = Profile.from_rows([row | {"rank": 1} for row in build.rows()], build.run())
        found = compare(profile, Profile.merge([profile, other]))
        assert found.total.ratio == pytest.approx(0.5)
        assert found.total.counts == pytest.approx((11.0, 22.0))
        assert adds_up(found)


class TestTypicalStep:
    def test_it_is_the_median_one(self, profile: Profile) -> None:
        assert set(typical(profile).launches["step"]) == {1}

    def test_of_an_even_number_the_two_in_the_middle(self, build: Any) -> None:
        steps = typical(build.other(scales=(1.0, 4.0, 3.0, 2.0))).launches["step"]
        assert set(steps) == {2, 3}

    def test_without_steps_all_rows(self, build: Any) -> None:
        rows = [row | {"step": -1} for row in build.rows()]
        assert len(typical(Profile.from_rows(rows)).launches) == len(rows)

    def test_a_layer_that_rests_in_the_median_step_is_neither_new_nor_gone(
        self, profile: Profile, build: Any
    ) -> None:
        rows = [r for r in build.rows() if not (r["step"] == 1 and r["layer"] == "fc2")]
        new = Profile.from_rows(rows, build.run())
        # Step 1 without fc2 is the shortest now; it rests in the first step as well.
        rows = [r for r in rows if not (r["step"] == 0 and r["layer"] == "fc2")]
        found = compare(profile, Profile.from_rows(rows, build.run()))
        row = named(found.layers)["fc2"]
        assert row.new is not None
        assert row.times[1] == 0.0
        assert row.change is not Change.GONE
        assert adds_up(found)
        assert adds_up(compare(profile, new))


class TestUnmatched:
    def test_a_layer_that_is_gone_and_one_that_is_new(self, profile: Profile, build: Any) -> None:
        rows = [row for row in build.rows() if row["layer"] != "fc2"]
        rows += [
            build.row("extra", "forward", "sin", 50, step=s, launch_id=99 + 100 * s, start=0.0)
            for s in range(3)
        ]
        found = compare(profile, Profile.from_rows(rows, build.run()))
        gone, new = named(found.layers)["fc2"], named(found.layers)["extra"]
        assert (gone.change, gone.how, gone.new) == (Change.GONE, How.NONE, None)
        assert gone.time == pytest.approx(-69.3e-6)
        assert gone.flop == pytest.approx(-3.025e6)
        assert (new.change, new.base) == (Change.NEW, None)
        assert new.time == pytest.approx(50e-6)
        assert math.isnan(new.ratio)
        assert adds_up(found)

    def test_a_renamed_layer_is_found_by_its_shape(self, profile: Profile, build: Any) -> None:
        found = compare(profile, build.other(names={"fc1": "encoder.first"}))
        row = named(found.layers)["fc1 → encoder.first"]
        assert row.how is How.SHAPE
        assert row.change is Change.NOISE
        assert adds_up(found)


class TestComparable:
    def test_counted_and_counter_bytes_are_not(self, profile: Profile, build: Any) -> None:
        rows = [row | {"source_l1": "counter", "source_flop": "counter"} for row in build.rows()]
        found = compare(profile, Profile.from_rows(rows, build.run()))
        fc1 = named(found.layers)["fc1"]
        assert math.isnan(fc1.nbytes(L1))
        assert math.isnan(fc1.flop)
        assert fc1.nbytes(DRAM) == 0.0
        assert fc1.sizes(L1)[0] == fc1.sizes(L1)[1]

    def test_convention_and_counted_are(self, profile: Profile, build: Any) -> None:
        rows = [row | {"source_flop": "convention"} for row in build.rows()]
        found = compare(profile, Profile.from_rows(rows, build.run()))
        assert found.total.flop == 0.0

    def test_bytes_that_one_run_lacks_are_not_zero(self, profile: Profile, build: Any) -> None:
        rows = [
            {k: v for k, v in row.items() if k not in ("bytes_dram", "source_dram")}
            for row in build.rows()
        ]
        found = compare(profile, Profile.from_rows(rows, build.run()))
        assert math.isnan(found.total.nbytes(DRAM))
        assert math.isnan(found.total.nbytes(L2))
        assert found.total.levels == [L1, DRAM]

    def test_headroom_needs_ceilings_of_both(
        self, profile: Profile, machine: Machine, build: Any
    ) -> None:
        total = compare(profile, build.other(), new_machine=machine).total
        assert math.isnan(total.headrooms[0])
        assert total.headrooms[1] > 1
        assert math.isnan(total.headroom)

    def test_without_times_work_is_compared(self, profile: Profile, build: Any) -> None:
        rows = [row | {"duration": NAN} for row in build.rows()]
        found = compare(profile, Profile.from_rows(rows, build.run() | {"steps": []}))
        assert math.isnan(found.total.time)
        assert found.total.change is Change.UNKNOWN
        assert found.total.flop == 0.0
        assert math.isnan(found.rest(found.layers))

    def test_a_layer_without_a_time_in_one_run_is_named_as_the_rest(
        self, profile: Profile, build: Any
    ) -> None:
        rows = [r | ({"duration": NAN} if r["layer"] == "fc2" else {}) for r in build.rows()]
        found = compare(profile, Profile.from_rows(rows, build.run()))
        assert math.isnan(named(found.layers)["fc2"].time)
        assert found.rest(found.layers) == pytest.approx(-69.3e-6)
        assert adds_up(found)

    def test_one_step_is_not_judged(self, profile: Profile, build: Any) -> None:
        found = compare(profile, build.other({"fc1": 9.0}, scales=(1.0,)))
        assert {row.change for row in found.layers} == {Change.UNKNOWN}

    def test_kernels_where_both_have_them_and_families_of_other_frameworks(
        self, profile: Profile, build: Any
    ) -> None:
        kernels = Profile.from_rows([r | {"kernel": r["op"] + "_k"} for r in build.rows()])
        assert compare(kernels, kernels).unit == "kernel"
        assert compare(kernels, kernels.replace(run={"framework": "x"})).unit == "kernel"
        assert compare(profile, build.other(framework="keras")).unit == "family"

    def test_aggregated_rows_without_steps(self, build: Any) -> None:
        rows = [
            {"kernel": "gemm", "launches": 12.0, "aggregate": True, "duration": 1e-3},
            {"kernel": "relu", "launches": 3.0, "aggregate": True, "duration": 1e-4},
        ]
        base = Profile.from_rows(rows)
        new = Profile.from_rows(
            [row | {"duration": float(str(row["duration"])) * 2} for row in rows]
        )
        found = compare(base, new)
        assert found.total.time == pytest.approx(1.1e-3)
        assert named(found.kernels)["gemm"].counts == (12.0, 12.0)
        assert found.total.change is Change.UNKNOWN
        assert adds_up(found)


class TestRefused:
    @pytest.mark.parametrize("side", ["BASE", "NEW"])
    def test_a_run_without_launches(self, profile: Profile, side: str) -> None:
        empty = Profile.from_rows([])
        pair = (empty, profile) if side == "BASE" else (profile, empty)
        with pytest.raises(UsageError, match=f"{side}.*no launch") as caught:
            compare(*pair)
        assert "Collect it again" in caught.value.remedy

    def test_a_sum_over_a_run_and_a_step(self, profile: Profile, build: Any) -> None:
        without = Profile.from_rows([row | {"step": -1} for row in build.rows()])
        with pytest.raises(UsageError, match="NEW belong to no step") as caught:
            compare(profile, without)
        assert "Mark the steps" in caught.value.remedy


# --- properties ---------------------------------------------------------------------------------

factors = st.fixed_dictionaries({name: st.floats(0.1, 10.0) for name in ("fc1", "fc2", "Net")})
steps = st.lists(st.floats(0.5, 2.0), min_size=1, max_size=5).map(tuple)


@settings(max_examples=20)
@given(changed=factors, scales=steps, renamed=st.booleans())
def test_rows_add_up_to_the_step(
    build: Any, changed: dict[str, float], scales: tuple[float, ...], renamed: bool
) -> None:
    names = {"fc1": "a", "fc2": "b"} if renamed else {}
    found = compare(build.profile(), build.other(changed, names, scales))
    assert adds_up(found)
    assert all(found.rest(rows) == 0.0 for rows in found.tables().values())


@settings(max_examples=20)
@given(changed=factors, scales=steps)
def test_the_other_order_gives_inverse_ratios(
    build: Any, changed: dict[str, float], scales: tuple[float, ...]
) -> None:
    base, new = build.profile(), build.other(changed, {"fc1": "z"}, scales)
    there, back = compare(base, new), compare(new, base)
    opposite = {
        Change.FASTER: Change.SLOWER,
        Change.SLOWER: Change.FASTER,
        Change.NEW: Change.GONE,
        Change.GONE: Change.NEW,
    }
    for rows, others in zip(there.tables().values(), back.tables().values(), strict=True):
        ours = {(row.base and row.base.name, row.new and row.new.name): row for row in rows}
        theirs = {(row.new and row.new.name, row.base and row.base.name): row for row in others}
        assert ours.keys() == theirs.keys()
        for key, row in ours.items():
            other = theirs[key]
            assert row.ratio * other.ratio == pytest.approx(1.0)
            assert row.time == pytest.approx(-other.time)
            assert other.change is opposite.get(row.change, row.change)


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 1.1), (1.0, 1.1, 1.2)])
def test_a_run_against_itself_has_no_difference(
    build: Any, machine: Machine, scales: tuple[float, ...]
) -> None:
    run = build.other(scales=scales)
    found = compare(run, run, base_machine=machine, new_machine=machine)
    for row in (found.total, *(row for rows in found.tables().values() for row in rows)):
        assert row.how is How.NAME
        assert row.change in (Change.NOISE, Change.UNKNOWN)
        assert (row.time, row.ratio, row.launches) == (0.0, 1.0, 0.0)
        assert row.flop == 0.0 or math.isnan(row.flops[0])
        assert all(row.nbytes(level) == 0.0 for level in row.levels)
        assert row.headroom == 0.0 or math.isnan(row.headrooms[0])
