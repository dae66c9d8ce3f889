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
from hroof.report.artists import Artists
from hroof.report.chart import roofline, svg
from hroof.roofline import points
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
        self.folder, self.machine = folder / "run", roofs
        Profile.from_rows(rows, {"name": "case", "device": "cuda:0"}).save(self.folder)
        if roofs is not None:
            roofs.save(self.folder / "machine.json")

    def text(self, suffix: str, by: str) -> str:
        path = self.folder.parent / f"report-{by}{suffix}"
        command = ["report", str(self.folder), "-o", str(path), "--by", by, "--quiet", "--force"]
        assert main(command) == 0
        return path.read_text(encoding="utf-8")

    def json(self, by: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text(".json", by))
        return found

    def chart(self, by: str) -> Artists:
        """The chart of the same rows, as matplotlib's artists."""
        return roofline(points(Profile.load(self.folder), self.machine, (by,)), self.machine)

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


# --- 70: what computes nothing stays visible -----------------------------------------------------

COPY = record("copy", 0.0, 10e-6, bytes_dram=8e6)
INTEGER = record("int8_gemm", 0.0, 20e-6, bytes_dram=1e6) | dict.fromkeys(INT8, 2e9)
FLOAT = record("fp32", 1e6, 5e-6, bytes_dram=5e5)
EMPTY = record("empty", 0.0, 0.0, bytes_dram=0.0)


def check_idle(made: Reports, expected: dict[str, Any]) -> None:
    document = made.json("kernel")
    rows = {row["kernel"]: row for row in document["rows"]}
    assert sorted(rows) == sorted(expected["listed"])
    assert rows["copy"]["byte_rate"]["dram"] == pytest.approx(1e9 * expected["copy_gb_per_s"])
    whole = sum(row["time"] for row in rows.values())
    shares = {name: 100 * row["time"] / whole for name, row in rows.items()}
    assert shares == pytest.approx(expected["time_share_pct"])
    assert document["totals"]["hardware_flop"] == expected["total_flops"]
    assert document["totals"]["integer_op"] == expected["int_ops_separate"]
    assert drawn(made, "kernel") == set(expected["drawn"])
    text = made.text(".txt", "kernel")
    assert all(name in text for name in expected["listed"])
    assert f"{expected['time_share_pct']['copy']:.1f} %" in text


def drawn(made: Reports, by: str) -> set[str]:
    """The groups that the chart has markers of; the others are in the strip of work without FLOP, or named."""
    artists = made.chart(by)
    marked = {name for names in artists.names.values() for name in names}
    strip = artists.strip.names.values() if artists.strip else ()
    beside = {name for names in strip for name in names} | {one.name for one in artists.not_drawn}
    assert marked | beside == set(made.rows(by))
    return marked


def test_copies_integers_and_nothing_at_all_are_listed(tmp_path: Path) -> None:
    expected = {
        "listed": ["copy", "int8_gemm", "fp32", "empty"],
        "drawn": ["fp32"],
        "copy_gb_per_s": 800.0,
        "time_share_pct": {"copy": 1000 / 35, "int8_gemm": 2000 / 35, "fp32": 500 / 35, "empty": 0},
        "total_flops": 1e6,
        "int_ops_separate": 2e9,
    }
    check_idle(Reports(tmp_path, [COPY, INTEGER, FLOAT, EMPTY], machine(1e13, 1e12)), expected)


def test_shares_of_no_time_are_dashes(tmp_path: Path) -> None:
    made = Reports(tmp_path, [EMPTY], machine(1e13, 1e12))
    row = made.rows("kernel")["empty"]
    assert (row["time"], row["flop_rate"], row["headroom"]) == (0.0, None, None)
    for suffix in (".txt", ".csv", ".html"):
        assert "empty" in made.text(suffix, "kernel")


def test_case_70(tmp_path: Path) -> None:
    expected = case(70)[1]
    rows = [
        record(r["kernel"], float(r["flops"]), 1e-6 * float(r["time_us"]), bytes_dram=float(r["bytes"]))
        | dict.fromkeys(INT8 if float(r["int_ops"]) else (), float(r["int_ops"]))
        for r in records(70)
    ]  # fmt: skip
    check_idle(Reports(tmp_path, rows, machine(1e13, 1e12)), expected)


# --- 72: FLOP, bytes and time of the same launches -----------------------------------------------


def test_shapes_that_vary_are_told_apart_and_their_sum_is_a_sum(tmp_path: Path) -> None:
    """As op and shape; a mean time over both shapes would belong to neither."""
    rows = [record("gemm", 1e6, 2e-6, bytes_dram=1e5, op="gemm 64") for _ in range(3)]
    rows += [record("gemm", 1e9, 5e-4, bytes_dram=1e7, op="gemm 640")]
    made = Reports(tmp_path, rows, None)
    shapes = made.rows("op")
    assert shapes["gemm 64"]["flop_rate"] == pytest.approx(0.5e12)
    assert shapes["gemm 640"]["flop_rate"] == pytest.approx(2e12)
    check_ratios(made.rows("kernel")["gemm"], 1.003e9, 1.03e7, 5.06e-4)


def test_of_steps_with_other_shapes_all_numbers_are_those_of_one(tmp_path: Path) -> None:
    """The median step by time gives FLOP and bytes as well: never the mean of one and the maximum of the other."""
    rows = [
        record("gemm", scale * 1e9, scale * 1e-3, bytes_dram=scale * 1e7) | {"step": step}
        for step, scale in enumerate((1.0, 4.0, 2.0))
    ]
    check_ratios(Reports(tmp_path, rows, None).rows("kernel")["gemm"], 2e9, 2e7, 2e-3)


def test_flop_of_launches_without_a_time_are_no_part_of_a_rate(tmp_path: Path) -> None:
    rows = [
        record("gemm", 1e9, 1e-3, bytes_dram=1e7),
        record("gemm", 5e9, math.nan, bytes_dram=3e7),
    ]
    row = Reports(tmp_path, rows, None).rows("kernel")["gemm"]
    assert row["flop_rate"] == pytest.approx(1e12)
    assert row["byte_rate"]["dram"] == pytest.approx(1e10)
    assert any("No time is known of 1 of 2 launches" in note for note in row["notes"])


def test_case_72(tmp_path: Path) -> None:
    expected = case(72)[1]
    rows = [
        record(r["kernel"], float(r["flops_per_call"]), 1e-6 * float(r["time_us_per_call"]),
               bytes_dram=float(r["bytes_per_call"]), op=r["shape"])
        for r in records(72)
        for _ in range(int(r["calls"]))
    ]  # fmt: skip
    made = Reports(tmp_path, rows, None)
    shapes = made.rows("op")
    assert shapes["s"]["flop_rate"] / 1e12 == pytest.approx(expected["s_tflops"])
    assert shapes["l"]["flop_rate"] / 1e12 == pytest.approx(expected["l_tflops"])
    both = made.rows("kernel")["gemm"]
    check_ratios(both, expected["all_flops"], expected["all_bytes"], 1e-6 * expected["all_time_us"])
    assert both["flop_rate"] / 1e12 == pytest.approx(expected["all_tflops"], rel=1e-3)
    assert both["intensity"]["dram"] == pytest.approx(expected["all_ai"], rel=1e-3)


# --- 74: above a roof is a sign, not a result ----------------------------------------------------


def on_chart(intensity: float, rate: float, name: str) -> dict[str, Any]:
    """A launch of a millisecond at this place."""
    return record(name, rate * 1e-3, 1e-3, bytes_dram=rate * 1e-3 / intensity)


FLAGGED = {"compute": "Above the compute roof", "bandwidth": "Above the bandwidth roof"}


def check_flags(made: Reports, expected: dict[str, str | None]) -> None:
    rows = made.rows("kernel")
    text, page = made.text(".txt", "kernel"), made.text(".html", "kernel")
    for name, kind in expected.items():
        notes = [note for note in rows[name]["notes"] if note.startswith("Above")]
        assert [note.startswith(FLAGGED[kind or ""]) for note in notes] == [True] * bool(kind), name
        assert all("Likely causes" in note for note in notes)
        if kind:
            assert f"{name}: Above the {kind} roof" in text
            assert f"Above the {kind} roof" in page
    assert set(made.chart("kernel").above) == {name for name, kind in expected.items() if kind}


def test_points_above_a_roof_are_flagged_everywhere(tmp_path: Path) -> None:
    rows = [
        on_chart(500, 52e12, "over"),
        on_chart(0.5, 0.56e12, "cached"),
        on_chart(500, 50.5e12, "close"),
        on_chart(5, 4e12, "below"),
    ]
    made = Reports(tmp_path, rows, machine(50e12, 1e12))
    check_flags(made, {"over": "compute", "cached": "bandwidth", "close": None, "below": None})


def test_case_74(tmp_path: Path) -> None:
    folder, expected = case(74)
    given = json.loads((folder / "input.json").read_text())
    rows = [on_chart(p["ai"], p["flops_per_s"], p["n"]) for p in given["points"]]
    made = Reports(tmp_path, rows, machine(given["peak_flops"], given["peak_bw"]))
    check_flags(made, expected["flags"])


# --- 75: odd values ------------------------------------------------------------------------------

LEVELS = {"l1": MemoryLevel.L1, "l2": MemoryLevel.L2, "dram": MemoryLevel.DRAM}


def odd(name: str, rate: float, seconds: float, **intensity: float) -> dict[str, Any]:
    """A launch at these intensities: infinite is no traffic, NaN is not known."""
    flop = rate * seconds
    sizes = {f"bytes_{level}": flop / value if value else 1e3 for level, value in intensity.items()}
    return record(name, flop, seconds, **sizes)


def check_odd(made: Reports, expected: dict[str, Any]) -> None:
    artists = made.chart("kernel")
    found = {level.value: sorted(names) for level, names in artists.names.items()}
    assert found == {level: sorted(names) for level, names in expected["points"].items()}
    drawn_at = {name for names in artists.names.values() for name in names}
    assert drawn_at.isdisjoint(expected["idle"])
    sizes = [m.get_sizes()[0] for markers in artists.markers.values() for m in markers]
    assert sizes
    assert all(map(math.isfinite, sizes))
    low, high = expected["covers"]
    assert artists.axes.get_xlim()[0] < low
    assert high < artists.axes.get_xlim()[1]
    assert artists.roofs["vector_fp32"].get_xdata()[-1] >= high
    texts = {suffix: made.text(suffix, "kernel") for suffix in (".json", ".html", ".csv", ".txt")}
    for suffix, text in (texts | {".svg": svg(artists)}).items():
        said = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
        for name in expected["names"]:  # names may hold what values must not
            said = said.replace(name, "")
        assert not NOT_A_NUMBER.search(said), suffix


def test_odd_values_are_left_out_per_level_and_no_name_moves(tmp_path: Path) -> None:
    rows = [
        odd("fine", 1e11, 2e-3, l1=1.0, l2=2.0, dram=4.0),
        odd("no traffic", 1e11, 1e-3, l1=1.0, l2=2.0, dram=math.inf),
        odd("not counted", 1e11, 1e-3, l1=1.0, l2=math.nan, dram=4.0),
        odd("copy", 0.0, 1e-3, l1=0.0, l2=0.0, dram=0.0),
        odd("far", 1e12, 1e-9, l1=1e-3, l2=10.0, dram=1e5),
    ]
    made = Reports(tmp_path, rows, machine(1e14, 1e12))
    expected = {
        "points": {
            "l1": ["fine", "no traffic", "not counted", "far"],
            "l2": ["fine", "no traffic", "far"],
            "dram": ["fine", "not counted", "far"],
        },
        "idle": ["copy"],
        "covers": (1e-3, 1e5),
        "names": ["not counted"],
    }
    check_odd(made, expected)


def test_case_75(tmp_path: Path) -> None:
    """Here with a time for each launch: a saved run has no rate without one."""
    expected = case(75)[1]
    rows = [
        odd(r["kernel"], 1e9 * float(r["gflops"]), 1e-3, **{x: float(r[f"ai_{x}"]) for x in LEVELS})
        for r in records(75)
    ]
    check_odd(
        Reports(tmp_path, rows, machine(1e14, 1e12)),
        {
            "points": expected["points"],
            "idle": ["zero_flops"],
            "covers": expected["xlim_covers"],
            "names": ["nan_l2"],
        },
    )


@pytest.mark.parametrize("count", [0, 1, 200])
def test_any_number_of_rows_is_a_page_and_a_chart(count: int, tmp_path: Path) -> None:
    rows = [odd(f"k{at}", 1e9 + at, 1e-3, dram=0.5 + at) for at in range(count)]
    made = Reports(tmp_path, rows, machine(1e14, 1e12))
    assert len(made.json("kernel")["rows"]) == count
    assert made.text(".html", "kernel").rstrip().endswith("</html>")
    assert made.text(".svg", "kernel").rstrip().endswith("</svg>")


# --- 77: without a screen ------------------------------------------------------------------------


def test_a_page_needs_neither_a_screen_nor_a_home(tmp_path: Path) -> None:
    """Charts alone: test_cli_cases."""
    made = Reports(tmp_path, [FLOAT], machine(1e13, 1e12))
    odd_place = {
        "MPLBACKEND": "TkAgg",
        "MPLCONFIGDIR": "/nonexistent/readonly",
        "HOME": "/nonexistent",
    }
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run(
        [sys.executable, "-m", "hroof", "report", made.folder, "-o", tmp_path / "page.html"],
        env=environment | odd_place, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")


def test_case_77(tmp_path: Path) -> None:
    folder, expected = case(77)
    made = Reports(tmp_path, [FLOAT], machine(1e13, 1e12))
    hroof = [sys.executable, "-m", "hroof", "report", str(made.folder), "--force"]
    done = subprocess.run(
        ["sh", str(folder / "input.sh"), *hroof, "-o", str(tmp_path / "page.html")],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == expected["exit_status"], done.stderr
    assert done.stderr.count("Wrote ") == expected["runs"]
