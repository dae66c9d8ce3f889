"""Placing of labels: nothing overlaps, nothing leaves the frame, the same every time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.report.place import Box, Layout, along, around

FRAME = Box(0, 0, 1000, 1000)


@pytest.mark.parametrize(
    ("other", "overlap"),
    [
        (Box(5, 5, 15, 15), True),
        (Box(2, 2, 3, 3), True),
        (Box(10, 0, 20, 10), False),
        (Box(0, 10, 10, 20), False),
        (Box(-9, -9, -1, -1), False),
    ],
)
def test_boxes_that_only_touch_do_not_overlap(other: Box, overlap: bool) -> None:
    box = Box(0, 0, 10, 10)
    assert box.overlaps(other) is overlap
    assert other.overlaps(box) is overlap


def test_inside_includes_the_edge() -> None:
    assert Box(0, 0, 1000, 1000).inside(FRAME)
    assert not Box(-1, 0, 10, 10).inside(FRAME)
    assert not Box(0, 0, 10, 1001).inside(FRAME)


def test_a_taken_place_is_not_free() -> None:
    layout = Layout(FRAME)
    assert layout.free([Box(0, 0, 10, 10)])
    layout.take(Box(5, 5, 6, 6))
    assert not layout.free([Box(0, 0, 10, 10)])
    assert layout.free([Box(6, 6, 10, 10)])


def test_one_box_outside_makes_all_of_them_not_free() -> None:
    assert not Layout(FRAME).free([Box(0, 0, 10, 10), Box(990, 0, 1001, 10)])


def test_layouts_do_not_share_what_is_taken() -> None:
    first, second = Layout(FRAME), Layout(FRAME)
    first.take(Box(0, 0, 10, 10))
    assert second.free([Box(0, 0, 10, 10)])


@given(
    x=st.floats(-1e3, 1e3), y=st.floats(-1e3, 1e3),
    width=st.floats(1, 200), height=st.floats(1, 50), gap=st.floats(1, 30),
)  # fmt: skip
def test_candidates_keep_their_size_and_their_distance(
    x: float, y: float, width: float, height: float, gap: float
) -> None:
    anchor = Box(x - gap * 0.5, y - gap * 0.5, x + gap * 0.5, y + gap * 0.5)
    for box in around(x, y, width, height, gap):
        assert math.isclose(box.x1 - box.x0, width, rel_tol=1e-6, abs_tol=1e-6)
        assert math.isclose(box.y1 - box.y0, height, rel_tol=1e-6, abs_tol=1e-6)
        assert not box.overlaps(anchor)


def test_the_first_candidate_is_the_nearest_one_to_the_right() -> None:
    first = next(around(100, 100, 40, 10, 8))
    assert first == Box(108, 95, 148, 105)


def test_later_candidates_are_farther() -> None:
    reaches = [box.x0 for box in around(0, 0, 10, 10, 5) if box.x0 > 0 and box.y0 == -5]
    assert reaches == sorted(reaches)
    assert len(set(reaches)) == len(reaches) > 3


def test_a_level_label_is_covered_from_end_to_end() -> None:
    boxes = along(10, 20, 100, 10, 0.0)
    assert min(box.x0 for box in boxes) <= 10
    assert max(box.x1 for box in boxes) >= 110
    assert all(box.y0 <= 24 and box.y1 >= 26 for box in boxes)


@pytest.mark.parametrize("degrees", [15, 45, 80, -30])
def test_a_turned_label_is_covered_along_its_axis(degrees: float) -> None:
    angle = math.radians(degrees)
    boxes = along(0, 0, 100, 10, angle)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = 100 * share * math.cos(angle) - 5 * math.sin(angle)
        y = 100 * share * math.sin(angle) + 5 * math.cos(angle)
        assert any(box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1 for box in boxes)


def test_a_turned_label_leaves_the_corner_of_its_rectangle_free() -> None:
    corner = Box(70, 0, 80, 10)
    assert not any(box.overlaps(corner) for box in along(0, 0, 100, 10, math.radians(45)))


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=40))
def test_greedy_placing_never_overlaps(anchors: list[tuple[int, int]]) -> None:
    layout = Layout(FRAME)
    placed: list[Box] = []
    for x, y in anchors:
        box = next((b for b in around(x, y, 60, 12, 6) if layout.free([b])), None)
        if box is not None:
            assert not any(box.overlaps(other) for other in placed)
            assert box.inside(FRAME)
            layout.take(box)
            placed.append(box)
    assert bool(placed) == bool(anchors)
