"""The list that ncu is asked for."""

from __future__ import annotations

import re

import pytest

from hroof.counters import Chip, by_name, chips, metrics

ALWAYS = ["gpu__time_duration.sum", "sm__cycles_elapsed.avg", "sm__cycles_elapsed.avg.per_second"]
VECTOR = [
    f"sm__sass_thread_inst_executed_op_{letter}{name}_pred_on.sum"
    for letter in "dfh"
    for name in ("add", "mul", "fma")
]
BYTES = ["l1tex__t_bytes.sum", "lts__t_bytes.sum", "dram__bytes.sum"]
PATHS = {
    "GV100": "fp16_dst_fp16 fp16_dst_fp32",
    "TU102": "fp16_bf16_tf32_dst_fp32 fp16_dst_fp16 int8 int4 int1",
    "TU116": "",
    "GA100": "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 int8 int4 int1",
    "GA102": "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 int8 int4 int1",
    "GA10B": "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 int8 int4 int1",
    "AD102": "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 fp8 int8 int4 int1",
    "GH100": "bf16_dst_fp32 fp16 tf32_dst_fp32 fp64 fp8 int8 int1",
    "GB100": "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 int8 fp4_dst_fp32 "
    "fp4_fp6_fp8_dst_fp16 fp4_fp6_fp8_dst_fp32",
    "GB110": "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 int8 fp4_dst_fp32 fp4_fp6_dst_fp16 "
    "fp4_fp6_dst_fp32 fp8_dst_fp16 fp8_dst_fp32",
    "GB10B": "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 int8 fp4_dst_fp32 "
    "fp4_fp6_fp8_dst_fp16 fp4_fp6_fp8_dst_fp32",
    "GB202": "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 int8 fp4_dst_fp32 fp4_fp6_dst_fp16 "
    "fp4_fp6_dst_fp32 fp8_dst_fp16 fp8_dst_fp32",
    "GB20B": "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 int8 fp4_dst_fp32 fp4_fp6_dst_fp16 "
    "fp4_fp6_dst_fp32 fp8_dst_fp16 fp8_dst_fp32",
    "GR100": "bf16_dst_fp32 fp16_dst_fp16 fp16_dst_fp32 tf32_dst_fp32 fp64 int8 fp4_dst_fp32 fp4_fp6_dst_fp16 "
    "fp4_fp6_dst_fp32 fp8_dst_fp16 fp8_dst_fp32",
}
PACKED = {"GB100", "GB110", "GR100"}
WITHOUT_DRAM = {"GA10B", "GB10B", "GB20B"}
each_chip = pytest.mark.parametrize("one", chips(), ids=lambda one: one.name)


@each_chip
def test_exactly_what_the_formulas_need(one: Chip) -> None:
    expected = [*ALWAYS, *VECTOR]
    expected += [name for name in BYTES if name[:4] != "dram" or one.name not in WITHOUT_DRAM]
    expected += [f"sm__ops_path_tensor_src_{path}.sum" for path in PATHS[one.name].split()]
    if one.name in PACKED:
        expected += [name.replace("_pred", "2_pred") for name in VECTOR if "_op_f" in name]
    assert sorted(metrics(one, peaks=False)) == sorted(expected)


@each_chip
def test_peaks_add_rates_and_clocks_and_nothing_that_is_counted(one: Chip) -> None:
    added = set(metrics(one)) - set(metrics(one, peaks=False))
    assert added
    assert all(
        name.endswith((".sum.peak_sustained", "__cycles_elapsed.avg.per_second")) for name in added
    )
    assert "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained" in added
    assert not any("_op_fadd" in name or "_op_hmul" in name for name in added)


@each_chip
def test_names_are_whole_unique_and_in_a_fixed_order(one: Chip) -> None:
    names = metrics(one)
    assert len(set(names)) == len(names)
    assert names == metrics(one)
    assert names[:3] == tuple(ALWAYS)
    suffixed = r"[a-z0-9]+__\w+\.(sum|avg)(\.peak_sustained|\.per_second)?"
    assert [name for name in names if not re.fullmatch(suffixed, name)] == []


@each_chip
def test_sparse_names_are_never_asked_for(one: Chip) -> None:
    assert [name for name in metrics(one) if "sparsity" in name] == []


@each_chip
def test_cheap_is_time_clock_and_dram(one: Chip) -> None:
    dram = [] if one.name in WITHOUT_DRAM else ["dram__bytes.sum"]
    assert metrics(one, cheap=True, peaks=False) == (*ALWAYS, *dram)
    assert set(metrics(one, cheap=True)) <= set(metrics(one))


@each_chip
def test_an_ncu_without_operations_counts_instructions(one: Chip) -> None:
    names = metrics(one, paths=False)
    assert not any("ops_path" in name for name in names)
    assert ("sm__inst_executed_pipe_tensor.sum" in names) is one.matrix
    loads = "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum"
    assert (loads in names) is (one.name in {"GA100", "GH100"})


def test_an_unknown_chip_is_asked_for_what_every_chip_has() -> None:
    names = set(metrics(None))
    for one in chips():
        if one.name not in WITHOUT_DRAM:
            assert names <= set(metrics(one))
    assert not any("ops_path" in name for name in names)


def test_a_chip_that_lacks_a_name_is_not_asked_for_it() -> None:
    name = "sm__ops_path_tensor_src_fp16_dst_fp32.sum"
    assert name in metrics(by_name("A100"))
    assert name not in metrics(by_name("H100"))
