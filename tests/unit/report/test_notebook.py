"""The report as the value of a notebook's cell."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report import brief, html, text
from hroof.report.notebook import Shown, framed


class Element(HTMLParser):
    """Tags with their attributes, and the text outside of them."""

    def __init__(self, markup: str | None) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        assert markup is not None
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_it_is_the_text() -> None:
    shown = Shown("Verdict\nfine")
    assert shown == "Verdict\nfine"
    assert isinstance(shown, str)
    assert f"{shown}!" == "Verdict\nfine!"
    assert repr(shown) == "Verdict\nfine"


def test_a_notebook_shows_the_page_in_a_frame(profile: Profile, machine: Machine) -> None:
    ((tag, attributes),) = Element(Shown("text", profile, machine)._repr_html_()).tags
    assert tag == "iframe"
    assert attributes["srcdoc"] == html.render(profile, machine, ("layer",))
    assert attributes["title"] == "Report of small"


def test_the_page_has_the_grouping_of_the_text(profile: Profile, machine: Machine) -> None:
    shown = Shown("text", profile, machine, by=["op"])
    ((_, attributes),) = Element(shown._repr_html_()).tags
    assert attributes["srcdoc"] == html.render(profile, machine, ("op",))


def test_the_frame_keeps_scripts_away_from_the_notebook(profile: Profile) -> None:
    ((_, attributes),) = Element(Shown("text", profile)._repr_html_()).tags
    assert set(str(attributes["sandbox"]).split()) == {"allow-scripts", "allow-downloads"}


@pytest.mark.parametrize(
    "page",
    [
        '"></iframe><script>alert(1)</script>',
        "' onload='alert(1)",
        "&quot;><b>",
        '<p title="a &amp; b">it\'s</p>\r\n',
    ],
)
def test_nothing_gets_out_of_the_frame(page: str) -> None:
    found = Element(framed(page, page))
    ((tag, attributes),) = found.tags
    assert (tag, attributes["srcdoc"]) == ("iframe", page)
    assert not [name for name in attributes if name.startswith("on")]
    assert found.text == ""


def test_titles_hold_no_control_characters() -> None:
    assert "\x1b" not in framed("", "a\x1b[31mb\x00")


def test_one_sentence_has_no_page() -> None:
    assert Shown("It only marked.")._repr_html_() is None


def test_without_jinja2_the_text_is_shown_with_the_remedy(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    found = Element(Shown("a < b", profile)._repr_html_())
    assert [tag for tag, _ in found.tags] == ["p", "pre"]
    assert "pip install jinja2" in found.text
    assert found.text.endswith("a < b")


def test_it_can_be_kept(profile: Profile, machine: Machine) -> None:
    """Notebooks and tools that run them in parts pickle values."""
    again = pickle.loads(pickle.dumps(Shown("text", profile, machine, ("op",))))
    assert again == "text"
    assert (again.profile.run, again.by) == (profile.run, ("op",))
    assert again.machine.to_json() == machine.to_json()


@pytest.mark.parametrize("render", [brief.render, text.render], ids=["short", "full"])
def test_the_text_is_the_same_in_a_notebook(
    render: Callable[..., str],
    profile: Profile,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library that lays text out would print each line into the cell instead of giving it back."""
    outside = render(profile, machine, width=100)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert render(profile, machine, width=100) == outside
