"""Matrix FLOP: the best counter of each launch, and unknown where none will do."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.counters import chip, work

FP16, FP16_LEAST = "flop_nominal_matrix_fp16", "flop_least_matrix_fp16"
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn"
NAN = math.nan


def test_operations_are_never_doubled(count: SimpleNamespace) -> None:
    frame = count.table(ffma=0, src_fp16_dst_fp32=1000, src_fp16_dst_fp16=24, src_bf16_dst_fp32=8)
    result = count.worked(frame)
    assert count.values(result, FP16) == count.values(result, FP16_LEAST) == [1024]
    assert count.values(result, "flop_nominal_matrix_bf16") == [8]
    assert result.columns["source_flop"].tolist() == ["counter"]


def test_operations_make_instruction_counts_irrelevant(count: SimpleNamespace) -> None:
    # Loads of constants run in the matrix unit of this chip.
    frame = count.table(ffma=64, src_fp16_dst_fp32=0, src_fp16_dst_fp16=0, pipe=2_162_688)
    assert count.values(count.worked(frame, kernels=[GEMM]), FP16) == [0]


def test_a_precision_that_was_not_collected_is_told(count: SimpleNamespace) -> None:
    result = count.worked(count.table(ffma=1, src_fp16=5), "9.0")
    assert count.values(result, FP16) == [5]
    note = next(note for note in result.notes if "was not collected" in note)
    assert "bf16" in note and "fp8" in note and "fp16" not in note


def test_everything_collected_needs_no_note(count: SimpleNamespace) -> None:
    frame = count.table(dadd=0, dmul=0, dfma=0, fadd=0, fmul=0, ffma=1, hadd=0, hmul=0, hfma=0)
    for source in ("fp16", "bf16_dst_fp32", "tf32_dst_fp32", "fp64", "fp8", "int8", "int1"):
        frame[f"sm__ops_path_tensor_src_{source}.sum"] = 3.0
    result = count.worked(frame, "9.0")
    assert result.notes == ()
    assert result.columns.filter(like="nominal_matrix").sum(axis=1).tolist() == [21]


@pytest.mark.parametrize(
    ("capability", "source", "column"),
    [
        ("7.5", "fp16_bf16_tf32_dst_fp32", "fp16"),
        ("8.9", "fp8", "fp8"),
        ("10.0", "fp4_fp6_fp8_dst_fp32", "fp8"),
        ("10.3", "fp4_fp6_dst_fp16", "fp8"),
        ("12.0", "fp4_dst_fp32", "fp4"),
        ("8.0", "int4", "int4"),
        ("9.0", "int1", "int1"),
        ("8.0", "fp64", "fp64"),
    ],
)
def test_names_of_counters_are_precisions(
    count: SimpleNamespace, capability: str, source: str, column: str
) -> None:
    frame = count.table(ffma=0).assign(**{f"sm__ops_path_tensor_src_{source}.sum": 7.0})
    assert count.values(count.worked(frame, capability), f"flop_nominal_matrix_{column}") == [7]


def test_sparse_and_dense_parts_add_up_and_the_whole_goes_before_them(
    count: SimpleNamespace,
) -> None:
    parts = {
        "sm__ops_path_tensor_src_tf32_dst_fp32_sparsity_off.sum": [4.0, 4.0],
        "sm__ops_path_tensor_src_tf32_dst_fp32_sparsity_on.sum": [2.0, 2.0],
        "sm__ops_path_tensor_op_hgmma_src_fp16.sum": [3.0, 3.0],
        "sm__ops_path_tensor_op_hmma_src_fp16.sum": [5.0, 5.0],
        "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp16.sum": [1.0, 1.0],
    }
    frame = count.table(ffma=[0, 0]).assign(**parts)
    result = count.worked(frame, "9.0")
    assert count.values(result, "flop_nominal_matrix_tf32") == [6, 6]
    assert count.values(result, FP16) == [8, 8]
    whole = frame.assign(**{"sm__ops_path_tensor_src_tf32_dst_fp32.sum": 6.0})
    assert count.values(count.worked(whole, "9.0"), "flop_nominal_matrix_tf32") == [6, 6]


def test_a_name_that_the_chip_lacks_is_empty_and_does_no_harm(count: SimpleNamespace) -> None:
    frame = count.table(ffma=[0, 0], src_fp16=[5, 6], src_fp16_dst_fp32=[NAN, NAN])
    assert count.values(count.worked(frame, "9.0"), FP16) == [5, 6]


def test_structured_sparsity_is_told(count: SimpleNamespace) -> None:
    frame = count.table(ffma=1).assign(
        **{
            "sm__ops_path_tensor_src_int8_sparsity_off.sum": [0.0],
            "sm__ops_path_tensor_src_int8_sparsity_on.sum": [8.0],
        }
    )
    assert sum("structured sparsity" in note for note in count.worked(frame).notes) == 1
    frame["sm__ops_path_tensor_src_int8_sparsity_on.sum"] = 0.0
    assert not any("structured sparsity" in note for note in count.worked(frame).notes)


# --- opcodes ------------------------------------------------------------------------------------


def test_opcodes_hold_their_shapes(count: SimpleNamespace) -> None:
    frame = count.table(ffma=[1, 1, 1]).assign(
        **{
            count.opcode("IMMA.16832.S8.S8.SAT"): [13_824.0, NAN, NAN],
            count.opcode("HMMA.16816.F32"): [NAN, 10.0, NAN],
            count.opcode("HMMA.1688.F32"): [NAN, 10.0, NAN],
            count.opcode("FFMA"): [1.0, 1.0, 1.0],
        }
    )
    result = count.worked(frame)
    assert count.values(result, "flop_nominal_matrix_int8") == [2 * 384**3, None, None]
    assert count.values(result, FP16) == [None, 10 * 4096 + 10 * 2048, None]
    assert count.values(result, "flop_nominal_vector_fp32") == [2, 2, 2]
    assert result.columns["source_flop"].tolist() == ["counter"] * 3


def test_opcodes_without_matrix_instructions_say_that_there_is_no_such_work(
    count: SimpleNamespace,
) -> None:
    frame = count.table(ffma=1, pipe=500).assign(**{count.opcode("HFMA2.MMA"): 500.0})
    result = count.worked(frame)
    assert count.values(result, "flop_nominal_vector_fp32") == [2]
    assert not any("unknown" in note for note in result.notes)


def test_an_opcode_of_unknown_shape_makes_the_launch_unknown(count: SimpleNamespace) -> None:
    frame = count.table(ffma=[1, 1]).assign(**{count.opcode("UTCHMMA.2CTA"): [3.0, 0.0]})
    result = count.worked(frame, "10.0")
    assert count.values(result, "flop_nominal_vector_fp32") == [None, 2]
    assert any("UTCHMMA" in note for note in result.notes)


# --- instructions -------------------------------------------------------------------------------


def test_a_shape_in_the_name_predicts(count: SimpleNamespace) -> None:
    result = count.worked(count.table(ffma=3, pipe=524_288), kernels=[GEMM])
    assert count.values(result, FP16) == [2**31]
    assert result.columns["source_flop"].tolist() == ["predicted"]
    assert any("predicted" in note for note in result.notes)


@pytest.mark.parametrize("capability", ["7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0", ""])
def test_instructions_of_unknown_shape_are_unknown_and_never_times_512(
    count: SimpleNamespace, capability: str
) -> None:
    result = count.worked(count.table(ffma=3, pipe=1000), capability, kernels=["my_kernel"])
    flop = [name for name in result.columns if name.startswith("flop_")]
    assert result.columns[flop].isna().all(axis=None)
    assert result.columns["source_flop"].tolist() == ["missing"]
    assert any("1 launch (my_kernel): FLOP unknown" in note for note in result.notes)


@given(st.integers(0, 10**9), st.text(max_size=20))
def test_volta_has_one_shape(instructions: int, kernel: str) -> None:
    frame = pd.DataFrame({"sm__inst_executed_pipe_tensor.sum": [float(instructions)]})
    frame["sm__sass_thread_inst_executed_op_ffma_pred_on.sum"] = 1.0
    result = work(frame, chip("7.0"), [kernel])
    if "h884" not in kernel:
        assert result.columns[FP16].tolist() == [512.0 * instructions]
        assert result.columns["source_flop"].tolist() == ["counter"]


def test_volta_with_half_sums_is_not_known(count: SimpleNamespace) -> None:
    result = count.worked(
        count.table(ffma=3, pipe=10), "7.0", kernels=["volta_h884gemm_64x64_ldg8_nn"]
    )
    assert result.columns["source_flop"].tolist() == ["missing"]


def test_no_instructions_are_no_work(count: SimpleNamespace) -> None:
    result = count.worked(count.table(ffma=3, pipe=0), kernels=["my_kernel"])
    assert count.values(result, FP16) == [0]
    assert count.values(result, "flop_nominal_vector_fp32") == [6]


def test_loads_of_constants_are_no_matrix_work(count: SimpleNamespace) -> None:
    told = {"sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum": [1000.0, 400.0]}
    frame = count.table(ffma=[1, 1], pipe=[1000, 1400]).assign(**told)
    result = count.worked(frame, kernels=["my_kernel", GEMM])
    assert count.values(result, FP16) == [0, 1000 * 4096]
    # Without that counter the half FMAs explain them, where they are all of them.
    frame = count.table(ffma=[1, 1], hfma=[32_000, 32_000], pipe=[1000, 1001])
    result = count.worked(frame, kernels=["my_kernel", "other"])
    assert count.values(result, FP16) == [0, None]
    assert result.columns["source_flop"].tolist() == ["counter", "missing"]
    # Elsewhere they are not loads.
    assert count.worked(frame, "8.6").columns["source_flop"].tolist() == ["missing"] * 2


def test_instructions_by_kind_stand_in_for_all(count: SimpleNamespace) -> None:
    kinds = {
        "sm__inst_executed_pipe_tensor_op_hmma.sum": [10.0],
        "sm__inst_executed_pipe_tensor_op_imma.sum": [0.0],
    }
    result = count.worked(
        count.table(ffma=0).assign(**kinds), "7.5", ["turing_h1688gemm_128x128_nn"]
    )
    assert count.values(result, FP16) == [20_480]


# --- what is left -------------------------------------------------------------------------------


def test_a_missing_count_may_hold_work(count: SimpleNamespace) -> None:
    result = count.worked(count.table(ffma=[250, 250], pipe=[0, NAN]), kernels=["a", "b"])
    assert count.values(result, "flop_nominal_vector_fp32") == [500, None]
    assert any("1 launch (b)" in note for note in result.notes)


def test_an_idle_unit_did_nothing(count: SimpleNamespace) -> None:
    active = {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": [0.0, 12.5]}
    result = count.worked(count.table(ffma=[1, 1]).assign(**active), kernels=["a", "b"])
    assert count.values(result, "flop_nominal_vector_fp32") == [2, None]


def test_without_any_counter_the_name_decides(count: SimpleNamespace) -> None:
    result = count.worked(count.table(ffma=[1, 1, 1]), kernels=["plain", GEMM, "flash_fwd_kernel"])
    assert count.values(result, "flop_nominal_vector_fp32") == [2, None, None]
    assert any("Nothing about the matrix units was collected" in note for note in result.notes)


def test_a_chip_without_matrix_units_has_no_such_work(count: SimpleNamespace) -> None:
    frame = count.table(ffma=2, pipe=99)
    result = count.worked(frame, "7.5", kernels=["wmma_kernel"], device="NVIDIA GeForce GTX 1650")
    assert count.values(result, "flop_nominal_vector_fp32") == [4]
    assert count.values(result, FP16) == [None]
    assert not any("matrix" in note for note in result.notes)


def test_no_rows(count: SimpleNamespace) -> None:
    result = work(pd.DataFrame({count.pipe: pd.Series(dtype="float64")}), chip("8.0"), [])
    assert len(result.columns) == 0
