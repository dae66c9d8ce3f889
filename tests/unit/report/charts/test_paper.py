"""The paper's style: open circles in the colours of the levels, as wide as the time, under black roofs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report.chart import Artists, Choice, Spot, draw, roofline
from hroof.report.charts.paper import LEVEL_COLOURS, SIZE, diameter
from hroof.units import MemoryLevel, Pipe, Precision

L1, L2, L3, DRAM = MemoryLevel


@pytest.fixture(scope="module")
def drawn() -> Artists:
    """Two kernels on a V100, one of them long, and one without FLOP."""
    machine = Machine(
        "V100",
        peaks={
            (Pipe.MATRIX, Precision.FP16): Ceiling(106.5e12),
            (Pipe.VECTOR, Precision.FP32): Ceiling(15.2e12, how="datasheet"),
        },
        bandwidths={L1: Ceiling(14.3e12), L2: Ceiling(3e12), DRAM: Ceiling(8.3e11)},
    )
    flop = {(Pipe.MATRIX, Precision.FP16): 1e12, (Pipe.VECTOR, Precision.FP32): 1e9}
    made = [
        Spot("gemm", 8e13, {L1: 66.0, L2: 70.0, DRAM: 671.0}, 0.0656, flop=flop),
        Spot("relu", 1e11, {L1: 0.1, L2: 0.1, DRAM: 0.1}, 1e-4, flop=flop),
        Spot("pad", 0.0, {}, 1e-3, missing="0 FLOP", byte_rate={DRAM: 5e11}),
    ]
    return roofline(made, machine, style="paper", title="TensorFlow forward")


def size(marker: Any) -> float:
    """Width in points."""
    return math.sqrt(float(marker.get_sizes()[0]))


def test_circles_are_open_and_their_colour_is_the_level(drawn: Artists) -> None:
    from matplotlib.colors import to_hex

    assert [LEVEL_COLOURS[level] for level in (L1, L2, DRAM)] == ["#0000ff", "#ff0000", "#008000"]
    outlines = set()
    for level, markers in drawn.markers.items():
        for marker in markers:
            assert to_hex(marker.get_edgecolor()[0]) == LEVEL_COLOURS[level]
            assert len(marker.get_facecolor()) == 0
            outlines.add(marker.get_paths()[0].vertices.tobytes())
    assert len(outlines) == 1


def test_the_width_is_260_times_the_seconds_and_at_least_3(drawn: Artists) -> None:
    widths = dict(zip(drawn.names[L1], map(size, drawn.markers[L1]), strict=True))
    assert widths == pytest.approx({"gemm": 260 * 0.0656, "relu": 3.0})


@pytest.mark.parametrize(
    ("seconds", "points"), [(0.05, 13.0), (10.0, 60.0), (0.0, 3.0), (math.nan, 3.0)]
)
def test_any_time_has_a_width(seconds: float, points: float) -> None:
    assert diameter(seconds) == pytest.approx(points)


def test_roofs_are_black_and_dashed_where_they_are_not_measured(drawn: Artists) -> None:
    from matplotlib.colors import to_hex

    assert {to_hex(line.get_color()) for line in drawn.roofs.values()} == {"#000000"}
    assert {line.get_linewidth() for line in drawn.roofs.values()} == {2}
    assert drawn.roofs["vector_fp32"].get_linestyle() == "--"
    assert drawn.roofs["matrix_fp16"].get_linestyle() == "-"


def test_units_and_size_are_the_paper_s(drawn: Artists) -> None:
    axes = drawn.axes
    assert axes.get_xlabel() == "Arithmetic Intensity [FLOP/Byte]"
    assert axes.get_ylabel() == "Performance [GFLOP/s]"
    assert axes.yaxis.get_major_formatter()(1e12, 0) == "1000"
    assert drawn.figure.get_size_inches()[0] == SIZE[0]
    assert axes.get_title() == "TensorFlow forward"


def test_there_are_no_names_and_no_lines_between_levels(drawn: Artists) -> None:
    assert drawn.labels == {}
    assert drawn.joins == {}


def test_what_vanishes_from_the_axes_is_named(drawn: Artists) -> None:
    assert drawn.strip is None
    assert "0 FLOP: pad" in drawn.caption


def test_the_caption_fits_the_figure() -> None:
    left = [Spot(f"kernel {i} " + "x" * 40, 0.0, {}, 1e-3, missing="0 FLOP") for i in range(9)]
    caption = roofline(left, None, style="paper").caption
    assert max(map(len, caption.split("\n"))) <= 150


def test_limits_come_from_the_data(drawn: Artists) -> None:
    low, high = drawn.axes.get_xlim()
    assert low < 0.1
    assert high > 671
    assert drawn.axes.get_ylim()[1] > 106.5e12


def test_the_legend_names_the_levels(drawn: Artists) -> None:
    legend = drawn.axes.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[:3] == ["L1", "L2", "DRAM"]
    assert "66 ms" in texts[3]


def test_a_run_by_kernel(profile: Profile, machine: Machine) -> None:
    artists = draw(profile, machine, ("op",), Choice(style="paper"))
    assert isinstance(artists, Artists)
    assert "mm" in artists.names[L1]
