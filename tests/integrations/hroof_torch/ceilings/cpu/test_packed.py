"""Convolutions with packed weights: what they compute, count and refuse."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from hroof.units import Pipe, Precision  # noqa: E402
from hroof_torch.ceilings.cpu import packed  # noqa: E402
from hroof_torch.ceilings.cpu.peaks import random_values  # noqa: E402


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few channels: in software one call of the real size takes seconds."""
    monkeypatch.setattr(packed, "_CHANNELS", 32)
    monkeypatch.setattr(packed, "_IMAGES", 2)


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.INT8])
def test_a_packed_convolution_computes_what_it_counts(precision: Precision) -> None:
    (kernel,) = packed.packed_kernels(precision, threads=3)
    assert (kernel.pipe, kernel.precision, kernel.threads) == (Pipe.MATRIX, precision, 3)
    call, work = kernel.prepare()
    result = call()
    assert result.shape == (6, 32, 14, 14)  # type: ignore[attr-defined]
    assert work == 2 * (6 * 32 * 14 * 14) * 32 * 9
    assert kernel.how == "framework-reachable"
    assert ("FLOP" in kernel.note) is precision.is_float


def test_int8_stays_int8() -> None:
    (kernel,) = packed.packed_kernels(Precision.INT8, threads=1)
    call, _ = kernel.prepare()
    assert call().dtype is torch.uint8  # type: ignore[attr-defined]


def test_other_formats_have_none() -> None:
    assert list(packed.packed_kernels(Precision.FP32, threads=1)) == []
    assert list(packed.packed_kernels(Precision.FP16, threads=1)) == []


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.INT8])
def test_a_build_without_the_ops_has_none(
    monkeypatch: pytest.MonkeyPatch, precision: Precision
) -> None:
    bare = SimpleNamespace(onednn=SimpleNamespace(), mkldnn=SimpleNamespace())
    monkeypatch.setattr(torch, "ops", bare)
    assert list(packed.packed_kernels(precision, threads=1)) == []


def test_a_build_without_onednn_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert list(packed.packed_kernels(Precision.BF16, threads=1)) == []


def test_a_wrong_result_is_refused() -> None:
    x = random_values(1, 4, 5, 5)
    weight = random_values(4, 4, 3, 3)
    right = torch.nn.functional.conv2d(x, weight, padding=1)
    packed._check(right, x, weight)
    with pytest.raises(ArithmeticError, match="wrong by"):
        packed._check(right * 1.2, x, weight)
    with pytest.raises(ArithmeticError):
        packed._check(right * float("nan"), x, weight)


def test_the_programs_random_state_stays() -> None:
    before = torch.get_rng_state()
    (kernel,) = packed.packed_kernels(Precision.INT8, threads=1)
    kernel.prepare()
    assert torch.equal(before, torch.get_rng_state())
