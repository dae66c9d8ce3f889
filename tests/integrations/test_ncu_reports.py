"""Real reports and tables of Nsight Compute made by other people: all of them load or are refused for the right reason.

``HROOF_CORPUS`` names the folder with ``INDEX.tsv``, ``rep/`` and ``csv/``. The reports need the
package ``ncu-report``; ``HROOF_NCU`` names an ncu, which prints every report once more as a table.
With ``-s`` the table of what each file holds is printed: launches, time, the share of launches with
known FLOP and bytes, different states of NVTX, peaks and bandwidths of the machine.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hroof.errors import HroofError, ProfileError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.readers import Raw, ncu_csv, ncu_rep, profile_of, read
from hroof.units import MemoryLevel, Pipe, Precision

PRINTED = {
    "a100roof__24__raw_base.csv": "cs599k__silu_CUDA_ncu-reports",
    "cutlass__24__raw_base.csv": "panjd123-cutlass__384",
    "nvtx__22__raw_base.csv": "manual_nvtx",
    "nvtx__24__raw_base.csv": "manual_nvtx",
    "nvtx__22__raw.csv": "manual_nvtx",
    "nvtx__24__raw.csv": "manual_nvtx",
}
"""Tables that a real ncu printed, and of which report."""
REFUSED = {
    "silu-pytorch-ncu-report.txt": "tables for the console",
    "prof_mindspore_Gate.txt": "tables for the console",
    "prof_torch_Scatter.txt": "tables for the console",
    "ncu_metrics_prof_torch.txt": "tables for the console",
    "all_metrics_long.csv": "no table of ncu",
    "flash_attention__ncu_metrics.csv": "no table of ncu",
    "ncu_version.txt": "no table of ncu",
    "gqa_bf16_b128_ctx8k_p64.ncu.csv": r"no kernel.*returned an error code",
    "qh32_kvh8_hd64.ncu.csv": "no kernel",
    "text_details.txt": "tables for the console",
    "session.txt": "tables for the console",
    "filtered_none.csv": "is empty",
    "README.md": "no table of ncu",
}
"""Tables that hold nothing to import, by the end of their names, and why."""


@pytest.fixture(scope="module")
def corpus() -> Path:
    folder = os.environ.get("HROOF_CORPUS")
    if not folder:
        pytest.skip("HROOF_CORPUS does not name the folder of the corpus")
    return Path(folder)


@pytest.fixture(scope="module")
def library() -> Any:
    return pytest.importorskip("ncu_report", reason="the package ncu-report is not installed")


@pytest.fixture(scope="module")
def index(corpus: Path) -> dict[str, dict[str, str]]:
    """What the index says of each report, by its name."""
    with (corpus / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    return {Path(line["file"]).name: line for line in lines if line["file"].startswith("rep/")}


@pytest.fixture(scope="module")
def reports(corpus: Path, library: Any) -> dict[str, Raw]:
    """Every report that loads, by its name."""
    found = {}
    for path in sorted((corpus / "rep").iterdir()):
        try:
            found[path.name] = ncu_rep.read(path)
        except ProfileError:
            continue  # test_reports_load_as_the_index_says says which may
    return found


def named(found: dict[str, Raw], part: str) -> Raw:
    (name,) = (name for name in found if part in name)
    return found[name]


# --- loading -------------------------------------------------------------------------------------


def test_reports_load_as_the_index_says(
    index: dict[str, dict[str, str]], reports: dict[str, Raw], corpus: Path
) -> None:
    launches = {name: int(line["number of kernels"]) for name, line in index.items()}
    assert all("ok" in line["loads here"] for line in index.values())
    assert {name: len(raw.launches) for name, raw in reports.items()} == {
        name: count for name, count in launches.items() if count
    }
    for name in set(launches) - set(reports):
        with pytest.raises(ProfileError, match="Nothing was captured"):
            ncu_rep.read(corpus / "rep" / name)


def test_devices_and_versions_are_those_of_the_index(
    index: dict[str, dict[str, str]], reports: dict[str, Raw]
) -> None:
    for name, raw in reports.items():
        (device,) = raw.devices.values()
        major, minor = device["capability"].split(".")
        assert f"{device['name']} ({major}, {minor})" == index[name]["GPU"], name
        version = index[name]["ncu version"].replace("?", "")
        assert raw.facts["tool"].removeprefix("Nsight Compute").strip().split(" ")[0] == version


def test_ranges_are_those_of_the_index(
    index: dict[str, dict[str, str]], reports: dict[str, Raw]
) -> None:
    for name, raw in reports.items():
        known = index[name]["has NVTX?"].startswith("yes")
        assert bool(raw.ranges) is known, name
    nested = named(reports, "manual_nvtx")
    assert [nested.ranges[place].pushed for place in nested.launches["ranges"]] == [
        (("<default domain>", "run_test"), ("<default domain>", inner))
        for inner in ("init_data", "daxpy", "check_results")
    ]


def test_no_report_can_be_cut_off_unseen(corpus: Path, library: Any, tmp_path: Path) -> None:
    whole = next((corpus / "rep").glob("*manual_nvtx*")).read_bytes()
    cut = tmp_path / "cut.ncu-rep"
    for length in np.linspace(4, len(whole) - 1, 25, dtype=int):
        cut.write_bytes(whole[:length])
        with pytest.raises(ProfileError, match="cut off"):
            ncu_rep.read(cut)


# --- the same report as a table ------------------------------------------------------------------

WHERE = ["kernel", "device", "context", "stream", "grid", "block"]
SHORT = {"nvtx__22__raw_base.csv", "nvtx__22__raw.csv"}
"""Tables of ncu 2022.3, which has no columns for grid, block and device."""


def differences(report: Raw, table: Raw, *, decimals: float, relative: float) -> list[str]:
    """Metrics that differ by more than printing rounds, in the unit that was printed."""
    both = [str(name) for name in report.counters if name in table.counters]
    # Times are printed in nanoseconds or rounded to six digits of a larger unit.
    unit = np.array([1e-9 if "__time_duration" in name else 1.0 for name in both])
    ours, theirs = (raw.counters[both].to_numpy() for raw in (report, table))
    allowed = np.maximum(decimals * unit, relative * np.abs(ours))
    wrong = (np.isnan(ours) != np.isnan(theirs)) | (np.abs(ours - theirs) > allowed)
    return [both[column] for column in np.flatnonzero(wrong.any(axis=0))]


@pytest.mark.parametrize("printed", PRINTED)
def test_a_table_and_its_report_are_the_same(
    printed: str, corpus: Path, reports: dict[str, Raw]
) -> None:
    report = named(reports, PRINTED[printed])
    table = ncu_csv.read([corpus / "csv" / "generated" / printed])
    same = WHERE[:1] + WHERE[2:4] if printed in SHORT else [*WHERE, "capability"]
    pd.testing.assert_frame_equal(report.launches[same], table.launches[same], check_dtype=False)
    assert [report.ranges[place] for place in report.launches["ranges"] if place >= 0] == [
        table.ranges[place] for place in table.launches["ranges"] if place >= 0
    ]
    base = printed.endswith("_base.csv")
    assert len(set(report.counters) & set(table.counters)) > 300
    assert (
        differences(
            report, table, decimals=0.0051 if base else 0.0, relative=1e-12 if base else 1e-3
        )
        == []
    )


def test_opcodes_add_up_to_what_a_table_prints(reports: dict[str, Raw], corpus: Path) -> None:
    name = "sass__inst_executed_per_opcode_with_modifier_all"
    counters = named(reports, "panjd123-cutlass__384").counters
    parts = counters.filter(regex=f"^{name}:")
    assert parts.shape[1] > 20
    table = ncu_csv.read([corpus / "csv" / "generated" / "cutlass__24__raw_base.csv"]).counters
    assert list(parts.sum(axis=1)) == list(counters[name]) == list(table[name])


def print_again(program: str, report: Path, table: Path) -> bool:
    """Let ncu print a report as a table; False for a report that is too new for it."""
    command = [program, "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    home = {**os.environ, "HOME": str(table.parent)}
    with table.open("wb") as out:
        done = subprocess.run(command, stdout=out, check=False, timeout=120, env=home)
    text = table.read_bytes()
    assert done.returncode == 0 or b"Failed to load report" in text, text[:300]
    return done.returncode == 0


def test_every_report_printed_by_a_real_ncu_is_the_same(
    corpus: Path, reports: dict[str, Raw], tmp_path: Path
) -> None:
    program = os.environ.get("HROOF_NCU")
    if not program:
        pytest.skip("HROOF_NCU does not name an ncu")
    table = tmp_path / "table.csv"
    found: dict[str, list[str]] = {}
    values = 0
    for name, report in reports.items():
        if not name.endswith(".ncu-rep") or report.launches["capability"].iloc[0] == "12.0":
            continue  # too old for it, or a chip that it may not know: it leaves out their units
        if print_again(program, corpus / "rep" / name, table):
            printed = ncu_csv.read([table])
            values += int(report.counters.filter(list(printed.counters)).count().sum())
            found[name] = differences(report, printed, decimals=0.0051, relative=1e-12)
            pd.testing.assert_series_equal(report.launches["kernel"], printed.launches["kernel"])
    print(f"\n{values:,} values of {len(found)} reports compared with {program}")
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
    assert len(found) > 10


# --- NVIDIA's own Roofline -----------------------------------------------------------------------

ADD, MUL = "add_pred_on.sum.per_cycle_elapsed", "mul_pred_on.sum.per_cycle_elapsed"
CLOCK = "smsp__cycles_elapsed.avg.per_second"
OPERATIONS = {Precision.FP64: ("d", 2), Precision.FP32: ("f", 2), Precision.FP16: ("h", 4)}
BANDWIDTHS = {
    MemoryLevel.L1: (
        "derived__l1tex__lsu_writeback_bytes_mem_lg.sum.per_second",
        "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.per_second",
    ),
    MemoryLevel.DRAM: ("dram__bytes.sum.per_second",),
}


def nvidia_rate(counters: pd.DataFrame, precision: Precision) -> pd.Series | None:
    """FLOP/s as the sections of the report compute them: operations per cycle by the clock."""
    letter, of_fma = OPERATIONS[precision]
    prefix = f"smsp__sass_thread_inst_executed_op_{letter}"
    fma = f"derived__{prefix}fma_pred_on_x{of_fma}"
    if fma not in counters or CLOCK not in counters:
        return None
    # Of half precision the sections of 2025.1 name the sums of hadd and hmul, but hold no data.
    single = [counters[name] for name in (prefix + ADD, prefix + MUL) if name in counters]
    return sum([counters[fma], *single]) * counters[CLOCK]


def rates(profile: Profile) -> Iterator[tuple[Precision, pd.Series]]:
    for precision in OPERATIONS:
        column = f"flop_nominal_{Pipe.VECTOR}_{precision}"
        yield precision, profile.launches[column] / profile.launches["duration"]


@pytest.fixture(scope="module")
def profiles(reports: dict[str, Raw]) -> dict[str, tuple[Profile, Machine | None]]:
    return {name: profile_of(raw) for name, raw in reports.items()}


def test_performance_equals_that_of_nvidias_sections(
    reports: dict[str, Raw], profiles: dict[str, tuple[Profile, Machine | None]]
) -> None:
    compared = 0
    for name, raw in reports.items():
        for precision, ours in rates(profiles[name][0]):
            theirs = nvidia_rate(raw.counters, precision)
            if theirs is not None:
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=f"{name} {precision}")
                compared += len(theirs)
    assert compared > 80


def test_bandwidths_and_intensities_equal_those_of_nvidias_sections(
    reports: dict[str, Raw], profiles: dict[str, tuple[Profile, Machine | None]]
) -> None:
    compared = 0
    for name, raw in reports.items():
        launches = profiles[name][0].launches
        for level, names in BANDWIDTHS.items():
            for metric in set(names) & set(raw.counters):
                theirs = raw.counters[metric]
                ours = launches[f"bytes_{level}"] / launches["duration"]
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=f"{name} {level}")
                rate = nvidia_rate(raw.counters, Precision.FP32)
                if rate is not None:
                    flop = launches[f"flop_nominal_{Pipe.VECTOR}_{Precision.FP32}"]
                    intensity = flop / launches[f"bytes_{level}"]
                    np.testing.assert_allclose(intensity, rate / theirs, rtol=1e-9)
                compared += len(theirs)
    assert compared > 50


def test_the_difference_at_l2_is_what_nvidia_leaves_out(
    reports: dict[str, Raw], profiles: dict[str, tuple[Profile, Machine | None]]
) -> None:
    """NVIDIA counts what L2 returns to the SMs; the sectors hold writes and the L2 fabric too."""
    compared = 0
    for name, raw in reports.items():
        if "derived__lts__lts2xbar_bytes.sum.per_second" not in raw.counters:
            continue
        launches = profiles[name][0].launches
        returned = raw.counters["derived__lts__lts2xbar_bytes.sum.per_second"]
        returned = returned * launches["duration"]
        sectors = raw.counters.filter(regex=r"^lts__t_sectors_srcunit_.*\.sum$") * 32
        fabric = sectors["lts__t_sectors_srcunit_ltcfabric.sum"]
        written = sectors["lts__t_sectors_srcunit_tex_op_write.sum"]
        rest = launches["bytes_l2"] - fabric - written
        assert (rest > 0.95 * returned - 1e6).all(), name
        assert (rest < 1.05 * returned + 1e6).all(), name
        compared += len(returned)
    assert compared == 11


def test_the_shares_of_the_peaks_are_those_that_nvidias_rule_names(
    corpus: Path, library: Any, reports: dict[str, Raw],
    profiles: dict[str, tuple[Profile, Machine | None]],
) -> None:  # fmt: skip
    said = re.compile(
        r"achieved\s+(?:close to )?(\d+)% of this device's fp32.* and\s+(?:close to )?(\d+)%"
    )
    compared = 0
    for name in reports:
        profile, machine = profiles[name]
        context = library.load_report(str(corpus / "rep" / name))
        actions = context.range_by_idx(0)
        by_pair = dict(rates(profile))
        for row in range(actions.num_actions()):
            rules = actions.action_by_idx(row).rule_results_as_dicts()
            texts = [r["rule_message"]["message"] for r in rules if "SOLFP" in r["rule_identifier"]]
            for found in filter(None, map(said.search, texts)):
                assert machine is not None
                for precision, share in zip(
                    (Precision.FP32, Precision.FP64), found.groups(), strict=True
                ):
                    peak = machine.peaks[Pipe.VECTOR, precision].rate
                    assert 100 * by_pair[precision].iloc[row] / peak == pytest.approx(
                        int(share), abs=1.01
                    )
                    compared += 1
    assert compared > 60


# --- the machine in a report ---------------------------------------------------------------------

DATA_SHEETS = {
    "NVIDIA A100-SXM4-40GB": (6912, 1555),
    "NVIDIA A100-PCIE-40GB": (6912, 1555),
    "NVIDIA A100 80GB PCIe": (6912, 1935),
    "NVIDIA A30": (3584, 933),
    "NVIDIA A40": (10752, 696),
    "NVIDIA A10G": (9216, 600),
    "NVIDIA H100 PCIe": (14592, 2039),
    "NVIDIA GH200 480GB": (16896, 4023),
    "NVIDIA GH200 120GB": (16896, 4023),
    "Tesla T4": (2560, 320),
    "NVIDIA GeForce GTX 1650": (896, 192),
    "NVIDIA GeForce GTX 1660 SUPER": (1408, 336),
    "NVIDIA GeForce GTX 1660 Ti": (1536, 288),
    "NVIDIA GeForce RTX 2060 SUPER": (2176, 448),
    "NVIDIA GeForce RTX 2060 with Max-Q Design": (1920, 264),
    "NVIDIA GeForce RTX 2070": (2304, 448),
    "NVIDIA GeForce RTX 2080 Ti": (4352, 616),
    "NVIDIA GeForce RTX 3050 Laptop GPU": (2048, 192),
    "NVIDIA GeForce RTX 3060": (3584, 360),
    "NVIDIA GeForce RTX 3060 Laptop GPU": (3840, 336),
    "NVIDIA GeForce RTX 3070": (5888, 448),
    "NVIDIA GeForce RTX 3080": (8704, 760),
    "NVIDIA GeForce RTX 4090": (16384, 1008),
    "NVIDIA GeForce RTX 5060 Ti": (4608, 448),
}
"""By name: CUDA cores, and GB/s of the memory at its full clock."""


def test_machines_are_those_of_the_data_sheets(
    profiles: dict[str, tuple[Profile, Machine | None]],
) -> None:
    machines = [machine for _, machine in profiles.values() if machine is not None]
    compared = 0
    for machine in machines:
        cores, bandwidth = DATA_SHEETS[machine.name]
        share = machine.bandwidths[MemoryLevel.DRAM].rate / (bandwidth * 1e9)
        assert 0.7 < share < 1.01, machine.name  # memory was below its full clock in some runs
        single = machine.peaks.get((Pipe.VECTOR, Precision.FP32))
        if single is not None:
            clock = float(machine.facts["clock"])
            assert single.rate == pytest.approx(2 * cores * clock, rel=0.02), machine.name
            compared += 1
    assert compared > 20


# --- the table -----------------------------------------------------------------------------------


def row_of(path: Path) -> dict[str, Any]:
    """What one file holds, or why it is refused."""
    try:
        raw = read([path])
        profile, machine = profile_of(raw)
    except HroofError as error:
        return {"refused": error.fact.replace(str(path), path.name[-12:])}
    launches = profile.launches
    flop = [name for name in map(str, launches) if name.startswith("flop_nominal_")]
    known = {
        "FLOP": launches[flop].notna().any(axis=1),
        **{level.label: launches[f"bytes_{level}"].notna() for level in MemoryLevel},
    }
    return {
        "launches": f"{launches['launches'].sum():.0f}",
        "time s": f"{launches['duration'].sum(min_count=1):.4g}",
        **{name: f"{rows.mean():.0%}" for name, rows in known.items() if name != "L3"},
        "NVTX": str(len(raw.ranges)) if raw.ranges else "-",
        "machine": f"{len(machine.peaks)}+{len(machine.bandwidths)}" if machine else "-",
        "refused": "",
    }


def rows_of(paths: list[Path]) -> dict[str, dict[str, Any]]:
    """The rows of some files, which are printed too."""
    rows = {path.name: row_of(path) for path in paths}
    frame = pd.DataFrame({name[-60:]: row for name, row in rows.items()}).T.fillna("")
    with pd.option_context("display.width", 400, "display.max_columns", 20):
        print(f"\n{frame.to_string(max_colwidth=110)}")
    return rows


def test_every_report_is_imported_or_refused(
    corpus: Path, reports: dict[str, Raw], index: dict[str, dict[str, str]]
) -> None:
    rows = rows_of(sorted((corpus / "rep").iterdir()))
    refused = [row["refused"] for row in rows.values() if row["refused"]]
    assert len(refused) == 1
    assert "Nothing was captured" in refused[0]
    for name, row in rows.items():
        if not row["refused"]:
            opcodes = any("_per_opcode" in str(metric) for metric in reports[name].counters)
            holds = index[name]["roofline metrics"].split(",")
            check_row(name, row, holds, opcodes=opcodes)


def check_row(name: str, row: dict[str, Any], holds: list[str], *, opcodes: bool) -> None:
    """What the index says that a report holds is known, and no FLOP without counts of any kind."""
    timed = "time" in holds or name.endswith("cuprof-report")
    assert (0 < float(row["time s"]) < 60) if timed else row["time s"] == "nan", name
    levels = {"dram": "DRAM", "L1:lsu_writeback": "L1", "L2:t_sectors": "L2"}
    for level in (levels[entry] for entry in holds if entry in levels):
        assert row[level] == "100%", (name, level)
    if "fp32" in holds:
        assert row["FLOP"] == "100%", name
    elif not opcodes:
        assert row["FLOP"] == "0%", name


def test_every_table_is_imported_or_refused_for_the_right_reason(corpus: Path) -> None:
    folders = [corpus / "csv", corpus / "csv" / "generated"]
    paths = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_file()]
    for name, row in rows_of(paths).items():
        reasons = [reason for end, reason in REFUSED.items() if name.endswith(end)]
        assert bool(row["refused"]) is bool(reasons), (name, row["refused"])
        assert all(re.search(reason, row["refused"]) for reason in reasons), (name, row["refused"])
