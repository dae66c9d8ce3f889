"""Tables with one row per launch and metric: ``--metrics`` and the details page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hroof.errors import ProfileError
from hroof.readers.ncu_csv import labels, long
from hroof.readers.ncu_csv.launches import Part
from hroof.readers.ncu_csv.lines import tables
from hroof.readers.ncu_csv.rows import read_rows
from hroof.readers.ncu_csv.text import Text
from hroof.readers.ncu_csv.values import OtherLocaleError

Line = Callable[[Sequence[object]], str]
HEADER = [
    "ID",
    "Process ID",
    "Host Name",
    "Kernel Name",
    "Section Name",
    "Metric Name",
    "Metric Unit",
    "Metric Value",
]
SOL = "GPU Speed Of Light Throughput"


def part(text: str, **more: bool) -> Part:
    return long.part(
        read_rows(tables(Text(Path("run.csv"), text.encode()))[0], texts="comma" in more), **more
    )


def test_every_row_has_its_own_unit(row: Line) -> None:
    text = row(HEADER)
    for at, (unit, value) in enumerate(
        [("Mbyte", "12.58"), ("Gbyte", "1.07"), ("byte", "1,024"), ("Kbyte", "3")]
    ):
        text += row([at, 42, "h", "k", "", "dram__bytes.sum", unit, value])
    found = part(text)
    assert list(found.counters["dram__bytes.sum"]) == pytest.approx(
        [12.58e6, 1.07e9, 1024.0, 3000.0], rel=1e-15
    )
    assert found.dialect == "metrics"


def test_metrics_become_columns_in_order_of_appearance(long_page: Callable[..., str]) -> None:
    metrics = {
        "gpu__time_duration.sum": ("us", ["20", "3.5"]),
        "dram__bytes.sum": ("byte", ["8", "n/a"]),
    }
    found = part(long_page(["gemm", "relu"], metrics))
    assert list(found.counters) == list(metrics)
    assert list(found.counters["gpu__time_duration.sum"]) == [20e-6, 3.5e-6]
    assert found.counters["dram__bytes.sum"][0] == 8.0
    assert math.isnan(found.counters["dram__bytes.sum"][1])
    assert list(found.launches["kernel"]) == ["gemm", "relu"]
    assert list(found.launches["grid"]) == ["(1, 1, 1)", "(2, 1, 1)"]
    assert list(found.launches["id"]) == [0, 1]


def test_launches_of_several_processes_with_the_same_number_stay_apart(row: Line) -> None:
    text = row(HEADER)
    for process in (11, 12):
        for metric, value in (("dram__bytes.sum", process), ("lts__t_bytes.sum", 2 * process)):
            text += row([0, process, "h", "k", "", metric, "byte", value])
    found = part(text)
    assert list(found.launches["process"]) == [11, 12]
    assert list(found.counters["lts__t_bytes.sum"]) == [22.0, 24.0]


def test_a_launch_without_a_metric_has_none(row: Line) -> None:
    text = row(HEADER) + row([0, 1, "h", "a", "", "dram__bytes.sum", "byte", 5])
    text += row([1, 1, "h", "b", "", "lts__t_bytes.sum", "byte", 6])
    found = part(text)
    assert found.counters.isna().to_numpy().tolist() == [[False, True], [True, False]]


def test_an_unknown_unit_is_an_error_with_its_line(row: Line) -> None:
    text = row(HEADER) + row([0, 1, "h", "a", "", "dram__bytes.sum", "byte", 5])
    text += row([1, 1, "h", "a", "", "dram__bytes.sum", "acre", 5])
    with pytest.raises(
        ProfileError, match=r"run.csv, line 3: the metric dram__bytes.sum .*\"acre\""
    ):
        part(text)


def test_a_decimal_comma_has_to_be_asked_for(row: Line) -> None:
    text = row(HEADER) + row([0, 1, "h", "a", "", "dram__bytes.sum", "Mbyte", "12,58"])
    text += row([1, 1, "h", "b", "", "dram__bytes.sum", "byte", "1.234"])
    with pytest.raises(OtherLocaleError):
        part(text)
    assert list(part(text, comma=True).counters["dram__bytes.sum"]) == [12.58e6, 1234.0]


def test_instances_are_columns_of_their_own(row: Line) -> None:
    text = row(HEADER) + row([0, 1, "h", "a", "", "sass__opcodes", "inst", "9 (HMMA: 8; FADD: 1)"])
    text += row([1, 1, "h", "b", "", "sass__opcodes", "inst", "2 (FADD: 2)"])
    found = part(text)
    assert list(found.counters["sass__opcodes"]) == [9.0, 2.0]
    assert list(found.counters["sass__opcodes:FADD"]) == [1.0, 2.0]
    assert math.isnan(found.counters["sass__opcodes:HMMA"][1])


def test_old_names_of_metrics_are_names(row: Line) -> None:
    found = part(row(HEADER) + row([0, 1, "h", "a", "", "inst_executed", "inst", 5]))
    assert list(found.counters) == ["inst_executed"]


# --- labels -------------------------------------------------------------------------------------


def test_labels_that_are_sure_are_translated_and_the_rest_is_said(row: Line) -> None:
    rows = [
        (SOL, "Duration", "usecond", "84.48"),
        (SOL, "SM Frequency", "cycle/nsecond", "1.46"),
        (SOL, "Memory Throughput", "%", "88.20"),
        (SOL, "Mem Busy", "%", "8"),
        ("Memory Workload Analysis", "Memory Throughput", "Gbyte/s", "345.14"),
    ]
    text = row(HEADER) + "".join(row([0, 1, "h", "a", *fields]) for fields in rows)
    found = part(text)
    assert found.dialect == "details"
    assert found.counters.iloc[0].to_dict() == {
        "gpu__time_duration.sum": 84.48e-6,
        "gpc__cycles_elapsed.avg.per_second": 1.46e9,
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 88.2,
        "dram__bytes.sum.per_second": 345.14e9,
    }
    assert "the label Mem Busy of the details page" in found.problems[0]
    assert "raw page" in found.problems[0]


def test_the_unit_of_a_label_that_is_left_out_does_not_matter(row: Line) -> None:
    text = row(HEADER) + row([0, 1, "h", "a", SOL, "Duration", "ns", "5"])
    text += row([0, 1, "h", "a", SOL, "Something New", "acre", "many"])
    assert list(part(text).counters) == ["gpu__time_duration.sum"]


def test_of_several_values_of_a_metric_the_first_counts(row: Line) -> None:
    text = row(HEADER) + row([0, 1, "h", "a", SOL, "DRAM Frequency", "Ghz", "n/a"])
    text += row([0, 1, "h", "a", SOL, "DRAM Frequency", "Ghz", "2"])
    text += row([0, 1, "h", "a", "Other", "DRAM Frequency", "Ghz", "3"])
    assert part(text).counters["dram__cycles_elapsed.avg.per_second"][0] == 2e9


@pytest.mark.parametrize(
    ("section", "label", "unit", "metric"),
    [
        (SOL, "Duration", "ms", "gpu__time_duration.sum"),
        (SOL, "Duration", "msecond", "gpu__time_duration.sum"),
        (SOL, "Duration", "cycle", None),
        (SOL, "Memory Frequency", "cycle/second", "dram__cycles_elapsed.avg.per_second"),
        (SOL, "DRAM Frequency", "Ghz", "dram__cycles_elapsed.avg.per_second"),
        (
            "GPU Speed Of Light Roofline Chart",
            "SM Frequency",
            "Ghz",
            "sm__cycles_elapsed.avg.per_second",
        ),
        (SOL, "SM Frequency", "%", None),
        (
            "Memory Workload Analysis",
            "Memory Throughput",
            "byte/second",
            "dram__bytes.sum.per_second",
        ),
        ("", "Memory Throughput", "inst", None),
        (
            "Launch Statistics",
            "Registers Per Thread",
            "register/thread",
            "launch__registers_per_thread",
        ),
        (
            "Launch Statistics",
            "Static Shared Memory Per Block",
            "Kbyte/block",
            "launch__shared_mem_per_block_static",
        ),
        (
            "GPU Speed Of Light Roofline Chart",
            "Predicated-On FFMA Thread Instructions Executed Per Cycle",
            "inst/cycle",
            "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed",
        ),
        (
            "GPU Speed Of Light Roofline Chart",
            "Theoretical Predicated-On DFMA Thread Instructions Executed",
            "inst/cycle",
            "sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained",
        ),
        (
            "GPU Speed Of Light Roofline Chart",
            "Theoretical Predicated-On FFMA Operations",
            "inst",
            None,
        ),
        (SOL, "SOL FB", "%", None),
        (SOL, "duration", "ms", None),
    ],
)
def test_a_label_stands_for_a_metric_by_section_and_unit(
    section: str, label: str, unit: str, metric: str | None
) -> None:
    assert labels.metric(section, label, unit) == metric


@pytest.mark.parametrize(
    ("unit", "dimension"),
    [
        ("usecond", "second"),
        ("us", "second"),
        ("Gbyte/s", "byte/second"),
        ("byte/second", "byte/second"),
        ("cycle/nsecond", "hertz"),
        ("Mhz", "hertz"),
        ("%", "%"),
        ("", ""),
        ("register/thread", "register/thread"),
    ],
)
def test_dimensions_are_units_without_scale(unit: str, dimension: str) -> None:
    assert labels.dimension(unit) == dimension
