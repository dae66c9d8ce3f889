"""What changed of the work of a layer, in words."""

from __future__ import annotations

from typing import Any

import pytest

from hroof.compare import Difference, How, Judged, Part, compare
from hroof.compare.noise import Change
from hroof.compare.work import SAME, facts_of, main_pair, short_work, work_of
from hroof.profile import Profile
from hroof.roofline import Point
from hroof.units import MemoryLevel, Pipe, Precision, Source

L1, L2, L3, DRAM = MemoryLevel
FP32, BF16 = (Pipe.MATRIX, Precision.FP32), (Pipe.MATRIX, Precision.BF16)
VECTOR = (Pipe.VECTOR, Precision.FP32)


def part(
    flop: dict[Any, float], nbytes: dict[MemoryLevel, float], launches: float = 1.0, **more: Any
) -> Part:
    sources = {"flop": Source.COUNTED} | dict.fromkeys(map(str, nbytes), Source.COUNTED)
    nan = float("nan")
    point = Point(
        {}, launches, 1.0, nan, flop, flop, nbytes, None, nan, None, None, 0.0, 0.0,
        0.0 if flop else more.get("zero", 0.0), sources,
    )  # fmt: skip
    return Part("fc", point, (1.0,))


def row(base: Part | None, new: Part | None) -> Difference:
    return Difference(base, new, How.NAME, Judged(Change.UNKNOWN, float("nan")))


BASE = part({FP32: 1e9}, {L1: 4e6, DRAM: 2e6}, 2.0)


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (BASE, SAME),
        (part({FP32: 1.001e9}, {L1: 4e6, DRAM: 2e6}, 2.0), SAME),
        (part({BF16: 1e9}, {L1: 2e6, DRAM: 1e6}, 2.0), "fp32 → bf16, DRAM × 0.500, L1 × 0.500"),
        (part({VECTOR: 1e9}, {L1: 4e6, DRAM: 2e6}, 2.0), "matrix fp32 → vector fp32"),
        (part({FP32: 2e9}, {L1: 4e6, DRAM: 2e6}, 5.0), "FLOP × 2.00, launches × 2.50"),
        (part({}, {L1: 4e6, DRAM: 2e6}, 2.0), SAME),
        (part({}, {L1: 4e6, DRAM: 2e6}, 2.0, zero=2.0), "FLOP 1.00 G → 0"),
        (part({FP32: 1e9}, {DRAM: 6e6}, 2.0), "DRAM × 3.00"),
    ],
)
def test_words(new: Part, told: str) -> None:
    assert work_of(row(BASE, new)) == told


def test_a_table_has_the_first_two() -> None:
    new = part({BF16: 2e9}, {L1: 2e6, DRAM: 1e6}, 4.0)
    assert short_work(row(BASE, new)) == "fp32 → bf16, FLOP × 2.00"
    assert len(facts_of(row(BASE, new))) == 5


def test_what_is_new_or_gone_has_no_words() -> None:
    assert work_of(row(None, BASE)) == ""
    assert work_of(row(BASE, None)) == ""


def test_what_is_known_of_nothing_is_not_called_the_same() -> None:
    nothing = part({}, {}, 2.0)
    assert work_of(row(nothing, nothing)) == ""


def test_integer_work_is_no_precision() -> None:
    point = part({(Pipe.MATRIX, Precision.INT8): 1e9}, {}).point
    assert main_pair(point) is None
    assert main_pair(part({FP32: 1.0, BF16: 2.0}, {}).point) == BF16


def test_bytes_of_other_kinds_are_not_compared(profile: Profile, build: Any) -> None:
    rows = [
        r | {"source_l1": "counter", "bytes_l1": 10 * r.get("bytes_l1", 0.0)} for r in build.rows()
    ]
    found = compare(profile, Profile.from_rows(rows, build.run()))
    assert "L1" not in work_of(found.total)
