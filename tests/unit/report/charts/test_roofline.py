"""The plain Roofline: labels of many layers, black and white, dark, ridges, what is evidence of a fault."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from hroof.errors import UsageError
from hroof.machine import Ceiling, How, Machine
from hroof.profile import Profile
from hroof.report.chart import Artists, Choice, Spot, TimeArtists, draw, roofline
from hroof.report.charts.style import DARK
from hroof.report.look import PAPER, PHASE_COLOURS, manners
from hroof.units import MemoryLevel, Phase, Pipe, Precision, Source

L1, L2, L3, DRAM = MemoryLevel
V32, M32 = (Pipe.VECTOR, Precision.FP32), (Pipe.MATRIX, Precision.FP32)
NAMES = {
    "short": "fc{}",
    "long": "model.encoder.layers.{}.self_attention.output_projection",
    "endless": "x" * 10_000 + "{}",
    "markup": "<b onclick='x'>{}</b>&amp;",
    "mathematics": "$\\frac{{{}}}{{$",
    "control": "a\n\x00\x1b[31m{}\u202e",
    "wide": "W" * 40 + "{}",
}


def make_spot(name: str, rate: float = 1e9, time: float = 1e-3, **changes: Any) -> Spot:
    """Counted at L1, predicted at DRAM."""
    values: dict[str, Any] = {
        "intensity": {L1: 1.0, DRAM: 4.0},
        "group": "forward",
        "sources": {L1: Source.COUNTED, DRAM: Source.PREDICTED},
    }
    return Spot(name, rate, time=time, **values | changes)


@pytest.fixture(scope="module")
def small() -> Machine:
    """100 GFLOP/s; 80 GB/s at L1 and 10 GB/s at DRAM."""
    return Machine(
        "small cpu",
        peaks={M32: Ceiling(1e11)},
        bandwidths={L1: Ceiling(8e10), DRAM: Ceiling(1e10)},
    )


# --- labels


@pytest.mark.parametrize(
    ("kind", "count"),
    [("short", 3), ("short", 10), ("long", 3), ("long", 10), *((kind, 40) for kind in NAMES)],
)
def test_labels_of_layers_never_overlap(kind: str, count: int, small: Machine) -> None:
    made = [
        make_spot(NAMES[kind].format(i), 1e9 * 1.05**i, 1e-3 * (count - i),
                  intensity={L1: 1.0 + i % 3, DRAM: 4.0 + i % 5})
        for i in range(count)
    ]  # fmt: skip
    artists = roofline(made, small)
    boxes = {name: text.get_window_extent() for name, text in artists.labels.items()}
    assert len(boxes) >= 3
    for first, second in combinations(boxes, 2):
        assert not boxes[first].overlaps(boxes[second]), (first, second)
    frame = artists.axes.get_window_extent()
    for box in boxes.values():
        assert frame.x0 <= box.x0 <= box.x1 <= frame.x1
        assert frame.y0 <= box.y0 <= box.y1 <= frame.y1
    assert all(text.get_text().isprintable() for text in artists.labels.values())


def test_labels_go_to_the_layers_that_take_longest(small: Machine) -> None:
    made = [make_spot(f"s{i}", 10 ** (6 + i / 10), time=float(i)) for i in range(40)]
    assert set(roofline(made, small).labels) <= {f"s{i}" for i in range(28, 40)}


# --- black and white


def test_no_two_phases_share_sign_and_line() -> None:
    found = manners(PHASE_COLOURS)
    assert len({manner.mark for manner in found.values()}) == len(Phase)
    assert len({str(manner.line) for manner in found.values()}) == len(Phase)


def test_phases_differ_by_the_sign_in_their_markers(small: Machine) -> None:
    made = [make_spot(phase, 10.0 ** (7 + i), group=phase) for i, phase in enumerate(PHASE_COLOURS)]
    artists = roofline(made, small)
    signs: dict[int, list[Any]] = {}
    for one in artists.axes.collections:
        gid = one.get_gid() or ""
        if gid.startswith("sign-"):
            signs.setdefault(int(gid.split("-")[1]), []).append(one)
    order = list(artists.names[L1])
    assert {order[i] for i in signs} == set(PHASE_COLOURS) - {"forward"}  # forward is the plain one
    shapes = {order[i]: one[0].get_paths()[0].vertices.tobytes() for i, one in signs.items()}
    assert len(set(shapes.values())) == len(shapes)
    for i, found in signs.items():
        centers = [one.get_offsets()[0].tolist() for one in found]
        at = order[i]
        markers = [artists.markers[level][artists.names[level].index(at)] for level in (L1, DRAM)]
        assert centers == [marker.get_offsets()[0].tolist() for marker in markers]


def test_phases_differ_by_the_line_between_their_levels(small: Machine) -> None:
    made = [make_spot(phase, group=phase) for phase in ("forward", "backward", "optimizer")]
    joins = roofline(made, small).joins
    assert [joins[name].get_linestyle() for name in ("forward", "backward", "optimizer")] == [
        "-", "--", ":",
    ]  # fmt: skip


def test_a_small_marker_has_no_room_for_a_sign(small: Machine) -> None:
    made = [make_spot("a", time=1.0), make_spot("b", time=1e-6, group="backward")]
    gids = {one.get_gid() for one in roofline(made, small).axes.collections}
    assert "point-1-l1" in gids
    assert "sign-1-l1" not in gids


def test_the_legend_shows_signs_and_lines(small: Machine) -> None:
    made = [make_spot("a"), make_spot("b", group="backward")]
    legend = roofline(made, small).axes.get_legend()
    assert legend is not None
    from matplotlib.lines import Line2D

    found: list[Any] = legend.findobj(Line2D)
    assert "_" in [line.get_marker() for line in found]
    assert "--" in [line.get_linestyle() for line in found]


# --- roofs


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("measured", "-"), ("framework-reachable", "-"), ("datasheet", "--"),
        ("counter peak", "--"), ("given", "--"),
    ],
)  # fmt: skip
def test_only_what_was_measured_is_solid(how: How, line: str) -> None:
    machine = Machine(
        "m", peaks={M32: Ceiling(1e11, how=how)}, bandwidths={DRAM: Ceiling(1e10, how=how)}
    )
    artists = roofline([make_spot("a", 1e8)], machine)
    assert {roof.get_linestyle() for roof in artists.roofs.values()} == {line}
    legend = artists.axes.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    assert ("Dashed roof: not measured" in texts) == (line == "--")


def test_every_ridge_point_is_marked(small: Machine) -> None:
    machine = Machine(
        "m", peaks={M32: Ceiling(1e11), V32: Ceiling(2e10)}, bandwidths=small.bandwidths
    )
    artists = roofline([make_spot("a", flop={M32: 1.0, V32: 1.0})], machine)
    lines: list[Any] = list(artists.axes.lines)
    marked = {tuple(line.get_xydata()[0]) for line in lines if line.get_gid() == "ridge-point"}
    assert marked == {(1.25, 1e11), (10.0, 1e11), (0.25, 2e10), (2.0, 2e10)}


def test_a_long_name_of_a_roof_stays_inside(small: Machine) -> None:
    pairs = [(pipe, q) for pipe in Pipe for q in (Precision.FP64, Precision.FP32, Precision.FP16)]
    machine = Machine(
        "m", peaks=dict.fromkeys(pairs, Ceiling(1e11)), bandwidths={DRAM: Ceiling(1e8)}
    )
    artists = roofline([make_spot("a", 1e6)], machine)
    (text,) = [text for text in artists.axes.texts if "FLOP/s" in text.get_text()]
    assert text.get_window_extent().x1 <= artists.axes.get_window_extent().x1


def test_roofs_reach_past_every_point(small: Machine) -> None:
    made = [
        make_spot("left", intensity={L1: 1e-5}),
        make_spot("right", intensity={DRAM: 1e6}),
        make_spot("high", 1e13),
    ]
    artists = roofline(made, small)
    xs = [line.get_xdata() for line in artists.roofs.values()]
    assert min(x[0] for x in xs) < 1e-5
    assert max(x[-1] for x in xs) > 1e6
    assert artists.axes.get_ylim()[1] > 1e13


def test_above_a_roof_is_called_evidence_of_a_fault(small: Machine) -> None:
    legend = roofline([make_spot("odd", 1e12)], small).axes.get_legend()
    assert legend is not None
    said = " ".join(text.get_text() for text in legend.get_texts())
    assert "⚠ above a roof: evidence of\na fault, never a success" in said


# --- styles and other axes


def test_dark_turns_everything(small: Machine) -> None:
    from matplotlib.colors import to_hex

    artists = roofline([make_spot("a")], small, style="dark")
    assert to_hex(artists.figure.get_facecolor()) == DARK.shade(PAPER)
    assert to_hex(artists.axes.get_facecolor()) == DARK.shade(PAPER)
    colour = DARK.shade(PHASE_COLOURS["forward"])
    assert to_hex(artists.markers[L1][0].get_facecolor()[0]) == colour
    light = {c.lower() for c in ("#1f2937", "#4b5563", "#9ca3af", "#ffffff", "#0072b2")}
    texts = {to_hex(text.get_color()) for text in artists.axes.texts}
    lines: list[Any] = list(artists.axes.lines)
    assert not light & (texts | {to_hex(line.get_color()) for line in lines})


def test_an_unknown_style_is_refused(small: Machine) -> None:
    with pytest.raises(UsageError, match="no style 'neon'"):
        roofline([make_spot("a")], small, style="neon")


def test_the_user_can_give_axes_for_the_strip_too(small: Machine) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    above, below = figure.subplots(2)
    mover = make_spot("copy", 0.0, missing="0 FLOP", byte_rate={DRAM: 1e9}, intensity={})
    artists = roofline([make_spot("a"), mover], small, ax=above, strip=below)
    assert artists.axes is above
    assert artists.strip is not None
    assert artists.strip.axes is below
    assert len(figure.axes) == 2


# --- per layer, block, kernel, phase


@pytest.mark.parametrize(
    ("by", "names", "groups"),
    [
        (("layer",), {"fc1", "fc2", "Net"}, {"fc1", "fc2", "Net"}),
        (("block",), {"fc1", "fc2", "Net"}, {"fc1", "fc2", "Net"}),
        (("depth1",), {"fc1", "fc2", "Net"}, {"fc1", "fc2", "Net"}),
        (("phase",), {"forward", "backward", "optimizer", "loss"}, {"forward", "backward"}),
        (("op",), {"mm", "relu", "nll", "adamw"}, {"GEMM", "elementwise"}),
        (("family",), {"GEMM", "elementwise", "other"}, {"GEMM"}),
    ],
)
def test_a_run_by_any_key(
    by: tuple[str, ...], names: set[str], groups: set[str], profile: Profile, machine: Machine
) -> None:
    artists = draw(profile, machine, by)
    assert isinstance(artists, Artists)
    assert set(artists.names[L1]) == names
    legend = artists.axes.get_legend()
    assert legend is not None
    assert groups <= {text.get_text() for text in legend.get_texts()}


def test_a_run_as_the_user_chose(profile: Profile, machine: Machine) -> None:
    time = draw(profile, machine, ("phase",), Choice("time", levels=(L1,)))
    assert isinstance(time, TimeArtists)
    assert time.level is L1
    plain = draw(profile, machine, ("phase",), Choice(levels=(DRAM,)))
    assert isinstance(plain, Artists)
    assert set(plain.markers) == {DRAM}


def test_kernels_of_one_name_are_told_apart(machine: Machine) -> None:
    """Of the full names only the functor differs, which tables show, too."""
    loop = "void at::native::vectorized_elementwise_kernel<4, at::native::{}<float>, Array>(int)"
    rows = [
        {"kernel": loop.format(functor), "duration": 1e-3 / (i + 1), "bytes_l1": 1e6 * 30**i,
         "flop_nominal_vector_fp32": 1e6, "flop_least_vector_fp32": 1e6}
        for i, functor in enumerate(("CUDAFunctor_add", "FillFunctor"))
    ]  # fmt: skip
    profile = Profile.from_rows(rows)
    for kind in ("roofline", "time"):
        artists = draw(profile, machine, ("kernel",), Choice(kind))
        assert isinstance(artists, Artists | TimeArtists)
        texts = [text.get_text() for text in artists.labels.values()]
        assert len(texts) == 2
        for functor in ("(CUDAFunctor_add)", "(FillFunctor)"):
            assert any(functor in text for text in texts), texts
