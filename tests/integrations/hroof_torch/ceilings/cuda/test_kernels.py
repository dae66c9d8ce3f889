"""The ceilings of a GPU as a whole: what is offered with and without NVRTC, facts, conditions; no GPU needed."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import hroof_torch  # noqa: E402
from hroof.ceilings import Plan, Senses, measure  # noqa: E402
from hroof.counters import CLOCK  # noqa: E402
from hroof.errors import MissingError  # noqa: E402
from hroof.integration import CeilingKernel, Device  # noqa: E402
from hroof.units import MemoryLevel, Pipe, Precision  # noqa: E402
from hroof_torch import ceilings  # noqa: E402
from hroof_torch.ceilings.cuda import kernels as ceilings_cuda  # noqa: E402
from hroof_torch.ceilings.cuda import nvml as ceilings_cuda_nvml  # noqa: E402
from hroof_torch.ceilings.cuda import products as ceilings_cuda_products  # noqa: E402
from hroof_torch.ceilings.cuda.nvml import Look  # noqa: E402
from hroof_torch.ceilings.cuda.products import Shape, Trial  # noqa: E402

L1, L2, L3, DRAM = MemoryLevel
NO_NVRTC = MissingError("NVRTC was not found.", "Install it.")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No NVML, everything compilable, and no shape is tried."""
    monkeypatch.setattr(ceilings_cuda, "gpu", lambda device: None)
    monkeypatch.setattr(ceilings_cuda, "obstacle", lambda: None)
    monkeypatch.setattr(ceilings_cuda_products, "try_shapes", lambda *arguments: [])


def offered(device: Device) -> list[CeilingKernel]:
    return list(ceilings.ceiling_kernels(device))


# --- what is offered ----------------------------------------------------------------------------


def test_a_gpu_has_candidates_for_every_level_and_launches(gpu: Callable[..., Device]) -> None:
    kernels = offered(gpu())
    assert {kernel.level for kernel in kernels} == {None, L1, L2, DRAM}
    launches = [(k.name, k.variant) for k in kernels if k.what == "launch"]
    assert launches == [("neg_ of 1 element", ""), ("neg_ of 1 element in a graph", "graph")]


def test_every_pipe_and_precision_of_hopper_has_a_candidate(gpu: Callable[..., Device]) -> None:
    peaks = {(k.pipe, str(k.precision)) for k in offered(gpu(9, 0)) if k.what == "peak"}
    vector = ("fp64", "fp32", "fp16", "bf16", "int32", "int8")
    matrix = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
    wanted = {(Pipe.VECTOR, p) for p in vector} | {(Pipe.MATRIX, p) for p in matrix}
    assert peaks == wanted


def test_variants_are_those_that_a_machine_tells_apart(gpu: Callable[..., Device]) -> None:
    variants = {kernel.variant for kernel in offered(gpu())}
    assert variants == {
        "",
        "burst",
        "copy",
        "graph",
        "in place",
        "no fma",
        "read",
        "shared memory",
        "write",
    }


def test_without_l2_size_nothing_measures_l2(gpu: Callable[..., Device]) -> None:
    bare = dataclasses.replace(gpu(), caches={})
    assert {kernel.level for kernel in offered(bare)} == {None, L1, DRAM}


def test_without_nvrtc_the_frameworks_kernels_have_to_do(
    gpu: Callable[..., Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings_cuda, "obstacle", lambda: NO_NVRTC)
    kernels = offered(gpu())
    assert {kernel.how for kernel in kernels} == {"framework-reachable"}
    assert {k.name for k in kernels if k.level is L2} == {"copy_ L2/8", "copy_ L2/4"}
    (refused,) = [kernel for kernel in kernels if kernel.level is L1]
    with pytest.raises(MissingError, match="NVRTC was not found"):
        refused.prepare()
    vector = {k.precision for k in kernels if k.pipe is Pipe.VECTOR}
    assert vector == {Precision.FP32, Precision.FP16, Precision.BF16}


def test_names_of_kernels_are_unique_for_each_ceiling(gpu: Callable[..., Device]) -> None:
    keys = [(k.name, k.level, k.pipe, k.precision, k.variant) for k in offered(gpu())]
    assert len(keys) == len(set(keys))


# --- facts --------------------------------------------------------------------------------------


def test_a_gpu_is_described(gpu: Callable[..., Device]) -> None:
    device = gpu()
    assert (device.device, device.name, device.shared_pipes) == ("cuda:0", "made-up GPU", False)
    assert device.caches == {L2: 50 * 1024**2}
    assert device.facts["capability"] == "9.0"
    assert device.facts["multiprocessors"] == device.facts["units"] == 100
    assert device.facts["per_cycle"]["vector_fp32"] == 256
    assert json.loads(json.dumps(device.facts)) == device.facts


def test_l1_is_a_fact_but_no_cache_that_data_stay_in(gpu: Callable[..., Device]) -> None:
    near, far = gpu(8, 0).facts["caches"]
    assert (near["level"], near["size"], near["sharers"]) == ("l1", 192 * 1024, 1)
    assert near["total"] == 100 * 192 * 1024
    assert (far["level"], far["size"], far["sharers"]) == ("l2", 50 * 1024**2, 100)
    assert L1 not in gpu(8, 0).caches


def test_unknown_caches_are_left_out(gpu: Callable[..., Device]) -> None:
    assert gpu(99, 0, L2_cache_size=0).facts["caches"] == []


def test_driver_and_limits_of_the_clock_identify_a_measurement(
    gpu: Callable[..., Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"driver": "575.57", "clock_max": 1.98e9, "power_limit": 700.0, "mig": False}
    found = SimpleNamespace(facts=lambda: known)
    monkeypatch.setattr(ceilings_cuda_nvml, "find", lambda properties: found)
    facts = gpu().facts
    assert {key: facts[key] for key in known} == known


# --- conditions ---------------------------------------------------------------------------------


def test_nothing_is_known_of_a_device_that_was_not_measured() -> None:
    never = Device("cuda:7", "never measured")
    assert ceilings_cuda.conditions(never) == {}
    assert hroof_torch.ceiling_facts(Device("cpu", "a CPU")) == {}


def test_without_nvml_and_kernels_nothing_is_known(gpu: Callable[..., Device]) -> None:
    device = gpu()
    offered(device)
    assert hroof_torch.ceiling_facts(device) == {}


class Gpu:
    """NVML of a device that is busy before and hot during the measurement."""

    def utilization(self) -> float:
        return 0.8

    def look(self) -> Look:
        return Look(1.7e9, 3.2e9, 690.0, 84.0, ("power limit", "temperature"))


def test_conditions_have_the_clock_during_the_compute_kernels(
    gpu: Callable[..., Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings_cuda, "gpu", lambda device: Gpu())
    device = gpu()
    offered(device)
    kept = ceilings_cuda._measuring[device.device]
    hot = Gpu().look()
    kept.timer.looks.update(
        {
            "mm 4096 × 4096 × 4096": [dataclasses.replace(hot, clock=1.6e9)],
            "mm 4096 × 4096 × 4096 burst": [dataclasses.replace(hot, clock=1.9e9)],
            "read 1024 MiB": [dataclasses.replace(hot, clock=1.2e9)],
            "fma_f32 chains": [dataclasses.replace(hot, clock=0.3e9)],
        }
    )
    counter = kept.clocks.counter("fma_f32 chains", "cpu")
    counter.copy_(torch.tensor([2_000_000, 1_000_000]))
    found = hroof_torch.ceiling_facts(device)
    assert found["clocks"] == {
        "mm 4096 × 4096 × 4096": 1.6e9,
        "mm 4096 × 4096 × 4096 burst": 1.9e9,
        "read 1024 MiB": 1.2e9,
        "fma_f32 chains": 2e9,
    }
    assert found[CLOCK] == 1.8e9
    assert found["utilization_before"] == 0.8
    assert found["gpu"]["power"] == 690.0 and found["gpu"]["temperature"] == 84.0
    assert found["gpu"]["reasons"] == ["power limit", "temperature"]
    busy, hot_text = found["doubts"]
    assert "80 % busy" in busy and "(temperature)" in hot_text
    assert json.loads(json.dumps(found)) == found


def test_a_new_measurement_forgets_the_one_before(gpu: Callable[..., Device]) -> None:
    device = gpu()
    offered(device)
    ceilings_cuda._measuring[device.device].timer.looks["mm 1"] = [Look(clock=1e9)]
    offered(device)
    assert hroof_torch.ceiling_facts(device) == {}


@pytest.mark.parametrize("error", [AssertionError("no CUDA"), RuntimeError("no driver")])
def test_a_device_that_pytorch_cannot_reach_is_unknown_to_nvml(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(index: int) -> Any:
        raise error

    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "get_device_properties", fail)
    assert ceilings_cuda.gpu("cuda:0") is None


def test_nvml_is_asked_about_the_device_of_that_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: index)
    monkeypatch.setattr(ceilings_cuda_nvml, "find", lambda properties: f"number {properties}")
    found: list[Any] = [ceilings_cuda.gpu("cuda:3"), ceilings_cuda.gpu("cuda")]
    assert found == ["number 3", "number 0"]


# --- launches -----------------------------------------------------------------------------------


def test_a_thousand_launches_are_one_call(card: Any) -> None:
    (one_by_one, _) = ceilings_cuda.launch_kernels(card.device, card.timer())
    call, work = one_by_one.prepare()
    call()
    assert work == 1000.0


def test_launches_are_recorded_in_a_graph_and_replayed(
    card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    negate = torch.Tensor.neg_

    def noted(tensor: Any) -> Any:
        done.append("neg_")
        return negate(tensor)

    class Graph:
        def replay(self) -> None:
            done.append("replay")
            card.launch("graph")

    class Recording:
        def __init__(self, what: Any) -> None:
            self.what = what

        def __enter__(self) -> None:
            done.append(f"enter {type(self.what).__name__}")

        def __exit__(self, *error: object) -> None:
            done.append("exit")

    made = SimpleNamespace(CUDAGraph=Graph, graph=Recording, device=Recording)
    monkeypatch.setattr(torch, "cuda", made)
    monkeypatch.setattr(torch.Tensor, "neg_", noted)
    (_, recorded) = ceilings_cuda.launch_kernels(card.device, card.timer())
    call, work = recorded.prepare()
    recording = ["enter device", "enter Graph", *["neg_"] * 1000, "exit", "exit"]
    assert done[: len(recording) + 1] == ["neg_", *recording]  # the kernel is loaded before
    before = done.count("replay")
    call()
    assert work == 1000.0 and done.count("replay") == before + 1


# --- the suite ----------------------------------------------------------------------------------


@pytest.fixture
def whole(card: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An integration whose GPU is made up from end to end."""

    def try_one(device: Device, precision: Precision, shapes: Any) -> list[Trial]:
        return [Trial(Shape(64, 64, 64), 1.0)]

    card.waits = 1e-3
    monkeypatch.setattr(ceilings_cuda, "Timer", lambda device, gpu: card.timer(gpu))
    monkeypatch.setattr(ceilings_cuda_products, "try_shapes", try_one)
    monkeypatch.setattr(ceilings_cuda_products, "product", lambda *what: card.kernel(1e-3, "mm"))
    monkeypatch.setattr(ceilings_cuda, "free_memory", lambda device: 1024**2)
    small = dataclasses.replace(card.device, device="cpu")
    yield SimpleNamespace(
        FRAMEWORK="torch",
        device=lambda name: small,
        ceiling_kernels=ceilings_cuda.kernels,
        ceiling_facts=ceilings_cuda.conditions,
    )


def test_the_suite_measures_a_made_up_gpu(whole: Any, card: Any) -> None:
    senses = Senses(clock=card.clock, own_clock=card.clock, core_clock=lambda: None)
    plan = Plan(seconds=0.001, spread_seconds=0.001)
    machine = measure(whole, "cpu", plan=plan, senses=senses)
    assert set(machine.bandwidths) == {L1, L2, DRAM}
    assert machine.bandwidths[L1].how == "measured"
    assert machine.peaks[Pipe.VECTOR, Precision.FP16].kernel == "fma_f16x2 chains"
    assert {"dram copy", "dram write", "vector_fp32 no fma", "l1 shared memory"} <= set(
        machine.others
    )
    assert all(math.isfinite(ceiling.rate) for ceiling in machine.peaks.values())


# --- a GPU --------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_every_cuda_kernel_runs() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    for kernel in ceilings.ceiling_kernels(ceilings.device("cuda:0")):
        call, work = kernel.prepare()
        call()
        assert math.isfinite(work) and work > 0, kernel.name
