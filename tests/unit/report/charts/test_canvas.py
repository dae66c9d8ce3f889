"""Texts, labels, headings and legends: where they are, and that no label lies on another."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import pytest

from hroof.report.charts.backend import new_figure, renderer_of, styled
from hroof.report.charts.canvas import Canvas, plain_tick, si_tick
from hroof.report.charts.style import DARK, LIGHT
from hroof.report.look import FAINT, INK, MUTED, NO_MARKER, Key


@pytest.fixture
def canvas() -> Canvas:
    """Logarithmic axes from 1 to 1000."""
    with styled():
        axes = new_figure().add_axes((0.1, 0.1, 0.7, 0.8))
        made = Canvas(axes, renderer_of(axes))
        made.log_axes((1, 1e3), (1, 1e3), "x", "y")
    return made


def boxes(texts: list[Any]) -> list[Any]:
    return [text.get_window_extent() for text in texts if text is not None]


def test_ticks() -> None:
    assert [plain_tick(value, 0) for value in (0.01, 1.0, 250.0)] == ["0.01", "1", "250"]
    assert [si_tick(10.0**n, 0) for n in (-6, -3, 0, 8, 12)] == ["1 µ", "1 m", "1", "100 M", "1 T"]


def test_pixels_and_back(canvas: Canvas) -> None:
    x, y = canvas.pixel(10, 100)
    assert canvas.axes.transData.inverted().transform((x, y)) == pytest.approx([10, 100])
    box = canvas.axes.get_window_extent()
    assert x == pytest.approx(box.x0 + box.width / 3)


def test_a_label_stands_beside_its_anchor(canvas: Canvas) -> None:
    anchor = canvas.pixel(30, 30)
    box = canvas.label("layer", [anchor], 6.0).get_window_extent()
    assert math.dist(anchor, (box.x0, anchor[1])) < 12
    assert box.y0 < anchor[1] < box.y1


def test_labels_of_one_place_do_not_overlap(canvas: Canvas) -> None:
    anchor = canvas.pixel(30, 30)
    made = boxes([canvas.label(f"layer.{i}", [anchor], 6.0) for i in range(20)])
    assert len(made) >= 10
    assert not any(first.overlaps(second) for first, second in combinations(made, 2))


def test_a_label_that_lies_apart_has_a_leader(canvas: Canvas) -> None:
    anchor = canvas.pixel(30, 30)
    canvas.label("first", [anchor], 6.0)
    assert len(canvas.axes.lines) == 0
    for i in range(9):
        canvas.label(f"further.{i}", [anchor], 6.0)
    assert len(canvas.axes.lines) >= 1


def test_without_room_there_is_no_label_and_nothing_is_left_of_it(canvas: Canvas) -> None:
    canvas.layout.take(canvas.layout.frame)
    assert canvas.label("layer", [canvas.pixel(30, 30)], 6.0) is None
    assert len(canvas.axes.texts) == 0


def test_a_second_anchor_is_tried(canvas: Canvas) -> None:
    blocked, free = canvas.pixel(3, 3), canvas.pixel(300, 300)
    from hroof.report.place import Box

    canvas.layout.take(Box(blocked[0] - 300, blocked[1] - 300, blocked[0] + 300, blocked[1] + 200))
    box = canvas.label("layer", [blocked, free], 6.0).get_window_extent()
    assert box.x0 > blocked[0] + 250


def test_headings_and_notes_keep_their_distance_in_points(canvas: Canvas) -> None:
    canvas.heading("title $x$\n", "what it is")
    canvas.note("small print")
    title, subtitle, note = canvas.axes.texts
    assert title.get_text() == "title $x$\ufffd"
    assert not title.get_parse_math()
    frame = canvas.axes.get_window_extent()
    assert frame.y1 < subtitle.get_window_extent().y0 < title.get_window_extent().y0
    assert note.get_window_extent().y1 < frame.y0


def test_a_note_can_stand_below_other_axes(canvas: Canvas) -> None:
    other = canvas.figure.add_axes((0.1, 0.02, 0.7, 0.02))
    canvas.note("small print", other)
    assert [text.get_text() for text in other.texts] == ["small print"]
    assert len(canvas.axes.texts) == 0


def test_the_legend_shows_what_it_names(canvas: Canvas) -> None:
    keys = [
        Key("Phase"),
        Key("forward", "o", "#0072b2", area=100.0, mark="_", line="--"),
        Key("predicted", "^", MUTED, open=True),
        Key("dashed", NO_MARKER, INK, line="--"),
        Key("$raw$", "o", FAINT),
    ]
    canvas.legend(keys)
    legend = canvas.axes.get_legend()
    assert legend is not None
    texts = legend.get_texts()
    assert [text.get_text() for text in texts] == [key.text for key in keys]
    assert not any(text.get_parse_math() for text in texts)
    assert texts[0].get_fontweight() == "bold"
    from matplotlib.lines import Line2D

    found: list[Any] = legend.findobj(Line2D)
    lines = {line.get_marker(): line for line in found}
    assert lines["_"].get_markersize() == pytest.approx(6.0)
    assert lines["o"].get_markerfacecolor() != lines["^"].get_markerfacecolor()
    assert "--" in [line.get_linestyle() for line in found]


def test_nothing_to_explain_is_no_legend(canvas: Canvas) -> None:
    canvas.legend([])
    assert canvas.axes.get_legend() is None


def test_the_legend_leaves_no_lines_on_the_axes(canvas: Canvas) -> None:
    canvas.legend([Key("a", "o", mark="x")])
    assert len(canvas.axes.lines) == 0


def test_shades_are_those_of_the_style() -> None:
    with styled(DARK):
        axes = new_figure(look=DARK).add_axes((0.1, 0.1, 0.7, 0.8))
        made = Canvas(axes, renderer_of(axes), DARK)
    assert made.shade(INK) == DARK.shade(INK) != INK
    assert LIGHT.shade(INK) == INK
