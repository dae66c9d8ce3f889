"""What a multiprocessor can do in a cycle, against the vendor's figures for whole devices."""

from __future__ import annotations

from itertools import product

import pytest

pytest.importorskip("torch")

from hroof.units import MemoryLevel, Pipe, Precision
from hroof_torch.ceilings.cuda.limits import per_cycle

NAMES = {f"{pipe}_{precision}" for pipe, precision in product(Pipe, Precision)} | set(MemoryLevel)


V100 = {"vector_fp64": 7.8e12, "vector_fp32": 15.7e12}
A100 = {
    "vector_fp64": 9.7e12,
    "vector_fp32": 19.5e12,
    "matrix_fp64": 19.5e12,
    "matrix_tf32": 156e12,
    "matrix_bf16": 312e12,
    "matrix_int8": 624e12,
}
H100_FMA = {"vector_fp64": 34e12, "vector_fp32": 67e12, "matrix_fp64": 67e12}
H100_TENSOR = {"matrix_tf32": 494e12, "matrix_bf16": 989e12, "matrix_fp8": 1979e12}


@pytest.mark.parametrize(
    ("capability", "units", "boost", "sheet"),
    [
        ((7, 0), 80, 1.53e9, V100),
        ((8, 0), 108, 1.41e9, A100),
        ((9, 0), 132, 1.98e9, H100_FMA),
        ((9, 0), 132, 1.83e9, H100_TENSOR),  # the sheet has a lower clock for these
    ],
)
def test_the_vendors_peaks_follow(
    capability: tuple[int, int], units: int, boost: float, sheet: dict[str, float]
) -> None:
    limits = per_cycle(capability)
    for name, peak in sheet.items():
        assert limits[name] * units * boost == pytest.approx(peak, rel=0.02), name


@pytest.mark.parametrize("capability", [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0)])
def test_limits_have_the_names_of_ceilings(capability: tuple[int, int]) -> None:
    limits = per_cycle(capability)
    assert set(limits) <= NAMES
    assert limits["l1"] == 128
    assert limits["matrix_fp32"] == limits["vector_fp32"] > 0


def test_an_unknown_capability_has_no_limits() -> None:
    assert per_cycle((99, 0)) == {}
