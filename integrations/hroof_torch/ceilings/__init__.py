"""Devices as PyTorch sees them, and the kernels that measure their ceilings."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from hroof.ceilings import host
from hroof.errors import MissingError
from hroof.integration import CeilingKernel, Device
from hroof.units import MemoryLevel
from hroof_torch.ceilings.cpu import compiler
from hroof_torch.ceilings.cpu import kernels as cpu_kernels
from hroof_torch.ceilings.cpu import sweep as cpu_sweep
from hroof_torch.ceilings.cuda import kernels as cuda_kernels
from hroof_torch.ceilings.cuda import sweep as cuda_sweep

_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_*",
    "CUDA_*",
    "DNNL_*",
    "GOMP_*",
    "KMP_*",
    "LD_PRELOAD",
    "MALLOC_*",
    "MKL_*",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_*",
    "ONEDNN_*",
    "OPENBLAS_*",
    "PYTORCH_*",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)


def device(name: str | None = None) -> Device:
    """Describe a device.

    Args:
        name: ``cpu``, ``cuda`` or ``cuda:1``; without it the first GPU, or else the CPU.

    Returns:
        The device. Its facts hold nothing that changes from run to run by itself, so that they
        can identify a measurement.

    Raises:
        MissingError: PyTorch has no such device here, or hroof cannot measure it.
    """
    here = _devices()
    try:
        wanted = torch.device(name or here[-1])
    except (RuntimeError, TypeError):
        raise _missing(f"{name!r} is not a device that PyTorch knows.", here) from None
    if wanted.type == "cpu":
        return _cpu()
    if wanted.type != "cuda":
        raise _missing(f"hroof cannot measure the device {name!r}.", here)
    index = wanted.index or 0
    if f"cuda:{index}" not in here:
        raise _missing(f"There is no device {name!r} here.", here)
    return _cuda(index, torch.cuda.get_device_properties(index))


def ceiling_kernels(device: Device) -> Iterator[CeilingKernel]:
    """Candidate kernels for every ceiling of a device; see ``hroof.integration.Integration``."""
    if device.device == "cpu":
        return cpu_kernels.kernels(device)
    return cuda_kernels.kernels(device)


def sweep_kernels(device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
    """A kernel for each working set, all of one kind; see ``hroof.integration.Integration``."""
    if device.device == "cpu":
        return cpu_sweep.cpu_sweep(device, sizes)
    return cuda_sweep.cuda_sweep_kernels(device, sizes)


def ceiling_facts(device: Device) -> dict[str, Any]:
    """What a device did while its ceilings were measured; see ``cuda_kernels.conditions``."""
    return {} if device.device == "cpu" else cuda_kernels.conditions(device)


def _devices() -> list[str]:
    """What PyTorch can use here; the default comes last."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return ["cpu", *(f"cuda:{index}" for index in reversed(range(count)))]


def _missing(fact: str, here: list[str]) -> MissingError:
    remedy = f"Choose one of: {', '.join(sorted(here))}."
    if len(here) == 1:
        remedy += " A GPU needs a driver and a PyTorch build with CUDA."
    return MissingError(fact, remedy)


def _cpu() -> Device:
    cpus = host.usable_cpus()
    caches, source = host.find_caches(cpus)
    matrix_unit = "amx_tile" in host.cpu_flags()
    model = host.cpu_model()
    facts = {
        "threads": min(torch.get_num_threads(), len(cpus)),
        "cores": len(cpus),
        "affinity": host.ranges(cpus),
        "clock_limits": host.clock_limits(cpus),
        "denormals": "flushed" if _flushes_denormals() else "kept",
        "cpu": model,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "compiler": compiler.compiler(),
        "matrix_unit": matrix_unit,
        "caches": [host.cache_fact(cache) for cache in caches],
        "cache_source": source,
        "huge_pages": host.huge_pages(),
        **_settings(),
    }
    totals = {cache.level: cache.total for cache in caches}
    return Device("cpu", model, totals, shared_pipes=not matrix_unit, facts=facts)


def _cuda(index: int, properties: Any) -> Device:
    """Describe a GPU by ``torch.cuda.get_device_properties``."""
    l2 = int(getattr(properties, "L2_cache_size", 0))
    facts = {**cuda_kernels.facts(properties), "cpu": host.cpu_model(), **_settings()}
    caches = {MemoryLevel.L2: l2} if l2 else {}
    return Device(f"cuda:{index}", properties.name, caches, shared_pipes=False, facts=facts)


def _settings() -> dict[str, Any]:
    """Versions and switches that decide which kernels run and how fast they are."""
    return {
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "hroof": _hroof_version(),
        },
        "environment": host.settings(_VARIABLES),
        "float32": float32_switches(),
        "reductions": reduced_precision(),
    }


def _hroof_version() -> str | None:
    try:
        return version("hroof")
    except PackageNotFoundError:
        return None


def float32_switches() -> dict[str, Any]:
    """What the program allows fp32 products to be computed in; None where PyTorch has no answer."""
    backends = torch.backends
    return {
        "matmul_precision": _answer(torch.get_float32_matmul_precision),
        "cuda_matmul": _answer(lambda: backends.cuda.matmul.fp32_precision),
        "cuda_matmul_allow_tf32": _answer(lambda: backends.cuda.matmul.allow_tf32),
        "cudnn_allow_tf32": _answer(lambda: backends.cudnn.allow_tf32),
        "mkldnn_matmul": _answer(lambda: backends.mkldnn.matmul.fp32_precision),
        "mkldnn": _answer(lambda: backends.mkldnn.enabled),
    }


def reduced_precision() -> dict[str, Any]:
    """Whether products may add up in less than fp32; None where PyTorch has no answer."""
    matmul = torch.backends.cuda.matmul
    return {
        "fp16": _answer(lambda: matmul.allow_fp16_reduced_precision_reduction),
        "bf16": _answer(lambda: matmul.allow_bf16_reduced_precision_reduction),
        "fp16_accumulation": _answer(lambda: matmul.allow_fp16_accumulation),
    }


def _flushes_denormals(smallest: float = 5e-324) -> bool:
    """Whether this thread computes with 0 instead of denormal numbers, as ``torch.set_flush_denormal`` makes it."""
    return smallest * 1.0 == 0.0


def _answer(question: Callable[[], Any]) -> Any:
    """PyTorch refuses to answer for old switches once new ones are set; old versions lack the new."""
    try:
        return question()
    except (AttributeError, RuntimeError):
        return None
