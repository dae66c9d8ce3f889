"""Selection: who competes for which ceiling, and who wins."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.ceilings.sampling import Samples
from hroof.ceilings.selection import Result, Target, by_target, candidates, ceiling, target, winner
from hroof.integration import CeilingKernel
from hroof.units import MemoryLevel, Pipe, Precision


def result(name: str, *rates: float, **what: Any) -> Result:
    def prepare() -> Any:
        raise AssertionError("selection runs no kernel")

    what = {"what": "bandwidth", "level": MemoryLevel.L2} | what
    return Result(
        CeilingKernel(name, prepare=prepare, note=f"note of {name}", **what), Samples(rates)
    )


def test_targets_have_the_names_people_know() -> None:
    assert Target(level=MemoryLevel.DRAM).label == "DRAM"
    assert Target(pair=(Pipe.MATRIX, Precision.BF16)).label == "matrix bf16"
    assert Target().label == "launch"


def test_a_variant_is_a_target_of_its_own_beside_the_ceiling() -> None:
    copy = result("copy_", 9, what="bandwidth", level=MemoryLevel.DRAM, variant="copy")
    read = result("sum", 5, what="bandwidth", level=MemoryLevel.DRAM)
    groups = by_target([copy, read])
    assert [key.label for key in groups] == ["DRAM", "DRAM copy"]
    assert [key.key for key in groups] == ["dram", "dram copy"]
    assert groups[Target(level=MemoryLevel.DRAM)] == [read]


def test_targets_are_kept_and_asked_for_by_plain_names() -> None:
    peak = Target(pair=(Pipe.VECTOR, Precision.FP32), variant="no fma")
    assert peak.key == "vector_fp32 no fma"
    assert peak.names == {"vector_fp32", "vector", "fp32"}
    assert Target(level=MemoryLevel.L2).names == {"l2"}
    assert Target().key == "launch_cost" and Target().names == {"launch"}
    assert Target(variant="graph").key == "launch_cost graph"


def test_the_ceiling_says_how_it_was_measured() -> None:
    known = {"what": "bandwidth", "level": MemoryLevel.L1, "how": "measured", "size": 4096}
    slow, fast = result("slow", 1), result("fold", 9, 9, threads=2, **known)
    chosen = ceiling([slow, dataclasses.replace(fast, clock=3e9)])
    assert (chosen.how, chosen.threads, chosen.size, chosen.clock) == ("measured", 2, 4096, 3e9)
    assert math.isnan(ceiling([slow]).clock)


def test_a_kernel_competes_for_what_it_says(fake: SimpleNamespace) -> None:
    assert target(fake.level("a", 1, MemoryLevel.L1)) == Target(level=MemoryLevel.L1)
    pair = (Pipe.VECTOR, Precision.FP64)
    assert target(fake.peak("b", 1, Precision.FP64, Pipe.VECTOR)) == Target(pair=pair)
    assert target(fake.kernel("c", 1, what="launch")) == Target()


@pytest.mark.parametrize(
    "what",
    [
        {"what": "bandwidth"},
        {"what": "peak", "pipe": Pipe.MATRIX},
        {"what": "peak", "precision": Precision.FP32},
        {"what": "heat"},
    ],
)
def test_a_kernel_without_a_target_is_refused(fake: SimpleNamespace, what: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"which {what['what']} it measures"):
        target(fake.kernel("lost", 1, **what))


def test_the_best_sample_wins_not_the_best_median() -> None:
    steady, bursty = result("steady", 9, 9, 9), result("bursty", 1, 10, 1)
    assert winner([steady, bursty]) is bursty
    chosen = ceiling([steady, bursty])
    assert (chosen.rate, chosen.median, chosen.samples) == (10, 1, 3)
    assert (chosen.kernel, chosen.note) == ("bursty", "note of bursty")
    assert chosen.how == "framework-reachable"


@pytest.mark.parametrize(
    ("near", "how"), [(96, "measured"), (95, "measured"), (94, "framework-reachable")]
)
def test_a_winner_beside_a_kernel_of_the_whole_unit_is_measured(near: float, how: str) -> None:
    chosen = ceiling([result("library", 100), result("own", near, how="measured")])
    assert (chosen.kernel, chosen.rate, chosen.how) == ("library", 100, how)


def test_of_equals_the_first_wins() -> None:
    assert winner([result("first", 5), result("second", 5)]).kernel.name == "first"


def test_a_launch_cost_is_the_shortest_time_per_launch() -> None:
    chosen = ceiling([result("a", 1e6, 2e6, 1e6, what="launch"), result("b", 1.5e6, what="launch")])
    assert chosen.kernel == "a"
    assert chosen.rate == pytest.approx(5e-7)
    assert chosen.median == pytest.approx(1e-6)


def test_groups_are_ordered_from_launch_over_levels_to_peaks() -> None:
    matrix = {"what": "peak", "pipe": Pipe.MATRIX}
    groups = by_target(
        [
            result("bf16", 1, **matrix, precision=Precision.BF16),
            result("fp32", 1, **matrix, precision=Precision.FP32),
            result("dram", 1, what="bandwidth", level=MemoryLevel.DRAM),
            result("vector", 1, what="peak", pipe=Pipe.VECTOR, precision=Precision.FP32),
            result("l1", 1, what="bandwidth", level=MemoryLevel.L1),
            result("launch", 1, what="launch"),
            result("l1 too", 2, what="bandwidth", level=MemoryLevel.L1),
        ]
    )
    assert [key.label for key in groups] == [
        "launch",
        "L1",
        "DRAM",
        "vector fp32",
        "matrix fp32",
        "matrix bf16",
    ]
    assert [entry.kernel.name for entry in groups[Target(level=MemoryLevel.L1)]] == ["l1", "l1 too"]


def test_losers_are_kept_for_the_record() -> None:
    groups = by_target([result("read", 3, 4), result("both", 7)])
    assert candidates(groups) == {"L2": {"read": 4, "both": 7}}
