"""The report in a browser: it draws, answers to mouse and keyboard, and asks for nothing outside."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hroof.report
from hroof.machine import Ceiling
from hroof.report.export import to_frame
from hroof.report.html import render
from hroof.roofline import points
from hroof.units import MemoryLevel, number, percent, si
from tests.browser import runs
from tests.browser.chromium import CONTROL

if TYPE_CHECKING:
    from tests.browser.chromium import Page

pytestmark = pytest.mark.browser

Open = Callable[..., "Page"]
LAYERS = 3 * 5 + 1
"""Three blocks of five layers, and the model's own loss."""
POINTS = 3 * (5 * 2 + 1) + 1
"""Each by forward and backward, one optimizer a block, the loss."""
MARKERS = 3 * (5 * 2 * 2 + 1) + 1
"""Two levels, but one where the optimizer's and the loss's DRAM traffic is not known."""


@pytest.fixture(scope="module")
def text() -> str:
    return render(runs.transformer(), runs.machine())


@pytest.fixture
def page(opened: Open, text: str) -> Page:
    return opened(text)


def shown(page: Page) -> int:
    return page.count("#chart .point:not(.dimmed) .marker")


def marker(name: str, phase: str, level: str = "l1") -> str:
    """The selector of one marker, by its place among the points."""
    keys = ("layer", "phase")
    found = points(runs.transformer(), runs.machine(), keys)
    index = [tuple(p.key[k] for k in keys) for p in found].index((name, phase))
    return f'#chart .marker[data-point="{index}"][data-level="{level}"]'


def rows(page: Page) -> list[str]:
    """The first cells of the rows of the tree that are there."""
    return page.texts("#tree tbody .name")


# Drawing


def test_every_point_has_a_marker_for_each_level(page: Page) -> None:
    assert page.count("#chart .point") == POINTS
    assert page.count("#chart .marker") == MARKERS
    assert page.count('#chart .marker[data-level="dram"]:not(.open)') == 0  # predicted bytes
    assert page.count('#chart .marker[data-level="l1"].open') == 0
    assert page.count("#chart .join") == 3 * 5 * 2


def test_markers_lie_where_their_numbers_are(page: Page) -> None:
    """On logarithmic axes: ten times the intensity is one decade to the right, ten times the rate one up."""
    ticks = page.run(
        "[...document.querySelectorAll('#chart .grid text[text-anchor=middle]:not(.axis)')]"
        ".map((one) => [Number(one.textContent), Number(one.getAttribute('x'))])"
    )
    (low, x0), (high, x1) = ticks[0], ticks[-1]
    selector = marker("blocks.0.mlp.0", "forward")
    place = page.run(f"document.querySelector({json.dumps(selector)}).getAttribute('transform')")
    x = float(place.removeprefix("translate(").split(",")[0])
    intensity = 10 ** (math.log10(low) + (x - x0) / (x1 - x0) * math.log10(high / low))
    assert intensity == pytest.approx(2e7 / 8e5, rel=0.01)


def test_markers_have_the_area_of_their_time(page: Page) -> None:
    def area(selector: str) -> float:
        side = page.run(f"document.querySelector({json.dumps(selector)}).getBBox().width")
        return float(side) ** 2

    backward, forward = marker("blocks.0.mlp.0", "backward"), marker("blocks.0.mlp.0", "forward")
    assert area(backward) / area(forward) == pytest.approx(2.0, rel=0.02)


def test_roofs_are_solid_where_measured_and_dashed_where_read_in_a_data_sheet(page: Page) -> None:
    names = page.texts("#chart .roof-name")
    assert {"L1 300 GB/s", "DRAM 20.0 GB/s", "matrix FP32 120 GFLOP/s"} <= set(names)
    assert page.count("#chart .roof.solid") == 4
    assert page.count("#chart .roof.dashed") == 1
    dashes = page.run(
        "getComputedStyle(document.querySelector('#chart .roof.dashed')).strokeDasharray"
    )
    assert dashes != "none"


def test_names_of_bandwidths_that_lie_close_do_not_overlap(opened: Open) -> None:
    how: dict[str, Any] = {"how": "measured", "samples": 5, "spread": 0.03}
    near = {
        MemoryLevel.L1: Ceiling(30e9, **how), MemoryLevel.L2: Ceiling(26e9, **how),
        MemoryLevel.L3: Ceiling(23e9, **how), MemoryLevel.DRAM: Ceiling(20e9, **how),
    }  # fmt: skip
    page = opened(render(runs.transformer(), runs.machine(bandwidths=near)))
    # Along the roofs, which are parallel: turned back by their angle, the boxes can be compared.
    boxes = page.run(
        "[...document.querySelectorAll('#chart .roof-name[transform]')].map((one) => {"
        "const [x, y, angle] = one.getAttribute('transform').match(/-?[\\d.]+/g).map(Number);"
        "const [c, s] = [Math.cos(-angle * Math.PI / 180), Math.sin(-angle * Math.PI / 180)];"
        "const [along, across] = [x * c - y * s, x * s + y * c];"
        "return [along, across - 9, along + one.getBBox().width, across]; })"
    )
    assert len(boxes) == 4
    pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i]]
    assert not [
        pair
        for pair in pairs
        if all(pair[0][i] < pair[1][i + 2] and pair[1][i] < pair[0][i + 2] for i in (0, 1))
    ]


def test_no_two_labels_overlap(page: Page) -> None:
    boxes = page.run(
        "[...document.querySelectorAll('#chart .labels text')].map((one) => {"
        "const b = one.getBBox(); return [b.x, b.y, b.x + b.width, b.y + b.height]; })"
    )
    assert len(boxes) >= 3
    pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i]]
    assert not [
        (a, b) for a, b in pairs if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]


def test_the_drawing_takes_the_place_of_the_one_for_readers_without_scripts(page: Page) -> None:
    assert page.texts("#chart-static svg") == []
    assert page.texts("#row") == []
    assert page.count("#tree tbody tr") > 0


def test_a_point_above_a_roof_is_marked(opened: Open) -> None:
    fast = runs.transformer()
    launches = fast.launches.assign(duration=fast.launches["duration"] / 20)
    page = opened(render(fast.replace(launches=launches), runs.machine()))
    assert page.count("#chart .marker.above") > 0
    assert page.count("#chart .warning") > 0
    page.hover("#chart .marker.above")
    assert "⚠ Above the " in page.texts(".tip")[0]


# Numbers as Python writes them


def test_numbers_are_written_as_everywhere_else(opened: Open) -> None:
    values = [
        0, 1, 9.994, 9.996, 12.34, 999.4, 999.6, 1234, 123456, 999999, 1e6, 1.5e9, 2.5e13, 4e18, 7e21,
        0.5, 0.0999, 0.01234, 1.5e-3, 9.9996e-4, 2.2e-6, 3.3e-9, 4e-11, 1e-4, 9e-5, -3.2e5, -0.002,
    ]  # fmt: skip
    # The functions of the page's script are its own: the same files are run beside it.
    source = Path(str(hroof.report.__file__)).parent / "templates" / "page" / "units.js"
    page = opened("<!DOCTYPE html><title>numbers</title>")
    script = f"(() => {{ {source.read_text(encoding='utf-8')}; return {json.dumps(values)}"
    got = page.run(script + ".map((v) => [si(v, 'B'), si(v, 's', 2), plainNumber(v)]) })()")
    assert got == [[si(v, "B"), si(v, "s", 2), number(v)] for v in values]
    shares = [0, 0.001, 0.0049, 0.123, 0.5, 0.99951, 1, 1.5]
    script = f"(() => {{ {source.read_text(encoding='utf-8')}; return {json.dumps(shares)}"
    assert page.run(script + ".map((v) => percent(v)) })()") == [percent(v) for v in shares]
    assert (
        page.run(f"(() => {{ {source.read_text(encoding='utf-8')}; return si(null, 'B') }})()")
        == "–"
    )


# Hover


def test_hovering_tells_the_numbers_and_where_they_come_from(page: Page) -> None:
    assert page.texts(".tip") == []
    page.hover(marker("blocks.2.mlp.0", "backward"))
    (told,) = page.texts(".tip")
    point = next(
        p for p in points(runs.transformer(), runs.machine(), ("layer", "phase"))
        if p.key == {"layer": "blocks.2.mlp.0", "phase": "backward"}
    )  # fmt: skip
    for part in (
        "blocks.2.mlp.0 · backward", f"{si(point.time, 's')} a step", "measured",
        f"{si(point.total_flop, 'FLOP')}counted", si(point.flop_rate, "FLOP/s"),
        "≤ 25.0 FLOP/byte", "~ 66.7 FLOP/byte", "predicted", "matrix fp32 100 %",
        f"{number(point.headroom)} ×", f"at most {si(point.recoverable_time, 's')} a step",
    ):  # fmt: skip
        assert part in told, part


def test_the_tip_goes_away(page: Page) -> None:
    page.hover(marker("blocks.2.mlp.0", "backward"))
    page.hover("h1")
    assert page.texts(".tip") == []


# Isolating


def test_a_click_isolates_a_layer_and_finds_its_row(page: Page) -> None:
    page.click(marker("blocks.0.ln1", "backward"))
    assert shown(page) == 2 * 2  # forward and backward, L1 and DRAM
    assert page.texts("#tree tr.hit .name") == ["ln1"]
    assert "Isolated: blocks.0.ln1." in page.texts("[role=status]")[0]
    page.click(marker("blocks.0.ln1", "backward"))
    assert shown(page) == MARKERS


def test_control_and_a_click_add_another_one(page: Page) -> None:
    page.click(marker("blocks.0.ln1", "backward"))
    page.click(marker("GPT", "loss"), modifiers=CONTROL)
    assert shown(page) == 2 * 2 + 1
    page.click(marker("GPT", "loss"), modifiers=CONTROL)
    assert shown(page) == 2 * 2


def test_show_all_ends_it(page: Page) -> None:
    page.click(marker("blocks.0.ln1", "backward"))
    assert page.texts(".controls button") == ["Show all"]
    page.click(".controls button")
    assert shown(page) == MARKERS
    assert page.texts(".controls button") == []


def test_a_row_isolates_its_points_and_a_container_all_of_its_layers(page: Page) -> None:
    page.choose("#tree tr", "▸1")
    assert shown(page) == 5 * 2 * 2 + 1
    assert page.count("#tree tr.hit") >= 1


def test_a_finding_shows_its_layers(page: Page) -> None:
    (first, *_) = page.texts(".finding > button")
    assert "in the chart" in first
    page.click(".finding > button")
    assert 0 < shown(page) < MARKERS
    assert page.count("#tree tr.hit") >= 1


# Choosing


def test_levels(page: Page) -> None:
    page.click(".controls input[value=dram]")
    assert page.count("#chart .marker") == POINTS
    assert page.count('#chart .marker[data-level="dram"]') == 0
    assert not [name for name in page.texts("#chart .roof-name") if name.startswith("DRAM")]
    page.click(".controls input[value=dram]")
    assert page.count("#chart .marker") == MARKERS


def test_phases(page: Page) -> None:
    page.click(".controls input[value=backward]")
    assert page.count("#chart .point") == POINTS - 3 * 5


def test_number_formats(page: Page) -> None:
    page.run(
        "(() => { const one = document.querySelector('.controls select'); one.value = 'bf16';"
        "one.dispatchEvent(new Event('change')); })()"
    )
    assert (
        page.count("#chart .point") == 3 * 2 * 2
    )  # two products of attention, forward and backward
    assert page.texts("#chart .roof-name")[-1] == "matrix BF16 480 GFLOP/s"
    assert len(page.texts("#chart .roof-name")) == 3


def test_the_slider_leaves_the_longest(page: Page) -> None:
    page.run("document.querySelector('input[type=range]').focus()")
    page.press("Home")
    assert page.texts(".controls output") == [f"longest 1 % of the time: 1 of {POINTS} points"]
    assert page.count("#chart .point") == 1
    page.press("ArrowRight", "ArrowRight", "End")
    assert page.count("#chart .point") == POINTS


# Keys


def test_the_chart_by_keyboard_alone(page: Page) -> None:
    page.run("document.querySelector('svg.plot').focus()")
    page.press("ArrowDown")
    (first,) = page.texts(".tip strong")
    assert first == "blocks.2.mlp.0 · backward"  # the longest
    assert page.texts("[role=status]")[0].startswith(f"{first}: ")
    page.press("ArrowDown")
    assert page.texts(".tip strong") != [first]
    page.press("ArrowUp", "Enter")
    assert "Isolated" not in first
    assert 0 < shown(page) < MARKERS
    page.press("Escape")
    assert shown(page) == MARKERS
    assert page.texts(".tip") == []


def test_left_and_right_go_from_place_to_place(page: Page) -> None:
    page.run("document.querySelector('svg.plot').focus()")
    page.press("ArrowRight")
    (leftmost,) = page.texts(".tip strong")
    assert leftmost.endswith("optimizer")  # 0.1 FLOP/byte
    page.press("ArrowLeft")
    (rightmost,) = page.texts(".tip strong")
    assert rightmost != leftmost


# The tree


def test_the_tree_has_containers_by_name(page: Page) -> None:
    assert rows(page) == ["blocks", "2", "1", "0", "GPT"]
    times = page.run("document.querySelector('#tree tbody tr td:nth-child(3)').textContent")
    parts = [p for p in points(runs.transformer()) if p.key["layer"].startswith("blocks")]
    assert times == si(sum(p.time for p in parts), "s")


def test_a_layer_opens_to_its_ops(page: Page) -> None:
    page.choose("#tree tr", "▸0", ".twisty")
    assert rows(page)[3:8] == ["0", "mlp", "attn", "ln1", "GPT"]
    page.choose("#tree tr", "▸ln1", ".twisty")
    assert rows(page)[6:11] == ["ln1", "layer_norm", "layer_norm", "copy_", "copy_"]
    assert page.texts("#tree tr.op small") == ["backward", "forward", "backward", "forward"]


def test_ops_open_to_kernels(opened: Open) -> None:
    profile = runs.transformer()
    launches = profile.launches.assign(
        kernel=profile.launches["op"].astype(str).add("_kernel<4>").astype("category")
    )
    page = opened(render(profile.replace(launches=launches), runs.machine()))
    page.click("#tree .filter")
    page.type("copy__kernel")
    assert "copy__kernel" in rows(page)
    full = page.run("document.querySelector('#tree tr.kernel .name').title")
    assert full == "copy__kernel<4>"
    assert "layer_norm" not in rows(page)


def test_sorting(page: Page) -> None:
    page.choose("#tree button", "As a list")
    assert len(rows(page)) == LAYERS
    page.choose("#tree thead button", "headroom")
    place = page.texts("#tree thead th").index("headroom")
    values = page.run(
        f"[...document.querySelectorAll('#tree tbody tr')].map((r) => Number(r.cells[{place}].textContent))"
    )
    assert values == sorted(values, reverse=True)
    assert page.run("document.querySelector('#tree [aria-sort]').textContent") == "headroom"
    page.choose("#tree thead button", "layer")
    assert rows(page) == sorted(rows(page), key=str.lower)


def test_searching_opens_what_it_finds(page: Page) -> None:
    page.click("#tree .filter")
    page.type("1.attn")
    assert rows(page) == ["blocks", "1", "attn", "qkv", "proj"]
    page.run("document.querySelector('#tree .filter').select()")
    page.type("no such layer")
    assert rows(page) == []
    assert "Nothing has that name." in page.texts("#tree .note")


def test_the_tree_by_keyboard_alone(page: Page) -> None:
    page.run("document.querySelector('#tree tbody tr').focus()")
    page.press("ArrowDown", "ArrowRight")
    assert rows(page)[:4] == ["blocks", "2", "mlp", "attn"]
    page.press("ArrowDown", "Enter")
    assert shown(page) == 2 * 2 * 2 + 1
    page.press("Escape")
    assert shown(page) == MARKERS
    page.press("ArrowLeft", "ArrowLeft")  # to the container, then closed
    assert rows(page) == ["blocks", "2", "1", "0", "GPT"]
    assert page.run("document.activeElement.querySelector('.name').textContent") == "2"
    assert page.run("document.activeElement.getAttribute('aria-expanded')") == "false"


def test_every_layer_can_be_opened_and_closed_at_once(page: Page) -> None:
    page.choose("#tree button", "Open all")
    assert (
        len(rows(page)) == LAYERS + 1 + 3 + 6
    )  # containers: blocks, each block, its attention and its MLP
    page.choose("#tree button", "Close all")
    assert rows(page) == ["blocks", "GPT"]


def test_what_to_act_on_comes_before_the_details(page: Page) -> None:
    heads = page.texts("#tree thead th")
    assert heads[:7] == [
        "layer", "phases", "time", "% of time", "could save", "headroom", "bound",
    ]  # fmt: skip
    assert heads[-1] == "source"


# Other groupings


def test_a_table_of_ops_sorts_filters_and_isolates(opened: Open) -> None:
    page = opened(render(runs.transformer(), runs.machine(), ("op",)))
    assert page.count("#tree tr") == 0
    names = page.texts("#row tbody th")
    assert names[0] == "mm"
    page.run("document.querySelector('#row thead button').click()")
    assert page.texts("#row tbody th") == sorted(names)
    page.click("#row tbody tr")
    assert page.texts("#row tr.hit th") == sorted(names)[:1]
    assert page.count("#chart .point:not(.dimmed)") == 1


def test_a_table_with_many_rows_has_a_filter(opened: Open) -> None:
    page = opened(render(runs.transformer(), runs.machine(), ("layer", "op")))
    page.click("#table .filter")
    page.type("attn.qkv")
    assert page.texts("#row tbody tr th:first-child") == [f"blocks.{n}.attn.qkv" for n in (2, 1, 0)]


# Work without FLOP


def test_the_strip_has_what_computes_nothing(page: Page) -> None:
    assert page.count("#strip .marker") == 3 * 2 * 2
    page.hover("#strip .marker")
    assert "copy_" in page.texts(".tip")[0]


# Data


def test_the_rows_can_be_saved_as_csv(page: Page, tmp_path: Path) -> None:
    page.browser.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.click("#downloads button")
    path = tmp_path / "hroof-rows.csv"
    page.until_file(path)
    frame = to_frame(runs.transformer(), runs.machine())
    found = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert found[0] == list(frame.columns)
    assert len(found) == len(frame) + 1
    for line, (_, wanted) in zip(found[1:], frame.iterrows(), strict=True):
        for cell, value in zip(line, wanted, strict=True):
            if isinstance(value, float):
                assert (float(cell) if cell else math.nan) == pytest.approx(value, nan_ok=True)
            else:
                assert cell == (value or "")


def test_everything_can_be_saved_as_json(page: Page, text: str, tmp_path: Path) -> None:
    page.browser.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.click("#downloads button + button")
    path = tmp_path / "hroof-report.json"
    page.until_file(path)
    assert json.loads(path.read_text(encoding="utf-8"))["run"]["name"] == "tiny-gpt"
