"""Charts, tested on the artists they are made of; in environments that break plotting, too."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.errors import MissingError, OutputError, UsageError
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report.chart import Artists, Spot, draw_file, roofline, svg
from hroof.report.look import PAPER, PHASE_COLOURS
from hroof.roofline import Point, points
from hroof.units import MemoryLevel, Pipe, Precision, Source

L1, L2, L3, DRAM = MemoryLevel
M32 = (Pipe.MATRIX, Precision.FP32)
NAN, INF = math.nan, math.inf
NOT_A_NUMBER = re.compile(r"(?<![\w.])[-+]?(nan|inf|infinity)(?![\w.])", re.IGNORECASE)


def make_spot(name: str, rate: float = 1e9, time: float = 1e-3, **changes: Any) -> Spot:
    """Counted at L1, predicted at DRAM."""
    values: dict[str, Any] = {
        "intensity": {L1: 1.0, DRAM: 4.0},
        "group": "forward",
        "sources": {L1: Source.COUNTED, DRAM: Source.PREDICTED},
    }
    return Spot(name, rate, time=time, **values | changes)


def odd_spots() -> list[Spot]:
    """One of each kind of trouble, all of no time."""
    rows = {
        "fine": ((1.0, 2.0, 4.0), 1e11),
        "no_dram": ((1.0, 2.0, INF), 1e11),
        "lost_l2": ((1.0, NAN, 4.0), 1e11),
        "idle": ((0.0, 0.0, 0.0), 0.0),
        "right": ((10.0, 100.0, 2e5), 9e13),
        "left": ((1e-4, 1e-3, 1e-2), 5e8),
    }
    levels = (L1, L2, DRAM)
    return [
        make_spot(name, rate, 0.0, intensity=dict(zip(levels, values, strict=True)))
        for name, (values, rate) in rows.items()
    ]


@pytest.fixture
def small() -> Machine:
    """100 GFLOP/s; 80 GB/s at L1 and 10 GB/s at DRAM."""
    return Machine(
        "small cpu",
        peaks={M32: Ceiling(1e11)},
        bandwidths={L1: Ceiling(8e10), DRAM: Ceiling(1e10)},
    )


def center(marker: Any) -> tuple[float, float]:
    x, y = marker.get_offsets()[0]
    return float(x), float(y)


def drawn(artists: Artists) -> dict[str, list[str]]:
    return {str(level): list(names) for level, names in artists.names.items()}


# Axes


def test_axes_are_logarithmic_and_labelled(small: Machine) -> None:
    axes = roofline([make_spot("a")], small).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "Arithmetic intensity [FLOP/byte]"
    assert axes.get_ylabel() == "Performance [FLOP/s]"


def test_ticks_have_si_prefixes(small: Machine) -> None:
    axes = roofline([make_spot("a", 1e9)], small).axes
    format_y, format_x = axes.yaxis.get_major_formatter(), axes.xaxis.get_major_formatter()
    assert [format_y(10.0**n, 0) for n in (8, 9, 10, 12)] == ["100 M", "1 G", "10 G", "1 T"]
    assert [format_x(value, 0) for value in (0.01, 1.0, 100.0)] == ["0.01", "1", "100"]


def test_title_and_subtitle(small: Machine) -> None:
    texts = [text.get_text() for text in roofline([], small, title="run 7").axes.texts]
    assert "run 7" in texts
    assert "small cpu · ceilings: framework-reachable" in texts


# Markers


def test_a_marker_lies_at_intensity_and_performance(small: Machine) -> None:
    artists = roofline([make_spot("a", 2e9)], small)
    assert center(artists.markers[L1][0]) == pytest.approx((1.0, 2e9))
    assert center(artists.markers[DRAM][0]) == pytest.approx((4.0, 2e9))


def test_names_stay_with_their_own_markers(small: Machine) -> None:
    made = odd_spots()
    artists = roofline(made, small)
    by_name = {one.name: one for one in made}
    for level, markers in artists.markers.items():
        assert len(markers) == len(artists.names[level])
        for name, marker in zip(artists.names[level], markers, strict=True):
            one = by_name[name]
            assert center(marker) == pytest.approx((one.intensity[level], one.rate))


def test_shape_is_the_level(small: Machine) -> None:
    one = make_spot("a", intensity=dict.fromkeys(MemoryLevel, 2.0))
    artists = roofline([one], small)
    outlines = {
        level: artists.markers[level][0].get_paths()[0].vertices.tobytes() for level in MemoryLevel
    }
    assert len(set(outlines.values())) == 4


def test_colour_is_the_phase(small: Machine) -> None:
    from matplotlib.colors import to_hex

    made = [make_spot("a", group="forward"), make_spot("b", group="optimizer")]
    artists = roofline(made, small)
    colours = dict(zip(artists.names[L1], artists.markers[L1], strict=True))
    assert to_hex(colours["a"].get_facecolor()[0]) == PHASE_COLOURS["forward"]
    assert to_hex(colours["b"].get_facecolor()[0]) == PHASE_COLOURS["optimizer"]


def test_predicted_levels_are_open_and_counted_ones_filled(small: Machine) -> None:
    from matplotlib.colors import to_hex

    artists = roofline([make_spot("a")], small)
    assert to_hex(artists.markers[L1][0].get_facecolor()[0]) == PHASE_COLOURS["forward"]
    assert to_hex(artists.markers[DRAM][0].get_facecolor()[0]) == PAPER
    assert to_hex(artists.markers[DRAM][0].get_edgecolor()[0]) == PHASE_COLOURS["forward"]


def test_area_is_the_time(small: Machine) -> None:
    artists = roofline([make_spot("a", time=4.0), make_spot("b", time=1.0)], small)
    first, second = (float(marker.get_sizes()[0]) for marker in artists.markers[L1])
    assert first == pytest.approx(4 * second)


def test_area_is_constant_without_times(small: Machine) -> None:
    sizes = {
        float(m.get_sizes()[0]) for ms in roofline(odd_spots(), small).markers.values() for m in ms
    }
    assert len(sizes) == 1
    assert math.isfinite(sizes.pop())


def test_one_line_joins_the_levels_of_a_point(small: Machine) -> None:
    artists = roofline([make_spot("a"), make_spot("b", intensity={L1: 3.0})], small)
    assert list(artists.joins) == ["a"]
    assert list(artists.joins["a"].get_xdata()) == [1.0, 4.0]
    assert list(artists.joins["a"].get_ydata()) == [1e9, 1e9]


def test_levels_can_be_chosen(small: Machine) -> None:
    artists = roofline([make_spot("a")], small, levels=[DRAM])
    assert list(artists.markers) == [DRAM]
    assert "l1" not in artists.roofs
    assert artists.joins == {}


# Roofs


def test_roofs_reach_over_the_whole_chart_and_meet(small: Machine) -> None:
    artists = roofline([make_spot("far", intensity={DRAM: 2e5}), make_spot("near")], small)
    x0, x1 = artists.axes.get_xlim()
    slope, flat = artists.roofs["dram"].get_xydata(), artists.roofs["matrix_fp32"].get_xydata()
    assert slope[0] == pytest.approx([x0, x0 * 1e10])
    assert slope[-1] == pytest.approx([10.0, 1e11])
    assert flat[-1] == pytest.approx([x1, 1e11])
    assert flat[0][0] <= 10.0
    assert x1 > 2e5


def test_datasheet_roofs_are_dashed(small: Machine) -> None:
    machine = Machine("m", bandwidths={DRAM: Ceiling(1e10, how="datasheet"), L1: Ceiling(8e10)})
    roofs = roofline([], machine).roofs
    assert roofs["dram"].get_linestyle() == "--"
    assert roofs["l1"].get_linestyle() == "-"


def texts_of(artists: Artists) -> dict[str, Any]:
    return {text.get_text(): text for text in artists.axes.texts}


def test_slopes_are_labelled_along_the_slope(small: Machine) -> None:
    artists = roofline([make_spot("a")], small)
    text = texts_of(artists)["DRAM 10.0 GB/s"]
    (x0, y0), (x1, y1) = artists.axes.transData.transform(artists.roofs["dram"].get_xydata())
    assert text.get_rotation() == pytest.approx(math.degrees(math.atan2(y1 - y0, x1 - x0)))


def test_peaks_are_labelled_at_the_right(small: Machine) -> None:
    artists = roofline([make_spot("a")], small)
    text = texts_of(artists)["matrix FP32 100 GFLOP/s"]
    assert text.get_rotation() == 0
    box, axes = text.get_window_extent(), artists.axes.get_window_extent()
    assert axes.x0 + axes.width / 2 < box.x0 < box.x1 < axes.x1
    assert box.y0 >= artists.axes.transData.transform((1, 1e11))[1] - 2


def test_the_ridge_is_marked(small: Machine) -> None:
    artists = roofline([make_spot("a")], small)
    assert "ridge 10.0 FLOP/byte" in texts_of(artists)
    lines: list[Any] = list(artists.axes.lines)
    (mark,) = [line for line in lines if line.get_gid() == "ridge"]
    assert list(mark.get_xydata()[0]) == [10.0, 1e11]


def test_without_a_machine_there_are_no_roofs_and_it_says_so() -> None:
    artists = roofline([make_spot("a")], None)
    assert artists.roofs == {}
    assert any("No ceilings" in text for text in texts_of(artists))
    assert drawn(artists) == {"l1": ["a"], "dram": ["a"]}


# Labels, warnings, caption


def test_labels_overlap_neither_each_other_nor_markers(small: Machine) -> None:
    made = [
        make_spot(f"block.{i}.linear", 1e9 * 1.02**i, 1e-3 * (40 - i), intensity={L1: 2 * 1.02**i})
        for i in range(30)
    ]
    artists = roofline(made, small)
    boxes = [text.get_window_extent() for text in artists.labels.values()]
    assert len(boxes) >= 3
    for first, second in combinations(boxes, 2):
        assert not (
            first.x0 < second.x1 and second.x0 < first.x1
            and first.y0 < second.y1 and second.y0 < first.y1
        )  # fmt: skip
    for marker in artists.markers[L1]:
        x, y = artists.axes.transData.transform(center(marker))
        assert not any(b.x0 < x < b.x1 and b.y0 < y < b.y1 for b in boxes)


def close_roofs(build: SimpleNamespace) -> Machine:
    rates = {"l1": 22e9, "l2": 18.1e9, "l3": 14.6e9, "dram": 8.46e9}
    peaks = {
        (Pipe.MATRIX, Precision.FP32): Ceiling(225e9),
        (Pipe.VECTOR, Precision.FP32): Ceiling(225e9),
        (Pipe.MATRIX, Precision.BF16): Ceiling(270e9),
    }
    bandwidths = {MemoryLevel(name): Ceiling(rate) for name, rate in rates.items()}
    machine: Machine = build.machine(peaks=peaks, bandwidths=bandwidths)
    return machine


def test_labels_of_close_roofs_touch_neither_each_other_nor_another_roof(
    build: SimpleNamespace,
) -> None:
    from matplotlib.path import Path as Outline

    machine = close_roofs(build)
    artists = roofline(points(build.profile(), machine, ("layer", "phase")), machine)
    artists.figure.canvas.draw()
    labels = {name: t for name, t in texts_of(artists).items() if name.endswith(("B/s", "FLOP/s"))}
    assert len(labels) == 6
    corners = {}
    for name, text in labels.items():
        angle = text.get_rotation()
        text.set_rotation(0)
        box = text.get_window_extent()
        text.set_rotation(angle)
        x, y = box.x0, box.y0
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        square = [(0, 0), (box.width, 0), (box.width, box.height), (0, box.height)]
        corners[name] = [(x + u * cos - v * sin, y + u * sin + v * cos) for u, v in square]
    outlines = {name: Outline([*square, square[0]]) for name, square in corners.items()}
    found = artists.roofs.values()
    lines = [Outline(line.get_transform().transform(line.get_xydata())) for line in found]
    for name, outline in outlines.items():
        for line in lines:
            assert not outline.intersects_path(line, filled=True), name
        others = [other for known, other in outlines.items() if known != name]
        assert not any(outline.intersects_path(other, filled=True) for other in others), name


def test_labels_go_to_the_longest(small: Machine) -> None:
    made = [make_spot(f"s{i:02}", 10 ** (6 + i / 4), time=float(i)) for i in range(20)]
    labels = roofline(made, small).labels
    assert set(labels) <= {f"s{i:02}" for i in range(8, 20)}
    assert "s19" in labels


def test_a_layer_is_labelled_once_at_its_longest(small: Machine) -> None:
    made = [
        make_spot(f"fc · {phase}", 10.0**exponent, time, label="fc", group=phase)
        for phase, exponent, time in (("forward", 8, 1.0), ("backward", 9, 2.0))
    ]
    assert list(roofline(made, small).labels) == ["fc · backward"]


def test_a_peak_without_a_label_of_its_own(small: Machine) -> None:
    peaks = {**small.peaks, (Pipe.VECTOR, Precision.FP32): Ceiling(1e11)}
    artists = roofline([], Machine("m", peaks=peaks))
    assert len(artists.roofs) == 2
    assert len([text for text in texts_of(artists) if "FLOP/s" in text]) == 1
    assert "matrix FP32, vector FP32 100 GFLOP/s" in texts_of(artists)


def test_labels_stay_inside_the_axes(small: Machine) -> None:
    made = [make_spot("a" * 25, intensity={L1: 1e4}), make_spot("b" * 25, intensity={L1: 1e-3})]
    artists = roofline(made, small)
    frame = artists.axes.get_window_extent()
    for text in artists.labels.values():
        box = text.get_window_extent()
        assert frame.x0 <= box.x0 < box.x1 <= frame.x1


def test_a_point_above_a_roof_has_a_sign_and_a_reason(small: Machine) -> None:
    artists = roofline([make_spot("high", 5e11), make_spot("low", 1e8)], small)
    assert set(artists.above) == {"high"}
    signs = [text for text in artists.axes.texts if text.get_text() == "⚠"]
    assert len(signs) == 1
    assert "⚠ above its peak" in artists.caption
    assert artists.caption in texts_of(artists)


def test_zero_flop_work_is_named_in_the_caption_where_there_is_no_strip(
    profile: Profile, machine: Machine
) -> None:
    from matplotlib.figure import Figure

    artists = roofline(points(profile, machine, ("op",)), machine, ax=Figure().add_subplot())
    assert artists.strip is None
    assert "0 FLOP: copy" in artists.caption
    assert "FLOP not known: sort" in artists.caption
    assert {left.name for left in artists.not_drawn} >= {"copy", "sort", "to"}


def test_markers_of_a_real_table_are_its_points(profile: Profile, machine: Machine) -> None:
    found: dict[str, Point] = {
        " · ".join(p.key.values()): p for p in points(profile, machine, ("layer", "phase"))
    }
    artists = roofline(list(found.values()), machine)
    assert "fc1 · forward" in artists.names[L1]
    for level, markers in artists.markers.items():
        for name, marker in zip(artists.names[level], markers, strict=True):
            point = found[name]
            assert center(marker) == pytest.approx((point.intensity[level], point.flop_rate))


# Trouble


def test_odd_values_are_skipped_per_level(small: Machine) -> None:
    artists = roofline(odd_spots(), small)
    every = {"fine", "no_dram", "lost_l2", "right", "left"}
    assert set(artists.names[L1]) == every
    assert set(artists.names[L2]) == every - {"lost_l2"}
    assert set(artists.names[DRAM]) == every - {"no_dram"}
    left = {one.name: one.levels for one in artists.not_drawn}
    assert left == {"no_dram": (DRAM,), "lost_l2": (L2,), "idle": (L1, L2, DRAM)}


def test_no_odd_value_reaches_the_file(small: Machine) -> None:
    for text in (True, False):
        assert not NOT_A_NUMBER.search(svg(roofline(odd_spots(), small), text=text))


@pytest.mark.parametrize("count", [0, 1, 2, 200])
@pytest.mark.parametrize("roofs", [True, False])
def test_any_number_of_points(count: int, roofs: bool, small: Machine) -> None:
    made = [make_spot(f"s{i}", 1e6 * (i + 1), 1e-3 * (i + 1)) for i in range(count)]
    artists = roofline(made, small if roofs else None)
    assert sum(map(len, artists.markers.values())) == 2 * count
    ET.fromstring(svg(artists))


@pytest.mark.parametrize(
    "name", ["$\\frac{$", "<script>&", "a\nb", "a\x00b", "层.注意力", "--><!--", "_" * 500, ""]
)
@pytest.mark.parametrize("text", [True, False])
def test_any_name_gives_a_valid_file(name: str, text: bool, small: Machine) -> None:
    artists = roofline(
        [make_spot(name), make_spot("x", missing="0 FLOP")], small, title=name or "t"
    )
    ET.fromstring(svg(artists, text=text))


@pytest.mark.parametrize("machine", [Machine("bare"), Machine("p", peaks={M32: Ceiling(1e11)})])
def test_machines_without_some_ceilings(machine: Machine) -> None:
    artists = roofline([make_spot("a")], machine)
    assert len(artists.roofs) == len(machine.peaks)


def solved_case(number: str) -> Path:
    """The folder of a solved case."""
    root = os.environ.get("HROOF_CASES")
    if not root:
        pytest.skip("HROOF_CASES is not set: the solved cases lie outside the repository")
    (folder,) = Path(root).glob(f"{number}-*")
    return folder


def test_solved_case_of_odd_values() -> None:
    folder = solved_case("75")
    expected = json.loads((folder / "expected.json").read_text())["expect"]
    levels = (L1, L2, DRAM)
    with (folder / "input.csv").open() as file:
        made = [
            make_spot(
                row["kernel"],
                1e9 * float(row["gflops"]),
                1e-6 * float(row["time_us"]),
                intensity={level: float(row[f"ai_{level}"]) for level in levels},
            )
            for row in csv.DictReader(file)
        ]
    machine = Machine("m", peaks={M32: Ceiling(1e14)}, bandwidths={DRAM: Ceiling(1e12)})
    artists = roofline(made, machine)
    assert {k: sorted(v) for k, v in drawn(artists).items()} == {
        k: sorted(v) for k, v in expected["points"].items()
    }
    left = {one.name: list(map(str, one.levels)) for one in artists.not_drawn}
    assert left == expected["not_drawn"]
    low, high = expected["xlim_covers"]
    x0, x1 = artists.axes.get_xlim()
    assert x0 < low
    assert high < x1
    assert artists.roofs["matrix_fp32"].get_xdata()[-1] >= expected["roof_reaches_x"]
    assert not NOT_A_NUMBER.search(svg(artists))
    assert all(
        math.isfinite(marker.get_sizes()[0]) for ms in artists.markers.values() for marker in ms
    )


# Files


@pytest.mark.parametrize(
    ("ending", "start"),
    [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")],
)
def test_files(
    ending: str, start: bytes, profile: Profile, machine: Machine, tmp_path: Path
) -> None:
    path = draw_file(profile, machine, tmp_path / "new" / f"chart.{ending}", ("layer",))
    assert path.read_bytes().startswith(start)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_the_same_run_gives_the_same_bytes(
    ending: str, profile: Profile, machine: Machine, tmp_path: Path
) -> None:
    first, second = (
        draw_file(profile, machine, tmp_path / f"{i}.{ending}", ("layer", "phase")).read_bytes()
        for i in range(2)
    )
    assert first == second


def test_an_svg_holds_no_date(profile: Profile, machine: Machine, tmp_path: Path) -> None:
    text = draw_file(profile, machine, tmp_path / "a.svg").read_text()
    assert "<dc:date>" not in text
    assert not NOT_A_NUMBER.search(text)


def test_an_unknown_ending_is_refused(profile: Profile, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.jpg.*png.*svg.*pdf"):
        draw_file(profile, None, tmp_path / "a.jpg")


def test_a_folder_that_is_a_file_is_an_output_error(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        draw_file(profile, None, tmp_path / "file" / "a.svg")


def test_an_empty_profile_gives_a_chart(machine: Machine, tmp_path: Path) -> None:
    path = draw_file(Profile.from_rows([]), machine, tmp_path / "a.svg")
    ET.parse(path)


# Manners


def test_the_users_settings_stay(small: Machine) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 31.0, "svg.hashsalt": "theirs", "axes.grid": True}):
        before = {k: v for k, v in matplotlib.rcParams.items() if not k.startswith("backend")}
        artists = roofline([make_spot("a")], small)
        svg(artists)
        after = {k: v for k, v in matplotlib.rcParams.items() if not k.startswith("backend")}
        assert before == after


def test_the_users_style_does_not_change_the_chart(small: Machine) -> None:
    import matplotlib

    plain = svg(roofline([make_spot("a")], small))
    with matplotlib.rc_context(
        {"font.size": 31.0, "lines.linewidth": 9.0, "figure.facecolor": "k"}
    ):
        assert svg(roofline([make_spot("a")], small)) == plain


def test_a_chart_goes_onto_axes_that_the_user_made(small: Machine) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    canvas = figure.canvas
    artists = roofline([make_spot("a")], small, ax=axes)
    assert artists.axes is axes
    assert artists.figure is figure
    assert figure.canvas is canvas
    assert len(figure.axes) == 1


def test_without_matplotlib_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, small: Machine
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingError, match="pip install matplotlib"):
        roofline([make_spot("a")], small)


HEADLESS = textwrap.dedent(
    """
    import sys
    from hroof.machine import Ceiling, Machine
    from hroof.profile import Profile
    from hroof.units import MemoryLevel
    assert "matplotlib" not in sys.modules
    from hroof.report.chart import draw_file
    assert "matplotlib" not in sys.modules
    row = {"layer": "fc", "duration": 1e-3, "flop_nominal_matrix_fp32": 1e6, "bytes_l1": 1e5}
    machine = Machine("m", bandwidths={MemoryLevel.L1: Ceiling(1e10)})
    draw_file(Profile.from_rows([row]), machine, sys.argv[1], ("layer",))
    assert "matplotlib.pyplot" not in sys.modules
    assert "tkinter" not in sys.modules
    import matplotlib
    print(dict.__getitem__(matplotlib.rcParams, "backend"))
    """
)


@pytest.mark.parametrize(
    ("changes", "backend"),
    [
        ({"MPLBACKEND": "TkAgg"}, "tkagg"),
        ({}, None),
        ({"MPLCONFIGDIR": "/nonexistent/read-only", "HOME": "/nonexistent"}, None),
    ],
    ids=["TkAgg without display", "no backend", "unwritable home"],
)
def test_no_display_is_needed(changes: dict[str, str], backend: str | None, tmp_path: Path) -> None:
    dropped = {"DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND", "MPLCONFIGDIR"}
    environment = {k: v for k, v in os.environ.items() if k not in dropped} | changes
    target = tmp_path / "chart.png"
    done = subprocess.run(
        [sys.executable, "-c", HEADLESS, str(target)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert target.read_bytes().startswith(b"\x89PNG")
    if backend is not None:
        assert done.stdout.strip().lower() == backend
