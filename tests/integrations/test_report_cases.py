"""Known traps of reports, from a saved run to what a reader sees: solved cases where HROOF_CASES names them.

Here: what reports and charts make of ratios (69), of work without FLOP (70), of shapes that vary (72), of points above
a roof (74), of odd values (75), and of a machine without a screen (77). What findings make of them: test_finding_cases.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hroof.cli import main
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.units import MemoryLevel, Pipe, Precision

F32 = ("flop_nominal_vector_fp32", "flop_least_vector_fp32")
INT8 = ("flop_nominal_matrix_int8", "flop_least_matrix_int8")
NOT_A_NUMBER = re.compile(r"(?<![A-Za-z])(?:nan|inf|infinity)(?![A-Za-z])", re.IGNORECASE)


def record(group: str, flop: float, seconds: float, **more: Any) -> dict[str, Any]:
    """A launch whose work is known, as a row of the table."""
    known = {"source_time": "counter", "source_flop": "counter"}
    known |= {
        f"source_{name.removeprefix('bytes_')}": "counter" for name in more if "bytes" in name
    }
    return {"layer": group, "kernel": group, "duration": seconds, "step": 0, **known,
            **dict.fromkeys(F32, flop), **more}  # fmt: skip


def machine(peak: float, bandwidth: float) -> Machine:
    return Machine(
        "chip",
        "cuda:0",
        {(Pipe.VECTOR, Precision.FP32): Ceiling(peak, how="measured")},
        {MemoryLevel.DRAM: Ceiling(bandwidth, how="measured")},
    )


class Reports:
    """The reports of a saved run, as the command line writes them."""

    def __init__(self, folder: Path, rows: list[dict[str, Any]], roofs: Machine | None) -> None:
        self.folder = folder / "run"
        Profile.from_rows(rows, {"name": "case", "device": "cuda:0"}).save(self.folder)
        if roofs is not None:
            roofs.save(self.folder / "machine.json")

    def text(self, suffix: str, by: str) -> str:
        path = self.folder.parent / f"report-{by}{suffix}"
        assert main(["report", str(self.folder), "-o", str(path), "--by", by, "--quiet"]) == 0
        return path.read_text(encoding="utf-8")

    def json(self, by: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text(".json", by))
        return found

    def rows(self, by: str) -> dict[str, dict[str, Any]]:
        return {row[by]: row for row in self.json(by)["rows"]}


def case(number: int) -> tuple[Path, dict[str, Any]]:
    """The files of one case, by its number, and its right answers."""
    folder = os.environ.get("HROOF_CASES")
    if not folder:
        pytest.skip("HROOF_CASES does not name the folder of the cases")
    (found,) = Path(folder).glob(f"{number:02}-*")
    return found, json.loads((found / "expected.json").read_text())["expect"]


def records(number: int) -> list[dict[str, str]]:
    with (case(number)[0] / "input.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# --- 69: intensity is a ratio of sums ------------------------------------------------------------


def check_ratios(found: dict[str, Any], flop: float, nbytes: float, seconds: float) -> None:
    assert found["flop"] == pytest.approx(flop)
    assert found["bytes"]["dram"] == pytest.approx(nbytes)
    assert found["time"] == pytest.approx(seconds)
    assert found["intensity"]["dram"] == pytest.approx(flop / nbytes)
    assert found["flop_rate"] == pytest.approx(flop / seconds)


def test_a_tiny_launch_of_high_intensity_does_not_lift_its_layer(tmp_path: Path) -> None:
    rows = [
        record("fc", 4e8, 1e-6, bytes_dram=1e3),  # 400,000 FLOP/B
        record("fc", 0.0, 9e-6, bytes_dram=4e7),  # a copy
    ]
    made = Reports(tmp_path, rows, None)
    check_ratios(made.rows("layer")["fc"], 4e8, 4.0001e7, 1e-5)
    cells = next(csv.DictReader(made.text(".csv", "layer").splitlines()))
    assert float(cells["intensity_dram [FLOP/B]"]) == pytest.approx(4e8 / 4.0001e7)
    assert "10.0" in made.text(".txt", "layer")


def test_case_69(tmp_path: Path) -> None:
    expected = case(69)[1]
    rows = [
        record(r["layer"], float(r["flops"]), 1e-6 * float(r["time_us"]), bytes_dram=float(r["bytes"]))
        for r in records(69)
    ]  # fmt: skip
    (found,) = Reports(tmp_path, rows, None).json("layer")["rows"]
    check_ratios(found, expected["flops"], expected["bytes"], 1e-6 * expected["time_us"])
    assert found["intensity"]["dram"] == pytest.approx(expected["ai"], rel=1e-3)
    assert found["flop_rate"] / 1e12 == pytest.approx(expected["tflops_per_s"], rel=1e-3)
