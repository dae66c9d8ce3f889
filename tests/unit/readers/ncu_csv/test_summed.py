"""Summaries of ncu, and tables per kernel name: one row per group of launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hroof.errors import ProfileError
from hroof.readers.ncu_csv import summed
from hroof.readers.ncu_csv.launches import Part
from hroof.readers.ncu_csv.lines import tables
from hroof.readers.ncu_csv.rows import Rows, read_rows
from hroof.readers.ncu_csv.text import Text
from hroof.readers.raw import Ranges

Line = Callable[[Sequence[object]], str]
KERNEL = [
    "Process ID",
    "Process Name",
    "Kernel Name",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    "Invocations",
]
VALUES = ["Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"]
RANGE = "Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"


def rows(text: str) -> Rows:
    return read_rows(tables(Text(Path("run.csv"), text.encode()))[0])


def per_kernel(row: Line, *lines: tuple[str, str, object, str, str, object]) -> Part:
    """A summary of (kernel, grid, launches, metric, unit, average)."""
    text = row([*KERNEL, *VALUES])
    for kernel, grid, count, metric, unit, average in lines:
        text += row(
            [
                42,
                "python3",
                kernel,
                "(32, 1, 1)",
                grid,
                0,
                "8.6",
                count,
                metric,
                unit,
                "",
                "",
                average,
            ]
        )
    return summed.summary(rows(text))


@pytest.mark.parametrize(
    "metric",
    [
        "dram__bytes.sum",
        "gpu__time_duration.sum",
        "gpu__time_duration.max",
        "sm__cycles_elapsed.avg",
        "sm__cycles_elapsed.max",
        "sm__inst_executed_pipe_tensor.sum",
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "lts__t_sectors.sum",
        "inst_executed",
    ],
)
def test_counts_and_times_add_up(metric: str) -> None:
    assert summed.is_additive(metric)


@pytest.mark.parametrize(
    "metric",
    [
        "sm__cycles_elapsed.avg.per_second",
        "dram__bytes.sum.per_second",
        "dram__bytes.sum.peak_sustained",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__dram_throughput.max.pct_of_peak_sustained_elapsed",
        "lts__t_sector_hit_rate.pct",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed",
        "sm__maximum_warps_per_active_cycle_pct",
        "smsp__average_warp_latency.ratio",
        "device__attribute_multiprocessor_count",
        "launch__registers_per_thread",
        "launch__thread_count",
    ],
)
def test_rates_shares_and_settings_do_not(metric: str) -> None:
    assert not summed.is_additive(metric)


# --- summaries ----------------------------------------------------------------------------------


def test_a_summary_gives_sums_of_counts_and_means_of_rates(row: Line) -> None:
    found = per_kernel(
        row,
        ("gemm", "(8, 1, 1)", 4, "dram__bytes.sum", "Kbyte", "2.5"),
        ("gemm", "(8, 1, 1)", 4, "dram__bytes.sum.per_second", "Gbyte/s", "100"),
        ("relu", "(8, 1, 1)", 1, "dram__bytes.sum", "byte", "1,000"),
    )
    assert found.dialect == "summary"
    assert found.launches["launches"].tolist() == [4.0, 1.0]
    assert found.launches["aggregate"].tolist() == [True, True]
    assert found.launches["kernel"].tolist() == ["gemm", "relu"]
    assert found.launches["process"].tolist() == [42, 42]
    assert found.counters["dram__bytes.sum"].tolist() == [10e3, 1e3]
    assert found.counters["dram__bytes.sum.per_second"][0] == 100e9
    assert "only sums" in found.problems[-1]


def test_launches_of_other_shapes_are_other_groups(row: Line) -> None:
    found = per_kernel(
        row,
        ("gemm", "(8, 1, 1)", 2, "dram__bytes.sum", "byte", "5"),
        ("gemm", "(9, 1, 1)", 3, "dram__bytes.sum", "byte", "5"),
    )
    assert found.launches["grid"].tolist() == ["(8, 1, 1)", "(9, 1, 1)"]
    assert found.counters["dram__bytes.sum"].tolist() == [10.0, 15.0]


def per_range(row: Line, *lines: tuple[str, str, str, object]) -> Part:
    """A summary by NVTX range of (domain, cell, kernel, average bytes), two launches each."""
    text = row(
        [
            "Domain",
            RANGE,
            "Kernel Name",
            "Block Size",
            "Grid Size",
            "Device Id",
            "Invocations",
            *VALUES,
        ]
    )
    for domain, cell, kernel, average in lines:
        text += row(
            [domain, cell, kernel, "32", "8", 1, 2, "dram__bytes.sum", "byte", "", "", average]
        )
    return summed.summary(rows(text))


def nested(*names: str) -> str:
    return " " + "  ".join(f'"{name}:none:none:none:none:ASCII:{name}"' for name in names) + " "


def test_a_summary_by_range_keeps_the_ranges(row: Line) -> None:
    found = per_range(
        row, ("hroof", nested("step", "fc"), "gemm", 5), ("hroof", nested("step"), "gemm", 7)
    )
    states = [found.ranges[at] for at in found.launches["ranges"]]
    assert states == [Ranges((("hroof", "step"), ("hroof", "fc"))), Ranges((("hroof", "step"),))]
    assert found.counters["dram__bytes.sum"].tolist() == [10.0, 14.0]
    assert found.launches["device"].tolist() == [1, 1]


def test_a_summary_in_several_domains_counts_launches_twice_and_is_refused(row: Line) -> None:
    with pytest.raises(ProfileError, match=r"2 domains.*--page raw"):
        per_range(row, ("hroof", nested("step"), "gemm", 5), ("mine", nested("load"), "gemm", 5))


@pytest.mark.parametrize("count", ["", "0", "some"])
def test_a_group_of_no_launches_is_an_error(row: Line, count: str) -> None:
    with pytest.raises(ProfileError, match="Invocations is not a number of launches"):
        per_kernel(row, ("gemm", "(8, 1, 1)", count, "dram__bytes.sum", "byte", "5"))


def test_labels_of_a_summary_are_translated(row: Line) -> None:
    found = per_kernel(
        row,
        ("gemm", "", 2, "Duration", "us", "5"),
        ("gemm", "", 2, "Mem Busy", "%", "5"),
    )
    assert found.counters["gpu__time_duration.sum"].tolist() == [10e-6]
    assert "Mem Busy" in found.problems[0]


# --- tables by name -----------------------------------------------------------------------------


def by_name(*lines: str) -> Part:
    header = "Kernel Name,Count,dram__bytes.sum,sm__cycles_elapsed.avg,sm__cycles_elapsed.avg.per_second,Time\n"
    return summed.by_name(rows(header + "".join(f"{text}\n" for text in lines)))


def test_rates_that_were_added_up_become_means() -> None:
    found = by_name(
        "gemm,8,59562941,860124,10400000000.0,0.066", '"relu<a, b>",2,512,900,2600000000.0,0.001'
    )
    assert found.dialect == "by name"
    assert found.launches["launches"].tolist() == [8.0, 2.0]
    assert found.launches["aggregate"].all()
    assert found.launches["kernel"].tolist() == ["gemm", "relu<a, b>"]
    assert found.counters["sm__cycles_elapsed.avg.per_second"].tolist() == [1.3e9, 1.3e9]
    assert found.counters["dram__bytes.sum"].tolist() == [59562941.0, 512.0]
    assert list(found.counters) == [
        "dram__bytes.sum",
        "sm__cycles_elapsed.avg",
        "sm__cycles_elapsed.avg.per_second",
    ]
    assert "only sums" in found.problems[0]


def test_rates_that_are_means_stay() -> None:
    found = by_name("gemm,40,59562941,860124,1300000000.0,0.066")
    assert found.counters["sm__cycles_elapsed.avg.per_second"].tolist() == [1.3e9]


def test_rates_that_could_be_either_are_left_out_and_said() -> None:
    found = by_name("gemm,3,59562941,860124,1300000000.0,0.066")
    assert found.counters["sm__cycles_elapsed.avg.per_second"].isna().all()
    assert found.counters["sm__cycles_elapsed.avg"].tolist() == [860124.0]
    assert "Rates are left out" in found.problems[-1]


def test_a_table_by_name_without_a_count_is_refused() -> None:
    with pytest.raises(ProfileError, match=r"neither which launch.*column ID"):
        summed.by_name(rows("Kernel Name,dram__bytes.sum\ngemm,59562941\n"))
