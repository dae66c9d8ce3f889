"""Names are data: whatever a layer, an op or a machine is called, no report takes it for markup, formula or command."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hroof.compare import compare
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report import brief, export, markdown, text
from hroof.report.compared import export as compared
from hroof.report.compared import text as compared_text
from hroof.report.notebook import Shown
from hroof.report.tables import layers
from hroof.units import MemoryLevel, Pipe, Precision

NAMES = {
    "markup": "<b>bold</b>",
    "script": "<script>alert('hostile-1')</script>",
    "end of script": "</script><script>alert('hostile-2')</script>",
    "comment in script": "<!--<script>",
    "image": "<img src=x onerror=alert('hostile-3')>",
    "svg": "<svg/onload=alert('hostile-4')>",
    "attribute": "\" onmouseover=\"alert('hostile-5')",
    "other quotes": "' autofocus onfocus='alert(1)",
    "end of style": "</style><style>*{display:none}",
    "end of title": "</title></textarea><iframe src=javascript:alert(1)>",
    "cdata": "]]><x>",
    "entities": "&lt;i&gt; &amp;amp; &#x3c;",
    "template": "{{ 7 * 7 }}{% raw %}${7*7}",
    "JavaScript": "\\u003c\\x3c`${alert(1)}`\u2028\u2029",
    "quotes": "\"'`\"\"''",
    "line breaks": "one\ntwo\r\nthree\rfour\x0bfive\x0csix\x85seven",
    "tab": "one\ttwo",
    "NUL": "a\x00b",
    "control": "".join(map(chr, range(1, 32))) + "\x7f\x9b31m",
    "ANSI colour": "\x1b[31mred\x1b[0m",
    "ANSI title": "\x1b]0;owned\x07",
    "ANSI screen": "\x1b[2J\x1b[H\x08\x08",
    "bidi": "abc\u202edcba\u2066x\u2069\u200f",
    "no width": "a\u200bb\ufeffc\u00ad",
    "combining": "e" + "\u0301" * 40,
    "wide": "層" * 30,
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈",
    "surrogate": "lone\udcff\ud800",
    "outside Unicode": "\uffff\U0010ffff\ufdd0",
    "long": "layer." * 2000,
    "long word": "x" * 10_000,
    "space": " ",
    "dots": "...",
    "number": "12345",
    "float": "1e309",
    "words for missing": "nan",
    "none": "None",
    "formula": "=1+1",
    "formula of a command": "=cmd|' /C calc'!A0",
    "formulas": "+1",
    "minus": "-1+1",
    "at": "@SUM(A1)",
    "formula after a tab": "\t=1+1",
    "separators": "a,b;c\td|e",
    "mathtext": "$x^",
    "mathtext whole": "$\\frac{1}{0}$ \\$",
    "LaTeX": "\\input{/etc/passwd}%{_^}~#",
    "Markdown": "**b** [x](javascript:alert(1)) `c` | a | b |\n# h\n- l",
    "rich": "[bold red]x[/] [link=file:///]y[/link] :smile:",
    "path": "../../etc/passwd",
    "format": "%s %n {0} {name!r} %(x)s",
    "JSON": '{"a": [1, null]}',
    "prototype": "__proto__",
    "constructor": "constructor",
}
KEPT = {name.encode("utf-8", "backslashreplace").decode("utf-8") for name in NAMES.values()}
"""The names as a run has them: half characters, which no file can hold, are written out."""


def launch(at: int, name: str, step: int, scale: float) -> dict[str, Any]:
    flop = {f"flop_{kind}_vector_fp32": 1e6 * (at + 1) for kind in ("nominal", "least")}
    return {
        "launch_id": at, "step": step, "layer": name, "layer_type": name, "op": name, "kernel": name, "device": name,
        "phase": ("forward", "backward")[at % 2], "duration": 1e-3 / (at + 1) * scale, "bytes_dram": 1e6, **flop,
        "source_time": "measured", "source_flop": "counted", "source_dram": "predicted",
    }  # fmt: skip


@cache
def hostile(scale: float = 1.0) -> Profile:
    """A run in which everything that can be named has such names."""
    named = list(NAMES.values())
    rows = [launch(at, n, step, scale) for step in range(3) for at, n in enumerate(named)]
    run = {
        "name": "".join(named[:20]), "program": named, "framework": named[1], "device_name": named[2], "how": named[3],
        "versions": dict(zip(named, named, strict=True)), "warnings": named[:9], "ops_without_rule": named,
        "status": "partial", "status_reason": named[4], "counting": named[5],
        "layers": [{"name": n, "type": n, "depth": at, "parameters": 1} for at, n in enumerate(named)],
    }  # fmt: skip
    return Profile.from_rows(rows, run)


@cache
def suspect() -> Machine:
    """A machine with such names."""
    some = "".join(NAMES[kind] for kind in ("script", "attribute", "ANSI colour", "bidi", "NUL"))
    how: dict[str, Any] = {"kernel": some, "note": some, "samples": 3}
    return Machine(
        some, some, {(Pipe.VECTOR, Precision.FP32): Ceiling(1e12, **how)},
        {MemoryLevel.DRAM: Ceiling(1e10, **how)}, warnings=(some,), facts={"threads": some},
    )  # fmt: skip


def harmless_text(said: str) -> None:
    """Nothing in it moves the cursor, colours the terminal or turns the line around."""
    odd = {c for c in said if not c.isprintable() and unicodedata.category(c) != "Zs"} - {"\n"}
    assert odd == set()


class Page(HTMLParser):
    """Elements, attributes and scripts of a page."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]


def harmless_page(markup: str, plain: str) -> None:
    """The page has the elements that it has with ordinary names, and no handler or outside reference."""
    page, ordinary = Page(markup), Page(plain)
    assert set(page.tags) <= set(ordinary.tags) | {"text", "tspan", "code"}
    for tag in ("script", "style", "title", "iframe", "img", "a", "link", "meta"):
        assert page.tags.count(tag) <= max(ordinary.tags.count(tag), 0) or tag in ("a", "title"), (
            tag
        )
    handlers = {(tag, name) for tag, name, _ in page.attributes if name.startswith("on")}
    assert handlers == {(tag, name) for tag, name, _ in ordinary.attributes if name[:2] == "on"}
    for _, name, value in page.attributes:
        if name in ("href", "src", "action", "xlink:href"):
            assert value.startswith(("#", "data:")), value
    controls = {c for c in markup if unicodedata.category(c) == "Cc"} - {"\n", "\t"}
    assert controls == set()
    markup.encode("utf-8")


@cache
def tame() -> tuple[Profile, Machine]:
    """The same run with ordinary names."""
    names = [f"layer{at}" for at in range(len(NAMES))]
    rows = [launch(at, n, step, 1.0) for step in range(3) for at, n in enumerate(names)]
    run = {
        "name": "tame", "program": names, "framework": "f", "device_name": "d", "how": "h", "warnings": names[:9],
        "versions": dict.fromkeys(names, "1"), "ops_without_rule": names, "status": "partial",
        "status_reason": "r", "counting": "c",
        "layers": [{"name": n, "type": n, "depth": at, "parameters": 1} for at, n in enumerate(names)],
    }  # fmt: skip
    machine = Machine(**vars(suspect()) | {"name": "m", "device": "cpu", "facts": {"threads": 2}})
    return Profile.from_rows(rows, run), machine


# --- text ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("render", [brief.render, text.render], ids=["short", "full"])
@pytest.mark.parametrize("width", [40, 120, 100_000])
def test_text(render: Callable[..., str], width: int) -> None:
    said = render(hostile(), suspect(), top=0, width=width, by=("layer", "op"))
    harmless_text(said)
    assert "<script>alert('hostile-1')</script>" in said or width == 40


def test_colour_is_that_of_the_report_alone() -> None:
    said = brief.render(hostile(), suspect(), top=0, width=200, color=True)
    codes = set(re.findall(r"\x1b\[([0-9;]*)m", said))
    assert codes <= {"0", "1", "1;4", "2", "32", "33", "1;32", "1;33"}
    harmless_text(re.sub(r"\x1b\[[0-9;]*m", "", said))


# --- data ---------------------------------------------------------------------------------------


def written(tmp_path: Path, suffix: str) -> Path:
    return export.write(hostile(), suspect(), tmp_path / f"report{suffix}", ("layer", "phase"))


def test_json_keeps_every_name(tmp_path: Path) -> None:
    document = json.loads(written(tmp_path, ".json").read_text(encoding="utf-8"))
    assert {row["layer"] for row in document["rows"]} == KEPT
    assert document["run"]["program"] == list(NAMES.values())
    assert document["machine"]["name"] == suspect().name


def test_csv_has_no_formula_and_every_cell_in_its_place(tmp_path: Path) -> None:
    content = written(tmp_path, ".csv").read_bytes().decode("utf-8")
    header, *rows = csv.reader(io.StringIO(content, newline=""))
    assert len(rows) == len(NAMES)
    for row in rows:
        assert len(row) == len(header)
        assert row[header.index("phase")] in ("forward", "backward")
        float(row[header.index("time [s]")])
        assert not row[0].startswith(("=", "+", "-", "@", "\t", "\r"))
    cells = {row[0].removeprefix("'") for row in rows}
    assert {NAMES[kind] for kind in ("formula", "separators", "quotes", "markup", "bidi")} <= cells
    assert "lone\\udcff\\ud800" in cells


def test_parquet_reads_back(tmp_path: Path) -> None:
    frame = pd.read_parquet(written(tmp_path, ".parquet"))
    assert set(frame["layer"]) == KEPT


def test_tables_have_names_as_they_are() -> None:
    assert set(layers(hostile(), suspect())["layer"]) == KEPT


def test_a_run_can_be_saved_and_loaded(tmp_path: Path) -> None:
    """What was collected is never lost because of a name."""
    again = Profile.load(hostile().save(tmp_path / "run"))
    assert set(again.launches["layer"]) == KEPT
    assert len(KEPT) == len(NAMES)
    assert again.run["program"] == list(NAMES.values())


# --- pictures and pages -------------------------------------------------------------------------


def harmless_svg(markup: str) -> None:
    root = ElementTree.fromstring(markup)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {
        "svg", "metadata", "RDF", "Work", "type", "format", "creator", "Agent", "title", "defs", "style", "g", "path",
        "use", "text", "tspan", "clipPath", "rect", "date",
    }  # fmt: skip
    for element in root.iter():
        assert not [name for name in element.attrib if name.lower().startswith("on")]
        links = [value for name, value in element.attrib.items() if name.endswith("href")]
        assert all(link.startswith("#") for link in links)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_charts(tmp_path: Path, suffix: str) -> None:
    content = written(tmp_path, suffix).read_bytes()
    assert content.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix])
    if suffix == ".svg":
        harmless_svg(content.decode("utf-8"))


def test_the_page(tmp_path: Path) -> None:
    page = written(tmp_path, ".html").read_text(encoding="utf-8")
    plain = export.write(*tame(), tmp_path / "plain.html", ("layer", "phase"))
    harmless_page(page, plain.read_text(encoding="utf-8"))
    assert "49" not in re.findall(r">\s*(\d+)\s*\$\{7\*7\}", page)  # {{ 7 * 7 }} stays as it is


def test_the_page_in_a_notebook() -> None:
    markup = Shown("text", hostile(), suspect())._repr_html_()
    assert markup is not None
    page = Page(markup)
    assert page.tags == ["iframe"]
    assert {name for _, name, _ in page.attributes} == {"title", "sandbox", "style", "srcdoc"}


# --- two runs -----------------------------------------------------------------------------------


@cache
def both() -> Any:
    return compare(hostile(), hostile(1.5), base_machine=suspect(), new_machine=suspect())


def test_compared_as_text() -> None:
    for full in (False, True):
        harmless_text(compared_text.render(both(), top=0, width=120, full=full))


def test_compared_as_data(tmp_path: Path) -> None:
    document = json.loads(compared.write(both(), tmp_path / "c.json").read_text(encoding="utf-8"))
    assert {row["base"] for row in document["layers"]["rows"]} == KEPT
    content = compared.write(both(), tmp_path / "c.csv").read_bytes().decode("utf-8")
    header, *rows = csv.reader(io.StringIO(content, newline=""))
    assert {len(row) for row in rows} == {len(header)}
    texts = [row[header.index(name)] for row in rows for name in ("base", "new")]
    assert not [cell for cell in texts if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_compared_as_a_page(tmp_path: Path) -> None:
    page = compared.write(both(), tmp_path / "c.html").read_text(encoding="utf-8")
    profile, machine = tame()
    found = compare(profile, profile, base_machine=machine, new_machine=machine)
    plain = compared.write(found, tmp_path / "plain.html").read_text(encoding="utf-8")
    harmless_page(page, plain)


def test_compared_as_arrows(tmp_path: Path) -> None:
    harmless_svg(compared.write(both(), tmp_path / "c.svg").read_text(encoding="utf-8"))


# --- a job's page -------------------------------------------------------------------------------


def test_markdown_is_text_and_its_tables_stay_tables() -> None:
    said = markdown.render(hostile(), suspect(), top=0)
    harmless_text(said.replace("\u200b", ""))  # has no width, and parts what would be a link
    rows = [line for line in said.splitlines() if line.startswith("|")]
    assert len(rows) > len(NAMES)
    bars = [len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "code", row))) for row in rows]
    assert len(set(bars)) == 1
    outside = re.sub(r"`[^`\n]*`", "", said)
    assert set(re.findall(r"<[^>]*>", outside)) <= {
        f"<{end}{tag}>" for tag in ("code", "details", "summary") for end in ("", "/")
    }
    assert not re.search(r"\]\(|https?://|(?<!&)#(?=[a-z])", outside)
