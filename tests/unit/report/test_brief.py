"""The short report: nothing important is missing, and it fits a terminal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from hroof.errors import UsageError
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report import brief
from hroof.units import Pipe, Precision


def test_it_has_every_section(profile: Profile, machine: Machine) -> None:
    text = brief.render(profile, machine, width=110)
    for part in (
        "Verdict",
        "What to change first",
        "By layer",
        "How far to trust it",
        "Phases:",
        "Coverage:",
    ):
        assert part in text
    assert "Ceilings (" in text


def test_every_layer_is_ranked_or_counted(profile: Profile, machine: Machine) -> None:
    layers = set(profile.launches["layer"].dropna().astype(str))
    everything = brief.render(profile, machine, top=0, width=200)
    assert all(layer in everything for layer in layers)
    short = brief.render(profile, machine, top=1, width=200)
    assert "more rows" in short and "--top 0 shows all" in short


@pytest.mark.parametrize("width", [20, 60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(profile: Profile, machine: Machine, width: int) -> None:
    text = brief.render(profile, machine, width=width)
    assert max(len(line) for line in text.splitlines()) <= width


def test_it_fits_a_terminal_of_110_columns_as_a_table(profile: Profile, machine: Machine) -> None:
    assert "narrow terminal" not in brief.render(profile, machine, width=110)


def test_without_ceilings_there_are_times_only(profile: Profile) -> None:
    text = brief.render(profile, None, width=110)
    assert "Measured times only" in text
    assert "headroom" not in text.split("How far")[0].split("By layer")[1].splitlines()[3]
    assert "hroof ceilings" in text


def test_nothing_captured(machine: Machine) -> None:
    empty = Profile.from_rows([], {"name": "none"})
    text = brief.render(empty, machine, width=100)
    assert "No launch was captured." in text


def test_ops_without_a_rule_are_named(profile: Profile, machine: Machine) -> None:
    assert "no FLOP rule:" in brief.render(profile, machine, width=110)


def test_where_the_numbers_come_from_is_explained(profile: Profile, machine: Machine) -> None:
    text = brief.render(profile, machine, width=110)
    assert "≥ counted, at least · ~ predicted" in text
    assert "nan" not in text.lower().replace("domi", "")


def test_the_undisturbed_step_stands_beside_the_wall_time(
    profile: Profile, machine: Machine
) -> None:
    run = dict(profile.run) | {"undisturbed_step": 3e-4}
    assert "wall 440 µs ·" in brief.render(profile, machine, width=200)
    known = brief.render(profile.replace(run=run), machine, width=200)
    assert "wall 440 µs (undisturbed 300 µs) ·" in known


def test_rows_are_said_not_to_add_up(profile: Profile, machine: Machine) -> None:
    said = "Each row is a median of its own: rows do not add up exactly to the step."
    assert said in brief.render(profile, machine, width=110)
    assert said not in brief.render(profile, machine, by=("device",), width=110)


def ceilings_line(profile: Profile, machine: Machine) -> str:
    text = brief.render(profile, machine, width=1000)
    return next(line for line in text.splitlines() if line.startswith("Ceilings ("))


def test_vector_peaks_are_named_only_where_they_differ(
    profile: Profile, build: SimpleNamespace
) -> None:
    peaks = {
        (Pipe.MATRIX, Precision.FP32): Ceiling(1e11),
        (Pipe.VECTOR, Precision.FP32): Ceiling(1e11),
        (Pipe.MATRIX, Precision.FP64): Ceiling(5e10),
        (Pipe.VECTOR, Precision.FP64): Ceiling(2e10),
    }
    shared = ceilings_line(profile, build.machine(peaks=peaks, shared_pipes=True))
    assert "matrix fp32 100 GFLOP/s" in shared
    assert "vector fp32" not in shared
    assert "vector fp64 20.0 GFLOP/s" in shared
    assert "vector: same unit" in shared
    assert "DRAM" in shared
    assert "launch 2.00 µs" in shared
    assert "same unit" not in ceilings_line(profile, build.machine(peaks=peaks, shared_pipes=False))


def test_the_columns_are_of_the_farthest_level_that_is_used(build: SimpleNamespace) -> None:
    """A model that fits the caches moves nothing at DRAM: two columns of dashes help nobody."""
    rows = [
        build.row(
            "fc", "forward", "mm", 5, **build.flop(matrix_fp32=1e6),
            bytes_l1=1e6, bytes_l2=1e5, bytes_dram=far,
            source_l2="predicted", source_dram="predicted",
        )
        for far in (0.0, 0.0)
    ]  # fmt: skip
    text = brief.render(Profile.from_rows(rows), build.machine(), width=200)
    assert "B/s L2" in text and "FLOP/B L2" in text
    assert "B/s DRAM" not in text
    rows[1] |= {"bytes_dram": 10.0}
    assert "B/s DRAM" in brief.render(Profile.from_rows(rows), build.machine(), width=200)


def test_any_grouping(profile: Profile, machine: Machine) -> None:
    text = brief.render(profile, machine, by=("phase", "op"), width=160)
    assert "By phase, op" in text


def test_an_unknown_key_is_refused(profile: Profile, machine: Machine) -> None:
    with pytest.raises(UsageError):
        brief.render(profile, machine, by=("colour",))


def test_it_is_deterministic(profile: Profile, machine: Machine) -> None:
    assert brief.render(profile, machine, width=100) == brief.render(profile, machine, width=100)


def imported(rows: list[dict[str, Any]]) -> Profile:
    counters = pd.DataFrame({"m": [1.0] * len(rows)})
    return Profile.from_rows(rows, {"name": "x", "device": "cuda:0"}, counters)


def test_what_counters_measured_is_no_step_and_vector_work_is_not_elementwise() -> None:
    row = {"kernel": "gemm", "duration": 1e-3, "flop_nominal_vector_fp32": 1e6}
    text = " ".join(brief.render(imported([row]), None, width=110, by=("kernel",)).split())
    assert "launches 1.00 ms, wall" in text
    assert "1.00 MFLOP vector" in text
    assert "a step, wall" not in text


def test_integer_work_has_its_own_rate() -> None:
    row = {"kernel": "imma", "duration": 1e-3, "flop_nominal_matrix_int8": 2e9}
    text = brief.render(imported([row]), None, width=110, by=("kernel",))
    assert "2.00 TOP/s" in text


def test_long_lists_and_names_are_cut_in_the_coverage() -> None:
    rows = [{"kernel": f"k{n}_" + "x" * 200, "duration": 1e-3} for n in range(9)]
    text = " ".join(brief.render(imported(rows), None, width=110, by=("kernel",), top=1).split())
    assert "FLOP unknown: k0_" in text
    assert "and 4 more" in text
    assert "x" * 100 not in text.split("Coverage:")[1].split("Ceilings:")[0]


def test_bytes_of_some_launches_only() -> None:
    rows = [{"kernel": "a", "duration": 1.0, "bytes_dram": 1.0}, {"kernel": "b", "duration": 1.0}]
    text = " ".join(brief.render(imported(rows), None, width=110, by=("kernel",)).split())
    assert "bytes known at DRAM of 1 of 2 launches" in text
