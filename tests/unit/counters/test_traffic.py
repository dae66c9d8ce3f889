"""Bytes of each level: bytes before sectors, stand-ins named, missing levels missing."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from hroof.counters import chip
from hroof.counters.columns import Columns
from hroof.counters.traffic import Traffic, traffic
from hroof.units import MemoryLevel

L1, L2, DRAM = MemoryLevel.L1, MemoryLevel.L2, MemoryLevel.DRAM


def crossed(capability: str = "8.0", /, **metrics: Any) -> Traffic:
    """Traffic of one launch of a microsecond; two underscores and a dot are in the names already."""
    frame = pd.DataFrame({name: [float(value)] for name, value in metrics.items()})
    return traffic(Columns(frame.assign(**{"gpu__time_duration.sum": 1e-6})), chip(capability))


@pytest.mark.parametrize(
    ("metric", "value", "level", "expected"),
    [
        ("l1tex__t_bytes.sum", 100, L1, 100),
        ("l1tex__t_sectors.sum", 10, L1, 320),
        ("lts__t_bytes.sum", 100, L2, 100),
        ("lts__t_sectors.sum", 250, L2, 8000),
        ("dram__bytes.sum", 100, DRAM, 100),
        ("dram__sectors.sum", 10, DRAM, 320),
        ("dram__bytes.sum.per_second", 1e9, DRAM, 1000),
    ],
)
def test_a_sector_is_32_bytes(
    metric: str, value: float, level: MemoryLevel, expected: float
) -> None:
    found = crossed(**{metric: value})
    assert {one: column.tolist() for one, column in found.bytes.items()} == {level: [expected]}
    assert found.notes == []


def test_bytes_win_over_sectors() -> None:
    found = crossed(
        **{
            "lts__t_sectors.sum": 62,
            "lts__t_bytes.sum": 2000,
            "dram__sectors.sum": 62,
            "dram__bytes.sum": 7,
        }
    )
    assert found.bytes[L2].tolist() == [2000]
    assert found.bytes[DRAM].tolist() == [7]


@pytest.mark.parametrize("middle", ["bytes_", "bytes_op_", "sectors_"])
def test_reads_and_writes_add_up(middle: str) -> None:
    found = crossed(**{f"dram__{middle}read.sum": 3, f"dram__{middle}write.sum": 4})
    assert found.bytes[DRAM].tolist() == [7 * (32 if "sectors" in middle else 1)]


def test_half_of_the_traffic_is_not_the_traffic() -> None:
    assert crossed(**{"dram__bytes_read.sum": 3}).bytes == {}
    assert crossed(**{"l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum": 3}).bytes == {}


def test_zero_bytes_are_zero() -> None:
    assert crossed(**{"dram__bytes.sum": 0}).bytes[DRAM].tolist() == [0]


def test_launches_are_filled_one_by_one() -> None:
    frame = pd.DataFrame(
        {"dram__bytes.sum": [math.nan, 5.0, math.nan], "dram__sectors.sum": [1.0, 1.0, math.nan]}
    )
    found = traffic(Columns(frame), None).bytes[DRAM]
    assert found.tolist()[:2] == [32, 5]
    assert math.isnan(found[2])


@pytest.mark.parametrize(
    ("capability", "unit"),
    [
        ("7.0", ""),
        ("7.5", "_mem_lg"),
        ("8.0", "_mem_lg"),
        ("8.9", "_mem_lg"),
        ("9.0", "_mem_lgds"),
        ("12.0", "_mem_lgds"),
    ],
)
def test_what_nvidia_takes_for_l1_stands_in_and_is_named(capability: str, unit: str) -> None:
    metrics = {
        f"l1tex__lsu_writeback_active{end}.sum": 1 + len(end)
        for end in ("", "_mem_lg", "_mem_lgds")
    }
    found = crossed(capability, **metrics)
    assert found.bytes[L1].tolist() == [128 * (1 + len(unit))]
    (note,) = found.notes
    assert f"l1tex__lsu_writeback_active{unit} × 128 B" in note
    assert ("shared memory not included" in note) is (unit == "_mem_lg")


def test_l1_by_rate_of_a_section() -> None:
    found = crossed("9.0", **{"derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.per_second": 5e9})
    assert found.bytes[L1].tolist() == [5000]
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    "metrics",
    [
        {"lts__lts2xbar_cycles_active.sum": 10},
        {"derived__lts__lts2xbar_bytes.sum.per_second": 320e6},
    ],
)
def test_what_nvidia_takes_for_l2_stands_in_and_is_named(metrics: dict[str, float]) -> None:
    found = crossed(**metrics)
    assert found.bytes[L2].tolist() == [320]
    assert "lts2xbar" in found.notes[0]
    assert crossed(**metrics, **{"lts__t_sectors.sum": 1}).notes == []


@pytest.mark.parametrize("capability", ["8.7", "11.0", "12.1"])
def test_a_chip_with_its_cpus_memory_has_no_dram_bytes(capability: str) -> None:
    # All that L2 passes for the system's memory is no DRAM traffic: L2 holds part of it.
    found = crossed(
        capability, **{"lts__t_sectors_aperture_sysmem.sum": 100, "lts__t_bytes.sum": 3200}
    )
    assert DRAM not in found.bytes
    assert "has no DRAM counters" in found.notes[0]


def test_what_l2_did_not_hold_of_the_systems_memory_is_its_traffic() -> None:
    found = crossed("8.7", **{"lts__t_sectors_aperture_sysmem_lookup_miss.sum": 100})
    assert found.bytes[DRAM].tolist() == [3200]
    assert "sectors of system memory" in found.notes[0]
    assert (
        DRAM not in crossed("8.6", **{"lts__t_sectors_aperture_sysmem_lookup_miss.sum": 100}).bytes
    )


def test_nothing_is_nothing(count: SimpleNamespace) -> None:
    assert traffic(Columns(count.table(ffma=1)), chip("8.0")) == Traffic({}, [])
