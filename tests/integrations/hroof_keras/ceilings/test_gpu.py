"""A GPU's kernels, run on the CPU: what they offer and count. That they run on a GPU is not tested."""

from __future__ import annotations

from typing import Any

import pytest

tensorflow = pytest.importorskip("tensorflow")

from hroof.integration import CeilingKernel, Device  # noqa: E402
from hroof.units import MemoryLevel, Pipe, Precision  # noqa: E402
from hroof_keras.ceilings import gpu as ceilings_gpu  # noqa: E402


def gpu(capability: tuple[int, int] = (9, 0), tf32: bool = True) -> Device:
    return Device("cuda:1", "made-up", facts={"compute_capability": [*capability], "tf32": tf32})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little work, on the CPU."""
    monkeypatch.setattr(ceilings_gpu, "_SIZES", (32,))
    monkeypatch.setattr(ceilings_gpu, "_ELEMENTS", 1000)
    monkeypatch.setattr(ceilings_gpu, "_LAUNCHES", 10)
    plain = tensorflow.device
    monkeypatch.setattr(tensorflow, "device", lambda name: plain(name.replace("GPU:1", "CPU:0")))


def offered(device: Device) -> list[CeilingKernel]:
    return list(ceilings_gpu.kernels(device))


def test_every_kernel_runs_and_counts(small: None) -> None:
    work: dict[Any, float] = {}
    for kernel in offered(gpu()):
        call, work[kernel.level or kernel.precision or kernel.what, kernel.variant] = (
            kernel.prepare()
        )
        call()
        assert kernel.how == "framework-reachable" and kernel.note.endswith(".")
    assert work["launch", ""] == 10
    assert work[MemoryLevel.DRAM, "copy"] == 2 * 1000 * 4 * 4
    assert work[MemoryLevel.DRAM, "triad"] == 3 * 1000 * 4 * 4
    assert work[Precision.FP16, ""] == 2 * 32**3 * 4


@pytest.mark.parametrize(
    ("capability", "tf32", "wanted"),
    [
        ((6, 0), True, ["fp64", "fp32"]),
        ((7, 0), True, ["fp64", "fp32", "fp16"]),
        ((8, 0), True, ["fp64", "tf32", "fp16", "bf16"]),
        ((8, 0), False, ["fp64", "fp32", "fp16", "bf16"]),
    ],
)
def test_formats_follow_the_chip_and_the_switch(
    capability: tuple[int, int], tf32: bool, wanted: list[str]
) -> None:
    assert [str(p) for p in ceilings_gpu.products_of(gpu(capability, tf32))] == wanted


def test_nothing_is_claimed_of_an_unknown_chip() -> None:
    device = Device("cuda:0", "made-up", facts={"compute_capability": []})
    assert ceilings_gpu.products_of(device) == (Precision.FP64, Precision.FP32)


def test_products_in_fp32_are_work_of_the_vector_pipe() -> None:
    pipes = {k.precision: k.pipe for k in offered(gpu(tf32=False)) if k.what == "peak"}
    assert pipes[Precision.FP32] is Pipe.VECTOR
    assert pipes[Precision.BF16] is Pipe.MATRIX


def test_calls_run_on_the_device_and_are_waited_for(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(tensorflow.test.experimental, "sync_devices", lambda: seen.append("synced"))
    ceilings_gpu._synced("/GPU:1", lambda: seen.append("call"), 2)()
    assert seen == ["call", "call", "synced"]
