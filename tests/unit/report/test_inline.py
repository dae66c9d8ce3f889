"""Charts and data inside a page: nothing outside is referred to, and no text breaks out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.report.inline import chart, fitting, json_text

SVG = (
    '<?xml version="1.0"?>\n<!DOCTYPE svg PUBLIC "x" "http://www.w3.org/x.dtd">\n'
    '<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="864pt" height="518pt" '
    'viewBox="0 0 864 518" xmlns="http://www.w3.org/2000/svg" version="1.1">\n'
    '<metadata>\n<a href="http://example.org"/></metadata>\n'
    '<defs>\n<style type="text/css">*{stroke-linejoin: round}</style>\n</defs>\n'
    '<g id="point-0-l1"><path d="M 1.23456 7.891" style="fill: #1f2937"/></g>\n'
    '<g id="point-1-dram"><use xlink:href="#m1" style="stroke: #ffffff"/></g>\n'
    "<text style=\"font: 9px 'DejaVu Sans', sans-serif\">v1.23456 #1f2937 xlink:href</text>\n"
    "</svg>\n"
)


def made(**titles: Any) -> str:
    return chart(SVG, 'a "chart"', {name.replace("_", "-"): v for name, v in titles.items()})


def test_nothing_outside_the_page_is_referred_to() -> None:
    assert "http" not in made()
    assert "<!DOCTYPE" not in made()
    assert "metadata" not in made()


def test_it_is_one_element_that_scales() -> None:
    text = made()
    assert text.startswith('<svg class="roofline" role="img" aria-label="a &quot;chart&quot;"')
    assert text.rstrip().endswith("</svg>")
    assert 'viewBox="0 0 864 518"' in text
    assert "864pt" not in text


def test_colours_become_those_of_the_page_in_tags_only() -> None:
    text = made()
    assert "fill: var(--ink)" in text
    assert "stroke: var(--paper)" in text
    assert "v1.23456 #1f2937 xlink:href</text>" in text


def test_numbers_are_short_in_tags_only() -> None:
    assert 'd="M 1.23 7.89"' in made()


def test_a_stylesheet_stays_within_the_chart() -> None:
    assert "svg *{stroke-linejoin" in made()


def test_a_marker_tells_what_it_is() -> None:
    text = made(point_0_l1="a & b")
    assert '<g id="point-0-l1" class="point"><title>a &amp; b</title>' in text


def test_a_title_cannot_break_out() -> None:
    text = made(point_0_l1="</title></svg><script>alert(1)</script>")
    assert "<script" not in text
    assert text.count("</svg>") == 1


def test_names_that_several_elements_have_are_left_out() -> None:
    text = chart(SVG.replace('<g id="point-1-dram">', '<g id="m1"/><g id="m1">'), "a", {})
    assert 'id="m1"' not in text
    assert 'id="point-0-l1"' in text


# JSON


@pytest.mark.parametrize(
    "name", ["</script><img src=x onerror=alert(1)>", "<!--<script>", "]]>", "&amp;", "\u2028"]
)
def test_no_text_can_end_the_element(name: str) -> None:
    text = json_text({"layer": name})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"layer": name}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_json_comes_back_the_same(value: Any) -> None:
    text = json_text(value)
    assert json.loads(text) == value
    assert "<" not in text


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_text({"time": value})


def document(rows: int) -> dict[str, Any]:
    return {"rows": [{"layer": f"layer {i}"} for i in range(rows)], "run": {"layers": ["x"] * 5}}


def test_a_small_document_is_whole() -> None:
    text, kept = fitting(document(3), 10_000)
    assert kept == 3
    assert json.loads(text) == document(3)


@pytest.mark.parametrize("limit", [100, 500, 5000])
def test_a_large_document_keeps_its_first_rows(limit: int) -> None:
    text, kept = fitting(document(1000), limit)
    assert len(text) <= limit
    assert 0 < kept < 1000
    assert json.loads(text)["rows"] == document(1000)["rows"][:kept]


def test_the_rows_fill_what_there_is_room_for() -> None:
    text, kept = fitting(document(1000), 5000)
    assert len(text) > 4000
    assert kept > 100


def test_a_long_list_of_layers_gives_way_first() -> None:
    full = {"rows": [{"layer": "fc"}], "run": {"layers": ["x" * 100] * 100, "name": "n"}}
    text, kept = fitting(full, 1000)
    assert kept == 1
    assert json.loads(text)["run"] == {"layers": [], "name": "n"}
