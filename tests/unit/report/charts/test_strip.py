"""The strip of work without FLOP: what it shows, where, and what is above a bandwidth."""

from __future__ import annotations

import dataclasses
import math
from itertools import combinations
from typing import Any

import pytest

from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report.chart import Artists, StripArtists, roofline
from hroof.report.charts.strip import MOST_ROWS, height, levels, with_strip
from hroof.report.scene import Spot, compose
from hroof.roofline import points
from hroof.units import MemoryLevel, Pipe, Precision, Source

L1, L2, DRAM = MemoryLevel.L1, MemoryLevel.L2, MemoryLevel.DRAM


def mover(name: str, time: float = 1e-3, l1: float = 2e9, dram: float = 1e9, **more: Any) -> Spot:
    """A group that only moves bytes, with its bytes/s."""
    values: dict[str, Any] = {
        "intensity": {}, "group": "forward", "missing": "0 FLOP",
        "byte_rate": {L1: l1, DRAM: dram},
        "sources": {L1: Source.COUNTED, DRAM: Source.PREDICTED},
    }  # fmt: skip
    return Spot(name, 0.0, time=time, **values | more)


def worker(name: str = "gemm", time: float = 1e-2) -> Spot:
    return Spot(name, 1e9, {L1: 1.0, DRAM: 4.0}, time=time, group="forward")


@pytest.fixture
def small() -> Machine:
    """100 GFLOP/s; 80 GB/s at L1 and 10 GB/s at DRAM, the latter of a data sheet."""
    return Machine(
        "small cpu",
        peaks={(Pipe.MATRIX, Precision.FP32): Ceiling(1e11)},
        bandwidths={L1: Ceiling(8e10), DRAM: Ceiling(1e10, how="datasheet")},
    )


def strip_of(artists: Artists) -> StripArtists:
    assert artists.strip is not None
    return artists.strip


def center(marker: Any) -> tuple[float, float]:
    x, y = marker.get_offsets()[0]
    return float(x), float(y)


def test_a_marker_lies_at_its_bytes_per_second(small: Machine) -> None:
    strip = strip_of(roofline([worker(), mover("copy")], small))
    assert strip.names == {L1: ("copy",), DRAM: ("copy",)}
    assert center(strip.markers[L1][0]) == pytest.approx((2e9, 0))
    assert center(strip.markers[DRAM][0]) == pytest.approx((1e9, 0))
    assert list(strip.joins["copy"].get_xdata()) == [1e9, 2e9]
    assert "B/s" in strip.axes.get_xlabel()
    assert strip.axes.get_xscale() == "log"


def test_it_stands_below_the_chart_and_neither_is_left_out_there(small: Machine) -> None:
    artists = roofline([worker(), mover("copy")], small)
    strip = strip_of(artists)
    assert strip.axes.get_position().y1 < artists.axes.get_position().y0
    assert artists.not_drawn == ()
    assert artists.caption == ""


def test_bandwidths_are_upright_lines_solid_where_measured(small: Machine) -> None:
    strip = strip_of(roofline([mover("copy")], small))
    assert {key: line.get_xdata()[0] for key, line in strip.roofs.items()} == {
        "l1": 8e10,
        "dram": 1e10,
    }
    assert strip.roofs["l1"].get_linestyle() == "-"
    assert strip.roofs["dram"].get_linestyle() == "--"
    low, high = strip.axes.get_xlim()
    assert low < 1e9
    assert high > 8e10


def test_without_such_work_there_is_no_strip(small: Machine) -> None:
    artists = roofline([worker()], small)
    assert artists.strip is None
    assert len(artists.figure.axes) == 1


def test_areas_follow_the_time_on_one_scale_with_the_chart(small: Machine) -> None:
    artists = roofline([worker(time=8e-3), mover("copy", 4e-3), mover("fill", 2e-3)], small)
    above = float(artists.markers[L1][0].get_sizes()[0])
    below = [float(marker.get_sizes()[0]) for marker in strip_of(artists).markers[L1]]
    assert below == pytest.approx([above / 2, above / 4])


def test_the_longest_have_rows_and_the_rest_is_named(small: Machine) -> None:
    made = [mover(f"m{i}", 1e-3 * (20 - i)) for i in range(12)]
    artists = roofline(made, small)
    assert strip_of(artists).names[L1] == tuple(f"m{i}" for i in range(MOST_ROWS))
    assert [one.name for one in artists.not_drawn] == [f"m{i}" for i in range(MOST_ROWS, 12)]
    assert {one.reason for one in artists.not_drawn} == {"0 FLOP, not among the 8 longest"}
    rows = [center(marker)[1] for marker in strip_of(artists).markers[L1]]
    assert rows == list(range(MOST_ROWS))


HOSTILE = ["x", "W" * 40, "a" * 10_000, "b\n\x1b[31m\u202ec", "$\\frac{$", "<script>", "", "-->"]


def test_any_names_stay_in_their_rows(small: Machine) -> None:
    made = [mover(name, 1e-3, l1=7e10, dram=10.0 ** (6 + i / 2)) for i, name in enumerate(HOSTILE)]
    strip = strip_of(roofline(made, small))
    frame = strip.axes.get_window_extent()
    boxes = [text.get_window_extent() for text in strip.labels.values()]
    assert len(boxes) == 8
    for box in boxes:
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1 + 1
    assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))


def test_the_time_stands_beside_the_name(small: Machine) -> None:
    strip = strip_of(roofline([mover("copy", 2.5e-3)], small))
    assert strip.labels["copy"].get_text() == "copy  2.50 ms"


def test_more_bytes_than_the_machine_can_move_are_evidence_of_a_fault(small: Machine) -> None:
    artists = roofline([mover("copy", dram=1.2e10), mover("fine", dram=1.04e10)], small)
    assert set(artists.above) == {"copy"}
    assert artists.above["copy"].startswith("bytes/s above its DRAM roof")
    assert strip_of(artists).labels["copy"].get_text().startswith("⚠")
    assert "⚠ bytes/s above its DRAM roof" in artists.caption


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_level_without_a_rate_is_left_out(bad: float, small: Machine) -> None:
    one = mover("copy", dram=bad)
    assert levels(one) == [L1]
    strip = strip_of(roofline([one], small))
    assert set(strip.markers) == {L1}
    assert strip.joins == {}


def test_levels_can_be_chosen(small: Machine) -> None:
    strip = strip_of(roofline([mover("copy")], small, levels=[DRAM]))
    assert set(strip.markers) == {DRAM}
    assert set(strip.roofs) == {"dram"}


def test_without_a_machine_there_is_a_strip_without_lines() -> None:
    strip = strip_of(roofline([mover("copy")], None))
    assert strip.roofs == {}
    assert strip.names[L1] == ("copy",)


def test_work_whose_bytes_or_time_are_unknown_is_named_as_before(small: Machine) -> None:
    made = [mover("view", byte_rate={}), mover("copy")]
    artists = roofline(made, small)
    assert strip_of(artists).names[L1] == ("copy",)
    assert [(one.name, one.reason) for one in artists.not_drawn] == [("view", "0 FLOP")]


def test_a_scene_keeps_them_among_what_is_not_drawn_until_there_is_a_strip(small: Machine) -> None:
    scene = compose([mover("copy"), worker()], small)
    assert [one.name for one in scene.not_drawn] == ["copy"]
    assert [one.name for one in scene.zero] == ["copy"]
    assert with_strip(scene).not_drawn == ()
    assert with_strip(dataclasses.replace(scene, zero=())).not_drawn == scene.not_drawn


def test_the_height_grows_with_the_rows_up_to_a_limit(small: Machine) -> None:
    sizes = [height(compose([mover(f"m{i}") for i in range(n)], small)) for n in (0, 1, 2, 8, 50)]
    assert sizes[0] == 0
    assert 0 < sizes[1] < sizes[2] < sizes[3] == sizes[4]


def test_of_a_table(profile: Profile, machine: Machine) -> None:
    found = {point.key["op"]: point for point in points(profile, machine, ("op",))}
    strip = strip_of(roofline(list(found.values()), machine))
    assert set(strip.names[L1]) == {"copy", "to", "int_mm"}
    for level, markers in strip.markers.items():
        for name, marker in zip(strip.names[level], markers, strict=True):
            assert center(marker)[0] == pytest.approx(found[name].byte_rate[level])
