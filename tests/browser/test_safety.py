"""Names are data, the page is alone, and it is there for everyone: without scripts, in the dark, on paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hroof.compare import compare
from hroof.profile import Profile
from hroof.report.compared.page import render as render_comparison
from hroof.report.html import render
from hroof.report.notebook import framed
from tests.browser import runs

if TYPE_CHECKING:
    from tests.browser.chromium import Page

pytestmark = pytest.mark.browser

Open = Callable[..., "Page"]
HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<svg onload=window.hacked=1>",
    "\" onmouseover=window.hacked=1 x='",
    "javascript:window.hacked=1",
    "<!--<script>",
    "]]></style></title></svg>",
    "{{ 7 * 7 }}",
    "${window.hacked=1}",
    "&lt;b&gt; &amp;",
    "a\x00b\x1b[31mc\r\nd\x7f",
    "\u202egnp.exe\u2066",
    "\ud800half",
    "x" * 10_000,
    "." * 500,
    "",
    " ",
    "__proto__",
    "constructor.prototype.toString",
    "=HYPERLINK(1)",
    "$x^{$",
    "名前.層.0",
]


def hostile() -> Profile:
    """A run in which every name is hostile."""
    rows: list[dict[str, Any]] = []
    for number, name in enumerate(HOSTILE):
        work = {f"flop_{kind}_matrix_fp32": 1e6 * (number + 1) for kind in ("nominal", "least")}
        common = {
            "layer": name,
            "op": name,
            "kernel": name,
            "layer_type": name,
            "bytes_l1": 1e5,
            "step": 0,
        }
        trust = {"source_time": "measured", "source_flop": "counted", "source_l1": "counted"}
        rows.append(
            {**common, **trust, **work, "phase": "forward", "duration": 1e-3 / (number + 1)}
        )
        nothing = {f"flop_{kind}_vector_fp32": 0.0 for kind in ("nominal", "least")}
        rows.append({**common, **trust, **nothing, "phase": "backward", "duration": 1e-5})
    layers = [{"name": name, "type": name, "depth": 1, "parameters": 1} for name in HOSTILE]
    return Profile.from_rows(rows, {"name": HOSTILE[0], "layers": layers, "warnings": HOSTILE})


@pytest.fixture(scope="module")
def evil() -> str:
    return render(hostile(), runs.machine(name=HOSTILE[1]))


@pytest.fixture(scope="module")
def text() -> str:
    return render(runs.transformer(), runs.machine())


def test_no_name_becomes_markup_or_script(opened: Open, evil: str) -> None:
    page = opened(evil)
    page.choose("#tree button", "Open all")
    for event in ("PointerEvent('pointermove'", "MouseEvent('click'"):
        page.run(
            "document.querySelectorAll('#chart .marker').forEach((one) => "
            f"one.dispatchEvent(new {event}, {{bubbles: true}})))"
        )
    assert page.run("window.hacked") is None
    assert page.count("img, iframe, object, embed, base") == 0
    assert page.count("script") == 3
    attributes = page.run(
        "[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"
        ".filter((name) => name.startsWith('on'))"
    )
    assert attributes == []


def test_names_are_read_as_they_are(opened: Open, evil: str) -> None:
    page = opened(evil)
    assert page.run("document.querySelector('h1').textContent") == HOSTILE[0]
    page.choose("#tree button", "As a list")
    names = page.texts("#tree tr.layer .name")
    assert {
        HOSTILE[1],
        "{{ 7 * 7 }}",
        "&lt;b&gt; &amp;",
        "__proto__",
        "(no name)",
        "名前.層.0",
    } <= set(names)
    assert len(names) == len(HOSTILE)
    assert max(map(len, names)) <= 300
    assert not [
        name for name in names if any(ord(char) < 32 or char in "\u202e\u2066" for char in name)
    ]


def test_every_hostile_layer_opens_to_its_op(opened: Open, evil: str) -> None:
    page = opened(evil)
    page.choose("#tree button", "As a list")
    for number in range(len(HOSTILE)):
        page.run(f"document.querySelectorAll('#tree tr.layer .twisty')[{number}].click()")
    assert page.count("#tree tr.op") == 2 * len(HOSTILE)


def test_a_script_that_got_in_would_not_run(
    make_page: Callable[..., Page], text: str, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        text.replace(
            "<main>", "<main><script>window.hacked=1</script><img src=https://example.org/x.png>"
        )
    )
    page = make_page().open(path.as_uri())
    assert page.run("window.hacked") is None
    assert page.count("#chart .marker") > 0
    assert any("Content Security Policy" in told for told in page.complaints)
    page.close()


def test_without_scripts_everything_stands_there(
    make_page: Callable[..., Page], text: str, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    page = make_page()
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    page.open(path.as_uri())
    document = page.ask("DOM.getDocument", depth=0)["root"]["nodeId"]
    for selector in ("#chart-static svg.roofline", "#row tbody tr", ".verdict .said", ".bar span"):
        node = page.ask("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        box = page.ask("DOM.getBoxModel", nodeId=node)["model"]
        assert box["width"] > 0
    page.close()


def test_in_the_frame_of_a_notebook(opened: Open, text: str) -> None:
    """There it has no address and no storage; links stay inside, and scripts cannot reach the notebook."""
    page = opened(f"<!DOCTYPE html><title>notebook</title>{framed(text, 'report')}")
    tree = page.ask("Page.getFrameTree")["frameTree"]
    frame = tree["childFrames"][0]["frame"]["id"]
    world = page.ask("Page.createIsolatedWorld", frameId=frame)["executionContextId"]

    def inside(script: str) -> Any:
        answer = page.ask(
            "Runtime.evaluate", expression=script, contextId=world, returnByValue=True
        )
        return answer["result"].get("value")

    assert inside("document.querySelectorAll('#chart .marker').length") > 0
    assert inside("document.querySelectorAll('#tree tbody tr').length") > 0
    inside("document.querySelector('nav a[href=\"#ceilings\"]').click()")
    assert inside("location.href") == "about:srcdoc"
    assert inside("document.querySelector('#ceilings').classList.contains('target')") is True


def test_light_and_dark(opened: Open, text: str) -> None:
    page = opened(text)
    colour = "getComputedStyle(document.querySelector('section')).backgroundColor"
    mark = "getComputedStyle(document.querySelector('#chart .marker')).fill"
    page.media(prefers_color_scheme="light")
    light = page.run(colour), page.run(mark)
    page.media(prefers_color_scheme="dark")
    dark = page.run(colour), page.run(mark)
    assert light[0] == "rgb(255, 255, 255)"
    assert all(a != b for a, b in zip(light, dark, strict=True))


def test_on_paper_there_is_nothing_to_click(opened: Open, text: str) -> None:
    page = opened(text)
    page.media(media="print")
    assert page.texts("button, nav, .controls") == []
    assert page.texts("svg.plot") != []


def test_a_narrow_window_scrolls_tables_not_the_page(opened: Open, text: str) -> None:
    page = opened(text, width=420, height=800)
    assert page.run("document.documentElement.scrollWidth") <= 420


def test_a_link_goes_to_its_place(opened: Open, text: str) -> None:
    page = opened(text)
    before = page.run("location.href")
    page.run("document.querySelector('nav a[href=\"#ceilings\"]').click()")
    page.until("document.querySelector('#ceilings').getBoundingClientRect().top < innerHeight")
    assert page.run("location.href") == before


def without(profile: Profile, columns: str) -> Profile:
    """The run with nothing known in the columns that begin so."""
    names = [str(name) for name in profile.launches if str(name).startswith(columns)]
    nothing = dict.fromkeys(names, float("nan"))
    return profile.replace(launches=profile.launches.assign(**nothing))


@pytest.mark.parametrize(
    "what", ["no ceilings", "no launches", "nothing at all", "no FLOP", "no bytes"]
)
def test_runs_that_lack_something_open_without_an_error(opened: Open, what: str) -> None:
    profile, machine = runs.transformer(1), runs.machine()
    written = {
        "no ceilings": lambda: render(profile, None),
        "no launches": lambda: render(Profile.from_rows([]), machine),
        "nothing at all": lambda: render(Profile.from_rows([]), None),
        "no FLOP": lambda: render(without(profile, "flop_"), machine),
        "no bytes": lambda: render(without(profile, "bytes_"), machine),
    }
    page = opened(written[what]())
    assert page.texts(".verdict .said") != []
    assert page.run("document.documentElement.classList.contains('scripted')") is True


# The comparison


def test_the_comparison_sorts_and_filters(opened: Open) -> None:
    slower = runs.transformer()
    launches = slower.launches.assign(duration=slower.launches["duration"] * 1.5)
    ceilings = {"base_machine": runs.machine(), "new_machine": runs.machine()}
    found = compare(runs.transformer(), slower.replace(launches=launches), **ceilings)
    page = opened(render_comparison(found))
    table = "#layer table"
    names = page.texts(f"{table} tbody th")
    page.run(f"document.querySelector({json.dumps(table + ' thead button')}).click()")
    assert page.texts(f"{table} tbody th") == sorted(names, key=str.lower)
    page.click("#layer .filter")
    page.type("attn.qkv")
    assert page.texts(f"{table} tbody th") == [f"blocks.{n}.attn.qkv" for n in range(3)]


def test_hostile_names_in_a_comparison(opened: Open) -> None:
    found = compare(hostile(), hostile())
    page = opened(render_comparison(found))
    assert page.run("window.hacked") is None
    assert page.count("img, iframe, object") == 0
