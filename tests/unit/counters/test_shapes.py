"""Shapes of matrix instructions, in opcodes and in names of kernels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.counters import chip
from hroof.counters.shapes import looks_like_matrix, named_shape, opcode_work
from hroof.units import Precision


@pytest.mark.parametrize(
    ("opcode", "precision", "flop"),
    [
        ("HMMA.884.F32.F32.STEP0", Precision.FP16, 512),
        ("HMMA.1688.F16", Precision.FP16, 2048),
        ("HMMA.16816.F32", Precision.FP16, 4096),
        ("HMMA.16816.F32.BF16", Precision.BF16, 4096),
        ("HMMA.1684.F32.TF32", Precision.TF32, 1024),
        ("HMMA.1688.F32.TF32", Precision.TF32, 2048),
        ("DMMA.884", Precision.FP64, 512),
        ("IMMA.8816.S8.S8", Precision.INT8, 2048),
        ("IMMA.16832.S8.S8.SAT", Precision.INT8, 8192),
        ("IMMA.16864.U4.U4", Precision.INT4, 16384),
        ("BMMA.168256.XOR.POPC", Precision.INT1, 65536),
        ("QMMA.16832.F32.E4M3.E4M3", Precision.FP8, 8192),
        ("HGMMA.64x128x16.F32", Precision.FP16, 65536),
        ("HGMMA.64x256x16.F32.BF16", Precision.BF16, 131072),
    ],
)
def test_the_shape_is_in_the_opcode(opcode: str, precision: Precision, flop: float) -> None:
    work = opcode_work(opcode)
    assert work is not None
    assert (work.precision, work.flop) == (precision, flop)


@pytest.mark.parametrize(
    "opcode",
    [
        "HMMA",
        "HMMA.F32",
        "HMMA.SP.16832.F32",
        "HGMMA.F32",
        "UTCHMMA",
        "UTCQMMA.2CTA",
        "HMMA.884.F16.F16.STEP0",
    ],
)
def test_a_matrix_instruction_of_unknown_shape_is_unknown(opcode: str) -> None:
    work = opcode_work(opcode)
    assert work is not None
    assert work.flop is None


@pytest.mark.parametrize(
    "opcode", ["HFMA2.MMA", "FFMA", "MOVM.16.MT88", "LDSM.16.M88.4", "", "IMAD.WIDE"]
)
def test_other_instructions_multiply_no_matrices(opcode: str) -> None:
    assert opcode_work(opcode) is None


@given(st.text(max_size=30))
def test_any_opcode_is_work_or_none(opcode: str) -> None:
    work = opcode_work(opcode)
    assert work is None or work.flop is None or work.flop > 0


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "capability", "precision", "flop"),
    [
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn", "7.0", Precision.FP16, 512),
        ("volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1", "7.0", Precision.FP16, 512),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "7.5", Precision.FP16, 2048),
        ("turing_h1688gemm_128x128_ldg8_nn", "7.5", Precision.FP16, 2048),
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn", "8.0", Precision.FP16, 4096),
        ("ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_stages_64x5_tn", "8.0", Precision.BF16, 4096),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x5_nt_align4", "8.0", Precision.TF32, 2048),
        ("cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1", "8.0", Precision.FP64, 512),
        ("ampere_i16832gemm_int8_128x128_ldg16_stages_64x3_tn", "8.0", Precision.INT8, 8192),
        ("void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x64>(Params)", "8.6", Precision.BF16, 4096),
        ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_kernel",
         "8.0", Precision.FP16, 4096),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x32_tensor16x8x8_kernel",
         "8.0", Precision.TF32, 2048),
        ("cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_bf16_bf16", "9.0", Precision.BF16, 65536),
    ],
)  # fmt: skip
def test_the_shape_is_in_the_name(
    kernel: str, capability: str, precision: Precision, flop: float
) -> None:
    assert named_shape(kernel, chip(capability)) == (precision, flop)
    assert looks_like_matrix(kernel)


@pytest.mark.parametrize(
    "kernel",
    [
        "ampere_sgemm_128x64_nn",
        "volta_sgemm_128x64_nn",
        "volta_scudnn_128x64_relu_interior_nn_v1",
        "void at::native::vectorized_elementwise_kernel<4, float>(int)",
        "reduce_1688_kernel",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_kernel",
        "cutlass_80_simt_sgemm_128x128_8x5_nn_align1",
        "",
    ],
)
def test_other_names_hold_none(kernel: str) -> None:
    assert named_shape(kernel, chip("8.0")) is None
    assert not looks_like_matrix(kernel)


@pytest.mark.parametrize(
    "kernel",
    [
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>(Flash_fwd_params)",
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80",
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNT",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel",
        "cutlass_80_wmma_tensorop_f16_s161616gemm_f16_32x32_128x2_nn_align8",
    ],
)
def test_matrix_kernels_of_unknown_shape_are_known_as_such(kernel: str) -> None:
    assert named_shape(kernel, chip("9.0")) is None
    assert looks_like_matrix(kernel)


@given(st.text(max_size=80))
def test_any_name_is_a_shape_or_none(kernel: str) -> None:
    shape = named_shape(kernel, None)
    assert shape is None or shape[1] > 0
