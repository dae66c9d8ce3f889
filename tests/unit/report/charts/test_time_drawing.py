"""Charts of times, tested on the artists they are made of."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import combinations
from typing import Any

import pytest

from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report.chart import TimeArtists, svg, times
from hroof.roofline import Point, points
from hroof.units import MemoryLevel, Pipe, Precision, Source

L1, DRAM = MemoryLevel.L1, MemoryLevel.DRAM
V32, M32 = (Pipe.VECTOR, Precision.FP32), (Pipe.MATRIX, Precision.FP32)
NAN = math.nan
HOSTILE = [
    "$\\frac{$",
    "<script>&",
    "a\nb",
    "a\x00b",
    "\x1b[31mred",
    "\u202erev",
    "层" * 50,
    "x" * 10_000,
]


def make_point(name: str = "fc", phase: str = "forward", **changes: Any) -> Point:
    """1 GFLOP in 4 ms with 2 MB at DRAM, in 5 launches."""
    values: dict[str, Any] = {
        "key": {"layer": name, "phase": phase}, "launches": 5.0, "time": 4e-3, "time_spread": NAN,
        "flop": {M32: 1e9}, "least_flop": {M32: 1e9}, "nbytes": {DRAM: 2e6}, "bound": None,
        "bound_share": NAN, "attainable_time": None, "fused_time": None, "bounded_time": 0.0,
        "uncounted_time": 0.0, "zero_flop_launches": 0.0, "sources": {"dram": Source.COUNTER},
    }  # fmt: skip
    return Point(**values | changes)


def optimizer(name: str = "adam") -> Point:
    return make_point(
        name, "optimizer", flop={V32: 1e7}, least_flop={V32: 1e7}, nbytes={DRAM: 4e7}, launches=300.0
    )  # fmt: skip


@pytest.fixture(scope="module")
def small() -> Machine:
    """1 TFLOP/s matrix and 0.1 vector FP32; 10 GB/s at DRAM; 10 µs a launch."""
    return Machine(
        "small cpu",
        peaks={V32: Ceiling(1e11), M32: Ceiling(1e12)},
        bandwidths={DRAM: Ceiling(1e10)},
        launch_cost=Ceiling(1e-5),
    )


@pytest.fixture(scope="module")
def both(small: Machine) -> TimeArtists:
    """A matrix product and an optimizer."""
    return times([make_point(), optimizer()], small, title="run 7")


def center(marker: Any) -> tuple[float, float]:
    x, y = marker.get_offsets()[0]
    return float(x), float(y)


def test_axes_are_work_and_beside_it_times(both: TimeArtists) -> None:
    axes = both.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "Bytes through DRAM [B]"
    assert axes.get_ylabel() == "FLOP that must be executed [FLOP]"
    assert both.byte_time.get_xlabel() == "Byte time [s] at DRAM 10.0 GB/s"
    assert [axis.get_ylabel() for axis in both.flop_times.values()] == [
        "FLOP time [s] at matrix FP32 1.00 TFLOP/s",
        "FLOP time [s] at vector FP32 100 GFLOP/s",
    ]


def test_secondary_axes_show_the_times_of_the_same_place(both: TimeArtists) -> None:
    both.figure.canvas.draw()
    low, high = both.axes.get_xlim()
    assert both.byte_time.get_xlim() == pytest.approx((low / 1e10, high / 1e10))
    low, high = both.axes.get_ylim()
    matrix, vector = both.flop_times["matrix_fp32"], both.flop_times["vector_fp32"]
    assert matrix.get_ylim() == pytest.approx((low / 1e12, high / 1e12))
    assert vector.get_ylim() == pytest.approx((low / 1e11, high / 1e11))


def test_markers_lie_at_work_and_at_time(both: TimeArtists) -> None:
    assert set(both.names) == {"fc · forward", "adam · optimizer"}
    at = both.names.index("fc · forward")
    assert center(both.complexity[at]) == pytest.approx((2e6, 1e9))
    assert center(both.times[at]) == pytest.approx((8e6, 4e9))  # 4 times the compute bound
    at = both.names.index("adam · optimizer")
    assert center(both.complexity[at]) == pytest.approx((4e7, 1e7))
    assert center(both.times[at]) == pytest.approx((4e7, 1e7))  # at its memory bound


def test_work_is_open_and_time_is_filled(both: TimeArtists) -> None:
    from matplotlib.colors import to_hex

    work, time = both.complexity[0], both.times[0]
    assert to_hex(work.get_facecolor()[0]) == "#ffffff"
    assert to_hex(time.get_facecolor()[0]) == to_hex(work.get_edgecolor()[0])


def test_the_length_of_a_join_is_the_slowdown(both: TimeArtists) -> None:
    (x0, y0), (x1, y1) = both.joins["fc · forward"].get_xydata()
    assert (x1 / x0, y1 / y0) == pytest.approx((4, 4))


def test_diagonals_are_of_the_precisions_in_use(both: TimeArtists) -> None:
    assert list(both.balances) == ["matrix_fp32", "vector_fp32"]
    for key, balance in (("matrix_fp32", 100.0), ("vector_fp32", 10.0)):
        for x, y in both.balances[key].get_xydata():
            assert y / x == pytest.approx(balance)
    texts = [text.get_text() for text in both.axes.texts]
    assert "matrix FP32: 100 FLOP/byte" in texts
    assert "vector FP32: 10.0 FLOP/byte" in texts


def test_boxes_reach_from_the_origin_to_what_launches_hide(both: TimeArtists) -> None:
    low_x, low_y = both.axes.get_xlim()[0], both.axes.get_ylim()[0]
    box = both.boxes["adam · optimizer"]
    start, corner, end = box.get_xydata()
    assert list(start) == pytest.approx([low_x, 3e8])
    assert list(corner) == pytest.approx([300 * 1e-5 * 1e10, 300 * 1e-5 * 1e11])
    assert list(end) == pytest.approx([3e7, low_y])
    assert box.is_dashed()


def test_what_its_launches_hide_is_named(small: Machine) -> None:
    artists = times([make_point("many", launches=1e4)], small)
    assert "Their launches alone take longer than their work: many · forward." in artists.caption


def test_shape_and_line_tell_phases_apart_without_colour(both: TimeArtists) -> None:
    outlines = {marker.get_paths()[0].vertices.tobytes() for marker in both.times}
    assert len(outlines) == 2
    assert len({line.get_linestyle() for line in both.joins.values()}) == 2


def test_title_legend_and_source(both: TimeArtists) -> None:
    texts = [text.get_text() for text in both.axes.texts]
    assert "run 7" in texts
    legend = both.axes.get_legend()
    assert legend is not None
    said = [text.get_text() for text in legend.get_texts()]
    assert {"Phase", "forward", "optimizer", "work: bytes and FLOP", "measured time"} <= set(said)
    assert any("10.0 µs each" in text for text in said)
    assert "Bytes at DRAM: counter." in both.caption


def test_a_group_faster_than_its_bound_has_a_sign_and_a_reason(small: Machine) -> None:
    artists = times([make_point("odd", time=5e-4), make_point("fine")], small)
    signs = [text for text in artists.axes.texts if text.get_text() == "⚠"]
    assert len(signs) == 1
    assert set(artists.above) == {"odd · forward"}
    assert "⚠ faster than its FLOP allow" in artists.caption


def test_zero_flop_work_is_named(small: Machine) -> None:
    still = make_point("copy", flop={}, least_flop={}, zero_flop_launches=1.0)
    artists = times([make_point(), still], small)
    assert "Not drawn: 0 FLOP: copy · forward." in artists.caption
    assert [one.name for one in artists.not_drawn] == ["copy · forward"]


@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_labels_never_overlap(count: int, small: Machine) -> None:
    made = [
        make_point(f"block.{i}.linear", time=4e-3 * 1.01**i, nbytes={DRAM: 2e6 * 1.02**i})
        for i in range(count)
    ]
    artists = times(made, small)
    boxes = [text.get_window_extent() for text in artists.labels.values()]
    assert len(boxes) >= min(count, 3)
    assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))
    frame = artists.axes.get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)


def test_any_name_gives_a_valid_file(small: Machine) -> None:
    made = [make_point(name, time=4e-3 * 2**i) for i, name in enumerate(HOSTILE)]
    left_out = [make_point(name, "backward", flop={}) for name in HOSTILE]
    artists = times([*made, *left_out], small, title=HOSTILE[0] + HOSTILE[1])
    assert len(artists.labels) == len(HOSTILE)
    for text in (svg(artists, text=True), svg(artists)):
        ET.fromstring(text)
        assert "<script>" not in text
        assert "\x1b" not in text


@pytest.mark.parametrize("machine", [None, Machine("bare")])
def test_without_ceilings_it_says_why_it_is_empty(machine: Machine | None) -> None:
    artists = times([make_point()], machine)
    assert artists.names == ()
    assert artists.byte_time is None
    assert "no bandwidth known" in artists.caption
    ET.fromstring(svg(artists))


def test_dark(small: Machine) -> None:
    from matplotlib.colors import to_hex

    artists = times([make_point()], small, style="dark")
    assert to_hex(artists.figure.get_facecolor()) == "#171b21"
    assert to_hex(artists.times[0].get_facecolor()[0]) == "#4ba3e3"


def test_the_same_bytes_for_the_same_run(profile: Profile, machine: Machine) -> None:
    found = points(profile, machine, ("layer", "phase"))
    first, second = (svg(times(order, machine)) for order in (found, found[::-1]))
    assert first == second


def test_on_axes_that_the_user_made(small: Machine) -> None:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    assert times([make_point()], small, ax=axes).axes is axes


def test_labels_say_how_many_times_slower_than_the_bound(both: TimeArtists) -> None:
    texts = {name: text.get_text() for name, text in both.labels.items()}
    assert texts == {"fc · forward": "fc  4.0×", "adam · optimizer": "adam  1.0×"}


def test_work_of_several_units_has_a_balance_of_its_own(small: Machine) -> None:
    both = {M32: 1e9, V32: 2e8}
    made = [make_point("mixed", flop=both, least_flop=both), make_point("pure")]
    assert times(made, small).caption.split("\n")[0] == (
        "Bytes at DRAM: counter. 1 of 2 groups use several units: each has a balance of its own."
    )


@pytest.mark.parametrize(
    ("seconds", "tick"), [(1e-14, "1e-14"), (1e-9, "1 n"), (1e-4, "100 µ"), (10.0, "10")]
)
def test_ticks_of_times(seconds: float, tick: str, both: TimeArtists) -> None:
    assert both.byte_time.xaxis.get_major_formatter()(seconds, 0) == tick
