"""The sweep over working sets on a GPU: its sizes, its memory, its kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.errors import MissingError  # noqa: E402
from hroof.integration import CeilingKernel, Device  # noqa: E402
from hroof_torch import ceilings  # noqa: E402
from hroof_torch.ceilings.cuda import memory as ceilings_cuda_memory  # noqa: E402
from hroof_torch.ceilings.cuda import sweep  # noqa: E402

KIB, MIB = 1024, 1024**2


@pytest.fixture(autouse=True)
def compilable(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if driver and compiler were there, and much memory."""
    monkeypatch.setattr(sweep, "obstacle", lambda: None)
    monkeypatch.setattr(sweep, "free_memory", lambda device: 80 * 1024 * MIB)


def swept(device: Device, *sizes: int) -> list[CeilingKernel]:
    return list(sweep.cuda_sweep_kernels(device, sizes))


def test_there_is_one_kernel_per_size(gpu: Callable[..., Device]) -> None:
    kernels = swept(gpu(), 16 * KIB, 64 * KIB, MIB)
    assert [kernel.size for kernel in kernels] == [16 * KIB, 64 * KIB, MIB]
    assert {kernel.threads for kernel in kernels} == {100}
    assert {kernel.what for kernel in kernels} == {"bandwidth"}
    assert {kernel.level for kernel in kernels} == {None}


def test_sizes_are_rounded_down_and_none_comes_twice(gpu: Callable[..., Device]) -> None:
    kernels = swept(gpu(), 4 * KIB, 16 * KIB, 20_000, 40_000, 100_000, 120_000)
    assert [kernel.size for kernel in kernels] == [16 * KIB, 32 * KIB, 64 * KIB]


def test_sets_fit_into_half_of_the_free_memory(
    gpu: Callable[..., Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "free_memory", lambda device: 400 * MIB)
    kernels = swept(gpu(), MIB, 2 * MIB, 4 * MIB)
    assert [kernel.size for kernel in kernels] == [MIB, 2 * MIB]


def test_without_kernels_of_our_own_there_is_no_sweep(
    gpu: Callable[..., Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "obstacle", lambda: MissingError("no NVRTC", "Install it."))
    assert swept(gpu(), MIB) == []


def test_all_sizes_share_one_memory(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def values(device: str, *shape: int) -> Any:
        taken.append(shape[0] * 4)
        return ceilings_cuda_memory.random_values(device, *shape)

    monkeypatch.setattr(sweep, "random_values", values)
    monkeypatch.setattr(sweep, "Timer", lambda device: card.timer())
    kernels = swept(card.device, 16 * KIB, 64 * KIB)
    assert taken == []
    for kernel in kernels:
        call, work = kernel.prepare()
        call()
        assert work % (4 * (kernel.size or 0)) == 0
    assert taken == [4 * 64 * KIB]
    assert len({id(arguments[0]) for _, _, arguments, _ in card.built}) == 1


def test_a_sweep_reads_through_l1(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "Timer", lambda device: card.timer())
    for kernel in swept(card.device, 16 * KIB, MIB):
        kernel.prepare()
    assert [(name, prefer) for name, _, _, prefer in card.built] == [("window_near", True)] * 2


def test_a_call_of_the_sweep_is_short(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "Timer", lambda device: card.timer())
    (kernel,) = swept(card.device, 64 * KIB)
    call, _ = kernel.prepare()
    begun = card.now
    call()
    assert card.now - begun == pytest.approx(5e-3, abs=1.1e-3)


def test_the_integration_offers_it(gpu: Callable[..., Device]) -> None:
    names = [kernel.name for kernel in ceilings.sweep_kernels(gpu(), [64 * KIB])]
    assert names == ["read 64 KiB per multiprocessor"]
