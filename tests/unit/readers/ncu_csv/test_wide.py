"""The raw page, and tables with one row per launch that people made of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hroof.errors import ProfileError
from hroof.readers.ncu_csv import wide
from hroof.readers.ncu_csv.launches import Part
from hroof.readers.ncu_csv.lines import tables
from hroof.readers.ncu_csv.rows import read_rows
from hroof.readers.ncu_csv.text import Text
from hroof.readers.ncu_csv.values import OtherLocaleError
from hroof.readers.raw import Ranges


def part(text: str, **more: bool) -> Part:
    return wide.part(
        read_rows(tables(Text(Path("run.csv"), text.encode()))[0], texts="comma" in more), **more
    )


def test_values_come_in_base_units(raw_page: Callable[..., str]) -> None:
    metrics = {
        "dram__bytes.sum": ("Mbyte", ["12.58", "0"]),
        "gpu__time_duration.sum": ("usecond", ["85", "1,250"]),
        "sm__cycles_elapsed.avg.per_second": ("cycle/nsecond", ["1.41", "1.3"]),
        "lts__t_sector_hit_rate.pct": ("%", ["47.3", "100"]),
        "inst_executed": ("inst", ["1,234,567", "8"]),
    }
    found = part(raw_page(["gemm", "relu"], metrics))
    assert found.dialect == "raw"
    assert found.counters.to_dict("list") == {
        "dram__bytes.sum": [12.58e6, 0.0],
        "gpu__time_duration.sum": [85e-6, 1250e-6],
        "sm__cycles_elapsed.avg.per_second": [1.41e9, 1.3e9],
        "lts__t_sector_hit_rate.pct": [47.3, 100.0],
        "inst_executed": [1234567.0, 8.0],
    }
    assert list(found.counters.index) == [0, 1]


def test_launches_are_described(raw_page: Callable[..., str]) -> None:
    found = part(raw_page(["gemm", "relu"], {"dram__bytes.sum": ("byte", [1, 2])}))
    assert found.launches.to_dict("list") == {
        "kernel": ["gemm", "relu"],
        "capability": ["8.0", "8.0"],
        "grid": ["(1, 1, 1)", "(2, 1, 1)"],
        "block": ["(128, 1, 1)", "(128, 1, 1)"],
        "process": [42, 42],
        "device": [0, 0],
        "context": [1, 1],
        "stream": [7, 7],
        "ranges": [-1, -1],
        "launches": [1.0, 1.0],
        "aggregate": [False, False],
        "id": [0, 1],
    }
    assert found.programs == {42: "python3"}
    assert found.devices == {0: {"capability": "8.0"}}
    assert found.ranges == ()


def test_names_of_kernels_are_kept_whole(raw_page: Callable[..., str]) -> None:
    names = [
        "void at::native::f<(int)4, at::native::g<float>, std::array<char *, (unsigned long)3>>(int, T2, T3)",
        'void demo::tag<(char)"A", demo::op::{lambda(float)#2}>(const char *, "x,y")',
        "kernel<1,024>",
    ]
    grouped = {"dram__bytes.sum": ("byte", ["1,024", "2", "3,000,000"])}
    found = part(raw_page(names, grouped))
    assert list(found.launches["kernel"]) == names
    assert list(found.counters["dram__bytes.sum"]) == [1024.0, 2.0, 3e6]


def test_words_are_no_counters_and_the_device_has_its_name(raw_page: Callable[..., str]) -> None:
    metrics = {
        "device__attribute_display_name": ("", ["NVIDIA A100", "NVIDIA A100"]),
        "launch__func_cache_config": ("", ["CachePreferNone", "CachePreferNone"]),
        "launch__tpc_enabled": ("", ["all", "12"]),
        "dram__bytes.sum": ("byte", ["5", "n/a"]),
    }
    found = part(raw_page(["gemm", "relu"], metrics))
    assert list(found.counters) == ["launch__tpc_enabled", "dram__bytes.sum"]
    assert math.isnan(found.counters["launch__tpc_enabled"][0])
    assert math.isnan(found.counters["dram__bytes.sum"][1])
    assert found.devices == {0: {"capability": "8.0", "name": "NVIDIA A100"}}


def test_a_metric_without_any_value_is_a_column_of_missing(raw_page: Callable[..., str]) -> None:
    found = part(
        raw_page(
            ["gemm"], {"dram__bytes.sum": ("byte", ["no data"]), "lts__t_bytes.sum": ("byte", [""])}
        )
    )
    assert found.counters.isna().all().all()
    assert found.counters.shape == (1, 2)


def test_the_capability_is_made_of_the_device_where_there_is_no_column(
    raw_page: Callable[..., str],
) -> None:
    metrics = {
        "device__attribute_compute_capability_major": ("", ["7", "7"]),
        "device__attribute_compute_capability_minor": ("", ["5", "5"]),
    }
    old = raw_page(["gemm", "relu"], metrics).replace('"CC"', '"Old"').replace('"8.0"', '""')
    found = part(old)
    assert list(found.launches["capability"]) == ["7.5", "7.5"]
    assert found.devices == {0: {"capability": "7.5"}}


def test_an_unknown_unit_is_an_error(raw_page: Callable[..., str]) -> None:
    with pytest.raises(
        ProfileError, match=r"line 2: the metric dram__bytes.sum has the unknown unit \"acre\""
    ):
        part(raw_page(["gemm"], {"dram__bytes.sum": ("acre", [1])}))


def test_instances_are_columns_of_their_own(raw_page: Callable[..., str]) -> None:
    metrics = {"sass__opcodes": ("Kinst", ["12 (HMMA.16816.F16: 8; FADD: 4)", "3 (FADD: 3)"])}
    found = part(raw_page(["gemm", "relu"], metrics))
    assert list(found.counters) == [
        "sass__opcodes",
        "sass__opcodes:HMMA.16816.F16",
        "sass__opcodes:FADD",
    ]
    assert list(found.counters["sass__opcodes"]) == [12e3, 3e3]
    assert list(found.counters["sass__opcodes:FADD"]) == [4e3, 3e3]
    assert math.isnan(found.counters["sass__opcodes:HMMA.16816.F16"][1])


def test_a_metric_can_have_hundreds_of_instances(raw_page: Callable[..., str]) -> None:
    parts = "; ".join(f"OP.{at}: {at}" for at in range(300))
    found = part(raw_page(["gemm"], {"sass__opcodes": ("inst", [f"7 ({parts})"])}))
    assert found.counters.shape == (1, 301)
    assert found.counters["sass__opcodes:OP.299"][0] == 299.0


def test_ranges_belong_to_their_launches(
    nvtx_page: Callable[..., str], block: Callable[..., str]
) -> None:
    inside = f"5  {block('step')}  {block('fc')} "
    train = f' "3:{block("train", "hroof")[1:]} '
    found = part(
        nvtx_page([(inside, "", "a"), ("", "", "b"), (inside, "", "c"), (inside, train, "d")])
    )
    named = (("<default domain>", "step"), ("<default domain>", "fc"))
    assert found.ranges == (Ranges(named), Ranges(), Ranges(named, (("hroof", "train"),)))
    assert list(found.launches["ranges"]) == [0, 1, 0, 2]


def test_ranges_before_the_names_of_kernels_are_taken_off(
    nvtx_page: Callable[..., str], block: Callable[..., str]
) -> None:
    inside = f"5  {block('step')}  {block('fc')} "
    found = part(
        nvtx_page([(inside, "", "fc/gemm(int)"), ("", "", "a/b"), (inside, "", "fc/relu")])
    )
    assert list(found.launches["kernel"]) == ["gemm(int)", "a/b", "relu"]


def test_several_devices_processes_and_streams(row: Callable[[Sequence[object]], str]) -> None:
    header = [
        "ID",
        "Process ID",
        "Process Name",
        "Kernel Name",
        "Context",
        "Stream",
        "Device",
        "CC",
        "lts__t_bytes.sum",
    ]
    text = row(header) + row([""] * 8 + ["byte"])
    text += row([0, 11, "a", "k", 1, 7, 0, "8.0", 5]) + row([1, 12, "b", "k", 2, 13, 1, "9.0", 6])
    found = part(text)
    assert list(found.launches["process"]) == [11, 12]
    assert list(found.launches["stream"]) == [7, 13]
    assert found.devices == {0: {"capability": "8.0"}, 1: {"capability": "9.0"}}
    assert found.programs == {11: "a", 12: "b"}


# --- other locales ------------------------------------------------------------------------------


def test_a_decimal_comma_has_to_be_asked_for(raw_page: Callable[..., str]) -> None:
    metrics = {
        "dram__bytes.sum": ("byte", ["1.234.567", "8"]),
        "lts__t_sector_hit_rate.pct": ("%", ["47,30", "8,5"]),
    }
    text = raw_page(["gemm", "relu"], metrics)
    with pytest.raises(OtherLocaleError):
        part(text)
    found = part(text, comma=True)
    assert list(found.counters["dram__bytes.sum"]) == [1234567.0, 8.0]
    assert list(found.counters["lts__t_sector_hit_rate.pct"]) == [47.3, 8.5]


# --- tables of people ---------------------------------------------------------------------------


def test_a_table_without_units_is_read_if_its_numbers_cannot_have_been_scaled() -> None:
    text = "ID,Kernel Name,dram__bytes.sum,gpu__time_duration.sum,sm__throughput.avg.pct_of_peak,loss\n"
    found = part(text + "0,gemm,7864448.0,11808.0,47.4,0.1\n1,relu,512.0,900.0,3.0,0.2\n")
    assert found.dialect == "pivoted"
    assert found.counters.to_dict("list") == {
        "dram__bytes.sum": [7864448.0, 512.0],
        "gpu__time_duration.sum": [11808e-9, 900e-9],
        "sm__throughput.avg.pct_of_peak": [47.4, 3.0],
    }


def test_a_table_without_units_that_may_be_scaled_is_refused() -> None:
    text = "ID,Kernel Name,dram__bytes.sum,gpu__time_duration.sum\n0,gemm,7.86,11.80\n"
    with pytest.raises(ProfileError, match=r"has no units.*as ncu printed it"):
        part(text)


def test_a_table_without_names_of_kernels_says_so() -> None:
    found = part("Metric Name,dram__bytes.sum,sm__inst_executed.sum\n0,7864448.0,5\n1,512.0,6\n")
    assert list(found.launches["kernel"]) == ["", ""]
    assert list(found.counters["sm__inst_executed.sum"]) == [5.0, 6.0]
    assert "no names of kernels" in found.problems[0]


@pytest.mark.parametrize(
    ("metric", "factor"),
    [
        ("dram__bytes.sum", 1.0),
        ("dram__bytes.sum.per_second", 1.0),
        ("sm__cycles_elapsed.avg.per_second", 1.0),
        ("gpu__time_duration.sum", 1e-9),
        ("gpu__time_duration.max", 1e-9),
        ("dram__throughput.avg.pct_of_peak_sustained_elapsed", 1.0),
        ("sm__inst_executed.sum.per_cycle_elapsed", 1.0),
    ],
)
def test_base_units_are_known_by_the_name(metric: str, factor: float) -> None:
    found = part(f"ID,Kernel Name,lts__t_bytes.sum,{metric}\n0,gemm,5000,2000\n")
    assert found.counters[metric][0] == pytest.approx(2000 * factor)


def test_a_metric_that_is_there_twice_is_kept_once_where_its_values_agree(
    row: Callable[[Sequence[object]], str],
) -> None:
    header = row(["ID", "Kernel Name", "dram__bytes.sum", "dram__bytes.sum"])
    text = header + row(["", "", "byte", "Kbyte"])
    same = part(text + row([0, "a", "2,000", "2"]) + row([1, "b", "", ""]))
    assert same.counters.columns.tolist() == ["dram__bytes.sum"]
    assert same.counters["dram__bytes.sum"].tolist() == [
        2000.0,
        pytest.approx(math.nan, nan_ok=True),
    ]
    with pytest.raises(ProfileError, match=r"run\.csv has 2 columns dram__bytes\.sum.*differ"):
        part(text + row([0, "a", "2,000", "9"]))
