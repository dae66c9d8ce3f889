"""The machine in a report: stated peaks, dense instead of sparse, and what follows from the device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.counters import CLOCK, by_name, chip, machine, metrics
from hroof.counters.columns import Columns
from hroof.counters.peaks import dense_factor
from hroof.machine import Machine
from hroof.units import MemoryLevel, Pipe, Precision

PEAK = ".sum.peak_sustained"
RATE = "sm__cycles_elapsed.avg.per_second"
SMS, BUS = "device__attribute_multiprocessor_count", "device__attribute_global_memory_bus_width"
VECTOR = "sm__sass_thread_inst_executed_op_{}_pred_on" + PEAK
PATH = "sm__ops_path_tensor_{}" + PEAK
HALF, BRAIN = (Pipe.MATRIX, Precision.FP16), (Pipe.MATRIX, Precision.BF16)
SINGLE, DOUBLE = (Pipe.VECTOR, Precision.FP32), (Pipe.VECTOR, Precision.FP64)


def described(capability: str = "8.0", device: str = "", /, **metrics: Any) -> Machine:
    frame = pd.DataFrame(
        {key: values if isinstance(values, list) else [values] for key, values in metrics.items()}
    )
    found = machine(frame.astype("float64"), chip(capability, device), device)
    assert found is not None
    return found


def rates(found: Machine) -> dict[str, float]:
    return {
        f"{pipe} {precision}": ceiling.rate for (pipe, precision), ceiling in found.peaks.items()
    }


# --- stated peaks -------------------------------------------------------------------------------


def test_vector_peaks_are_fmas_times_clock() -> None:
    found = described(
        **{
            VECTOR.format("ffma"): 6912,
            VECTOR.format("dfma"): 3456,
            VECTOR.format("hfma"): 13824,
            RATE: 1e9,
        }
    )
    vector = {name: rate for name, rate in rates(found).items() if "vector" in name}
    assert vector == {"vector fp64": 6912e9, "vector fp32": 13824e9, "vector fp16": 55296e9}
    ceiling = found.peaks[SINGLE]
    assert (ceiling.how, ceiling.samples, ceiling.spread) == ("counter peak", 1, 0)
    assert ceiling.kernel == "sm__sass_thread_inst_executed_op_ffma_pred_on"
    assert ceiling.note == "theoretical, at 1.00 GHz"
    assert found.facts[CLOCK] == 1e9
    assert found.facts["chip"] == "GA100"


def test_packed_singles_may_be_the_higher_peak() -> None:
    found = described("10.0", **{VECTOR.format("ffma"): 100, VECTOR.format("ffma2"): 75, RATE: 1.0})
    assert found.peaks[SINGLE].rate == 300
    assert "ffma2" in found.peaks[SINGLE].kernel


def test_launches_with_other_clocks_give_the_median_and_the_spread() -> None:
    found = described(**{VECTOR.format("ffma"): [1.0] * 3, RATE: [1e9, 2e9, 1.2e9]})
    ceiling = found.peaks[SINGLE]
    assert ceiling.rate == ceiling.median == pytest.approx(2.4e9)
    assert ceiling.spread == pytest.approx((3.2 - 2.2) / 2.4)
    assert ceiling.samples == 3
    assert any("between 1.00 GHz and 2.00 GHz" in warning for warning in found.warnings)


def test_clocks_within_5_percent_need_no_warning() -> None:
    found = described(**{VECTOR.format("ffma"): [1.0] * 2, RATE: [1e9, 1.04e9]})
    assert not any("between" in warning for warning in found.warnings)


def test_a_rate_and_its_clock_are_of_the_same_launch() -> None:
    found = described(
        **{VECTOR.format("ffma"): [10.0, math.nan, 30.0], RATE: [1.0, 100.0, math.nan]}
    )
    assert found.peaks[SINGLE].rate == 20
    assert found.peaks[SINGLE].samples == 1


def test_without_a_clock_there_is_no_compute_ceiling_and_a_warning() -> None:
    found = described(
        **{VECTOR.format("ffma"): 10, BUS: 5120, "dram__cycles_elapsed.avg.per_second": 1e9}
    )
    assert found.peaks == {}
    assert "The report holds no SM clock, so it gives no compute ceiling." in found.warnings
    assert CLOCK not in found.facts


# --- dense and sparse ---------------------------------------------------------------------------


def test_what_says_that_it_is_dense_is_taken() -> None:
    found = described(
        "9.0",
        **{
            PATH.format("src_bf16_dst_fp32"): 8192,
            PATH.format("op_hgmma_src_bf16_dst_fp32_sparsity_off"): 4096,
            PATH.format("op_hgmma_src_bf16_dst_fp32_sparsity_on"): 8192,
            PATH.format("op_hmma_src_bf16_dst_fp32_sparsity_off"): 2730,
            RATE: 1.0,
        },
    )
    assert found.peaks[BRAIN].rate == 4096
    assert found.peaks[BRAIN].kernel.endswith("op_hgmma_src_bf16_dst_fp32_sparsity_off")


def test_the_sparse_rate_alone_is_halved() -> None:
    found = described("8.6", **{PATH.format("src_int8_sparsity_on"): 4096, RATE: 1.0})
    ceiling = found.peaks[Pipe.MATRIX, Precision.INT8]
    assert ceiling.rate == 2048
    assert "structured sparsity" in ceiling.note


@pytest.mark.parametrize(("stated", "factor"), [(4096, 1.0), (8192, 0.5)])
def test_names_without_a_suffix_are_told_apart_by_the_known_fp16_rate(
    stated: float, factor: float
) -> None:
    found = described(
        "9.0",
        **{
            SMS: 100,
            PATH.format("src_fp16"): 100 * stated,
            PATH.format("src_bf16_dst_fp32"): 100 * stated,
            PATH.format("src_int8"): 200 * stated,
            PATH.format("src_fp64"): 25600,
            PATH.format("src_int1"): 6e6,
            RATE: 1.0,
        },
    )
    dense = 100 * stated * factor
    assert found.peaks[HALF].rate == found.peaks[BRAIN].rate == dense
    assert found.peaks[Pipe.MATRIX, Precision.INT8].rate == 2 * dense
    # These have no sparse form.
    assert found.peaks[Pipe.MATRIX, Precision.FP64].rate == 25600
    assert found.peaks[Pipe.MATRIX, Precision.INT1].rate == 6e6
    assert ("half of the stated rate" in found.peaks[HALF].note) is (factor < 1)


def test_the_number_of_sms_may_follow_from_the_fp32_peak() -> None:
    frame = pd.DataFrame(
        {VECTOR.format("ffma"): [12800.0], PATH.format("src_fp16"): [819200.0], RATE: [1.0]}
    )
    assert dense_factor(Columns(frame), chip("9.0")) == 0.5


def test_where_nobody_knows_matrix_peaks_are_left_out_and_told() -> None:
    stated = {
        PATH.format("src_fp16_dst_fp16"): 3e5,
        PATH.format("src_fp64"): 10,
        SMS: 100,
        RATE: 1.0,
    }
    found = described("12.0", **stated)
    assert rates(found) == {"matrix fp64": 10}
    (warning,) = found.warnings
    assert "The matrix peaks of fp16 are left out" in warning


@pytest.mark.parametrize("capability", ["7.0", "7.5"])
def test_chips_without_sparsity_state_dense_rates(capability: str) -> None:
    found = described(capability, **{PATH.format("src_fp16_dst_fp16"): 1024, RATE: 2.0})
    assert found.peaks[HALF].rate == 2048


def test_an_unknown_chip_keeps_what_needs_no_chip() -> None:
    frame = pd.DataFrame(
        {VECTOR.format("ffma"): [10.0], PATH.format("src_fp16"): [99.0], RATE: [1.0]}
    )
    found = machine(frame, None)
    assert found is not None
    assert rates(found) == {"vector fp32": 20}
    assert found.name == "GPU"


# --- bandwidths ---------------------------------------------------------------------------------


def test_each_level_has_its_own_clock() -> None:
    found = described(
        **{
            "l1tex__t_bytes" + PEAK: 100,
            "lts__t_bytes" + PEAK: 10,
            "dram__bytes" + PEAK: 1280,
            "l1tex__cycles_elapsed.avg.per_second": 2.0,
            "lts__cycles_elapsed.avg.per_second": 3.0,
            "dram__cycles_elapsed.avg.per_second": 1.2e9,
            RATE: 5.0,
        }
    )
    bandwidths = {level: ceiling.rate for level, ceiling in found.bandwidths.items()}
    assert bandwidths == {"l1": 200, "l2": 30, "dram": 1280 * 1.2e9}
    assert found.bandwidths[MemoryLevel.DRAM].note == "theoretical, at 1.20 GHz"
    assert found.facts["clock_dram"] == 1.2e9


@pytest.mark.parametrize(
    ("metric", "level", "expected"),
    [
        ("derived__l1tex__lsu_writeback_bytes_mem_lgds", "l1", 10),
        ("l1tex__lsu_writeback_active_mem_lg", "l1", 1280),
        ("derived__lts__lts2xbar_bytes", "l2", 10),
        ("lts__lts2xbar_cycles_active", "l2", 320),
    ],
)
def test_what_nvidias_sections_state(metric: str, level: str, expected: float) -> None:
    found = described(**{metric + PEAK: 10, RATE: 1.0, "lts__cycles_elapsed.avg.per_second": 1.0})
    assert {one: ceiling.rate for one, ceiling in found.bandwidths.items()} == {level: expected}


def test_l1_runs_at_the_clock_of_its_sm() -> None:
    found = described(**{"l1tex__t_bytes" + PEAK: 128, RATE: 3.0})
    assert found.bandwidths[MemoryLevel.L1].rate == 384


def test_l2_without_its_clock_has_no_ceiling() -> None:
    found = described(**{"lts__t_bytes" + PEAK: 10, "l1tex__t_bytes" + PEAK: 1, RATE: 1.0})
    assert list(found.bandwidths) == [MemoryLevel.L1]


# --- what follows from the device ---------------------------------------------------------------


def test_a_report_with_clocks_only_gives_what_is_certain() -> None:
    found = described(
        "8.0", **{SMS: 108, BUS: 5120, "device__attribute_memory_clock_rate": 1_215_000, RATE: 1e9}
    )
    assert rates(found) == {
        "vector fp64": 108 * 64 * 1e9,
        "vector fp32": 108 * 128 * 1e9,
        "matrix tf32": 108 * 1024 * 1e9,
        "matrix fp16": 108 * 2048 * 1e9,
        "matrix bf16": 108 * 2048 * 1e9,
        "matrix int8": 108 * 4096 * 1e9,
    }
    assert found.bandwidths[MemoryLevel.L1].rate == 108 * 128 * 1e9
    assert found.bandwidths[MemoryLevel.DRAM].rate == pytest.approx(1555.2e9)
    assert "128 FLOP per SM and clock of GA100" in found.peaks[SINGLE].note
    assert "bus of 5120 bits" in found.bandwidths[MemoryLevel.DRAM].note
    assert found.warnings == ()


def test_what_a_report_states_goes_before_what_follows() -> None:
    found = described("8.0", **{SMS: 108, VECTOR.format("ffma"): 7000, RATE: 1.0})
    assert found.peaks[SINGLE].rate == 14000
    assert found.peaks[DOUBLE].rate == 108 * 64


@pytest.mark.parametrize(
    ("width", "clock", "expected"),
    [
        (256, 5_001_000, 320.064e9),
        (6144, 2_619_000, 4022.784e9),
        (384, 6_251_000, 600.096e9),
        (128, 14.001e9, 448.032e9),
    ],
)
def test_dram_transfers_twice_per_clock(width: int, clock: float, expected: float) -> None:
    found = described("8.6", **{BUS: width, "device__attribute_memory_clock_rate": clock})
    assert found.bandwidths[MemoryLevel.DRAM].rate == pytest.approx(expected)


def test_a_product_with_less_fp64_gets_no_more() -> None:
    found = described("9.0", "NVIDIA H800", **{SMS: 100, RATE: 1.0})
    assert rates(found) == {"vector fp64": 400, "vector fp32": 25600}
    assert found.name == "NVIDIA H800"


def test_a_product_line_with_several_matrix_rates_gets_none() -> None:
    found = described("8.6", **{SMS: 84, RATE: 1.0})
    assert "matrix fp16" not in rates(found)
    assert "The report holds no matrix peak, so matrix work has no ceiling." in found.warnings


def test_a_chip_without_matrix_units_misses_none() -> None:
    found = described("7.5", "NVIDIA GeForce GTX 1650", **{SMS: 14, RATE: 1.0})
    assert rates(found) == {"vector fp64": 56, "vector fp32": 1792}
    assert found.warnings == ()


def test_the_memory_of_a_cpu_is_no_dram_of_the_gpu() -> None:
    frame = pd.DataFrame({BUS: [256.0], "device__attribute_memory_clock_rate": [4e6]})
    assert machine(frame, chip("12.1")) is None


def test_nothing_gives_no_machine() -> None:
    assert machine(pd.DataFrame({"gpu__time_duration.sum": [1.0]}), chip("8.0")) is None
    assert machine(pd.DataFrame(), None) is None
    assert machine(pd.DataFrame({VECTOR.format("ffma"): [0.0], RATE: [1e9]}), None) is None


# --- as a whole ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "product", ["V100", "T4", "A100", "RTX 3090", "L4", "H100", "B200", "RTX 5090"]
)
def test_what_is_asked_for_gives_every_level(product: str) -> None:
    one = by_name(product)
    frame = pd.DataFrame({name: [1000.0] for name in metrics(one)})
    found = machine(frame, one, product)
    assert found is not None
    assert list(found.bandwidths) == [MemoryLevel.L1, MemoryLevel.L2, MemoryLevel.DRAM]
    assert {SINGLE, DOUBLE} <= set(found.peaks)


@given(st.lists(st.floats(1e8, 3e9), min_size=1, max_size=8))
def test_a_machine_can_be_saved(clocks: list[float]) -> None:
    frame = pd.DataFrame({VECTOR.format("ffma"): 10.0, RATE: clocks, SMS: 7.0})
    found = machine(frame, chip("8.0"), "GPU")
    assert found is not None
    assert Machine.from_json(found.to_json()) == found
    low, high = 20 * min(clocks), 20 * max(clocks)
    assert low <= found.peaks[SINGLE].rate * (1 + 1e-12)
    assert found.peaks[SINGLE].rate <= high * (1 + 1e-12)
    assert np.isfinite(found.peaks[SINGLE].spread)
