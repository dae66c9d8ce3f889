"""Time-based Rooflines as numbers: times, balances, boxes, and what cannot be a time."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report.charts.timed import (
    MOST_BOXES,
    Timed,
    compose_times,
    launches_text,
    mix_peak,
    timed,
)
from hroof.roofline import Point, points
from hroof.units import MemoryLevel, Pipe, Precision, Source

L1, L2, DRAM = MemoryLevel.L1, MemoryLevel.L2, MemoryLevel.DRAM
V32, V64 = (Pipe.VECTOR, Precision.FP32), (Pipe.VECTOR, Precision.FP64)
M32, M16 = (Pipe.MATRIX, Precision.FP32), (Pipe.MATRIX, Precision.BF16)
NAN, INF = math.nan, math.inf


def make_point(name: str = "fc", **changes: Any) -> Point:
    """1 GFLOP in 4 ms with 10 MB at L1 and 2 MB at DRAM, in 5 launches."""
    values: dict[str, Any] = {
        "key": {"layer": name}, "launches": 5.0, "time": 4e-3, "time_spread": NAN,
        "flop": {M32: 1e9}, "least_flop": {M32: 1e9}, "nbytes": {L1: 1e7, DRAM: 2e6},
        "bound": None, "bound_share": NAN, "attainable_time": None, "fused_time": None,
        "bounded_time": 0.0, "uncounted_time": 0.0, "zero_flop_launches": 0.0,
        "sources": {"l1": Source.COUNTED, "dram": Source.PREDICTED},
    }  # fmt: skip
    return Point(**values | changes)


def make_machine(**changes: Any) -> Machine:
    """1 TFLOP/s matrix FP32, 8 matrix BF16, 0.1 vector; 1 TB/s L1, 10 GB/s DRAM; 10 µs a launch."""
    values: dict[str, Any] = {
        "name": "m",
        "peaks": {V32: Ceiling(1e11), M32: Ceiling(1e12), M16: Ceiling(8e12)},
        "bandwidths": {L1: Ceiling(1e12), DRAM: Ceiling(1e10, how="datasheet")},
        "launch_cost": Ceiling(1e-5),
    }
    return Machine(**values | changes)


# --- one group


def test_work_as_times() -> None:
    one = timed(make_point(), make_machine(), DRAM)
    assert (one.flop, one.nbytes, one.time) == (1e9, 2e6, 4e-3)
    assert one.flop_time == pytest.approx(1e-3)
    assert one.byte_time == pytest.approx(2e-4)
    assert one.launch_time == pytest.approx(5e-5)
    assert one.bound == "compute"
    assert one.slowdown == pytest.approx(4)
    assert (one.intensity, one.balance) == pytest.approx((500, 100))


def test_the_paper_s_rule_above_the_balance() -> None:
    """AI > MB: FLOP time = t and byte time = t · MB ÷ AI."""
    one = timed(make_point(), make_machine(), DRAM)
    x, y = one.at_time
    assert y / one.peak == pytest.approx(one.time)
    assert x / one.bandwidth == pytest.approx(one.time * one.balance / one.intensity)


def test_the_paper_s_rule_below_the_balance() -> None:
    """AI ≤ MB: byte time = t and FLOP time = t · AI ÷ MB."""
    one = timed(make_point(nbytes={DRAM: 2e7}), make_machine(), DRAM)
    assert one.bound == "memory"
    x, y = one.at_time
    assert x / one.bandwidth == pytest.approx(one.time)
    assert y / one.peak == pytest.approx(one.time * one.intensity / one.balance)


@pytest.mark.parametrize("nbytes", [1e5, 1e7, 1e9])
def test_the_time_lies_on_the_group_s_own_intensity(nbytes: float) -> None:
    one = timed(make_point(nbytes={DRAM: nbytes}), make_machine(), DRAM)
    x, y = one.at_time
    assert y / x == pytest.approx(one.intensity)
    bx, by = one.complexity
    assert y / by == pytest.approx(one.slowdown) == x / bx


def test_the_box_is_the_work_that_its_launches_hide() -> None:
    one = timed(make_point(launches=200.0), make_machine(), DRAM)
    assert one.corner == pytest.approx((200 * 1e-5 * 1e10, 200 * 1e-5 * 1e12))
    assert one.bound == "launch"
    assert launches_text(one) == "200 launches, 2.00 ms"
    assert launches_text(dataclasses.replace(one, launches=1.0)) == "1 launch, 2.00 ms"


def test_without_a_launch_cost_there_is_no_box() -> None:
    one = timed(make_point(launches=1e6), make_machine(launch_cost=None), DRAM)
    assert one.corner is None
    assert one.bound == "compute"


def test_times_are_those_of_the_points(profile: Profile, machine: Machine) -> None:
    """Alone with one unit and all known, the chart and the points' bounds say the same."""
    seen = 0
    for point in points(profile, machine, ("layer", "phase")):
        one = timed(point, machine, L1)
        if not one.missing and not one.partial:
            assert one.flop_time == pytest.approx(point.compute_time, rel=1e-3)
            assert one.byte_time == pytest.approx(point.memory_times[L1])
            assert one.launch_time == pytest.approx(point.launch_time)
            seen += 1
    assert seen >= 4


# --- the peak of the precision that is used


def test_each_precision_has_its_own_peak() -> None:
    peaks = [mix_peak({pair: 1e9}, make_machine()) for pair in (V32, M32, M16)]
    assert peaks == pytest.approx([1e11, 1e12, 8e12])


def test_units_overlap_and_precisions_of_one_unit_do_not() -> None:
    vector_longer = mix_peak({V32: 1e9, M32: 1e9}, make_machine())
    assert vector_longer == pytest.approx(2e9 / 1e-2)
    one_unit = mix_peak({M16: 8e9, M32: 1e9}, make_machine())
    assert one_unit == pytest.approx(9e9 / 2e-3)
    shared = mix_peak({V32: 1e9, M32: 1e9}, make_machine(shared_pipes=True))
    assert shared == pytest.approx(2e9 / 1.1e-2)


def test_a_missing_peak_is_missing_not_the_highest() -> None:
    assert mix_peak({V64: 1e9}, make_machine()) is None
    assert mix_peak({V64: 1e9, M32: 1e9}, make_machine()) is None
    assert mix_peak({V64: 1.0, M32: 1e9}, make_machine()) == pytest.approx(1e12)
    assert mix_peak({M32: 1e9}, None) is None
    assert mix_peak({}, make_machine()) is None


def test_work_of_several_units_says_so() -> None:
    pure, mixed = ({M32: 1e9}, {M32: 1e9, V32: 2e8})
    ones = [timed(make_point(flop=f, least_flop=f), make_machine(), DRAM) for f in (pure, mixed)]
    assert [one.mixed for one in ones] == [False, True]


def test_balances_are_of_what_is_used_most_flop_first() -> None:
    made = [
        make_point("a"),
        make_point("b", flop={V32: 2e9}, least_flop={V32: 2e9}),
    ]
    found = compose_times(made, make_machine()).balances
    assert [one.key for one in found] == ["vector_fp32", "matrix_fp32"]
    assert [one.flop_per_byte for one in found] == pytest.approx([10, 100])
    assert found[0].label == "vector FP32"
    assert not found[0].measured  # the bandwidth is one of a data sheet


def test_equal_peaks_share_one_diagonal() -> None:
    both = {M32: 1e9, V32: 1e8}
    machine = make_machine(peaks={M32: Ceiling(1e12), V32: Ceiling(1e12)})
    (one,) = compose_times([make_point(flop=both, least_flop=both)], machine).balances
    assert one.label == "matrix FP32, vector FP32"


# --- the chart


def test_the_level_is_the_farthest_that_holds_most_of_the_time() -> None:
    long, short = make_point("a"), make_point("b", nbytes={L1: 1e7}, time=1e-4)
    scene = compose_times([long, short], make_machine())
    assert scene.level is DRAM
    assert [one.name for one in scene.spots] == ["a"]
    assert [(one.name, one.reason) for one in scene.not_drawn] == [
        ("b", "no traffic known at DRAM")
    ]
    near = compose_times([dataclasses.replace(long, nbytes={L1: 1e7}), short], make_machine())
    assert near.level is L1
    assert len(near.spots) == 2


def test_the_level_can_be_chosen() -> None:
    scene = compose_times([make_point()], make_machine(), [L1])
    assert (scene.level, scene.bandwidth) == (L1, 1e12)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"flop": {}, "least_flop": {}, "zero_flop_launches": 1.0}, "0 FLOP"),
        ({"flop": {}, "least_flop": {}}, "FLOP not known"),
        ({"time": NAN}, "time not known"),
        ({"time": 0.0}, "time not known"),
        ({"nbytes": {}}, "no traffic known at DRAM"),
        ({"nbytes": {DRAM: 0.0}}, "no traffic at DRAM"),
        ({"flop": {V64: 1e9}, "least_flop": {V64: 1e9}}, "no peak known for vector FP64"),
        ({"untimed_flop": 5e8}, "time known for a part of its work only"),
        ({"untimed_bytes": {DRAM: 1e6}}, "time known for a part of its work only"),
    ],
)
def test_what_is_no_time_is_named_with_the_reason(changes: dict[str, Any], reason: str) -> None:
    scene = compose_times([make_point(**changes)], make_machine(), [DRAM])
    assert scene.spots == ()
    assert [one.reason for one in scene.not_drawn] == [reason]
    assert scene.level is None


def test_without_ceilings_nothing_is_a_time() -> None:
    for machine in (None, Machine("bare"), make_machine(bandwidths={})):
        scene = compose_times([make_point()], machine, [DRAM])
        assert [one.reason for one in scene.not_drawn] == ["no bandwidth known at DRAM"]
        assert scene.balances == ()
        assert all(map(math.isfinite, (*scene.xlim, *scene.ylim)))


@pytest.mark.parametrize(
    ("changes", "partial"),
    [({}, False), ({"uncounted_time": 1e-3}, True), ({"unsized_time": {DRAM: 1e-3}}, True)],
)
def test_what_is_known_in_part_says_so(changes: dict[str, Any], partial: bool) -> None:
    assert timed(make_point(**changes), make_machine(), DRAM).partial is partial


def test_faster_than_its_bound_is_evidence_of_a_fault() -> None:
    made = [
        make_point("flop", time=9e-4),
        make_point("bytes", time=9e-4, flop={M32: 1e6}, least_flop={M32: 1e6}, nbytes={DRAM: 1e7}),
        make_point("at its bound", time=1e-3),
    ]
    above = compose_times(made, make_machine()).above
    assert set(above) == {"flop", "bytes"}
    assert above["flop"].startswith("faster than its FLOP allow")
    assert above["bytes"].startswith("faster than its bytes allow")


def test_boxes_are_of_the_longest_and_each_once() -> None:
    made = [make_point(f"p{i}", launches=float(i // 2 + 1), time=1 / (i + 1)) for i in range(20)]
    boxes = compose_times(made, make_machine()).boxes
    assert [one.name for one in boxes] == ["p0", "p2", "p4", "p6"]
    assert len(boxes) == MOST_BOXES


def test_limits_hold_both_markers_and_the_boxes() -> None:
    made = [make_point(), make_point("far", launches=1e6, time=5.0, nbytes={DRAM: 1e3})]
    scene = compose_times(made, make_machine(), [DRAM])
    places = [at for one in scene.spots for at in (one.complexity, one.at_time, one.corner)]
    for at in places:
        assert at is not None
        assert scene.xlim[0] < at[0] < scene.xlim[1]
        assert scene.ylim[0] < at[1] < scene.ylim[1]


def test_longest_first_whatever_the_order() -> None:
    made = [make_point("a", time=1e-3), make_point("b", time=3e-3), make_point("c", time=2e-3)]
    for order in (made, made[::-1]):
        scene = compose_times(order, make_machine())
        assert [one.name for one in scene.spots] == ["b", "c", "a"]


def test_bounds_use_what_must_be_executed() -> None:
    """Causal attention: half of the nominal FLOP."""
    one = timed(make_point(least_flop={M32: 5e8}), make_machine(), DRAM)
    assert one.flop == 5e8
    assert one.flop_time == pytest.approx(5e-4)


def test_a_bare_group_is_missing_everywhere() -> None:
    one = Timed("x")
    assert math.isnan(one.slowdown)
    assert one.corner is None
