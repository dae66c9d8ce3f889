"""What the page's script reads: columns that say the same as the points, names once, few digits, nothing too long."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report import view as module
from hroof.report.view import MAX_NAME, clipped, roofs, view
from hroof.roofline import Point, points
from hroof.units import MemoryLevel, Pipe, Precision


def made(profile: Profile, machine: Machine | None, by: tuple[str, ...] = ("layer",)) -> Any:
    keys = (*by, "phase") if "layer" in by and "phase" not in by else by
    rows, spots = points(profile, machine, by), points(profile, machine, keys)
    return json.loads(json.dumps(view(profile, machine, by, rows, spots), allow_nan=False))


def names(seen: Any, table: str, key: str) -> list[str]:
    return [seen["names"][place] for place in seen[table]["keys"][key]]


def close(got: float | None, wanted: float | None) -> bool:
    if wanted is None or math.isnan(wanted):
        return got is None
    return got is not None and math.isclose(got, wanted, rel_tol=1e-4)


@pytest.fixture(scope="module")
def seen(build: SimpleNamespace) -> Any:
    """The small run as the page's script reads it."""
    return made(build.profile(), build.machine())


def test_rows_are_those_of_the_table_in_its_order(
    seen: Any, profile: Profile, machine: Machine
) -> None:
    found = points(profile, machine)
    assert names(seen, "rows", "layer") == [point.key["layer"] for point in found]
    assert seen["rows"]["size"] == len(found)


def test_numbers_are_those_of_the_points(seen: Any, profile: Profile, machine: Machine) -> None:
    found = points(profile, machine, ("layer", "phase"))
    columns = seen["points"]
    assert columns["size"] == len(found)
    for i, point in enumerate(found):
        assert close(columns["time"][i], point.time)
        assert close(columns["flop"][i], point.total_flop)
        assert close(columns["attainable"][i], point.attainable_time)
        assert close(columns["bounded"][i], point.bounded_time)
        assert close(columns["launches"][i], point.launches)
        assert close(columns["uncounted"][i], point.uncounted_time)
        for level in (MemoryLevel.L1, MemoryLevel.DRAM):
            assert close(columns["bytes"][level.value][i], point.nbytes.get(level, math.nan))


def test_bounds_pairs_and_notes_are_named_once(
    seen: Any, profile: Profile, machine: Machine
) -> None:
    found = points(profile, machine, ("layer", "phase"))
    drawn = seen["points"]
    bounds = [None if i is None else seen["bounds"][i] for i in drawn["bound"]]
    assert bounds == [point.bound for point in found]
    notes = [[seen["notes"][i] for i in places or ()] for places in drawn["notes"]]
    assert notes == [list(point.notes) for point in found]
    for kind in ("names", "bounds", "notes", "pairs", "trust"):
        texts = [json.dumps(text) for text in seen[kind]]
        assert len(set(texts)) == len(texts)


def test_the_pair_is_that_of_most_flop(seen: Any) -> None:
    place = names(seen, "points", "layer").index("fc1")
    assert seen["pairs"][seen["points"]["pair"][place]] == ["matrix", "fp32"]


def test_trust_tells_sources_and_marks(seen: Any, profile: Profile, machine: Machine) -> None:
    found = points(profile, machine, ("layer", "phase"))
    place = next(i for i, p in enumerate(found) if p.key == {"layer": "fc1", "phase": "forward"})
    source, l1, dram = seen["trust"][seen["points"]["trust"][place]]
    assert source == "M/C/C/P"
    assert (l1, dram) == ("≥", "~")


def test_points_know_their_rows(seen: Any) -> None:
    layers = names(seen, "rows", "layer")
    assert [layers[row] for row in seen["points"]["row"]] == names(seen, "points", "layer")


def test_leaves_are_the_ops_of_the_layers(seen: Any, profile: Profile, machine: Machine) -> None:
    found = points(profile, machine, ("layer", "phase", "op"))
    got = zip(*(names(seen, "leaves", key) for key in ("layer", "phase", "op")), strict=True)
    assert list(got) == [tuple(point.key.values()) for point in found]
    assert "kernel" not in seen["leaves"]["keys"]


def test_leaves_are_kernels_where_there_are_any(profile: Profile, machine: Machine) -> None:
    kernels = profile.launches["op"].astype(str).add("_kernel<4>(int)").astype("category")
    known = profile.replace(launches=profile.launches.assign(kernel=kernels))
    seen = made(known, machine)
    assert "mm_kernel<4>(int)" in names(seen, "leaves", "kernel")
    short = {seen["names"][name]: label for name, label in seen["labels"]}
    assert short["mm_kernel<4>(int)"] == "mm_kernel"


def test_kernels_that_only_arguments_tell_apart_keep_both_ends(
    profile: Profile, machine: Machine
) -> None:
    long = [f"void gemm<{'float, ' * 20}{n}>(int)" for n in (4, 8)]
    launches = profile.launches.assign(kernel=[long[i % 2] for i in range(len(profile.launches))])
    seen = made(Profile.from_rows(launches), machine, ("kernel",))
    called = {label for _, label in seen["labels"]}
    assert {len(label) for label in called} == {80}
    assert {label[-8:] for label in called} == {" 4>(int)", " 8>(int)"}


def test_layers_have_their_types(seen: Any) -> None:
    types = [None if i is None else seen["names"][i] for i in seen["rows"]["type"]]
    by_layer = dict(zip(names(seen, "rows", "layer"), types, strict=True))
    assert by_layer["fc1"] == "Linear"
    assert by_layer["(no layer)"] is None


@pytest.mark.parametrize(
    "layers", [None, "x", [1, "a", {"name": 3}], [{"type": ["a"], "name": "fc1"}]]
)
def test_odd_lists_of_layers_do_no_harm(profile: Profile, machine: Machine, layers: Any) -> None:
    seen = made(profile.replace(run=profile.run | {"layers": layers}), machine)
    assert len(seen["rows"]["type"]) == seen["rows"]["size"]


def test_other_groupings_have_no_leaves(profile: Profile, machine: Machine) -> None:
    seen = made(profile, machine, ("op",))
    assert seen["leaves"]["size"] == 0
    assert "type" not in seen["rows"]
    assert [row for row in seen["points"]["row"] if row is None] == []


def test_what_is_zero_is_not_what_is_not_known(build: SimpleNamespace) -> None:
    rows = [
        build.row("a", "forward", "copy", 10, step=0, bytes_l1=1e5, **build.flop(vector_fp32=0.0)),
        build.row("b", "forward", "sort", 5, step=0, bytes_l1=0.0, source_flop="missing"),
    ]
    seen = made(Profile.from_rows(rows), None)
    assert seen["rows"]["flop"] == [0, None]
    assert seen["rows"]["bytes"]["l1"] == [100000, 0]
    assert "bound" not in seen["rows"]


def test_an_empty_run(machine: Machine) -> None:
    seen = made(Profile.from_rows([]), machine)
    assert [seen[table]["size"] for table in ("rows", "points", "leaves")] == [0, 0, 0]
    assert seen["time"] == 0


# Roofs


def test_roofs_come_from_the_cores_outwards_then_peaks(machine: Machine) -> None:
    found = roofs(machine)
    assert [roof["name"] for roof in found] == [
        "L1", "DRAM", "vector FP32", "matrix FP32", "matrix BF16"
    ]  # fmt: skip
    assert found[0]["level"] == "l1"
    assert found[3] == {
        "pipe": "matrix", "precision": "fp32", "name": "matrix FP32", "rate": 100e9,
        "how": "framework-reachable", "solid": True, "spread": 0.03, "kernel": "mm 1024",
    }  # fmt: skip


def test_without_a_machine_there_are_no_roofs() -> None:
    assert roofs(None) == []


def test_a_roof_that_cannot_be_drawn_is_left_out() -> None:
    odd = Machine("m", peaks={(Pipe.MATRIX, Precision.FP32): Ceiling(math.inf)},
                  bandwidths={MemoryLevel.L1: Ceiling(math.nan), MemoryLevel.DRAM: Ceiling(1e9)})  # fmt: skip
    assert [roof["name"] for roof in roofs(odd)] == ["DRAM"]


# Names


def test_long_names_lose_their_middle() -> None:
    text = clipped("a" * 5000 + "z" * 5000)
    assert len(text) == MAX_NAME
    assert text.startswith("aaa")
    assert text.endswith("zzz")
    assert "…" in text
    assert clipped("b" * MAX_NAME) == "b" * MAX_NAME


@pytest.mark.parametrize("char", ["\x00", "\x1b", "\n", "\u202e", "\ud800", "\x7f"])
def test_names_are_printable(char: str) -> None:
    assert clipped(f"a{char}b") == "a\ufffdb"


def test_groups_give_points_their_colours(seen: Any, profile: Profile, machine: Machine) -> None:
    groups = [seen["names"][place] for place in seen["points"]["group"]]
    assert groups == names(seen, "points", "phase")
    kinds = made(profile, machine, ("op",))
    by_op = dict(zip(names(kinds, "points", "op"), kinds["points"]["group"], strict=True))
    assert kinds["names"][by_op["copy"]] == "copy, cast, fill"


# Size


def test_the_longest_are_kept_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch, profile: Profile, machine: Machine
) -> None:
    for limit in ("MAX_ROWS", "MAX_POINTS", "MAX_LEAVES"):
        monkeypatch.setattr(module, limit, 2)
    seen = made(profile, machine)
    found = points(profile, machine)
    assert names(seen, "rows", "layer") == [point.key["layer"] for point in found[:2]]
    assert seen["left"]["rows"] == len(found) - 2
    assert seen["left"]["points"] == len(points(profile, machine, ("layer", "phase"))) - 2
    assert seen["left"]["leaves"] == len(points(profile, machine, ("layer", "phase", "op"))) - 2


def test_ops_are_looked_up_for_the_longest_layers_only(
    monkeypatch: pytest.MonkeyPatch, profile: Profile, machine: Machine
) -> None:
    monkeypatch.setattr(module, "MAX_LAYERS", 1)
    seen = made(profile, machine)
    longest = points(profile, machine)[0].key["layer"]
    assert set(names(seen, "leaves", "layer")) == {longest}


def test_numbers_are_short(seen: Any) -> None:
    digits = [
        len(repr(value).lstrip("0.").split("e")[0].replace(".", ""))
        for value in seen["points"]["time"]
    ]
    assert max(digits) <= 5


def test_points_of_any_keys_can_be_seen(profile: Profile) -> None:
    one: list[Point] = points(profile, None, ())
    assert view(profile, None, (), one, one)["points"]["row"] == [0]
