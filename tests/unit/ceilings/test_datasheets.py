"""Data sheets: names of devices, dense peaks, and the shares of them that a machine reaches."""

from __future__ import annotations

import json
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hroof.ceilings import checks
from hroof.ceilings.datasheets import datasheet, find_sheet, shares, sheets, sparse_peaks
from hroof.machine import Ceiling, Machine
from hroof.units import MemoryLevel, Pipe, Precision

BF16 = (Pipe.MATRIX, Precision.BF16)


def gpu(name: str, *, clock: float | None = None, **rates: float) -> Machine:
    """A machine with some ceilings, e.g. ``matrix_bf16=1e12``."""
    pairs = {f"{p}_{q}": (p, q) for p in Pipe for q in Precision}
    return Machine(
        name,
        "cuda:0",
        peaks={pairs[key]: Ceiling(rate) for key, rate in rates.items() if key in pairs},
        bandwidths={MemoryLevel(key): Ceiling(r) for key, r in rates.items() if key not in pairs},
        facts={} if clock is None else {"clock": clock},
    )


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("Tesla V100-SXM2-16GB", "SXM2"),
        ("Tesla V100-PCIE-32GB", "V100 Tensor Core GPU data sheet (PCIe)"),
        ("Tesla V100S-PCIE-32GB", "V100S"),
        ("Tesla T4", "T4"),
        ("NVIDIA A100-SXM4-40GB", "40 GB"),
        ("NVIDIA A100-PCIE-40GB", "40 GB"),
        ("NVIDIA A100-SXM4-80GB", "80 GB, SXM"),
        ("NVIDIA A100 80GB PCIe", "80 GB, PCIe"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA GeForce RTX 3090", "GA102"),
        ("NVIDIA GeForce RTX 4090", "Ada"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA H100 80GB HBM3", "H100 Tensor Core GPU data sheet (SXM)"),
        ("H100 SXM5", "H100 Tensor Core GPU data sheet (SXM)"),
        ("NVIDIA H100 PCIe", "H100 Tensor Core GPU data sheet (PCIe)"),
        ("NVIDIA H100 NVL", "H100 Tensor Core GPU data sheet (NVL)"),
        ("NVIDIA H200", "H200 Tensor Core GPU data sheet (SXM)"),
        ("nvidia h200 nvl", "H200 Tensor Core GPU data sheet (NVL)"),
        ("NVIDIA B200", "B200"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_a_device_is_found_by_the_name_that_a_framework_gives_it(name: str, part: str) -> None:
    sheet = find_sheet(name)
    assert sheet is not None and part in sheet.source


@pytest.mark.parametrize(
    "name",
    [
        "",
        "NVIDIA",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
        "NVIDIA A10G",
        "NVIDIA A100",
        "Some CPU with 100 cores",
    ],
)
def test_another_device_has_no_sheet(name: str) -> None:
    assert find_sheet(name) is None
    assert datasheet(name) is None
    machine = gpu(name, matrix_bf16=1e18, dram=1e18)
    assert shares(machine) == {} and sparse_peaks(machine) == []


# --- the file -----------------------------------------------------------------------------------


def test_every_sheet_names_its_source_and_real_ceilings() -> None:
    for sheet in sheets():
        assert len(sheet.source) > 10
        assert "dram" in sheet.rates and len(sheet.rates) > 3
        assert 1e9 < sheet.boost < 4e9
        assert sheet.unverified <= {*sheet.rates, "boost"}


def test_rates_are_plausible_in_base_units() -> None:
    for sheet in sheets():
        assert 1e11 < sheet.rates["dram"] < 1e13
        for name, rate in sheet.rates.items():
            assert name == "dram" or 1e12 <= rate <= 1e16, (sheet.source, name)


def test_no_two_sheets_answer_to_the_same_words() -> None:
    words = [own for sheet in sheets() for own in sheet.words]
    assert len(set(words)) == len(words)


def test_matrix_peaks_are_dense() -> None:
    """From half to half: tf32 → 16 bit → 8 bit; a sparse rate among them would break the chain."""
    chain = ("matrix_tf32", "matrix_bf16", "matrix_fp8")
    for sheet in sheets():
        rates = [sheet.rates[name] for name in chain if name in sheet.rates]
        for slow, fast in pairwise(rates):
            assert fast / slow == pytest.approx(2, rel=0.01), sheet.source


def test_unverified_values_stay_marked() -> None:
    machine = datasheet("NVIDIA H100 NVL")
    assert machine is not None
    assert machine.peaks[BF16].note.endswith("; dense; unverified.")
    other = datasheet("NVIDIA A100-SXM4-80GB")
    assert other is not None
    assert other.peaks[BF16].note.endswith("; dense.")


def test_a_sheet_is_a_machine_of_one_kind_of_evidence() -> None:
    machine = datasheet("NVIDIA H200")
    assert machine is not None
    assert machine.peaks[BF16].rate == 989.4e12
    assert machine.bandwidths[MemoryLevel.DRAM].rate == 4.8e12
    kinds = {c.how for c in (*machine.peaks.values(), *machine.bandwidths.values())}
    assert kinds == {"datasheet"}
    assert re.search("H200", str(machine.facts["source"]))
    assert Machine.from_json(machine.to_json()).peaks == machine.peaks


# --- shares -------------------------------------------------------------------------------------


def test_a_share_is_measured_over_printed() -> None:
    found = shares(gpu("NVIDIA A100-SXM4-80GB", clock=1.41e9, dram=1.8e12, matrix_bf16=250e12))
    assert found == {"matrix_bf16": pytest.approx(250 / 312), "dram": pytest.approx(1.8 / 2.039)}


def test_a_higher_clock_computes_more_but_moves_no_more() -> None:
    machine = gpu("NVIDIA GeForce RTX 4090", clock=2.77e9, vector_fp32=90e12, dram=1.05e12)
    found = shares(machine)
    assert found["vector_fp32"] == pytest.approx(90 / 82.6 * 2.52 / 2.77)
    assert found["dram"] == pytest.approx(1.05 / 1.008)


def test_a_lower_clock_is_no_excuse() -> None:
    machine = gpu("NVIDIA A100-SXM4-80GB", clock=1.0e9, matrix_bf16=330e12)
    assert shares(machine)["matrix_bf16"] == pytest.approx(330 / 312)


@pytest.mark.parametrize(("rate", "share"), [(80e12, 0.969), (95e12, 1.0), (165.2e12, 1.538)])
def test_with_an_unknown_clock_a_little_above_the_sheet_proves_nothing(
    rate: float, share: float
) -> None:
    found = shares(gpu("NVIDIA GeForce RTX 4090", vector_fp32=rate))
    assert found["vector_fp32"] == pytest.approx(share, rel=1e-3)


# --- sparsity -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "sparse"), [(989e12, False), (1979e12, True), (1970e12, True), (1800e12, False)]
)
def test_twice_the_dense_peak_is_the_sparse_one(rate: float, sparse: bool) -> None:
    assert sparse_peaks(gpu("NVIDIA H200", matrix_bf16=rate)) == ["matrix_bf16"] * sparse


def test_vector_peaks_and_bandwidths_have_no_sparse_form() -> None:
    machine = gpu("NVIDIA H200", vector_fp32=133.8e12, dram=9.6e12)
    assert sparse_peaks(machine) == []


def test_every_sparse_peak_is_found() -> None:
    twice: dict[str, Any] = {"matrix_bf16": 624e12, "matrix_tf32": 312e12, "matrix_fp16": 312e12}
    assert sparse_peaks(gpu("NVIDIA A100-SXM4-80GB", **twice)) == ["matrix_tf32", "matrix_bf16"]


# --- the solved case ----------------------------------------------------------------------------


def test_case_63_the_roof_is_dense_and_a_sparse_one_is_told() -> None:
    root = os.environ.get("HROOF_CASES")
    if not root:
        pytest.skip("HROOF_CASES is not set: the solved cases lie outside the repository")
    (folder,) = Path(root).glob("63-*")
    given = json.loads((folder / "input.json").read_text(encoding="utf-8"))
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expect"]
    sheet = datasheet(given["device"])
    assert sheet is not None
    dense = sheet.peaks[BF16].rate
    assert dense == pytest.approx(given["datasheet_dense"], rel=1e-3)
    share = 100 * given["achieved_flops_per_s"] / dense
    assert share == pytest.approx(expected["utilisation_pct_dense"], rel=1e-3)
    told = checks.given(gpu(given["device"], matrix_bf16=given["user_peak_flops_per_s"]))
    assert bool(told) is expected["warn_if_user_peak_is_sparse"]
    assert checks.given(gpu(given["device"], matrix_bf16=dense)) == ()
