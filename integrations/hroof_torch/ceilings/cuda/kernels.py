"""Kernels that measure the ceilings of a CUDA device, and what the device did meanwhile. Not yet run on a GPU.

Kernels of our own, compiled at run time by NVRTC, measure L1, L2 and the vector units; without NVRTC the framework's
own kernels have to do, nothing measures L1, and the vector units of 16-bit formats are taken for those of fp32.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch

from hroof.counters import CLOCK
from hroof.integration import CeilingKernel, Device
from hroof.units import MemoryLevel
from hroof_torch.ceilings.cuda import nvml
from hroof_torch.ceilings.cuda.limits import per_cycle
from hroof_torch.ceilings.cuda.memory import (
    L1_SIZES,
    copies,
    free_memory,
    l1_kernels,
    l2_kernels,
    memory_kernels,
    refused_l1,
)
from hroof_torch.ceilings.cuda.products import product_kernels
from hroof_torch.ceilings.cuda.program import capability, obstacle
from hroof_torch.ceilings.cuda.timing import Prepared, Timer
from hroof_torch.ceilings.cuda.vector import Clocks, vector_kernels

_LAUNCHES = 1000


class Measuring:
    """What is kept of one measurement of a device, until somebody asks for it."""

    def __init__(self, device: Device) -> None:
        self.timer = Timer(device.device, gpu(device.device))
        self.clocks = Clocks()

    def conditions(self) -> dict[str, Any]:
        """See ``conditions``."""
        clocks = {name: looks["clock"] for name, looks in self._looks().items() if "clock" in looks}
        clocks |= self.clocks.hertz()  # counted by the kernel itself
        during = nvml.summary(look for looks in self.timer.looks.values() for look in looks)
        compute = [hertz for name, hertz in clocks.items() if _is_compute(name)]
        found: dict[str, Any] = {"clocks": clocks} if clocks else {}
        if compute:
            found[CLOCK] = statistics.median(compute)
        if during:
            found["gpu"] = during
        if self.timer.utilization is not None:
            found["utilization_before"] = self.timer.utilization
        doubts = nvml.warnings(self.timer.utilization, during)
        return {**found, "doubts": doubts} if doubts else found

    def _looks(self) -> dict[str, dict[str, Any]]:
        return {name: nvml.summary(looks) for name, looks in self.timer.looks.items()}


def _is_compute(name: str) -> bool:
    """Whether a kernel measures a peak; bursts run before the clock has found its place."""
    product = name.startswith(("mm ", "_int_mm ", "_scaled_mm ")) and not name.endswith("burst")
    return product or name.endswith(" chains")


_measuring: dict[str, Measuring] = {}


def gpu(device: str) -> nvml.Gpu | None:
    """The device as NVML knows it; None where it does not."""
    try:
        return nvml.find(torch.cuda.get_device_properties(torch.device(device).index or 0))
    except (AssertionError, RuntimeError):
        return None


def kernels(device: Device) -> Iterator[CeilingKernel]:
    """Candidates for the launch cost, L1, L2, DRAM (the device's memory) and the peaks of a GPU."""
    measuring = _measuring[device.device] = Measuring(device)
    timer, missing, free = measuring.timer, obstacle(), free_memory(device)
    yield from launch_kernels(device, timer)
    if missing is None:
        yield from l1_kernels(device, timer, capability(device))
    else:
        yield refused_l1(missing)
    if MemoryLevel.L2 in device.caches:
        yield from l2_kernels(device, timer) if missing is None else copies(device, timer)
    yield from memory_kernels(device, timer, free, own=missing is None)
    if missing is None:
        yield from vector_kernels(device, timer, measuring.clocks)
    yield from product_kernels(device, timer, free, own=missing is None)


def conditions(device: Device) -> dict[str, Any]:
    """What a device did while its ceilings were measured, as facts of the machine.

    Returns:
        ``clock``: of the SMs during the compute kernels, Hz, the median over kernels; ``clocks``: the same by kernel;
        ``gpu``: clocks (Hz), power (W), temperature (°C) and reasons for a lower clock over the whole measurement;
        ``utilization_before``: share of the time in which other programs used it; ``doubts``: what may have spoilt
        the ceilings, one sentence each. What is not known is left out.
    """
    found = _measuring.get(device.device)
    return {} if found is None else found.conditions()


def facts(properties: Any) -> dict[str, Any]:
    """What identifies a GPU beside its name, by ``torch.cuda.get_device_properties``.

    Returns:
        Capability, multiprocessors, memory, CUDA version; the caches, one L1 per multiprocessor; what each of the
        ``units`` can do ``per_cycle``; and of NVML driver, highest clocks, power limit and whether it is a part of a
        GPU.
    """
    known = nvml.find(properties)
    return {
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory": properties.total_memory,
        "cuda": torch.version.cuda,
        "caches": _caches(properties),
        "units": properties.multi_processor_count,
        "per_cycle": per_cycle((properties.major, properties.minor)),
        **(known.facts() if known is not None else {}),
    }


def _caches(properties: Any) -> list[dict[str, Any]]:
    """The caches as the sweep reads them: bytes of one, and how many multiprocessors share it."""
    units = properties.multi_processor_count
    l1 = L1_SIZES.get((properties.major, properties.minor), 0) * 1024
    l2 = int(getattr(properties, "L2_cache_size", 0))
    every = [
        {"level": "l1", "size": l1, "instances": units, "sharers": 1, "total": l1 * units},
        {"level": "l2", "size": l2, "instances": 1, "sharers": units, "total": l2},
    ]
    return [cache for cache in every if cache["size"]]


# --- launches -----------------------------------------------------------------------------------


def launch_kernels(device: Device, timer: Timer) -> Iterator[CeilingKernel]:
    """Launches back to back: from Python one by one, and, as a rate beside it, recorded in a CUDA graph."""
    yield CeilingKernel(
        "neg_ of 1 element",
        "launch",
        lambda: _prepared(device, timer, _one_by_one),
        note="Back-to-back launches of one eager op.",
    )
    yield CeilingKernel(
        "neg_ of 1 element in a graph",
        "launch",
        lambda: _prepared(device, timer, _recorded),
        note="Back-to-back launches recorded in one CUDA graph, so without their calls from Python.",
        variant="graph",
    )


def _prepared(
    device: Device, timer: Timer, way: Callable[[torch.Tensor], Callable[[], Any]]
) -> Prepared:
    one = torch.ones(1, dtype=torch.float32, device=device.device)
    launch = way(one)
    # One launch of it holds a thousand, so it is a batch already.
    return timer.batched("neg_", launch, float(_LAUNCHES), batch=0.0)


def _one_by_one(one: torch.Tensor) -> Callable[[], Any]:
    def launch() -> None:
        for _ in range(_LAUNCHES):
            one.neg_()

    return launch


def _recorded(one: torch.Tensor) -> Callable[[], Any]:
    one.neg_()  # its kernel is loaded now, not while it is recorded
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(one.device), torch.cuda.graph(graph):
        for _ in range(_LAUNCHES):
            one.neg_()
    return graph.replay
