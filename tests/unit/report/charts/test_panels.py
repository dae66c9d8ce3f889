"""Small multiples: forward, backward and optimizer on the same axes, under the same roofs, in the same areas."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import combinations
from typing import Any

import pytest

from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report.chart import Choice, PanelArtists, draw, phases, roofline, svg
from hroof.report.charts.panels import PANELS, split
from hroof.roofline import Point, points
from hroof.units import MemoryLevel, Phase, Pipe, Precision, Source

L1, DRAM = MemoryLevel.L1, MemoryLevel.DRAM
V32, M32 = (Pipe.VECTOR, Precision.FP32), (Pipe.MATRIX, Precision.FP32)
NAN = math.nan


def make_point(name: str, phase: str, time: float = 4e-3, **changes: Any) -> Point:
    """1 GFLOP with 10 MB at L1 and 2 MB at DRAM."""
    values: dict[str, Any] = {
        "key": {"layer": name, "phase": phase}, "launches": 1.0, "time": time, "time_spread": NAN,
        "flop": {M32: 1e9}, "least_flop": {M32: 1e9}, "nbytes": {L1: 1e7, DRAM: 2e6}, "bound": None,
        "bound_share": NAN, "attainable_time": None, "fused_time": None, "bounded_time": 0.0,
        "uncounted_time": 0.0, "zero_flop_launches": 0.0,
        "sources": {"l1": Source.COUNTED, "dram": Source.PREDICTED},
    }  # fmt: skip
    return Point(**values | changes)


@pytest.fixture(scope="module")
def small() -> Machine:
    """1 TFLOP/s; 1 TB/s at L1 and 10 GB/s at DRAM."""
    return Machine(
        "small cpu",
        peaks={M32: Ceiling(1e12), V32: Ceiling(1e11)},
        bandwidths={L1: Ceiling(1e12), DRAM: Ceiling(1e10)},
    )


@pytest.fixture(scope="module")
def step() -> list[Point]:
    """A training step of two layers."""
    return [
        make_point("enc.fc1", "forward", 2e-3),
        make_point("enc.fc1", "backward", 8e-3, nbytes={L1: 1e8, DRAM: 1e7}),
        make_point("head", "backward", 4e-3),
        make_point("enc.fc1", "optimizer", 1e-3, flop={V32: 1e6}, least_flop={V32: 1e6}),
        make_point("head", "loss", 1e-5),
    ]


@pytest.fixture(scope="module")
def drawn(step: list[Point], small: Machine) -> PanelArtists:
    return phases(step, small, title="run 7")


def test_one_panel_for_each_phase_from_the_left(drawn: PanelArtists) -> None:
    assert tuple(drawn.panels) == PANELS == (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
    lefts = [one.axes.get_position().x0 for one in drawn.panels.values()]
    assert lefts == sorted(lefts)
    titles = [one.axes.get_title() for one in drawn.panels.values()]
    assert titles == ["forward · 2.00 ms", "backward · 12.0 ms", "optimizer · 1.00 ms"]


def test_each_group_is_in_the_panel_of_its_phase(drawn: PanelArtists) -> None:
    names = {str(phase): one.names[L1] for phase, one in drawn.panels.items()}
    assert names == {
        "forward": ("enc.fc1 · forward",),
        "backward": ("enc.fc1 · backward", "head · backward"),
        "optimizer": ("enc.fc1 · optimizer",),
    }


def test_axes_and_roofs_are_the_same_in_all(
    drawn: PanelArtists, step: list[Point], small: Machine
) -> None:
    limits = {(one.axes.get_xlim(), one.axes.get_ylim()) for one in drawn.panels.values()}
    assert len(limits) == 1
    roofs = [
        {key: line.get_xydata().tolist() for key, line in one.roofs.items()}
        for one in drawn.panels.values()
    ]
    assert set(roofs[0]) == {"l1", "dram", "matrix_fp32", "vector_fp32"}
    assert roofs[0] == roofs[1] == roofs[2]
    alone = roofline([point for point in step if point.key["phase"] != "loss"], small)
    assert limits == {(alone.axes.get_xlim(), alone.axes.get_ylim())}


def test_areas_compare_across_panels(drawn: PanelArtists) -> None:
    sizes = {
        name: float(marker.get_sizes()[0])
        for one in drawn.panels.values()
        for name, marker in zip(one.names[L1], one.markers[L1], strict=True)
    }
    assert sizes["enc.fc1 · backward"] == pytest.approx(4 * sizes["enc.fc1 · forward"])
    assert sizes["enc.fc1 · backward"] == pytest.approx(2 * sizes["head · backward"])


def test_colour_is_the_layer_group_since_the_panel_is_the_phase(drawn: PanelArtists) -> None:
    from matplotlib.colors import to_hex

    colours: dict[str, set[str]] = {}
    for one in drawn.panels.values():
        for name, marker in zip(one.names[L1], one.markers[L1], strict=True):
            group = name.split(" ")[0].split(".")[0]
            colours.setdefault(group, set()).add(to_hex(marker.get_facecolor()[0]))
    assert {group: len(found) for group, found in colours.items()} == {"enc": 1, "head": 1}
    assert colours["enc"] != colours["head"]


@pytest.mark.parametrize(
    ("key", "groups"),
    [
        ({"block": "enc.0"}, {"enc.0"}),
        ({"op": "aten::mm"}, {"GEMM"}),
        ({"layer": ""}, {"other"}),
        ({}, {"other"}),
    ],
)
def test_colours_by_other_keys(key: dict[str, str], groups: set[str], small: Machine) -> None:
    one = make_point("x", "forward", key={**key, "phase": "forward"})
    assert {spot.group for spot in split([one], small).whole.spots} == groups


def test_layers_of_one_model_are_told_apart(small: Machine) -> None:
    made = [make_point("model.enc.0", "forward"), make_point("model.head", "backward")]
    groups = {spot.group for spot in split(made, small).whole.spots}
    assert groups == {"model.enc", "model.head"}


def test_names_of_axes_and_roofs_are_written_once(drawn: PanelArtists) -> None:
    labels = [one.axes.get_ylabel() for one in drawn.panels.values()]
    assert labels == ["Performance [FLOP/s]", "", ""]
    texts = [[text.get_text() for text in one.axes.texts] for one in drawn.panels.values()]
    assert [any(t == "DRAM 10.0 GB/s" for t in found) for found in texts] == [True, False, False]
    peaks = [any(t == "matrix FP32 1.00 TFLOP/s" for t in found) for found in texts]
    assert peaks == [False, False, True]
    legends = [one.axes.get_legend() is not None for one in drawn.panels.values()]
    assert legends == [False, False, True]


def test_the_title_is_that_of_all(drawn: PanelArtists) -> None:
    assert "run 7" in [text.get_text() for text in drawn.panels[Phase.FORWARD].axes.texts]


def test_other_phases_are_named(drawn: PanelArtists) -> None:
    assert "In no panel: head · loss." in drawn.caption


def test_a_phase_without_work_says_so(small: Machine) -> None:
    artists = phases([make_point("a", "forward")], small)
    said = [
        [text.get_text() for text in one.axes.texts if text.get_text() == "nothing to draw"]
        for one in artists.panels.values()
    ]
    assert [len(found) for found in said] == [0, 1, 1]


def test_what_is_not_drawn_and_what_is_odd_is_said_once_for_all(small: Machine) -> None:
    made = [
        make_point("fast", "backward", 1e-5),
        make_point("copy", "forward", flop={}, least_flop={}, zero_flop_launches=1.0),
    ]
    artists = phases(made, small)
    assert "⚠ above its peak" in artists.caption
    assert "Not drawn: 0 FLOP: copy · forward." in artists.caption
    assert set(artists.panels[Phase.BACKWARD].above) == {"fast · backward"}
    assert artists.panels[Phase.FORWARD].above == {}
    assert [one.name for one in artists.not_drawn] == ["copy · forward"]


@pytest.mark.parametrize("count", [3, 10, 40])
def test_labels_never_overlap(count: int, small: Machine) -> None:
    made = [
        make_point(f"blocks.{i}.attention.projection", str(phase), 4e-3 * 1.02**i,
                   nbytes={L1: 1e7 * 1.03**i, DRAM: 2e6 * 1.01**i})
        for i in range(count)
        for phase in PANELS
    ]  # fmt: skip
    for one in phases(made, small).panels.values():
        boxes = [text.get_window_extent() for text in one.labels.values()]
        assert len(boxes) >= 3
        assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))


def test_splitting_keeps_every_group_once(step: list[Point], small: Machine) -> None:
    found = split(step, small)
    names = [one.name for part in found.parts.values() for one in part.spots]
    assert sorted([*names, *found.others]) == sorted(
        " · ".join(point.key.values()) for point in step
    )
    assert found.times[Phase.BACKWARD] == pytest.approx(12e-3)


def test_a_run_is_split_by_phase_whatever_the_keys(profile: Profile, machine: Machine) -> None:
    artists = draw(profile, machine, ("block",), Choice("phases"))
    assert isinstance(artists, PanelArtists)
    assert "fc1 · backward" in artists.panels[Phase.BACKWARD].names[L1]
    found = {" · ".join(p.key.values()): p for p in points(profile, machine, ("block", "phase"))}
    for one in artists.panels.values():
        for level, markers in one.markers.items():
            for name, marker in zip(one.names[level], markers, strict=True):
                x, y = marker.get_offsets()[0]
                point = found[name]
                assert (x, y) == pytest.approx((point.intensity[level], point.flop_rate))


@pytest.mark.parametrize("machine", [None, Machine("bare")])
def test_without_ceilings(machine: Machine | None, step: list[Point]) -> None:
    artists = phases(step, machine, style="dark")
    assert artists.panels[Phase.FORWARD].roofs == {}
    ET.fromstring(svg(artists))


def test_nothing_at_all(small: Machine) -> None:
    artists = phases([], small)
    assert artists.not_drawn == ()
    ET.fromstring(svg(artists))
