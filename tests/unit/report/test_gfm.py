"""GitHub-flavoured Markdown: whatever a name holds, it is shown as it is and nothing else happens."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hroof.report import gfm
from hroof.report.plain import visible

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "![x](http://evil.example/x.png)",
    "http://evil.example www.evil.example",
    "**bold** _it_ __b__ ~~gone~~ `code`",
    "a | b | c",
    r"a \| b \\| c \ ",
    "``` `` `",
    "# heading",
    "- item",
    "+ item",
    "1. item",
    "2) item",
    "> quote",
    "&lt; &amp; &#35; &nbsp;",
    "@everyone #123 GH-1",
    "$x^2$ $$y$$",
    "line\nbreak\r\n\ttab",
    "\x1b[2J\x1b[31mred\x07",
    "\u202eturned\u2066",
    "x" * 10_000,
    "",
    "   ",
    "`",
    "|",
    "\\",
    "---",
    "===",
    "*",
    "_",
    "a_b_c _d_",
    "\ud800",
    "</code>",
    "<!-- -->",
    "[^1]: note",
    ":---",
]
names = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))


class Seen(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag + "".join(f" {name}" for name, _ in attrs if name != "style"))

    def handle_data(self, data: str) -> None:
        self.text += data


def seen(markdown: str) -> Seen:
    """What a reader of the rendered Markdown sees; raw HTML is let through, as GitHub does."""
    found = Seen()
    renderer = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    found.feed(renderer.render(markdown))
    return found


def bare(text: str) -> str:
    """The text without what has no width, and with single spaces."""
    return " ".join(text.replace("\u200b", "").split())


@pytest.mark.parametrize("text", HOSTILE)
def test_text_stays_text(text: str) -> None:
    found = seen(gfm.plain(text))
    assert found.tags in (["p"], [])
    assert bare(found.text) == bare(visible(text))


@given(names)
def test_any_text_stays_text(text: str) -> None:
    found = seen(f"Why: {gfm.plain(text)}")
    assert found.tags == ["p"]
    assert bare(found.text) == bare(f"Why: {visible(text)}")


@given(st.lists(names, min_size=1, max_size=3))
def test_tables_keep_their_cells(texts: list[str]) -> None:
    rows = [[gfm.code(text), gfm.plain(text), "1"] for text in texts]
    markdown = gfm.table(["name", "text", "n"], rows)
    assert len(markdown.splitlines()) == len(texts) + 2
    found = seen(markdown)
    assert found.tags.count("td") == 3 * len(texts)
    assert set(found.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
    assert bare(found.text) == bare(
        " ".join(["name text n", *(f"{visible(t)} {visible(t)} 1" for t in texts)])
    )


@given(names)
def test_names_are_code(text: str) -> None:
    found = seen(f"of {gfm.code(text)} in")
    assert found.tags == ["p", "code"]
    assert bare(found.text) == bare(f"of {visible(text)} in")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("blocks.0.attn.in_proj", "`blocks.0.attn.in_proj`"),
        ("<b>", "`<b>`"),
        ("a|b", "<code>a&#124;b</code>"),
        ("a`b_c", "<code>a&#96;b&#95;c</code>"),
        ("", "<code>&nbsp;</code>"),
    ],
)
def test_code(text: str, expected: str) -> None:
    assert gfm.code(text) == expected


def test_long_names_are_clipped_on_request() -> None:
    assert len(gfm.code("x" * 10_000, 60)) == 62
    assert "…" in gfm.code("x" * 10_000, 60)
    assert len(gfm.code("x" * 10_000)) == 10_002


def test_usual_sentences_are_left_alone() -> None:
    text = "Matrix work takes 73.2 % of the time; peak_memory is 4.0 GB (2 of 3)."
    assert gfm.plain(text) == text


@pytest.mark.parametrize("text", ["@me", "hi @me", "#12", "https://x.example", "www.x.example"])
def test_nobody_is_called_and_nothing_is_linked(text: str) -> None:
    shown = html.unescape(gfm.plain(text))
    assert not re.search(r"[@#]\w|https?:|www\.", shown)
    assert shown.replace("\u200b", "") == text


def test_tables_align_numbers_to_the_right() -> None:
    assert gfm.table(["a", "b"], [["x", "1"]]) == "| a | b |\n| :--- | ---: |\n| x | 1 |\n"
    assert gfm.table(["a", "b"], [], 2) == "| a | b |\n| :--- | :--- |\n"


def test_folded_parts() -> None:
    found = seen(gfm.folded("2 <caveats>", gfm.bullets(["one", "two"])))
    assert found.tags == ["details", "summary", "ul", "li", "li"]
    assert bare(found.text) == "2 <caveats> one two"


def test_headings() -> None:
    found = seen(gfm.heading("<b> # x", 3))
    assert found.tags == ["h3"]
    assert bare(found.text) == "<b> # x"
