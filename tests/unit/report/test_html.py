"""The page: one file, safe text, the right order, readable without scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import sys
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.errors import MissingError, UsageError
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report import sections
from hroof.report.export import to_frame, to_json
from hroof.report.html import render
from hroof.roofline import points
from hroof.units import MemoryLevel, Pipe, Precision

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>alert(1)</script>",
    "\" onmouseover=alert(1) x='",
    "{{ 7 * 7 }}{% raw %}",
    "</title></style></svg><script>alert(1)</script>",
    "a\x00b\x1bc",
    "$\\frac{$",
]
NOT_A_NUMBER = re.compile(r"(?<![\w.])[-+]?(nan|inf|infinity)(?![\w.])", re.IGNORECASE)
SVG_NAMESPACE = "http://www.w3.org/2000/svg"
"""A name that only looks like an address: browsers know it without asking anybody."""
VOID = {"meta", "input", "br", "img", "link", "hr"}


class Page(HTMLParser):
    """A page taken apart: elements with attributes, texts by element, and whether all is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: dict[str, int] = {}
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self.rows: dict[str, list[list[str]]] = {}
        self._section = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if (name := dict(attrs).get("id")) is not None:
            self.ids[name] = self.ids.get(name, 0) + 1
            self._section = name if tag in ("section", "table") else self._section
        if tag == "tr":
            self.rows.setdefault(self._section, []).append([])
        if tag in ("td", "th"):
            self.rows[self._section][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.texts.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[self._section][-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])

    @property
    def view(self) -> Any:
        return json.loads(self.scripts[1])


def one_row(**changes: Any) -> Profile:
    row = {
        "layer": "fc", "phase": "forward", "op": "mm", "step": 0, "duration": 1e-3,
        "flop_nominal_matrix_fp32": 1e6, "flop_least_matrix_fp32": 1e6, "bytes_l1": 1e5,
        "source_time": "measured", "source_flop": "counted", "source_l1": "counted",
    }  # fmt: skip
    return Profile.from_rows([row | changes], {"name": "one"})


@pytest.fixture(scope="module")
def small(build: SimpleNamespace) -> str:
    """The page of the small run, written once."""
    return render(build.profile(), build.machine())


@pytest.fixture(scope="module")
def page(small: str) -> Page:
    """The same taken apart."""
    return Page(small)


# One file


def test_the_page_is_well_formed(page: Page) -> None:
    assert page.open == []
    assert max(page.ids.values()) == 1


def test_nothing_outside_is_referred_to(small: str) -> None:
    assert not re.search("https?:", small.replace(SVG_NAMESPACE, ""))
    assert "@import" not in small
    assert "url(" not in small.replace("url(#", "")
    for tag, attributes in Page(small).tags:
        assert tag not in {"link", "img", "iframe", "object", "base", "form"}
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")


def test_only_the_page_s_own_script_may_run(small: str, page: Page) -> None:
    allowed = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(page.scripts[2].encode()).digest()).decode()
    assert allowed is not None
    assert f"script-src 'sha256-{digest}'" in allowed
    assert allowed.startswith("default-src 'none'")
    assert "unsafe-inline" not in allowed.replace("style-src 'unsafe-inline'", "")


@pytest.mark.parametrize(
    "word",
    ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "fetch(",
     "XMLHttpRequest", "import(", "localStorage", "location", "setAttribute(\"on"],
)  # fmt: skip
def test_the_script_makes_no_markup_and_needs_nothing_outside(word: str, page: Page) -> None:
    assert word not in page.scripts[2]


def test_the_columns_of_the_saved_rows_are_those_of_the_export(
    page: Page, profile: Profile, machine: Machine
) -> None:
    frame = to_frame(profile, machine)
    assert [name for name, _ in page.view["csv"]] == list(frame.columns)
    row = page.data["rows"][0]
    for name, path in page.view["csv"]:
        value: Any = row
        for key in path:
            value = None if value is None else value.get(key)
        if isinstance(frame[name][0], float):
            assert (math.nan if value is None else value) == pytest.approx(
                frame[name][0], nan_ok=True
            )


def test_every_link_has_its_target(page: Page) -> None:
    links = {a["href"] for tag, a in page.tags if tag == "a" and a.get("href")}
    assert links
    assert {str(link)[1:] for link in links} <= set(page.ids)


def test_the_order_of_sections(page: Page) -> None:
    found = [a["id"] for tag, a in page.tags if tag == "section"]
    assert found == [
        "run", "verdict", "findings", "roofline", "step", "table", "zero-flop", "ceilings",
        "caveats", "data",
    ]  # fmt: skip


def test_light_and_dark(small: str) -> None:
    assert "prefers-color-scheme: dark" in small
    assert "fill: var(--ink)" in small


def test_the_same_run_gives_the_same_page(profile: Profile, machine: Machine) -> None:
    assert render(profile, machine) == render(profile, machine)


def test_no_text_says_nan_or_inf(profile: Profile, machine: Machine) -> None:
    for ceilings in (machine, None):
        for by in (("layer",), ("op", "phase"), ("layer", "phase")):
            text = render(profile, ceilings, by)
            for script in re.findall(r"<script>.*?</script>", text, re.DOTALL):
                text = text.replace(script, "")
            assert not NOT_A_NUMBER.search(text)


# Content


def test_the_run_card(profile: Profile, machine: Machine) -> None:
    run = profile.run | {
        "program": ["python", "train.py"], "versions": {"torch": "2.9", "python": "3.12"},
        "facts": {"threads": 6}, "device_name": "a cpu", "status": "partial",
        "status_reason": "interrupted",
    }  # fmt: skip
    text = Page(render(profile.replace(run=run), machine)).text
    for fact in (
        "Program python train.py", "Device a cpu", "Threads 6", "Versions python 3.12, torch 2.9",
        "Steps 3 captured after 5 skipped", "How measured synthetic", "Status partial, interrupted",
        "Time with a layer 98.2 %", "Time with known FLOP 94.0 %",
    ):  # fmt: skip
        assert fact in text


def test_what_is_not_known_about_a_run_is_left_out() -> None:
    text = Page(render(one_row(), None)).text
    assert "Program" not in text
    assert "None" not in text.replace("None.", "")


def test_findings_tell_insight_action_and_impact(
    page: Page, profile: Profile, machine: Machine
) -> None:
    from hroof.findings import findings

    first = findings(profile, machine)[0]
    assert "finding-1" in page.ids
    assert first.title in page.text
    assert f"Action {first.action}" in page.text
    assert "saves at most" in page.text
    assert f"Assumed: {first.assumption}" in page.text


def test_every_finding_is_on_the_page(page: Page, profile: Profile, machine: Machine) -> None:
    from hroof.findings import findings

    found = findings(profile, machine)
    assert {f"finding-{i + 1}" for i in range(len(found))} <= set(page.ids)
    assert all(finding.title in page.text for finding in found)


def test_the_verdict(page: Page, profile: Profile, machine: Machine) -> None:
    from hroof.findings import verdict

    said = verdict(profile, machine)
    text = page.text
    assert f"Verdict {said.text} Why {said.why} Next {said.next}" in text


def test_the_table_has_a_row_for_each_group(page: Page, profile: Profile, machine: Machine) -> None:
    rows = page.rows["row"]
    assert rows[0][:3] == ["layer", "launches", "time"]
    assert [row[0] for row in rows[1:]] == [p.key["layer"] for p in points(profile, machine)]
    assert all(len(row) == len(rows[0]) for row in rows)
    fc1 = next(row for row in rows if row[0] == "fc1")
    assert fc1[2] == "275 µs"


def test_cells_sort_by_numbers_not_by_text(profile: Profile, machine: Machine) -> None:
    table = sections.ranked(report_of(profile, machine))
    times = [row[2].value for row in table["rows"]]
    assert times == [point.time for point in points(profile, machine)]
    nothing = [cell for row in table["rows"] for cell in row if cell.text == "–"]
    assert nothing
    assert all(cell.value in (None, "") for cell in nothing)


def report_of(profile: Profile, machine: Machine | None) -> sections.Report:
    from hroof.report.html import _collect

    return _collect(profile, machine, ("layer",))


def test_groupings(profile: Profile, machine: Machine) -> None:
    rows = Page(render(profile, machine, ("layer", "phase"))).rows["row"]
    assert rows[0][:2] == ["layer", "phase"]
    assert ["fc1", "backward"] in [row[:2] for row in rows]


def test_a_wrong_grouping_is_refused(profile: Profile) -> None:
    with pytest.raises(UsageError, match="nonsense"):
        render(profile, None, ("nonsense",))


def test_points_lead_to_rows(page: Page, profile: Profile, machine: Machine) -> None:
    drawn = page.view["points"]
    position = [p.key["layer"] for p in points(profile, machine)].index("fc1")
    names = [page.view["names"][name] for name in drawn["keys"]["layer"]]
    assert [row for row, name in zip(drawn["row"], names, strict=True) if name == "fc1"] == (
        [position] * names.count("fc1")
    )
    assert f"row-{position}" in page.ids
    assert "fc1 · forward" in page.text


def test_the_chart_is_part_of_the_page(page: Page) -> None:
    assert [tag for tag, _ in page.tags].count("svg") == 1
    assert "Arithmetic intensity [FLOP/byte]" in page.text
    assert "DRAM 10.0 GB/s" in page.text


def test_the_bar_shows_every_phase_and_adds_up(profile: Profile, machine: Machine) -> None:
    bar = sections.phase_bar(report_of(profile, machine))
    assert [part["name"] for part in bar] == ["forward", "loss", "backward", "optimizer", "data"]
    assert sum(float(part["width"].rstrip("%")) for part in bar) == pytest.approx(100, abs=0.01)
    assert len({part["colour"] for part in bar}) == len(bar)


def test_zero_flop_work_is_listed_with_its_rates(profile: Profile, machine: Machine) -> None:
    rows = Page(render(profile, machine, ("op",))).rows["idle"]
    assert "copy" in [row[0] for row in rows]
    assert "launches/s" in rows[0]
    assert "B/s L1" in rows[0]


def test_ceilings_with_spread_and_how(page: Page) -> None:
    text = page.text
    assert "matrix FP32 100 GFLOP/s 3.0 % 5 framework-reachable mm 1024" in text
    assert "matrix INT8 500 GOP/s" in text
    assert "launch 2.00 µs" in text
    assert "vector and matrix work share one unit" in text


def test_caveats_of_the_run_and_of_the_machine(profile: Profile, machine: Machine) -> None:
    from hroof.findings import warnings

    doubtful = Machine(**vars(machine) | {"warnings": ("L3 is faster than L2.",)})
    profile = profile.replace(run=profile.run | {"warnings": ["The clock was not fixed."]})
    text = Page(render(profile, doubtful)).text
    assert text.count("L3 is faster than L2.") == 1
    assert "The clock was not fixed." in text
    assert all(warning in text for warning in warnings(profile, doubtful))
    assert "no FLOP rule: sort" in text
    assert "A fused multiply-add is 2 FLOP" in text


def test_the_data_are_the_export(page: Page, profile: Profile, machine: Machine) -> None:
    assert page.data == json.loads(json.dumps(to_json(profile, machine)))


def test_the_data_are_an_element_of_their_own(page: Page) -> None:
    scripts = [a for tag, a in page.tags if tag == "script"]
    assert scripts[0] == {"type": "application/json", "id": "hroof-data"}


# Without ...


def test_without_ceilings_it_says_so(profile: Profile) -> None:
    page = Page(render(profile, None))
    assert "No ceilings are known, so no roofs are drawn" in page.text
    assert "Without ceilings there are no findings" in page.text
    assert "hroof ceilings" in page.text
    assert "headroom" not in page.rows["row"][0]
    assert "Headroom" not in page.text


def test_an_empty_profile_gives_a_page(machine: Machine) -> None:
    for ceilings in (machine, None):
        page = Page(render(Profile.from_rows([]), ceilings))
        assert "No launch was captured." in page.text
        assert "No time is known." in page.text
        assert page.open == []


def test_a_run_without_times() -> None:
    page = Page(render(one_row(duration=math.nan), None))
    assert "No time is known." in page.text
    assert "time not known" in page.text


def test_without_matplotlib_the_rest_is_there(
    monkeypatch: pytest.MonkeyPatch, profile: Profile, machine: Machine
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = Page(render(profile, machine))
    assert "pip install matplotlib" in page.text
    assert "svg" not in [tag for tag, _ in page.tags]
    assert len(page.rows["row"]) > 1


def test_without_jinja2_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, profile: Profile
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingError, match="pip install jinja2"):
        render(profile, None)


def test_tables_do_not_need_scripts(profile: Profile, machine: Machine) -> None:
    text = render(profile, machine)
    bare = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert Page(bare).rows["row"] == Page(text).rows["row"]
    hidden = [tag for tag, a in Page(text).tags if "hidden" in a]
    assert hidden == []


# Hostile names


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_break_out(name: str, page: Page) -> None:
    evil = one_row(layer=name, op=name, kernel=name, layer_type=name)
    run = {
        "name": name, "program": [name], "framework": name, "device": name, "how": name,
        "versions": {name: name}, "warnings": [name], "ops_without_rule": [name],
        "layers": [{"name": name, "type": name, "depth": 0, "parameters": 1}],
    }  # fmt: skip
    kernel = Ceiling(1e9, kernel=name, note=name)
    suspect = Machine(
        name, name, {(Pipe.MATRIX, Precision.FP32): kernel}, {MemoryLevel.L1: kernel},
        warnings=(name,), facts={"threads": name},
    )  # fmt: skip
    found = Page(render(evil.replace(run=run), suspect, ("layer", "op")))
    assert found.open == []
    assert len(found.scripts) == len(page.scripts)
    for tag, attributes in found.tags:
        assert tag not in {"img", "iframe", "body onload"}
        assert not [key for key in attributes if key.startswith("on")]
    assert [tag for tag, _ in found.tags].count("script") == 3
    assert found.data["rows"][0]["layer"] == json.loads(json.dumps(evil.launches["layer"][0]))
    assert "49" not in found.rows["row"][1][0]


def test_a_page_can_be_written_as_utf8_whatever_a_program_is_called() -> None:
    """An argument that is not UTF-8 reaches Python with lone surrogates."""
    run = {"program": ["train\udcff.py"], "name": "n\udcff", "warnings": ["w\udcff"]}
    page = Page(render(one_row().replace(run=run), None).encode("utf-8").decode("utf-8"))
    assert "Program train\ufffd.py" in page.text


# Size


def test_a_large_run_stays_below_one_megabyte() -> None:
    count = 3000
    rows = [
        {
            "layer": f"model.decoder.layers.{i}.self_attention.projection_{i}", "op": "mm",
            "phase": ("forward", "backward")[i % 2], "step": 0, "duration": 1e-3 / (i + 1),
            "flop_nominal_matrix_fp32": 1e6 + i, "flop_least_matrix_fp32": 1e6 + i,
            **{f"bytes_{level}": 1e5 / (j + 1) for j, level in enumerate(MemoryLevel)},
            **{f"source_{level}": "predicted" for level in MemoryLevel},
        }
        for i in range(count)
    ]  # fmt: skip
    layers = [{"name": row["layer"], "type": "L", "depth": 4, "parameters": 1} for row in rows]
    text = render(Profile.from_rows(rows, {"layers": layers}), None)
    assert len(text.encode()) <= 1_000_000
    page = Page(text)
    assert len(page.rows["row"]) == sections.MAX_ROWS + 1
    assert f"and {count - sections.MAX_ROWS} more rows" in page.text
    kept = len(page.data["rows"])
    assert f"leave out the {count - kept} shortest rows" in page.text
    assert page.data["rows"][0]["layer"].endswith(".projection_0")


def test_a_small_page_is_whole(small: str) -> None:
    assert "leave out" not in small
    assert "more rows" not in Page(small).text
