"""Which chart: kinds, styles and levels, and what is refused; importing it loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hroof.errors import UsageError
from hroof.report.charts.choice import KINDS, STYLE_NAMES, USUAL, Choice, levels_of
from hroof.report.charts.style import AS_PAPER, DARK, LIGHT, STYLES, Style, style_of
from hroof.report.look import FAINT, GRID, INK, MUTED, PAPER, PHASE_COLOURS
from hroof.units import MemoryLevel


def test_usually_the_light_roofline_of_all_levels() -> None:
    assert Choice("roofline", "light", None) == USUAL


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", ["light", "dark"])
def test_every_kind_is_there_in_light_and_dark(kind: str, style: str) -> None:
    assert Choice(kind, style).kind == kind


@pytest.mark.parametrize(
    ("kind", "style", "said"),
    [
        ("pie", "light", "no chart 'pie'.*roofline, time, phases"),
        ("time", "neon", "no style 'neon'.*light, dark, paper"),
        ("time", "paper", "no style 'paper'"),
        ("phases", "paper", "no style 'paper'"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(kind: str, style: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Choice(kind, style)


def test_levels_by_name_in_the_order_of_the_machine() -> None:
    assert levels_of([" DRAM ", "l1"]) == (MemoryLevel.L1, MemoryLevel.DRAM)


@pytest.mark.parametrize(
    ("names", "said"), [(["l1", "hbm"], "'hbm'.*l1, l2, l3, dram"), ([], "No memory level")]
)
def test_unknown_levels_are_refused(names: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        levels_of(names)


def test_choosing_needs_neither_numpy_nor_matplotlib() -> None:
    program = (
        "import sys, hroof.report.charts.choice\n"
        "print(*[m for m in ('numpy', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


# --- styles


def test_every_named_style_is_there() -> None:
    assert tuple(STYLES) == STYLE_NAMES
    assert [style_of(name) for name in STYLE_NAMES] == [LIGHT, DARK, AS_PAPER]


def luminance(colour: str) -> float:
    """Relative luminance of sRGB (WCAG 2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=lambda style: style.name)
def test_what_is_drawn_stands_out_from_the_background(style: Style) -> None:
    shade = style.shade
    paper = shade(PAPER)
    assert contrast(shade(INK), paper) >= 7
    assert contrast(shade(MUTED), paper) >= 4.5
    for colour in PHASE_COLOURS.values():
        assert contrast(shade(colour), paper) >= (2.2 if style is LIGHT else 3)
    assert contrast(shade(FAINT), paper) > contrast(shade(GRID), paper)


def test_dark_colours_are_as_many_as_light_ones() -> None:
    assert len(set(DARK.shades.values())) == len(DARK.shades)
    assert set(PHASE_COLOURS.values()) <= set(DARK.shades)
    assert DARK.shade("#123456") == "#123456"
