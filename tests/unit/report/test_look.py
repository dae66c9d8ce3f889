"""Colours, marker areas, legend and caption of charts."""

from __future__ import annotations

import math

import pytest

from hroof.machine import Ceiling, Machine
from hroof.report.look import (
    PHASE_COLOURS,
    SHAPES,
    areas,
    caption,
    caption_of,
    colours,
    group_keys,
    heading_of,
    is_open,
    legend,
    manners,
    printable,
    roof_keys,
    short,
    subtitle,
    told_apart,
)
from hroof.report.scene import NotDrawn, Spot, compose
from hroof.units import MemoryLevel, Phase, Source

L1, DRAM = MemoryLevel.L1, MemoryLevel.DRAM


def make(
    name: str, time: float = 1.0, group: str = "forward", source: Source = Source.COUNTED
) -> Spot:
    return Spot(
        name, 1e9, {L1: 1.0, DRAM: 2.0}, time, group=group, sources={L1: source, DRAM: source}
    )


def test_every_phase_has_a_colour_and_every_level_a_shape() -> None:
    assert set(PHASE_COLOURS) == {str(phase) for phase in Phase}
    assert len(set(PHASE_COLOURS.values())) == len(Phase)
    assert len(set(SHAPES.values())) == len(MemoryLevel) == len(SHAPES)


def test_phases_keep_their_colours_and_their_order() -> None:
    found = colours([make("a", group="optimizer"), make("b", group="forward")])
    assert list(found) == ["forward", "optimizer"]
    assert found["forward"] == PHASE_COLOURS["forward"]


def test_layer_groups_get_different_colours_then_grey() -> None:
    found = colours([make(str(i), group=f"g{i}") for i in range(10)])
    values = list(found.values())
    assert len(set(values[:7])) == 7
    assert set(values[7:]) == {PHASE_COLOURS["other"]}
    assert list(found) == [f"g{i}" for i in range(10)]


def test_area_is_in_proportion_to_time() -> None:
    large, half = areas([make("a", 8.0), make("b", 4.0)])
    assert large == pytest.approx(2 * half)


def test_a_short_time_still_shows() -> None:
    sizes = areas([make("a", 1.0), make("b", 1e-9), make("c", math.nan), make("d", 0.0)])
    assert min(sizes) == sizes[1] == sizes[2] == sizes[3] > 10


@pytest.mark.parametrize("times", [[0.0, 0.0], [math.nan, math.nan], [1.0, math.inf], []])
def test_area_is_constant_where_times_say_nothing(times: list[float]) -> None:
    sizes = areas([make(str(i), time) for i, time in enumerate(times)])
    assert len(sizes) == len(times)
    assert len(set(sizes)) <= 1
    assert all(math.isfinite(size) and size > 0 for size in sizes)


def test_many_markers_are_smaller() -> None:
    few = areas([make(str(i)) for i in range(3)])
    many = areas([make(str(i)) for i in range(200)])
    assert max(many) < max(few)


def test_open_means_predicted() -> None:
    assert is_open(make("a", source=Source.PREDICTED), L1)
    assert not is_open(make("a", source=Source.COUNTED), L1)
    assert not is_open(Spot("a", 1.0, {L1: 1.0}), L1)


def test_the_legend_tells_source_shape_colour_and_area() -> None:
    mixed = Spot("b", 1e9, {DRAM: 2.0}, 0.5, group="backward", sources={DRAM: Source.PREDICTED})
    keys = legend(compose([make("a"), mixed], None))
    by_text = {key.text: key for key in keys}
    assert by_text["forward"].colour == PHASE_COLOURS["forward"]
    assert by_text["L1 counted, FLOP/byte ≤"].shape == "o"
    assert not by_text["DRAM counted, FLOP/byte ≤"].open
    assert by_text["DRAM predicted, about"].open
    assert by_text["1.0 s"].area == pytest.approx(4 * by_text["250 ms"].area)


def test_the_legend_names_layer_groups() -> None:
    keys = [key.text for key in legend(compose([make("a", group="net")], None))]
    assert keys[:2] == ["Layer group", "net"]


def test_groups_beyond_the_colours_share_one_line() -> None:
    made = [make(str(i), 10.0 - i, group=f"g{i}") for i in range(10)]
    texts = [key.text for key in legend(compose(made, None))]
    assert texts.count("other groups") == 1
    assert "g8" not in texts


def test_an_empty_chart_has_no_legend() -> None:
    assert legend(compose([], None)) == []


def test_unknown_times_are_said() -> None:
    texts = [key.text for key in legend(compose([make("a", math.nan)], None))]
    assert texts[-1] == "Area: the same, no times known"


def test_subtitle() -> None:
    machine = Machine("cpu", bandwidths={L1: Ceiling(1.0, how="measured")}, facts={"threads": 2})
    assert subtitle(machine) == "cpu · 2 threads · ceilings: measured"
    assert subtitle(Machine("cpu")) == "cpu · no ceilings"
    assert "hroof ceilings" in subtitle(None)


def test_the_caption_names_what_is_not_drawn() -> None:
    made = [Spot(f"e{i}", 0.0, {L1: 0.0}, missing="0 FLOP") for i in range(7)]
    text = caption(compose([*made, make("drawn")], None))
    assert text == "Not drawn: 0 FLOP: e0, e1, e2, e3, e4 and 2 more."


def test_the_caption_gives_the_reason_for_a_warning_sign() -> None:
    machine = Machine("m", bandwidths={L1: Ceiling(1e6)})
    text = caption(compose([make("a")], machine))
    assert text.startswith("⚠ above its L1 roof")
    assert text.endswith(": a.")


def test_the_caption_is_short_whatever_happens() -> None:
    made = [Spot("x" * 300 + str(i), 1.0, {}, missing=f"reason {i}") for i in range(60)]
    lines = caption(compose(made, None)).split("\n")
    assert len(lines) <= 5
    assert max(map(len, lines)) <= 175
    assert lines[-1] == "…"


def test_nothing_to_say() -> None:
    assert caption(compose([make("a")], None)) == ""


def test_printable_keeps_letters_and_drops_what_breaks_files() -> None:
    assert printable("层.0 é $x_1$") == "层.0 é $x_1$"
    assert printable("a\nb\x00c\ud800") == "a\ufffdb\ufffdc\ufffd"


def test_a_long_name_keeps_its_end() -> None:
    assert short("a" * 50 + ".mlp.0", 10) == "…aaa.mlp.0"
    assert short("head") == "head"


def test_signs_and_lines_go_with_the_phase_whatever_else_is_there() -> None:
    alone, together = manners(["optimizer"]), manners(["forward", "optimizer"])
    assert alone["optimizer"] == together["optimizer"]
    assert together["forward"].mark == ""


def test_signs_of_layer_groups_go_by_their_order_and_end() -> None:
    found = list(manners([f"g{i}" for i in range(10)]).values())
    assert len({(one.mark, str(one.line)) for one in found[:8]}) == 8
    assert found[7] == found[8] == found[9]


def test_lines_of_the_legend_have_sign_and_line() -> None:
    keys = group_keys(colours([make("a"), make("b", group="backward")]))
    assert [(key.text, key.mark, key.line) for key in keys] == [
        ("forward", "", "-"),
        ("backward", "_", "--"),
    ]


@pytest.mark.parametrize(
    ("groups", "heading"),
    [
        (["forward", "other"], "Phase"),
        (["GEMM", "loss", "other"], "Kind of work"),
        (["encoder", "head"], "Layer group"),
        ([], "Phase"),
    ],
)
def test_what_the_groups_are(groups: list[str], heading: str) -> None:
    assert heading_of(groups) == heading


def test_dashes_and_warnings_are_explained_where_there_are_any() -> None:
    machine = Machine("m", bandwidths={L1: Ceiling(1e6, how="datasheet")})
    assert [key.text.split()[0] for key in roof_keys(compose([make("a")], machine))] == [
        "Dashed",
        "⚠",
    ]
    assert roof_keys(compose([make("a")], Machine("m", bandwidths={L1: Ceiling(1e12)}))) == []


def test_further_sentences_stand_between_warnings_and_what_is_not_drawn() -> None:
    left = [NotDrawn("b", (), "0 FLOP")]
    text = caption_of(left, {"a": "above its roof"}, ["Said\x1b besides."])
    assert text.split("\n") == [
        "⚠ above its roof: a.",
        "Said\ufffd besides.",
        "Not drawn: 0 FLOP: b.",
    ]


def test_layers_of_one_model_are_told_apart_within_it() -> None:
    made = [make("model.enc.0", group="model"), make("model.head", group="model")]
    assert [one.group for one in told_apart(made)] == ["model.enc", "model.head"]


@pytest.mark.parametrize(
    "made",
    [
        [],
        [make("fc", group="forward"), make("fc2", group="forward")],
        [make("mm", group="GEMM")],
        [make("enc.0", group="enc"), make("head", group="head")],
        [make("something else", group="model")],
        [make(f"model.blocks.{i}", group="model") for i in range(20)],
    ],
)
def test_other_groups_stay(made: list[Spot]) -> None:
    assert told_apart(made) == made


def test_a_kernel_is_said_by_what_tells() -> None:
    loop = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, Array>(int)"
    left = [NotDrawn(f"{loop} · forward", (), "0 FLOP"), NotDrawn("fc (no bias)", (), "0 FLOP")]
    text = caption_of(left, {})
    assert "mentwise_kernel (FillFunctor) · forward" in text
    assert text.endswith("fc (no bias).")
