"""Short names of kernels in reports."""

from __future__ import annotations

import pytest

from hroof.profile import Profile
from hroof.report import brief
from hroof.report.labels import group_of, label_of, labelled, labels, within
from hroof.roofline import points

FILL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, Array>(int)"
)
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array>(int)"
GEMM = "void gemm<float, 128>(T1::Params)"


def test_a_name_is_short_where_no_other_has_it() -> None:
    assert labels([GEMM]) == {GEMM: "gemm"}


def test_loops_say_what_they_apply() -> None:
    assert labels([FILL, ADD]) == {
        FILL: "vectorized_elementwise_kernel (FillFunctor)",
        ADD: "vectorized_elementwise_kernel (CUDAFunctor_add)",
    }


def test_names_that_would_be_equal_stay_whole() -> None:
    other = "void gemm<half, 64>(T1::Params)"
    assert labels([GEMM, other, "copy"]) == {GEMM: GEMM, other: other, "copy": "copy"}


def test_what_cannot_be_read_stays() -> None:
    assert labels(["", "???"]) == {"": "", "???": "???"}


def profile() -> Profile:
    rows = [{"kernel": name, "layer": "fc", "duration": 1.0} for name in (GEMM, FILL)]
    return Profile.from_rows(rows)


def test_points_keep_everything_but_the_name() -> None:
    found = points(profile(), None, ("layer", "kernel"))
    short = labelled(found)
    assert [p.key["kernel"] for p in short] == [
        labels([GEMM, FILL])[p.key["kernel"]] for p in found
    ]
    assert [p.time for p in short] == [p.time for p in found]
    assert {p.key["layer"] for p in short} == {"fc"}


def test_points_of_layers_are_left_alone() -> None:
    found = points(profile(), None, ("layer",))
    assert labelled(found) == found


def test_the_report_shows_them() -> None:
    text = brief.render(profile(), None, by=("kernel",), width=120)
    assert "vectorized_elementwise_kernel (FillFunctor)" in text
    assert "void at" not in text.split("How far")[0]


@pytest.mark.parametrize(
    ("key", "label", "group"),
    [
        ({"layer": "encoder.0.fc", "phase": "forward"}, "encoder.0.fc", "forward"),
        ({"layer": "encoder.0.fc"}, "encoder.0.fc", "encoder"),
        ({"block": "encoder.0"}, "encoder.0", "encoder"),
        ({"depth2": "encoder.0"}, "encoder.0", "encoder"),
        ({"phase": "backward"}, "backward", "backward"),
        ({"phase": ""}, "", "other"),
        ({"layer": ""}, "", "other"),
        ({"kernel": "volta_h884gemm_64x64_nn"}, "volta_h884gemm_64x64_nn", "GEMM"),
        ({"op": "aten::relu"}, "aten::relu", "elementwise"),
        ({"op": "nobody knows"}, "nobody knows", "other"),
        ({"kernel": "", "op": "aten::mm"}, "aten::mm", "GEMM"),
        ({"family": "GEMM"}, "GEMM", "GEMM"),
        ({"device": "cpu"}, "cpu", "other"),
        ({}, "", "other"),
    ],
)
def test_what_a_chart_calls_and_colours_a_point(
    key: dict[str, str], label: str, group: str
) -> None:
    assert label_of(key) == label
    assert group_of(key) == group


@pytest.mark.parametrize(
    ("paths", "groups"),
    [
        (["m.enc.0", "m.enc.1", "m.head"], ["m.enc", "m.enc", "m.head"]),
        (["m.enc.0.a", "m.enc.1.b"], ["m.enc.0", "m.enc.1"]),
        (["m", "m.head"], ["m", "m.head"]),
        (["m.a", "m.a"], ["m.a", "m.a"]),
        ([f"m.blocks.{i}" for i in range(9)], ["m"] * 9),
        (["m"], ["m"]),
        ([""], [""]),
    ],
)
def test_groups_within_one_outermost_layer(paths: list[str], groups: list[str]) -> None:
    assert within(paths, 7) == groups
