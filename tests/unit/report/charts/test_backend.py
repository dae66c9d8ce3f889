"""Figures, their settings and their files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hroof.errors import MissingError, UsageError
from hroof.report.charts.backend import axes_at, kind_of, new_figure, renderer_of, save_as, styled
from hroof.report.charts.style import DARK
from hroof.report.look import PAPER


def test_axes_at_a_place_in_inches() -> None:
    with styled():
        axes = axes_at(new_figure(10, 5), 1, 0.5, 8, 4)
    box = axes.get_position()
    assert (box.x0, box.y0, box.width, box.height) == pytest.approx((0.1, 0.1, 0.8, 0.8))


def test_a_figure_has_the_background_of_its_style() -> None:
    from matplotlib.colors import to_hex

    with styled(DARK):
        assert to_hex(new_figure(look=DARK).get_facecolor()) == DARK.shade(PAPER)


@pytest.mark.parametrize(("name", "kind"), [("a.png", "png"), ("A.SVG", "svg"), ("x/y.pdf", "pdf")])
def test_the_ending_is_the_format(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize("name", ["a", "a.gif", ".png", "a.png.txt"])
def test_other_endings_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="png"):
        kind_of(name)


def test_a_file_keeps_the_background(tmp_path: Path) -> None:
    from matplotlib.image import imread

    with styled(DARK):
        drawn = new_figure(1, 1, DARK)
    path = save_as(drawn, tmp_path / "a.png", "png")
    red, green, blue = (round(float(part) * 255) for part in imread(path)[0, 0, :3])
    assert f"#{red:02x}{green:02x}{blue:02x}" == DARK.shade(PAPER)


def test_settings_come_back_after_an_error() -> None:
    import matplotlib

    before = matplotlib.rcParams["font.size"]
    with pytest.raises(ZeroDivisionError), styled(extra={"font.size": 77.0}):
        assert matplotlib.rcParams["font.size"] == 77.0
        raise ZeroDivisionError
    assert matplotlib.rcParams["font.size"] == before


def test_texts_are_measured_in_pixels_of_the_figure() -> None:
    with styled():
        axes = axes_at(new_figure(4, 3), 1, 1, 2, 1)
        renderer = renderer_of(axes)
    assert (renderer.width, renderer.height) == (400, 300)


def test_without_matplotlib_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingError, match="pip install matplotlib"), styled():
        pass
