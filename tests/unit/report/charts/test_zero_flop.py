"""Launches without FLOP within layers that have FLOP."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.chart import Artists, Choice, draw
from hroof.report.charts.zero_flop import zero_flop_spots
from hroof.roofline import points
from hroof.units import MemoryLevel

L1, DRAM = MemoryLevel.L1, MemoryLevel.DRAM


def test_the_copy_within_a_layer_is_in_the_strip(profile: Profile, machine: Machine) -> None:
    by = ("layer",)
    (one,) = zero_flop_spots(profile, machine, by, points(profile, machine, by))
    assert (one.name, one.label, one.group) == ("fc1 · without FLOP", "fc1", "fc1")
    assert one.time == pytest.approx(11e-6)  # the median step
    assert one.byte_rate == pytest.approx({L1: 1e5 / 11e-6, DRAM: 1e5 / 11e-6})


def test_groups_without_any_flop_are_there_themselves(profile: Profile, machine: Machine) -> None:
    for by in (("op",), ("layer", "op")):
        assert zero_flop_spots(profile, machine, by, points(profile, machine, by)) == []


def test_integer_operations_compute_something(machine: Machine, build: SimpleNamespace) -> None:
    rows = [
        build.row("fc", "forward", "mm", 10, bytes_l1=1e5, **build.flop(matrix_fp32=1e6)),
        build.row("fc", "forward", "int_mm", 10, bytes_l1=1e5, **build.flop(matrix_int8=1e6)),
    ]
    found = Profile.from_rows(rows)
    assert zero_flop_spots(found, machine, ("layer",), points(found, machine, ("layer",))) == []


def test_views_move_nothing_and_are_no_work(machine: Machine, build: SimpleNamespace) -> None:
    rows = [
        build.row("fc", "forward", "mm", 10, bytes_l1=1e5, **build.flop(matrix_fp32=1e6)),
        build.row("fc", "forward", "view", 1, bytes_l1=0.0, **build.flop(vector_fp32=0.0)),
    ]
    found = Profile.from_rows(rows)
    assert zero_flop_spots(found, machine, ("layer",), points(found, machine, ("layer",))) == []


def test_what_is_not_counted_is_not_without_flop(machine: Machine, build: SimpleNamespace) -> None:
    rows = [
        build.row("fc", "forward", "mm", 10, bytes_l1=1e5, **build.flop(matrix_fp32=1e6)),
        build.row("fc", "forward", "sort", 10, bytes_l1=1e5),
    ]
    found = Profile.from_rows(rows)
    assert zero_flop_spots(found, machine, ("layer",), points(found, machine, ("layer",))) == []


def test_a_chart_by_layer_shows_them(profile: Profile, machine: Machine) -> None:
    artists = draw(profile, machine, ("layer",))
    assert isinstance(artists, Artists)
    assert "fc1" in artists.names[L1]
    assert artists.strip is not None
    assert set(artists.strip.names[L1]) == {"fc1 · without FLOP", "(no layer)"}
    assert artists.strip.labels["fc1 · without FLOP"].get_text() == "fc1  11.0 µs"


def test_where_there_is_no_strip_they_are_named(profile: Profile, machine: Machine) -> None:
    artists = draw(profile, machine, ("layer",), Choice(style="paper"))
    assert isinstance(artists, Artists)
    assert "0 FLOP: fc1 · without FLOP, (no layer)" in artists.caption


def test_an_empty_run(machine: Machine) -> None:
    assert zero_flop_spots(Profile.from_rows([]), machine, ("layer",), []) == []
