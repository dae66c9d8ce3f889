"""The comparison in a sentence: never more than the two runs carry."""

from __future__ import annotations

from typing import Any

import pytest

from hroof.compare import Change, Summary, compare, summary
from hroof.compare.summary import signed
from hroof.profile import Profile

STEADY = (1.0, 1.0, 1.0)
STEADY_WALLS = [{"step": i, "wall": 1e-3} for i in range(3)]


@pytest.fixture
def steady(build: Any) -> Profile:
    """A run whose steps are all alike: 340 µs of launches."""
    run: Profile = build.other(scales=STEADY)
    return run


def said(base: Profile, new: Profile) -> Summary:
    return summary(compare(base, new))


def test_faster(steady: Profile, build: Any) -> None:
    found = said(build.other({"fc1": 2.0}, scales=STEADY), steady)
    assert found.text.startswith(
        "NEW is 1.74 × as fast as BASE: 590 µs → 340 µs of launches per step; "
        "150 µs of it in phase backward."
    )
    assert found.change is Change.FASTER
    assert found.why.startswith("fc1 -250 µs, same work. Together they are 100 % of the")
    assert found.next == "Nothing became slower. hroof report NEW says what is left to gain."
    assert found.supported


def test_slower_with_the_same_work_is_doubted(steady: Profile, build: Any) -> None:
    found = said(steady, build.other({"fc1": 2.0}, scales=STEADY))
    assert found.text.startswith("NEW takes 1.74 × the time of BASE: 340 µs → 590 µs")
    assert "Both do the same work" in found.text
    assert found.next.startswith("Look at fc1: the same work takes longer")
    assert "The op that lost most is mm, +190 µs." in found.next


def test_slower_with_other_work(steady: Profile, build: Any) -> None:
    rows = build.rows(STEADY)
    for row in rows:
        if row["op"] == "mm" and row["layer"] == "fc1":
            row |= {"duration": row["duration"] * 3, **build.flop(matrix_fp32=4e7)}
    found = said(steady, Profile.from_rows(rows, build.run()))
    assert "Both do the same work" not in found.text
    assert found.next.startswith("Look at fc1: it does other work (FLOP × ")
    assert "fc1 +380 µs, FLOP × " in found.why


def test_a_gain_against_a_loss(steady: Profile, build: Any) -> None:
    found = said(steady, build.other({"fc1": 2.0, "fc2": 0.1}, scales=STEADY))
    assert found.change is Change.SLOWER
    assert "fc1 +250 µs, same work; fc2 -56.7 µs, same work. Together" in found.why


def test_a_phase_that_alone_moves_more_than_the_step(steady: Profile, build: Any) -> None:
    rows = build.rows(STEADY)
    for row in rows:
        row["duration"] *= {"backward": 2.0, "forward": 0.1}.get(row["phase"], 1.0)
    text = said(steady, Profile.from_rows(rows, build.run())).text
    assert "; in phase backward alone +180 µs." in text


class TestNoise:
    def test_within(self, build: Any) -> None:
        found = said(build.profile(), build.other({"fc1": 1.05}))
        assert found.text.startswith("No difference beyond noise: 374 µs → 388 µs")
        assert "; the noise is " in found.text
        assert (found.change, found.supported) == (Change.NOISE, True)
        assert "faster" not in found.text
        assert found.why == "No layer differs by more than the steps of one run do."
        assert found.next.startswith("The steps of a run vary widely: collect both again")

    def test_that_is_small_needs_nothing(self, steady: Profile, build: Any) -> None:
        found = said(steady, build.other({"fc1": 1.01}, scales=STEADY))
        assert found.change is Change.NOISE
        assert found.next == "Nothing to do; more steps would show smaller differences."

    def test_a_layer_that_is_nothing_of_the_step_is_not_what_to_look_at(self, build: Any) -> None:
        """A loss of a few µs in a step of seconds stands in the table; the verdict does not send anybody there."""
        runs = []
        for factor in (1.0, 2.0):
            rows = build.rows(STEADY)
            for row in rows:
                row["duration"] *= 1000 if row["layer"] == "fc1" else factor
            runs.append(Profile.from_rows(rows, build.run()))
        found = compare(*runs)
        assert any(row.change is Change.SLOWER for row in found.layers)
        told = summary(found)
        assert told.why == (
            "No layer differs by more than the steps of one run do, and by 1 % of the step."
        )
        assert "Look at" not in told.next

    def test_not_known(self, build: Any) -> None:
        found = said(build.profile(), build.other({"fc1": 9.0}, scales=(1.0,)))
        assert found.text.startswith("No verdict: 374 µs → ")
        assert "nothing is known of the noise" in found.text
        assert not found.supported
        assert "3 steps or more" in found.next

    def test_of_the_wall_time_is_judged_by_itself(self, steady: Profile, build: Any) -> None:
        new = build.other(scales=STEADY, steps=[{"wall": wall} for wall in (8e-4, 8e-4, 8e-4)])
        text = said(steady, new).text
        assert text.startswith("No difference beyond noise")
        assert "Wall time of a step: 400 µs → 800 µs (2.00 × the time)." in text
        assert "(2.00 × as fast)" in said(new, steady).text


def test_undisturbed_steps_are_told(build: Any) -> None:
    base = build.other(undisturbed_step=5e-4)
    assert "Undisturbed by hroof: 500 µs → 250 µs." in (
        said(base, build.other(undisturbed_step=2.5e-4)).text
    )
    assert "Undisturbed" not in said(base, build.other()).text


def test_without_times(steady: Profile, build: Any) -> None:
    rows = [row | {"duration": float("nan")} for row in build.rows()]
    found = said(steady, Profile.from_rows(rows, build.run() | {"steps": []}))
    assert found.text == "No verdict on time: it is not known of both runs."
    assert not found.supported


def test_without_steps(build: Any) -> None:
    rows = [row | {"step": -1} for row in build.rows((1.0,))]
    run = Profile.from_rows(rows)
    assert "of launches (ratio 1.00)" in said(run, run).text


def test_new_layers_are_named_and_slower_ones_are_not_invented(steady: Profile, build: Any) -> None:
    rows = build.rows(STEADY)
    rows += [
        build.row("extra", "forward", "sin", 900, step=s, launch_id=99 + 100 * s, start=0.0)
        for s in range(3)
    ]
    found = said(steady, Profile.from_rows(rows, build.run()))
    assert found.why.startswith("extra +900 µs, new. Together they are 100 %")
    assert found.next.startswith("No matched layer is slower by itself")


def test_many_layers_are_counted(build: Any) -> None:
    rows = [
        build.row(f"l{i}", "forward", "mm", 10 + i, step=s, launch_id=10 * s + i, start=0.0)
        for i in range(6)
        for s in range(3)
    ]
    slow = [row | {"duration": row["duration"] * 2} for row in rows]
    why = said(Profile.from_rows(rows), Profile.from_rows(slow)).why
    assert why.startswith("l5 +15.0 µs; l4 +14.0 µs; l3 +13.0 µs and 3 more layers. Together")


@pytest.mark.parametrize(
    ("value", "text"), [(1.5e-3, "+1.50 ms"), (-1.5e-3, "-1.50 ms"), (0.0, "0 s")]
)
def test_a_difference_has_its_sign(value: float, text: str) -> None:
    assert signed(value) == text
    assert signed(float("nan")) == "–"
