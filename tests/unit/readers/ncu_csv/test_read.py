"""The reader as a whole: what a file says, and what other people's files say."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hroof.errors import ProfileError
from hroof.readers import ncu_csv
from hroof.readers.raw import IDENTITY, Raw

Page = Callable[..., str]
File = Callable[..., Path]

TIME, BYTES = "gpu__time_duration.sum", "dram__bytes.sum"
METRICS = {BYTES: ("Kbyte", ["2", "0.5"]), TIME: ("us", ["5", "1"])}


def folder(variable: str) -> Path:
    """A folder of other people's files, or a visible skip."""
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set: no files of other people here")
    return Path(os.environ[variable])


# --- one file -----------------------------------------------------------------------------------


def test_a_file_is_read_whatever_is_around_its_table(long_page: Page, file: File) -> None:
    before = '==PROF== Connected to process 42\nepoch 0: loss 0.7\n"ID","loss"\n"0","0.7"\n'
    raw = ncu_csv.read([file(before + long_page(["gemm", "relu"], METRICS) + "==WARNING== odd\n")])
    assert raw.launches["kernel"].tolist() == ["gemm", "relu"]
    assert raw.counters[BYTES].tolist() == [2000.0, 500.0]
    assert raw.counters[TIME].tolist() == [5e-6, 1e-6]
    assert set(raw.launches) == set(IDENTITY)
    assert not raw.incomplete
    assert raw.problems == ()


def test_facts_are_plain_values(raw_page: Page, file: File) -> None:
    path = file(raw_page(["gemm", "relu"], METRICS))
    raw = ncu_csv.read([path])
    assert json.loads(json.dumps(raw.facts)) == {
        "files": [str(path)],
        "dialect": "raw",
        "programs": {"42": "python3"},
    }


def test_every_form_of_the_same_launches_says_the_same(
    raw_page: Page, long_page: Page, file: File
) -> None:
    raws = [
        ncu_csv.read([file(content, f"{at}.csv")])
        for at, content in enumerate(
            [
                raw_page(["gemm", "relu"], METRICS),
                long_page(["gemm", "relu"], METRICS),
                "x\n" + raw_page(["gemm", "relu"], METRICS).replace("\n", "\r\n"),
                raw_page(["gemm", "relu"], METRICS).encode("utf-16"),
                gzip.compress(long_page(["gemm", "relu"], METRICS).encode(), mtime=0),
            ]
        )
    ]
    for raw in raws[1:]:
        assert raw.launches.equals(raws[0].launches)
        assert raw.counters.equals(raws[0].counters)


def test_errors_of_ncu_are_told_with_the_launches(long_page: Page, file: File) -> None:
    raw = ncu_csv.read([file(long_page(["gemm", "relu"], METRICS) + "==ERROR== Out of memory\n")])
    assert raw.problems == ('out.csv: ncu says: "Out of memory".',)


def test_a_decimal_comma_is_read_and_said(long_page: Page, file: File) -> None:
    metrics = {
        BYTES: ("byte", ["1.234.567", "8"]),
        "sm__throughput.avg.pct": ("%", ["47,30", "8,5"]),
    }
    raw = ncu_csv.read([file(long_page(["gemm", "relu"], metrics))])
    assert raw.counters[BYTES].tolist() == [1234567.0, 8.0]
    assert raw.counters["sm__throughput.avg.pct"].tolist() == [47.3, 8.5]
    assert "decimal comma" in raw.problems[0]


def test_a_table_in_two_locales_is_an_error(long_page: Page, file: File) -> None:
    metrics = {BYTES: ("Mbyte", ["12,58", "12.58"])}
    with pytest.raises(ProfileError, match="LC_ALL=C"):
        ncu_csv.read([file(long_page(["gemm", "relu"], metrics))])


def test_a_summary_is_read_as_sums(row: Callable[[Sequence[object]], str], file: File) -> None:
    header = ["Kernel Name", "Device", "CC", "Invocations", "Metric Name", "Metric Unit", "Average"]
    raw = ncu_csv.read([file(row(header) + row(["gemm", 0, "8.0", 3, BYTES, "byte", 5]))])
    assert raw.counters[BYTES].tolist() == [15.0]
    assert raw.launches["launches"].tolist() == [3.0]
    assert raw.facts["dialect"] == "summary"


def test_a_table_by_name_is_read_as_sums(file: File) -> None:
    raw = ncu_csv.read([file("Kernel Name,dram__bytes.sum,Count\ngemm,5000,3\n")])
    assert raw.launches["launches"].tolist() == [3.0]
    assert raw.counters[BYTES].tolist() == [5000.0]


def test_a_header_alone_tells_what_ncu_said(long_page: Page, file: File) -> None:
    head = long_page([], {})
    with pytest.raises(ProfileError, match=r"has the header of a table but no kernel\. Check"):
        ncu_csv.read([file(head)])
    with pytest.raises(ProfileError, match=r'no kernel\. ncu says: "Killed"\.'):
        ncu_csv.read([file(head + "==ERROR== Killed\n")])


def test_a_cut_file_is_incomplete(long_page: Page, file: File) -> None:
    raw = ncu_csv.read([file(long_page(["gemm", "relu"], METRICS)[:-9])])
    assert raw.incomplete
    assert raw.counters[BYTES].tolist() == [2000.0, 500.0]
    assert math.isnan(raw.counters[TIME][1])
    assert "line 5: the file ends within a row" in raw.problems[0]


def test_a_cut_gzip_file_is_incomplete(raw_page: Page, file: File) -> None:
    kernels = [f"kernel_{at * at}" for at in range(500)]
    text = raw_page(kernels, {BYTES: ("byte", [at * 7919 % 1000 for at in range(500)])})
    packed = gzip.compress(text.encode(), mtime=0)
    raw = ncu_csv.read([file(packed[: len(packed) * 2 // 3], "out.csv.gz")])
    assert raw.incomplete
    count = len(raw.launches)
    assert 100 < count < 500
    assert raw.launches["kernel"].tolist() == kernels[:count]
    assert any("packed file is cut off" in problem for problem in raw.problems)


def test_latin_1_is_read_and_said(raw_page: Page, file: File) -> None:
    text = raw_page(["größe<ä>", "relu"], METRICS)
    raw = ncu_csv.read([file(text.encode("latin-1"))])
    assert raw.launches["kernel"][0] == "größe<ä>"
    assert "Latin-1" in raw.problems[0]


# --- is it for this reader ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("==PROF== Connected to process 1\n", True),
        ("Launch Settings\n--------------\n", True),
        ("  copy(int)\n    Section: GPU Speed Of Light\n", True),
        ("Kernel Name,Count,dram__bytes.sum\n", True),
        ("step,loss\n1,0.5\n", False),
        ('{"traceEvents": []}', False),
        ("", False),
    ],
)
def test_files_of_ncu_are_recognised(file: File, content: str, expected: bool) -> None:
    assert ncu_csv.looks_like(file(content)) is expected


def test_packed_tables_are_recognised(raw_page: Page, file: File) -> None:
    page = raw_page(["gemm", "relu"], METRICS)
    assert ncu_csv.looks_like(file(gzip.compress(page.encode(), mtime=0)))
    assert ncu_csv.looks_like(file(page.encode("utf-16"), "wide.csv"))


# --- collected cases ----------------------------------------------------------------------------


def case(number: str) -> tuple[Raw, Any]:
    """A case's input as read, and what is expected."""
    (path,) = folder("HROOF_CASES").glob(f"{number}-*")
    expected = json.loads((path / "expected.json").read_text())["expect"]
    return ncu_csv.read([path / "input.csv"]), expected


def nanoseconds(raw: Raw) -> list[float]:
    return [value * 1e9 for value in raw.counters[TIME]]


@pytest.mark.parametrize("number", ["43", "45", "51"])
def test_kernels_times_and_bytes_of_cases(number: str) -> None:
    raw, expected = case(number)
    kernels = expected["kernels"]
    assert raw.launches["kernel"].tolist() == [kernel["name"] for kernel in kernels]
    assert nanoseconds(raw) == pytest.approx([kernel["time_ns"] for kernel in kernels], rel=1e-12)
    known = [kernel["dram_bytes"] for kernel in kernels]
    for value, right in zip(raw.counters[BYTES], known, strict=True):
        assert math.isnan(value) if right is None else value == right
    assert raw.incomplete == expected.get("incomplete", False)


def test_grids_keep_their_commas_in_case_45() -> None:
    raw, expected = case("45")
    assert raw.launches["grid"][1] == expected["kernels"][1]["grid_text"]


def test_units_of_case_44() -> None:
    raw, expected = case("44")
    parts = raw.counters["dram__bytes_read.sum"] + raw.counters["dram__bytes_write.sum"]
    assert parts.tolist() == pytest.approx(
        [kernel["dram_bytes"] for kernel in expected["kernels"]], rel=1e-12
    )
    assert nanoseconds(raw) == pytest.approx([kernel["time_ns"] for kernel in expected["kernels"]])
    last = expected["kernels"][2]
    for metric, key in {
        "sm__cycles_elapsed.avg.per_second": "sm_clock_hz",
        "launch__shared_mem_per_block_allocated": "smem_bytes_per_block",
        "dram__bytes.sum.per_second": "dram_bytes_per_second",
    }.items():
        assert raw.counters[metric][2] == pytest.approx(last[key], rel=1e-12)
    assert (
        raw.counters["lts__t_sector_hit_rate.pct"][0] == expected["kernels"][0]["lts_hit_rate_pct"]
    )


def test_names_of_case_47() -> None:
    raw, expected = case("47")
    assert raw.launches["kernel"].tolist() == expected["full_names"]
    assert nanoseconds(raw) == pytest.approx(expected["times_ns"])


def test_launches_of_case_48() -> None:
    raw, expected = case("48")
    times = (
        raw.counters["sm__cycles_elapsed.avg"] / raw.counters["sm__cycles_elapsed.avg.per_second"]
    )
    assert len(raw.launches) == expected["launches"]
    assert times.sum() * 1e9 == pytest.approx(expected["time_ns"], rel=1e-12)
    assert raw.counters[BYTES].sum() == expected["dram_bytes"]


def test_missing_values_of_case_49() -> None:
    raw, expected = case("49")
    assert len(raw.launches) == expected["rows"]
    assert raw.counters[BYTES].notna().sum() == expected["launches_with_known_dram"]
    assert raw.counters[BYTES].sum() == expected["known_dram_bytes_total"]
    assert raw.counters["sm__inst_executed_pipe_tensor.sum"].isna().sum() == 1


@pytest.mark.parametrize(
    ("name", "reason"), [("input_empty.csv", "is empty"), ("input_header_only.csv", "no kernel")]
)
def test_files_without_kernels_of_case_51(name: str, reason: str) -> None:
    (path,) = folder("HROOF_CASES").glob("51-*")
    with pytest.raises(ProfileError, match=reason):
        ncu_csv.read([path / name])


def test_ranges_of_case_53() -> None:
    raw, expected = case("53")
    states = [raw.ranges[at].pushed for at in raw.launches["ranges"]]
    assert [[name for _, name in state] for state in states] == expected["stacks"]
    assert [state[0][0] if state else None for state in states] == expected["domains"]
    assert sum(nanoseconds(raw)) == pytest.approx(expected["total_ns"])


def test_an_operation_that_was_not_counted_is_missing_in_case_55() -> None:
    raw, _ = case("55")
    path = "sm__ops_path_tensor_src_fp16_dst_fp32.sum"
    assert raw.counters[path][0] == 2147483648.0
    assert raw.counters[path][1:].isna().all()


def test_sectors_stay_sectors_in_case_56() -> None:
    raw, _ = case("56")
    assert raw.counters["lts__t_sectors.sum"].tolist() == [250.0, 250.0, 100.0]


# --- files of other people ----------------------------------------------------------------------

REFUSED = {
    "silu-pytorch-ncu-report.txt": "console",
    "MindsporeRes_ncu_metrics_prof": "console",
    "TorchRes_ncu_metrics_prof": "console",
    "text_details": "console",
    "session.txt": "console",
    "all_metrics_long": "no table of ncu",
    "JakeFlasher": "no table of ncu",
    "ncu_version": "no table of ncu",
    "README": "no table of ncu",
    "filtered_none": "is empty",
    "gqa_bf16_b128_ctx8k_p64.ncu.csv": "error code",
    "qh32_kvh8_hd64": "no kernel",
}
"""Part of the name of a file, and why it is refused."""


def test_every_file_is_read_or_refused_for_the_right_reason() -> None:
    paths = sorted(
        path for path in folder("HROOF_CORPUS").joinpath("csv").rglob("*") if path.is_file()
    )
    assert len(paths) > 40
    for path in paths:
        reason = next((why for part, why in REFUSED.items() if part in path.name), None)
        if reason is not None:
            with pytest.raises(ProfileError, match=reason):
                ncu_csv.read([path])
            continue
        raw = ncu_csv.read([path])
        assert len(raw.launches) and raw.counters.notna().any().any(), path.name
        assert ncu_csv.looks_like(path), path.name
        assert not raw.incomplete, path.name


def test_pages_of_one_report_agree() -> None:
    folder_of_prints = folder("HROOF_CORPUS") / "csv" / "generated"
    pages = [
        ncu_csv.read([folder_of_prints / f"nvtx__{name}.csv"])
        for name in ("22__raw_base", "24__raw_base")
    ]
    scaled = ncu_csv.read([folder_of_prints / "nvtx__24__raw.csv"])
    details = ncu_csv.read([folder_of_prints / "nvtx__24__details_nvtxrename.csv"])
    for raw in (*pages, scaled, details):
        assert raw.launches["kernel"].tolist() == pages[0].launches["kernel"].tolist()
        assert raw.ranges == pages[0].ranges
        assert raw.counters[TIME].tolist() == pytest.approx(
            pages[0].counters[TIME].tolist(), rel=1e-3
        )
    for name in pages[1].counters.columns.intersection(scaled.counters.columns):
        close = pytest.approx(pages[1].counters[name].tolist(), rel=1e-2, abs=6e-3, nan_ok=True)
        assert scaled.counters[name].tolist() == close, name
    assert pages[0].devices == pages[1].devices


DEEPCAM = {
    "PT-fp32-O0-Adam-fw": (633, 170.53403654461076, 53.414706976),
    "PT-fp32-O1-Adam-bw": (1575, 228.33683424208874, 43.49401952),
    "TF-fp32-batch1-fw-noamp": (465, 763.6217347203955, 74.373130624),
    "TF-fp32-batch2-fwbw-amp": (5125, 602.3541900191459, 171.385548384),
}
"""Launches, milliseconds and gigabytes of DRAM that the authors of arXiv 2009.05257 publish."""


@pytest.mark.parametrize("name", sorted(DEEPCAM))
def test_the_profiles_of_the_paper_have_its_totals(name: str) -> None:
    launches, milliseconds, gigabytes = DEEPCAM[name]
    raw = ncu_csv.read(sorted((folder("HROOF_CORPUS") / "deepcam" / name).glob("*.csv.gz")))
    frame = raw.counters.assign(kernel=raw.launches["kernel"], n=raw.launches["launches"])
    cycles, rate = "sm__cycles_elapsed.avg", "sm__cycles_elapsed.avg.per_second"
    frame[rate] *= frame["n"]
    sums = frame.groupby("kernel").sum()
    assert sums["n"].sum() == launches
    time = (sums[cycles] / (sums[rate] / sums["n"])).sum()
    assert time * 1e3 == pytest.approx(milliseconds, rel=1e-12)
    assert sums[BYTES].sum() / 1e9 == pytest.approx(gigabytes, rel=1e-12)
    assert bool(raw.launches["aggregate"].all()) == name.startswith("TF")
    assert bool(raw.problems) == name.startswith("TF")


# --- rows that are odd --------------------------------------------------------------------------


def test_launches_are_kept_whatever_their_number(long_page: Page, file: File) -> None:
    text = long_page(["a", "b", "c", "d"], {TIME: ("ns", [1, 2, 3, 4])})
    for old, new in (
        ('"0","42"', '"-5","42"'),
        ('"1","42"', f'"{10**30}","42"'),
        ('"2","42"', '"x","42"'),
    ):
        text = text.replace(f"\n{old}", f"\n{new}")
    raw = ncu_csv.read([file(text)])
    assert raw.launches["kernel"].tolist() == ["a", "b", "c", "d"]
    assert raw.counters[TIME].tolist() == pytest.approx([1e-9, 2e-9, 3e-9, 4e-9])


def test_a_number_of_a_process_that_no_machine_has(long_page: Page, file: File) -> None:
    text = long_page(["a", "b"], METRICS, process=10**25)
    assert ncu_csv.read([file(text)]).launches["process"].tolist() == [-1, -1]


def test_numbers_far_apart_do_not_mix_launches(long_page: Page, file: File) -> None:
    text = long_page(["a", "a"], METRICS).replace('\n"1","42"', f'\n"{2**62}","{2**61}"')
    raw = ncu_csv.read([file(text)])
    assert raw.counters[TIME].tolist() == [5e-6, 1e-6]


def test_a_row_behind_words_of_the_program_is_read(raw_page: Page, file: File) -> None:
    text = raw_page(["a", "b"], METRICS).replace('\n"1",', '\nepoch 3 \u2026"1",')
    raw = ncu_csv.read([file(text)])
    assert raw.launches["kernel"].tolist() == ["a", "b"]
    assert raw.problems == ()


def test_a_packed_file_that_is_cut_before_its_first_row(raw_page: Page, file: File) -> None:
    text = raw_page(["a"], METRICS)
    head = text[: text.index('"0","42"')]
    packed = gzip.compress((head + "x" * 50).encode(), mtime=0)[:-12]
    with pytest.raises(ProfileError, match="cut off before its first launch"):
        ncu_csv.read([file(packed, "run.csv.gz")])


def test_tables_of_different_devices_are_not_joined(raw_page: Page, file: File) -> None:
    one = file(raw_page(["a"], {BYTES: ("byte", [8])}), "one.csv")
    other = file(raw_page(["a"], {TIME: ("ns", [5])}).replace('"8.0"', '"7.0"'), "other.csv")
    with pytest.raises(ProfileError, match=r"one\.csv is of .* 8\.0 and other\.csv of .* 7\.0"):
        ncu_csv.read([one, other])


# --- NVTX cells that break a row ----------------------------------------------------------------

PUSH = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"


def test_a_quote_in_a_name_where_the_last_column_is_a_metric(
    nvtx_page: Page, block: Page, file: File
) -> None:
    text = nvtx_page([(f"7  {block('a_b')} ", "", "gemm"), ("", "", "relu")])
    raw = ncu_csv.read([file(text.replace("a_b", 'a"b'))])
    assert raw.launches["kernel"].tolist() == ["gemm", "relu"]
    assert raw.ranges[raw.launches["ranges"][0]].pushed[0][1] == 'a"b'


def test_cells_of_the_last_column_that_cannot_be_read(
    row: Callable[..., str], block: Page, file: File
) -> None:
    text = row(["ID", "Process ID", "Kernel Name", TIME, PUSH]) + row(["", "", "", "ns", ""])
    cells = [block("step"), '"', 'x "d:half', "word", f"7 {block('fc')}"]
    text += "".join(row([at, 42, f"k{at}", at + 1, cell]) for at, cell in enumerate(cells))
    raw = ncu_csv.read([file(text)])
    assert raw.launches["kernel"].tolist() == ["k0", "k1", "k2", "k3", "k4"]
    names = [[name for _, name in raw.ranges[at].pushed] for at in raw.launches["ranges"]]
    assert names == [["step"], [], [], [], ["fc"]]
    assert "line 4: the NVTX ranges of 3 rows cannot be read" in raw.problems[0]


def test_a_cell_that_cannot_be_read_before_the_other_columns(nvtx_page: Page, file: File) -> None:
    raw = ncu_csv.read([file(nvtx_page([("word", "", "gemm"), ("", "", "relu")]))])
    assert raw.launches["kernel"].tolist() == ["gemm", "relu"]
    assert raw.problems == (
        "out.csv, line 3: the NVTX ranges of the row cannot be read; the launch counts as outside every range.",
    )


def test_a_table_in_which_every_comma_was_replaced_is_refused(raw_page: Page, file: File) -> None:
    text = raw_page(["a", "b"], {BYTES: ("byte", ["2,000", "5"])})
    with pytest.raises(ProfileError, match="a semicolon where a separator of thousands"):
        ncu_csv.read([file(text.replace(",", ";"))])
    whole = text.replace('","', '";"').replace("2,000", "2000")
    assert ncu_csv.read([file(whole, "semicolons.csv")]).counters[BYTES].tolist() == [2000.0, 5.0]
