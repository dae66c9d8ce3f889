"""Chains for the vector units of a GPU: which exist, what they count, what values they go through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hroof.integration import Device  # noqa: E402
from hroof.units import Pipe, Precision  # noqa: E402
from hroof_torch.ceilings.cuda import vector  # noqa: E402
from hroof_torch.ceilings.cuda.program import source  # noqa: E402

BY_KERNEL = {chain.kernel: chain for chain in vector.CHAINS}
SCATTERED = np.random.default_rng(0).integers(0, 2**64, 1000, dtype=np.uint64)


def offered(device: Device, card: Any) -> list[Any]:
    return list(vector.vector_kernels(device, card.timer(), vector.Clocks()))


@pytest.mark.parametrize(
    ("capability", "absent"),
    [
        ((7, 0), {"fma_bf16x2", "two_bf16x2", "fma_f32x2"}),
        ((8, 6), {"two_bf16x2", "fma_f32x2"}),
        ((9, 0), {"fma_f32x2"}),
        ((10, 0), set()),
    ],
)
def test_chains_are_those_that_the_device_has(
    gpu: Callable[..., Device], card: Any, capability: tuple[int, int], absent: set[str]
) -> None:
    names = {kernel.name.removesuffix(" chains") for kernel in offered(gpu(*capability), card)}
    assert names == set(BY_KERNEL) - absent


def test_every_chain_is_in_the_source() -> None:
    text = source()
    for kernel in BY_KERNEL:
        assert f"CHAINS({kernel}, " in text


def test_chains_are_peaks_of_the_vector_pipe(gpu: Callable[..., Device], card: Any) -> None:
    kernels = offered(gpu(9, 0), card)
    assert {kernel.pipe for kernel in kernels} == {Pipe.VECTOR}
    assert {kernel.how for kernel in kernels} == {"measured"}
    ceilings = {kernel.precision for kernel in kernels if not kernel.variant}
    assert ceilings == {Precision(p) for p in ("fp64", "fp32", "fp16", "bf16", "int32", "int8")}
    apart = {kernel.precision for kernel in kernels if kernel.variant == "no fma"}
    assert apart == {Precision(p) for p in ("fp64", "fp32", "fp16", "bf16")}


@pytest.mark.parametrize(
    ("kernel", "per_step"),
    [("fma_f64", 2), ("fma_f32", 2), ("fma_f32x2", 4), ("fma_f16x2", 4), ("dp4a_s32", 8)],
)
def test_operations_are_counted_by_step(kernel: str, per_step: int) -> None:
    chain = BY_KERNEL[kernel]
    rounds = 1024 if kernel == "fma_f64" else 4096
    assert vector.operations(chain, 10) == 10 * 512 * rounds * 8 * 16 * per_step


def test_a_chain_is_launched_with_its_values(card: Any) -> None:
    kernel = next(k for k in offered(card.device, card) if k.name == "fma_f32 chains")
    card.seconds["fma_f32"] = 2e-3
    call, work = kernel.prepare()
    ((name, shape, arguments, _),) = card.built
    assert (name, shape) == ("fma_f32", (8, 512))
    bits = BY_KERNEL["fma_f32"].bits
    numbers = [argument.value for argument in arguments[:5]]
    assert numbers == [bits.start, bits.loose, bits.factor, bits.term, 4096]
    never, counter = arguments[5:]
    assert never.numel() >= 512 and counter.dtype == torch.int64 and counter.numel() == 2
    launches = len(card.launches)
    call()
    assert work == vector.operations(BY_KERNEL["fma_f32"], 8) * (len(card.launches) - launches)


# --- values -------------------------------------------------------------------------------------


def floats(kind: str, bits: Any) -> Any:
    """Bits as the values that a kernel takes them for."""
    words = np.asarray(bits, dtype=np.uint64)
    if kind == "f64":
        return words.view(np.float64)
    if kind == "f32":
        return words.astype(np.uint32).view(np.float32)
    if kind == "f16x2":
        return words.astype(np.uint32).view(np.float16)
    if kind == "f32x2":
        return words.view(np.float32)
    halves = words.astype(np.uint32).view(np.uint16).astype(np.uint32) << 16  # bf16x2
    return halves.view(np.float32)


@pytest.mark.parametrize("kernel", [k for k in BY_KERNEL if k not in ("mad_s32", "dp4a_s32")])
def test_values_alternate_without_ever_growing(kernel: str) -> None:
    bits, kind = BY_KERNEL[kernel].bits, kernel.partition("_")[2]
    start = floats(kind, np.uint64(bits.start) ^ (SCATTERED & np.uint64(bits.loose)))
    factor, term = floats(kind, [bits.factor])[0], floats(kind, [bits.term])[0]
    assert (factor, term) == (-1, 1)
    assert start.min() >= 0.5 and start.max() < 1
    once = start * factor + term
    assert ((once > 0) & (once <= 0.5)).all()
    assert (once * factor + term == start).all()
    assert len(np.unique(start)) > 60


def test_both_halves_of_a_register_hold_the_same_constants() -> None:
    for kernel in ("fma_f16x2", "fma_bf16x2", "fma_f32x2"):
        bits, kind = BY_KERNEL[kernel].bits, kernel.partition("_")[2]
        assert list(floats(kind, [bits.factor])) == [-1, -1]
        assert list(floats(kind, [bits.term])) == [1, 1]


def test_whole_numbers_never_come_to_rest() -> None:
    bits = BY_KERNEL["mad_s32"].bits
    assert bits.factor % 4 == 1 and bits.term % 2 == 1  # the longest period, 2³² (Hull and Dobell)


# --- clock --------------------------------------------------------------------------------------


def test_the_clock_follows_from_cycles_and_nanoseconds() -> None:
    clocks = vector.Clocks()
    clocks.counter("fma_f32 chains", "cpu").copy_(torch.tensor([3_960_000, 2_000_000]))
    clocks.counter("fma_f64 chains", "cpu")
    assert clocks.hertz() == {"fma_f32 chains": 1.98e9}


def test_a_timer_that_stood_still_gives_no_clock() -> None:
    clocks = vector.Clocks()
    clocks.counter("x", "cpu").copy_(torch.tensor([1000, 0]))
    assert clocks.hertz() == {}
