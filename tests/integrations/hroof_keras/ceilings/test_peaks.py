"""TensorFlow's products and XLA's chains: what they compute, count, and refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

tensorflow = pytest.importorskip("tensorflow")

from hroof.ceilings import host, products  # noqa: E402
from hroof.integration import CeilingKernel  # noqa: E402
from hroof.units import Pipe, Precision  # noqa: E402
from hroof_keras.ceilings import integers as ceilings_integers  # noqa: E402
from hroof_keras.ceilings import peaks as ceilings_peaks  # noqa: E402
from hroof_keras.ceilings.loops import Chains  # noqa: E402
from hroof_keras.ceilings.xla import Load, Team  # noqa: E402

FP64, FP32, BF16, FP16 = Precision.FP64, Precision.FP32, Precision.BF16, Precision.FP16


def team(threads: int = 1) -> Team:
    return Team(threads, Load())


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[CeilingKernel]:
    """What is offered where bf16 is the only short format."""
    monkeypatch.setattr(ceilings_peaks, "is_offered", lambda p: p is BF16)
    monkeypatch.setattr(ceilings_integers, "_probe", lambda: 1e12)
    return list(ceilings_peaks.peak_kernels(team()))


# --- products -----------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", [FP64, FP32, BF16])
def test_a_product_counts_two_operations_per_multiply_add(precision: Precision) -> None:
    # 2 × 400³ = 0.128 GFLOP, twice for 0.3 GFLOP per thread.
    _, work = ceilings_peaks.product(precision, 400, threads=1)()
    assert work == 2 * 2 * 400**3
    _, work = ceilings_peaks.product(precision, 400, threads=2)()
    assert work == 5 * 2 * 400**3


@pytest.mark.parametrize("precision", [FP64, FP32, BF16, FP16])
def test_products_are_right_in_every_precision(precision: Precision) -> None:
    call, left, right = ceilings_peaks.multiply(precision, 64)
    wanted = left.numpy().astype("f8") @ right.numpy().astype("f8")
    assert np.allclose(call().numpy().astype("f8"), wanted, rtol=0.02, atol=0.2)
    assert call().dtype == left.dtype


def test_a_convolution_counts_no_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_peaks, "_FLOP", 1.0)
    _, work = ceilings_peaks.convolution(FP32, threads=1)()
    images, channels, side = 2, 128, 28
    assert work == 2 * images * channels * side**2 * channels * 9


def test_a_convolution_in_a_shorter_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tensorflow.raw_ops.Conv2D

    def shortened(input: Any, filter: Any, **how: Any) -> Any:
        x, weight = (tensorflow.cast(each, "bfloat16") for each in (input, filter))
        return tensorflow.cast(plain(input=x, filter=weight, **how), "float32")

    monkeypatch.setattr(tensorflow.raw_ops, "Conv2D", shortened)
    with pytest.raises(ArithmeticError, match="shorter format"):
        ceilings_peaks.convolution(FP32, threads=1)()


@pytest.mark.parametrize("short", ["bfloat16", "float16"])
def test_a_product_in_a_shorter_format_is_no_fp32_ceiling(short: str) -> None:
    left, right = (ceilings_peaks.random_values(64, 64) for _ in range(2))
    cheap = tensorflow.cast(
        tensorflow.matmul(tensorflow.cast(left, short), tensorflow.cast(right, short)), "float32"
    )
    with pytest.raises(ArithmeticError, match="TF_SET_ONEDNN_FPMATH_MODE"):
        ceilings_peaks._check_fp32(cheap, left, right)
    ceilings_peaks._check_fp32(tensorflow.matmul(left, right), left, right)


def test_a_product_of_nan_is_no_fp32_ceiling() -> None:
    ones = tensorflow.ones([4, 4])
    with pytest.raises(ArithmeticError):
        ceilings_peaks._check_fp32(ones * math.nan, ones, ones)


def test_random_values_leave_the_random_state_alone() -> None:
    np.random.seed(3)
    wanted = np.random.random()
    np.random.seed(3)
    first = ceilings_peaks.random_values(4, 4)
    assert np.random.random() == wanted
    assert np.array_equal(first, ceilings_peaks.random_values(4, 4))


def test_cubes_grow_with_the_threads() -> None:
    assert products.cubes(1) == products.cubes(8) == (512, 768, 1024)
    assert products.cubes(64) == (2048, 3072, 4096)


def test_a_sustained_product_runs_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    plain = CeilingKernel("some", "peak", lambda: ((lambda: calls.append(1)), 5.0), note="Counted.")
    readings = iter((0.0, 0.125))
    monkeypatch.setattr("time.perf_counter", lambda: next(readings))
    kernel = products.sustained(plain)
    call, work = kernel.prepare()
    call()
    assert (work, len(calls)) == (10.0, 4)
    assert (kernel.name, kernel.variant) == ("some sustained", "sustained")


# --- pipes --------------------------------------------------------------------------------------


def test_vector_peaks_are_the_same_measurement_and_say_so(offered: list[CeilingKernel]) -> None:
    for precision in (FP64, FP32):
        of = {
            pipe: [k for k in offered if (k.pipe, k.precision, k.variant) == (pipe, precision, "")]
            for pipe in Pipe
        }
        assert {k.prepare for k in of[Pipe.VECTOR]} == {k.prepare for k in of[Pipe.MATRIX]}
        notes = [k.note for k in of[Pipe.VECTOR] if k.name.startswith("MatMul")]
        assert notes and all("Same FMA unit" in note for note in notes)


def test_short_floats_are_computed_in_fp32_by_the_vector_unit_and_say_so(
    offered: list[CeilingKernel],
) -> None:
    fp32 = {
        k.prepare
        for k in offered
        if k.precision is FP32 and k.pipe is Pipe.VECTOR and not k.variant
    }
    for precision in (FP16, BF16):
        vector = [k for k in offered if (k.pipe, k.precision) == (Pipe.VECTOR, precision)]
        assert {k.prepare for k in vector} == fp32
        assert all(f"elementwise {precision} in fp32" in k.note for k in vector)
        assert all(k.how == "framework-reachable" for k in vector)


def test_a_matrix_unit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, named in (({"amx_bf16"}, True), ({"avx512_bf16"}, False)):
        monkeypatch.setattr(host, "cpu_flags", lambda flags=flags: frozenset(flags))
        kernel = next(ceilings_peaks._products(BF16, 1))
        assert ("matrix unit may reach more" in kernel.note) is named


# --- chains -------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", [FP64, FP32])
def test_chains_count_their_multiply_adds(
    monkeypatch: pytest.MonkeyPatch, precision: Precision
) -> None:
    monkeypatch.setattr(ceilings_peaks, "_CHAIN_FLOP", {precision: 3e6})
    shape = Chains(9, 12)
    call, work = ceilings_peaks.chains(shape, precision, team(2))()
    assert work == 2 * 3 * 224 * 4096  # three turns come next to 3 MFLOP
    call()


def test_chains_without_fma_are_a_rate_beside_the_ceiling(offered: list[CeilingKernel]) -> None:
    beside = [k for k in offered if k.variant == "no fma"]
    assert [(k.pipe, k.precision) for k in beside] == [(Pipe.VECTOR, FP32), (Pipe.VECTOR, FP64)]
    assert all("not fused" in k.note for k in beside)


# --- what is offered ----------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "software"), [(6e9, True), (24.9e9, True), (25e9, False)])
def test_a_format_far_below_fp32_runs_in_software(rate: float, software: bool) -> None:
    assert products.is_software(rate, 100e9) is software


def test_a_known_instruction_set_needs_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_peaks, "_probe", lambda precision: 1.0)
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset({"avx512_bf16"}))
    assert ceilings_peaks.is_offered(BF16)
    assert not ceilings_peaks.is_offered(FP16)


def test_bf16_in_software_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_peaks, "is_offered", lambda precision: False)
    kernels = ceilings_peaks.peak_kernels(team(), quick=True)
    (refused,) = (k for k in kernels if (k.pipe, k.precision) == (Pipe.MATRIX, BF16))
    with pytest.raises(ArithmeticError, match="scalar loop"):
        refused.prepare()


def test_a_probe_is_a_rate() -> None:
    assert ceilings_peaks._probe(FP32) > 0


# --- integers -----------------------------------------------------------------------------------


def test_products_of_integers_are_exact() -> None:
    call, left, right = ceilings_integers.multiply(64)
    found: Any = call()
    wanted = left.numpy().astype("i4") @ right.numpy().astype("i4")
    assert found[0].dtype == tensorflow.int32
    assert np.array_equal(found[0], wanted)


def test_every_thread_has_a_product() -> None:
    call, work = ceilings_integers.product(64, team(2))()
    assert work == 2 * 2 * 64**3
    call()


def test_wrong_integers_are_refused() -> None:
    _, left, right = ceilings_integers.multiply(64)
    wrong = [tensorflow.matmul(left, right, output_type=tensorflow.int32) + 1]
    with pytest.raises(ArithmeticError, match="wrong"):
        ceilings_integers._check(wrong, left, right)


@pytest.mark.parametrize(("rate", "count"), [(0.9e10, 0), (1e10, 2)])
def test_a_scalar_loop_is_not_offered(
    monkeypatch: pytest.MonkeyPatch, rate: float, count: int
) -> None:
    monkeypatch.setattr(ceilings_integers, "_probe", lambda: rate)
    kernels = list(ceilings_integers.integer_kernels(team()))
    assert len(kernels) == count
    assert {(k.pipe, k.precision) for k in kernels} <= {(Pipe.MATRIX, Precision.INT8)}


def test_a_probe_of_integers_is_a_rate() -> None:
    assert ceilings_integers._probe() > 0
