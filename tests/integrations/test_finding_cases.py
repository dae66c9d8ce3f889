"""Known traps of reports, as findings see them: solved cases where HROOF_CASES names them.

Ratios of sums (69), work without FLOP (70), shapes that vary (72), and points above a roof (74). What reports and
charts make of them: test_report_cases.
"""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from hroof.findings import Finding, findings, verdict, warnings
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.units import MemoryLevel, Pipe, Precision

COUNTED = {"source_time": "measured", "source_flop": "counted", "phase": "forward"}


def row(layer: str, seconds: float, flop: float, size: float, **more: Any) -> dict[str, Any]:
    """One op with its FLOP on the vector pipe and its bytes at L1 and DRAM."""
    both = {f"flop_{kind}_vector_fp32": flop for kind in ("nominal", "least")}
    known = {"bytes_l1": size, "bytes_dram": size, "source_l1": "counted", "source_dram": "counter"}
    return COUNTED | {"layer": layer, "duration": seconds} | both | known | more


def machine(peak: float, bandwidth: float) -> Machine:
    return Machine(
        "chip",
        "cuda:0",
        {(Pipe.VECTOR, Precision.FP32): Ceiling(peak, how="measured")},
        {MemoryLevel.DRAM: Ceiling(bandwidth, how="measured")},
    )


def profile(rows: list[dict[str, Any]]) -> Profile:
    return Profile.from_rows([each | {"step": step} for step in range(3) for each in rows])


def case(number: int) -> tuple[Path, dict[str, Any]]:
    """The folder of a solved case, and what is expected of it."""
    root = os.environ.get("HROOF_CASES")
    if not root:
        pytest.skip("HROOF_CASES does not name a folder of cases")
    (folder,) = Path(root).glob(f"{number}-*")
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return folder, expected["expect"]


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "input.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def about(layer: str, found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if layer in finding.layers]


# --- 69: ratios of sums -------------------------------------------------------------------------


def test_a_tiny_op_of_high_intensity_does_not_decide_what_bounds_its_layer() -> None:
    rows = [row("L", 4e-6, 1e9, 1e3), row("L", 200e-6, 1e3, 100e6)]
    (finding,) = about("L", findings(profile(rows), machine(1e15, 1e12)))
    assert finding.kind == "memory"
    assert "DRAM bounds 99 %" in finding.title
    assert finding.saves == pytest.approx(204e-6 - 101e-6)


def test_case_69() -> None:
    folder, expected = case(69)
    rows = [
        row(
            k["layer"],
            float(k["time_us"]) * 1e-6,
            float(k["flops"]),
            float(k["bytes"]),
            op=k["kernel"],
        )
        for k in table(folder)
    ]
    found = about("L", findings(profile(rows), machine(1e15, 2e12)))
    layer = next(finding for finding in found if finding.kind == "memory")
    attainable = sum(max(float(k["flops"]) / 1e15, float(k["bytes"]) / 2e12) for k in table(folder))
    assert layer.saves == pytest.approx(expected["time_us"] * 1e-6 - attainable)


# --- 70: work without FLOP ----------------------------------------------------------------------


def test_copies_that_take_the_time_are_found_and_integer_work_is_none_of_them() -> None:
    integers = {"flop_nominal_matrix_int8": 2e9, "flop_least_matrix_int8": 2e9}
    rows = [
        row("a", 40e-6, 0.0, 8e6, op="aten::copy_"),
        row("b", 40e-6, 0.0, 8e6, op="aten::copy_", **integers),
        row("c", 20e-6, 1e6, 5e5, op="aten::mm"),
    ]
    found = findings(profile(rows), machine(1e12, 1e12))
    (finding,) = [each for each in found if each.kind == "conversion"]
    assert finding.layers == ("a",)
    assert finding.share_of_step == pytest.approx(0.4)


def test_case_70() -> None:
    folder, expected = case(70)
    rows = []
    for k in table(folder):
        integers = {
            f"flop_{kind}_matrix_int8": float(k["int_ops"]) for kind in ("nominal", "least")
        }
        seconds, size = float(k["time_us"]) * 1e-6, float(k["bytes"])
        rows.append(
            row(
                k["kernel"], seconds, float(k["flops"]), size, op=f"aten::{k['kernel']}", **integers
            )
        )
    found = findings(profile(rows), machine(1e13, 1e13))
    (finding,) = [each for each in found if each.kind == "conversion"]
    assert finding.layers == ("copy",)
    assert 100 * finding.share_of_step == pytest.approx(expected["time_share_pct"]["copy"])
    assert all("nan" not in each.title for each in found)


# --- 72: FLOP, bytes and time of the same work ---------------------------------------------------


def test_case_72() -> None:
    folder, expected = case(72)
    rows = [
        row(f"gemm {k['shape']}", float(k["time_us_per_call"]) * 1e-6, float(k["flops_per_call"]),
            float(k["bytes_per_call"]))
        for k in table(folder)
        for _ in range(int(k["calls"]))
    ]  # fmt: skip
    found = findings(profile(rows), machine(4e12, 1e13))
    long, short = about("gemm l", found)[0], about("gemm s", found)
    assert long.saves == pytest.approx(expected["all_time_us"] * 1e-6 - 16e-6 - 2 * 1e9 / 4e12)
    assert short == [] or short[0].saves < 16e-6  # and never a share of the other shape's time


# --- 74: above a roof ---------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "intensity"), [(103e12, 1000.0), (600e9, 0.5)])
def test_what_lies_above_a_roof_is_no_success_and_supports_no_verdict(
    rate: float, intensity: float
) -> None:
    run = profile([row("p", 1e-3, rate * 1e-3, rate * 1e-3 / intensity)])
    chip = machine(100e12, 1e12)
    found = findings(run, chip)
    assert about("p", found) == []
    assert not verdict(run, chip, found).supported
    assert any("Faster than the ceilings allow: p" in text for text in warnings(run, chip))


def test_case_74() -> None:
    folder, expected = case(74)
    given = json.loads((folder / "input.json").read_text(encoding="utf-8"))
    chip = machine(given["peak_flops"], given["peak_bw"])
    for point in given["points"]:
        flop = point["flops_per_s"] * 1e-3
        run = profile([row(point["n"], 1e-3, flop, flop / point["ai"])])
        flagged = expected["flags"][point["n"]]
        assert all(finding.saves <= 1e-3 for finding in findings(run, chip))
        assert verdict(run, chip).supported is (flagged is None)
        if flagged:
            assert about(point["n"], findings(run, chip)) == []
