"""The page of a comparison: one file, safe text, data and tables that belong together."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from hroof.compare import Comparison, compare
from hroof.errors import MissingError
from hroof.profile import Profile
from hroof.report.compared import page
from hroof.report.compared.export import to_json
from hroof.report.compared.page import render

VOID = {"meta", "input", "br", "img", "link", "hr"}


class Page(HTMLParser):
    """A page taken apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.sections: list[str] = []
        self.rows: dict[str, list[dict[str, str | None]]] = {}
        self.texts: list[str] = []
        self.data = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.sections.append(str(found["id"]))
        if tag == "tr":
            self.rows.setdefault(self.sections[-1], []).append(found)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        scripts = [found for tag, found in self.tags if tag == "script"]
        if self.open[-1:] == ["script"] and scripts[-1].get("id") == "hroof-data":
            self.data += data
        elif self.open[-1:] not in (["script"], ["style"]):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def test_sections_in_their_order(compared: Comparison) -> None:
    found = Page(render(compared))
    assert found.open == []
    assert found.sections == [
        "verdict", "conditions", "chart", "phase", "layer", "op", "caveats",
    ]  # fmt: skip


def test_it_says_what_the_text_says(compared: Comparison) -> None:
    text = Page(render(compared)).text
    assert "NEW takes 1.71 × the time of BASE" in text
    assert "Look at fc1" in text
    assert "Only in BASE: loss." in text
    assert "All: 1 faster -9.90 µs, 1 slower +275 µs" in text
    assert "A time differs only if" in text


def test_rows_and_what_became_of_them(compared: Comparison) -> None:
    rows = Page(render(compared)).rows
    assert [row.get("class") for row in rows["phase"][1:3]] == ["slower", "slower"]
    assert len(rows["layer"]) == 1 + len(compared.layers)
    assert "gone" in [row.get("class") for row in rows["op"]]


def test_every_number_has_a_value_to_sort_by(compared: Comparison) -> None:
    cells = re.findall(r"<td( data-v=\"[^\"]*\")?>([^<]*)</td>", render(compared))
    assert cells
    dashes = {"–", "– → –"}
    assert all(bool(value) != (text in dashes or text.endswith("→ –")) for value, text in cells)


def test_nothing_outside_the_file_is_asked_for(compared: Comparison) -> None:
    text = render(compared)
    assert "default-src 'none'" in text
    assert not re.search(r"(?:src|href)=[\"'](?!#)", text)
    assert not re.search("https?:", text)
    assert "@import" not in text


def test_there_is_a_chart_with_arrows(compared: Comparison) -> None:
    text = render(compared)
    assert 'aria-label="Roofline chart with 2 arrows from BASE to NEW"' in text
    assert "arrow-0" in text


def test_the_data_are_those_of_the_json(compared: Comparison) -> None:
    assert json.loads(Page(render(compared)).data) == to_json(compared)


def test_a_large_comparison_stays_small(build: Any) -> None:
    rows = [
        build.row(f"blocks.{i}.{'x' * 60}", "forward", f"op{i}", 10 + i, step=0, launch_id=i)
        for i in range(900)
    ]
    run = Profile.from_rows(rows, {"layers": [{"name": "y" * 900}] * 900})
    text = render(compare(run, run))
    assert len(text) < 1_000_000
    found = Page(text)
    assert len(found.rows["layer"]) == 1 + page.MAX_ROWS
    assert "and 600 more rows, Δ 0 s together" in found.text
    assert "The data in this page leave out" in found.text
    assert len(json.loads(found.data)["phases"]["rows"]) == 1


def test_hostile_names_stay_text(hostile: Callable[[str], Comparison], name: str) -> None:
    text = render(hostile(name))
    found = Page(text)
    assert found.open == []
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert not any(tag in ("img", "iframe") for tag, _ in found.tags)
    assert not any(key.startswith("on") for _, attrs in found.tags for key in attrs)
    shown = text[: text.index('<script type="application/json"')]
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert json.loads(found.data)["base"]["name"] == name
    assert len(text) < 1_000_000


def test_a_comparison_without_anything_to_draw(build: Any) -> None:
    rows = [row | {"duration": float("nan")} for row in build.rows()]
    run = Profile.from_rows(rows, build.run())
    found = Page(render(compare(run, run)))
    assert "No verdict on time" in found.text
    assert "nothing to draw" in found.text


def test_without_matplotlib_the_page_says_so(
    compared: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "matplotlib, which draws the charts, cannot be imported" in Page(render(compared)).text


def test_without_jinja2(compared: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingError, match="jinja2"):
        render(compared)
