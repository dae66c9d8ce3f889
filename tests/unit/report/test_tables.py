"""Tables: the same documented columns for every run, the numbers of the report, missing as missing."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from hroof.errors import UsageError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.export import to_json
from hroof.report.tables import COLUMNS, KERNEL_COLUMNS, LAYER_COLUMNS, kernels, layers, points
from hroof.results import Results

README = Path(__file__).parents[3] / "README.md"
FIRST = [
    "launches", "time", "share", "flop", "flop_rate", "bytes_l1", "bytes_l2", "bytes_l3", "bytes_dram", "intensity_l1",
    "intensity_l2", "intensity_l3", "intensity_dram", "bound", "bound_share", "attainable_time", "headroom",
    "recoverable_time",
]  # fmt: skip
"""Locked: a change of their order is a change of the interface, and belongs into the changelog."""
LAST = [
    "zero_flop_launches", "source_time", "source_flop", "source_l1", "source_l2", "source_l3", "source_dram", "notes",
]  # fmt: skip


def only(frame: pd.DataFrame, **key: object) -> pd.Series:
    """The row with these values."""
    rows = frame
    for name, value in key.items():
        rows = rows[rows[name] == value]
    assert len(rows) == 1
    return rows.iloc[0]


# --- columns ------------------------------------------------------------------------------------


def test_columns_and_their_order_are_locked() -> None:
    names = list(COLUMNS)
    assert names[: len(FIRST)] == FIRST
    assert names[-len(LAST) :] == LAST
    assert len(names) == 67
    assert list(LAYER_COLUMNS) == ["layer", "layer_type", "depth", "parameters"]
    assert list(KERNEL_COLUMNS) == ["kernel", "op"]


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("ceilings", [False, True])
def test_columns_are_the_same_for_every_run(
    profile: Profile, machine: Machine, empty: bool, ceilings: bool
) -> None:
    shown = Profile.from_rows([]) if empty else profile
    roofs = machine if ceilings else None
    assert list(points(shown, roofs, ("op", "phase"))) == ["op", "phase", *COLUMNS]
    assert list(layers(shown, roofs)) == [*LAYER_COLUMNS, *COLUMNS]
    assert list(kernels(shown, roofs)) == [*KERNEL_COLUMNS, *COLUMNS]
    for frame in (points(shown, roofs), layers(shown, roofs), kernels(shown, roofs)):
        assert len(frame) == 0 or not empty
        for name, column in (LAYER_COLUMNS | KERNEL_COLUMNS | COLUMNS).items():
            if name in frame:
                assert frame[name].dtype == ("float64" if column.unit else "object"), name


def test_every_column_has_a_meaning_and_numbers_have_a_unit() -> None:
    for name, column in (LAYER_COLUMNS | KERNEL_COLUMNS | COLUMNS).items():
        assert column.meaning.strip(), name
        assert column.unit in {"", "1", "s", "B", "FLOP", "OP", "FLOP/s", "B/s", "FLOP/B"}, name


def test_units_go_with_the_table(profile: Profile) -> None:
    units = layers(profile).attrs["units"]
    assert (units["time"], units["bytes_dram"], units["parameters"]) == ("s", "B", "1")
    assert list(units) == [*LAYER_COLUMNS, *COLUMNS]


def general(name: str) -> str:
    """``bytes_dram`` as documentation writes it."""
    parts = name.split("_")
    if parts[-1] in ("l1", "l2", "l3", "dram"):
        return "_".join([*parts[:-1], "<level>"])
    return "flop_<pipe>_<precision>" if len(parts) == 3 and parts[0] == "flop" else name


@pytest.mark.parametrize("where", ["docstring", "README"])
def test_every_column_is_documented(where: str) -> None:
    text = f"{Results.points.__doc__}{Results.layers.__doc__}{Results.kernels.__doc__}"
    text = text.replace("``", "`") if where == "docstring" else README.read_text(encoding="utf-8")
    names = {general(name) for name in (*LAYER_COLUMNS, *KERNEL_COLUMNS, *COLUMNS)}
    assert sorted(name for name in names if f"`{name}`" not in text) == []


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [("layer",), ("op", "phase"), (), ("block",)])
def test_numbers_are_those_of_the_report(
    profile: Profile, machine: Machine, by: tuple[str, ...]
) -> None:
    frame = points(profile, machine, by)
    rows = to_json(profile, machine, by)["rows"]
    assert len(frame) == len(rows)
    for (_, found), row in zip(frame.iterrows(), rows, strict=True):
        same = ["launches", "time", "time_spread", "flop", "flop_rate", "attainable_time", "headroom",
                "recoverable_time", "bound_share", "zero_flop_launches", "launch_time"]  # fmt: skip
        for name in same:
            expected = math.nan if row[name] is None else row[name]
            assert found[name] == pytest.approx(expected, nan_ok=True, rel=0), name
        assert found["bound"] == row["bound"]
        for name in ("bytes", "intensity", "byte_rate"):
            for level in ("l1", "l2", "l3", "dram"):
                value = row[name].get(level, math.nan)
                assert found[f"{name}_{level}"] == pytest.approx(value, nan_ok=True, rel=0)
        for quantity, source in row["sources"].items():
            assert found[f"source_{quantity}"] == source
        assert found["notes"] == " ".join(row["notes"])


def test_rows_come_most_time_first_and_shares_are_of_all(profile: Profile) -> None:
    frame = layers(profile)
    assert frame["time"].is_monotonic_decreasing
    assert frame["share"].sum() == pytest.approx(1.0)


def test_missing_is_missing(profile: Profile, machine: Machine) -> None:
    sort = only(points(profile, machine, ("op",)), op="sort")
    for name in ("flop", "flop_rate", "attainable_time", "headroom", "bytes_l1", "intensity_dram"):
        assert math.isnan(sort[name]), name
    assert sort["bound"] is None
    assert sort["source_flop"] == sort["source_dram"] == "missing"
    assert only(points(profile, machine, ("op",)), op="copy")["flop"] == 0.0


def test_work_is_told_by_pipe_and_precision(profile: Profile) -> None:
    row = only(points(profile, None, ("op",)), op="int_mm")
    assert (row["flop"], row["integer_op"], row["flop_matrix_int8"]) == (0.0, 2e6, 2e6)
    assert math.isnan(row["flop_matrix_fp32"])


def test_a_layer_is_described(profile: Profile) -> None:
    frame = layers(profile)
    row = only(frame, layer="fc1")
    assert (row["layer_type"], row["depth"], row["parameters"]) == ("Linear", 1.0, 40.0)
    root = only(frame, layer="Net")  # its own work carries the name of its class
    assert (root["layer_type"], root["depth"], root["parameters"]) == ("Net", 0.0, 50.0)


def test_work_outside_every_layer_has_no_name(profile: Profile) -> None:
    outside = layers(profile)[lambda frame: frame["layer"].isna()]
    (row,) = outside.itertuples()
    assert row.layer is None
    assert row.layer_type is None
    assert math.isnan(row.parameters)
    assert row.time == pytest.approx(6.6e-6)


def test_what_a_file_says_of_layers_may_be_anything(build: SimpleNamespace) -> None:
    odd = [1, None, {"name": "fc1", "depth": "deep", "parameters": True}, {"type": ["x"]}]
    frame = layers(Profile.from_rows(build.rows(), {"layers": odd}))
    row = only(frame, layer="fc1")
    assert math.isnan(row["depth"])
    assert math.isnan(row["parameters"])


def test_on_a_cpu_kernels_are_ops(profile: Profile) -> None:
    frame = kernels(profile)
    assert frame["kernel"].isna().all()
    assert set(frame["op"]) == {"mm", "copy", "relu", "int_mm", "nll", "sort", "adamw", "to"}


def test_on_a_device_kernels_have_the_op_that_launched_them(build: SimpleNamespace) -> None:
    rows = [build.row("a", "forward", "mm", 5, kernel="gemm"),
            build.row("b", "forward", "addmm", 3, kernel="gemm"),
            {"kernel": "memset", "duration": 1e-6, "recompute": False}]  # fmt: skip
    frame = kernels(Profile.from_rows(rows))
    assert frame[["kernel", "op"]].to_numpy().tolist() == [
        ["gemm", "mm"],
        ["gemm", "addmm"],
        ["memset", None],
    ]


def test_notes_tell_what_is_odd(build: SimpleNamespace) -> None:
    rows = [build.row("a", "forward", "mm", 5, **build.flop(matrix_fp32=1e6))]
    assert layers(Profile.from_rows(rows), build.machine())["notes"][0].startswith(
        "Above the compute"
    )


def test_an_unknown_key_is_refused(profile: Profile) -> None:
    with pytest.raises(UsageError, match="no grouping key 'colour'"):
        points(profile, None, ("colour",))
