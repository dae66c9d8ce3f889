"""What a chart shows: what is drawable, which roofs, which limits, what lies above a roof."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report.scene import (
    MAX_SPOTS,
    Roof,
    Spot,
    compose,
    compute_roof,
    drawable,
    spot,
)
from hroof.roofline import Point, points
from hroof.units import MemoryLevel, Pipe, Precision, Source

L1, L2, DRAM = MemoryLevel.L1, MemoryLevel.L2, MemoryLevel.DRAM
M32, V32 = (Pipe.MATRIX, Precision.FP32), (Pipe.VECTOR, Precision.FP32)
BF16 = (Pipe.MATRIX, Precision.BF16)
NAN, INF = math.nan, math.inf


def make_point(**changes: Any) -> Point:
    """A layer that does 1 GFLOP in 1 ms with 10 MB at L1 and 2 MB at DRAM."""
    values: dict[str, Any] = {
        "key": {"layer": "fc", "phase": "forward"}, "launches": 1.0, "time": 1e-3,
        "time_spread": NAN, "flop": {M32: 1e9}, "least_flop": {M32: 1e9},
        "nbytes": {L1: 1e7, DRAM: 2e6}, "bound": "matrix fp32", "bound_share": 1.0,
        "attainable_time": 5e-4, "fused_time": 5e-4, "bounded_time": 1e-3, "uncounted_time": 0.0,
        "zero_flop_launches": 0.0, "sources": {"l1": Source.COUNTED, "dram": Source.PREDICTED},
    }  # fmt: skip
    return Point(**values | changes)


def make_machine(**changes: Any) -> Machine:
    """2 TFLOP/s matrix, 200 GFLOP/s vector; 1 TB/s L1, 100 GB/s DRAM."""
    values: dict[str, Any] = {
        "name": "m",
        "peaks": {V32: Ceiling(2e11), M32: Ceiling(2e12)},
        "bandwidths": {L1: Ceiling(1e12), DRAM: Ceiling(1e11)},
    }
    return Machine(**values | changes)


@pytest.mark.parametrize("value", [NAN, INF, -INF, 0.0, -1.0, None, 1e-13, 1e30])
def test_a_logarithmic_axis_refuses(value: float | None) -> None:
    assert not drawable(value)


@pytest.mark.parametrize("value", [1e-11, 0.5, 1.0, 1e23])
def test_a_logarithmic_axis_takes(value: float) -> None:
    assert drawable(value)


def test_a_point_becomes_a_spot() -> None:
    one = spot(make_point())
    assert one.name == "fc · forward"
    assert one.label == "fc"
    assert one.group == "forward"
    assert one.rate == 1e12
    assert one.intensity == {L1: 100.0, DRAM: 500.0}
    assert one.levels == [L1, DRAM]
    assert one.sources == {L1: Source.COUNTED, DRAM: Source.PREDICTED}
    assert one.executed == 1.0


def test_without_a_phase_the_outermost_layer_gives_the_colour() -> None:
    assert spot(make_point(key={"layer": "encoder.0.fc"})).group == "encoder"
    assert spot(make_point(key={"block": "encoder.0"})).group == "encoder"


def test_a_point_without_keys_has_a_name() -> None:
    assert spot(make_point(key={})).name == "all"


def test_executed_share_is_least_over_nominal() -> None:
    assert spot(make_point(least_flop={M32: 5e8})).executed == 0.5


def test_integer_work_is_no_flop() -> None:
    one = spot(make_point(flop={M32: 1e9, (Pipe.MATRIX, Precision.INT8): 9e9}))
    assert one.flop == {M32: 1e9}
    assert one.rate == 1e12


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"flop": {}, "zero_flop_launches": 2.0}, "0 FLOP"),
        ({"flop": {}}, "FLOP not known"),
        ({"flop": {M32: NAN}}, "FLOP not known"),
        ({"time": 0.0}, "time not known"),
        ({"time": NAN}, "time not known"),
        ({"nbytes": {}}, "bytes not known"),
    ],
)
def test_what_cannot_be_drawn_is_named_with_the_reason(
    changes: dict[str, Any], reason: str
) -> None:
    scene = compose([spot(make_point(**changes))], make_machine())
    assert scene.spots == ()
    assert [(left.name, left.reason) for left in scene.not_drawn] == [("fc · forward", reason)]


@pytest.mark.parametrize("bad", [NAN, INF, 0.0, -1.0])
def test_a_level_that_cannot_be_drawn_is_left_out_alone(bad: float) -> None:
    scene = compose([Spot("a", 1e9, {L1: 1.0, L2: bad, DRAM: 4.0})], make_machine())
    assert scene.spots[0].levels == [L1, DRAM]
    assert scene.levels == (L1, DRAM)
    (left,) = scene.not_drawn
    assert (left.name, left.levels, left.reason) == ("a", (L2,), "no traffic known at L2")


def test_no_traffic_and_no_known_traffic_are_told_apart() -> None:
    """What fits the caches has no traffic at DRAM: that is known, and said so."""
    fits = make_point(nbytes={L1: 1e6, DRAM: 0.0})
    (left,) = compose([spot(fits)], make_machine(), [DRAM]).not_drawn
    assert left.reason == "no traffic at DRAM"
    partly = dataclasses.replace(fits, unsized_time={DRAM: 1e-3})
    (left,) = compose([spot(partly)], make_machine(), [DRAM]).not_drawn
    assert left.reason == "no traffic known"


def test_a_rate_of_zero_is_zero_flop() -> None:
    (left,) = compose([Spot("a", 0.0, {L1: 0.0})], None).not_drawn
    assert left.reason == "0 FLOP"


def test_a_rate_that_is_not_finite_is_named() -> None:
    (left,) = compose([Spot("a", NAN, {L1: 1.0})], None).not_drawn
    assert left.reason == "performance not known"


def test_longest_first_and_ties_by_name() -> None:
    made = [Spot(n, 1e9, {L1: 1.0}, t) for n, t in (("b", 1), ("c", 9), ("a", 1), ("d", NAN))]
    assert [one.name for one in compose(made, None).spots] == ["c", "a", "b", "d"]


def test_order_does_not_depend_on_the_order_given() -> None:
    made = [Spot(str(i), 1e9, {L1: 1.0}, i % 3) for i in range(9)]
    assert compose(made, None) == compose(made[::-1], None)


def test_the_longest_are_drawn_and_the_rest_is_named() -> None:
    made = [Spot(f"s{i}", 1e9, {L1: 1.0}, float(i)) for i in range(MAX_SPOTS + 3)]
    scene = compose(made, None)
    assert len(scene.spots) == MAX_SPOTS
    assert {left.name for left in scene.not_drawn} == {"s0", "s1", "s2"}
    assert all(str(MAX_SPOTS) in left.reason for left in scene.not_drawn)


def test_only_the_wanted_levels() -> None:
    scene = compose([spot(make_point())], make_machine(), [DRAM])
    assert scene.levels == (DRAM,)
    assert [roof.key for roof in scene.roofs] == ["dram", "matrix_fp32"]
    assert scene.not_drawn == ()


# Roofs


def test_roofs_are_the_bandwidths_and_the_used_and_highest_peaks() -> None:
    machine = make_machine()
    machine = dataclasses.replace(machine, peaks={**machine.peaks, BF16: Ceiling(8e12)})
    roofs = {roof.key: roof for roof in compose([spot(make_point())], machine).roofs}
    assert list(roofs) == ["l1", "dram", "matrix_bf16", "matrix_fp32"]
    assert roofs["matrix_fp32"].used
    assert not roofs["matrix_bf16"].used


def test_without_spots_every_peak_is_drawn() -> None:
    keys = [roof.key for roof in compose([], make_machine()).roofs]
    assert keys == ["l1", "dram", "matrix_fp32", "vector_fp32"]


def test_integer_peaks_are_no_roofs_of_flop() -> None:
    machine = make_machine(peaks={(Pipe.MATRIX, Precision.INT8): Ceiling(9e12)})
    assert [roof.key for roof in compose([], machine).roofs] == ["l1", "dram"]


def test_roofs_have_labels_with_units() -> None:
    labels = [roof.label for roof in compose([], make_machine()).roofs]
    assert labels[1] == "DRAM 100 GB/s"
    assert labels[2] == "matrix FP32 2.00 TFLOP/s"


def test_peaks_that_read_the_same_share_a_label() -> None:
    machine = make_machine(peaks={V32: Ceiling(2.001e11), M32: Ceiling(2e11), BF16: Ceiling(8e11)})
    labels = {roof.key: roof.label for roof in compose([], machine).roofs if not roof.sloped}
    assert labels == {
        "matrix_bf16": "matrix BF16 800 GFLOP/s",
        "vector_fp32": "vector FP32, matrix FP32 200 GFLOP/s",
        "matrix_fp32": "",
    }


def test_slopes_end_where_the_highest_peak_begins() -> None:
    roofs = {roof.key: roof for roof in compose([], make_machine()).roofs}
    assert roofs["dram"].ridge == 2e12 / 1e11
    assert roofs["matrix_fp32"].ridge == 2e12 / 1e12
    assert roofs["dram"].at(20.0) == roofs["matrix_fp32"].at(20.0)


def test_datasheet_ceilings_are_not_measured() -> None:
    machine = make_machine(bandwidths={DRAM: Ceiling(1e11, how="datasheet")})
    roofs = {roof.key: roof for roof in compose([], machine).roofs}
    assert not roofs["dram"].measured
    assert roofs["matrix_fp32"].measured


@pytest.mark.parametrize("rate", [NAN, INF, 0.0])
def test_a_ceiling_that_is_no_number_is_no_roof(rate: float) -> None:
    machine = make_machine(bandwidths={DRAM: Ceiling(rate), L1: Ceiling(1e12)})
    assert "dram" not in [roof.key for roof in compose([], machine).roofs]


def test_the_ridge_belongs_to_the_unit_that_does_the_work() -> None:
    one = spot(make_point(flop={V32: 1e9}))
    assert compose([one], make_machine()).ridge == (2.0, 2e11)
    assert compose([], make_machine()).ridge == (20.0, 2e12)
    assert compose([one], make_machine(bandwidths={})).ridge is None


# Limits


def test_limits_hold_every_spot_and_ridge_with_a_margin() -> None:
    far = [Spot("far", 9e13, {DRAM: 123456.0}), Spot("near", 5e8, {L1: 1e-4})]
    scene = compose(far, make_machine())
    assert scene.xlim[0] < 1e-4 / 2
    assert scene.xlim[1] > 123456 * 2
    assert scene.ylim[0] < 5e8 / 2
    assert scene.ylim[1] > 9e13 * 2


def test_limits_without_anything_are_finite_and_ordered() -> None:
    for machine in (None, make_machine(), Machine("bare")):
        scene = compose([], machine)
        for low, high in (scene.xlim, scene.ylim):
            assert 0 < low < high < INF


# Above a roof


def test_a_point_below_its_roofs_is_not_flagged() -> None:
    assert compose([spot(make_point())], make_machine()).above == {}


def test_without_a_machine_nothing_is_above() -> None:
    assert compose([Spot("a", 1e20, {L1: 1.0})], None).above == {}


def test_above_a_peak() -> None:
    above = compose([spot(make_point(time=1e-4))], make_machine()).above
    assert above["fc · forward"].startswith("above its peak: FLOP overcounted or saved")


def test_nominal_flop_that_are_not_executed_are_no_wrong_ceiling() -> None:
    point = make_point(time=4e-4, least_flop={M32: 5e8})
    assert "causal" in compose([spot(point)], make_machine()).above["fc · forward"]


def test_above_a_bandwidth_names_the_level() -> None:
    point = make_point(nbytes={L1: 1e7, DRAM: 2e8})
    assert "DRAM roof" in compose([spot(point)], make_machine()).above["fc · forward"]


def test_within_the_tolerance_is_not_above() -> None:
    assert compose([Spot("a", 1.04e11, {DRAM: 1.0})], make_machine()).above == {}
    assert compose([Spot("a", 1.06e11, {DRAM: 1.0})], make_machine()).above != {}


@pytest.mark.parametrize(
    ("shared", "seconds"), [(True, 1e9 / 2e12 + 1e9 / 2e11), (False, 1e9 / 2e11)]
)
def test_units_overlap_unless_they_are_shared(shared: bool, seconds: float) -> None:
    one = Spot("a", 1.0, {}, flop={M32: 1e9, V32: 1e9})
    assert compute_roof(one, make_machine(shared_pipes=shared)) == pytest.approx(2e9 / seconds)


def test_formats_of_the_matrix_unit_add_up() -> None:
    machine = make_machine(peaks={M32: Ceiling(1e12), BF16: Ceiling(4e12)})
    one = Spot("a", 1.0, {}, flop={M32: 1e12, BF16: 4e12})
    assert compute_roof(one, machine) == pytest.approx(5e12 / 2)


def test_work_without_a_peak_is_held_against_the_highest() -> None:
    assert compute_roof(Spot("a", 1.0, {}, flop={BF16: 1.0}), make_machine()) == 2e12
    assert compute_roof(Spot("a", 1.0, {}), Machine("bare")) is None


def test_every_group_of_a_profile_is_drawn_or_named(profile: Profile, machine: Machine) -> None:
    found = [spot(point) for point in points(profile, machine, ("layer", "phase"))]
    scene = compose(found, machine)
    names = {one.name for one in scene.spots} | {left.name for left in scene.not_drawn}
    assert names == {one.name for one in found}
    assert scene.spots


def test_a_roof_is_a_value() -> None:
    roof = Roof("l1", "L1", 1.0, True, True, True, None)
    assert roof == dataclasses.replace(roof)
    with pytest.raises(dataclasses.FrozenInstanceError):
        roof.rate = 2.0  # type: ignore[misc]
