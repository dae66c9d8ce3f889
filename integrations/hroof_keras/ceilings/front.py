"""Devices as TensorFlow sees them, and the kernels that measure their ceilings."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from hroof.ceilings import host
from hroof.errors import MissingError
from hroof.integration import CeilingKernel, Device
from hroof_keras.private import steps as private_steps

_VARIABLES = (
    "CUBLAS_*",
    "CUDA_*",
    "DNNL_*",
    "KMP_*",
    "LD_PRELOAD",
    "MALLOC_*",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_*",
    "ONEDNN_*",
    "TF_CPU_ALLOCATOR_*",
    "TF_CUBLAS_*",
    "TF_CUDNN_*",
    "TF_DISABLE_MKL",
    "TF_ENABLE_ONEDNN_*",
    "TF_NUM_*",
    "TF_ONEDNN_*",
    "TF_OVERRIDE_*",
    "TF_SET_ONEDNN_*",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
)
"""Variables that decide which kernels run and how fast they are; not those that only decide what is logged."""
_THREADS = "TF_NUM_INTRAOP_THREADS"
_INTER_THREADS = "TF_NUM_INTEROP_THREADS"
_PACKAGES = ("tensorflow", "tensorflow-cpu", "keras", "hroof")


def device(name: str | None = None) -> Device:
    """Describe a device.

    Nothing of TensorFlow is started by it, so that a program may still set its threads.

    Args:
        name: ``cpu``, ``cuda`` or ``cuda:1``, which TensorFlow calls ``GPU:1``; without it the first GPU, or else the
            CPU.

    Returns:
        The device. Its facts hold nothing that changes from run to run by itself, so that they can identify a
        measurement.

    Raises:
        MissingError: There is no TensorFlow, or it has no such device here.
    """
    tensorflow = _tensorflow()
    gpus = tensorflow.config.list_physical_devices("GPU")
    here = ["cpu", *(f"cuda:{index}" for index in reversed(range(len(gpus))))]
    wanted = _usual_name(name or here[-1])
    if wanted == "cpu":
        return _cpu(tensorflow)
    if wanted not in here:
        remedy = f"Choose one of: {', '.join(sorted(here))}."
        if not gpus:
            remedy += " A GPU needs a driver and a TensorFlow build with CUDA."
        raise MissingError(f"TensorFlow has no device {name!r} here.", remedy)
    return _gpu(tensorflow, wanted, gpus[int(wanted.partition(":")[2])])


def _tensorflow() -> Any:
    """TensorFlow.

    Raises:
        MissingError: It is not installed, or broken.
    """
    try:
        return private_steps.import_tensorflow()
    except (ImportError, OSError) as error:
        raise MissingError(
            f"Ceilings of Keras programs are measured with TensorFlow's kernels, and it cannot be imported: {error}.",
            "Install it with: pip install tensorflow. Where PyTorch is installed: hroof ceilings --framework torch.",
        ) from error


def _usual_name(name: str) -> str:
    """``GPU:1``, ``/device:GPU:1`` and ``cuda:1`` are ``cuda:1``; a number is added where none is given."""
    plain = name.lower().removeprefix("/device:").removeprefix("/")
    if plain in ("cpu", "cpu:0"):
        return "cpu"
    kind, _, index = plain.partition(":")
    return f"cuda:{index or 0}" if kind in ("gpu", "cuda") else name


def ceiling_kernels(device: Device) -> Iterator[CeilingKernel]:
    """Candidate kernels for every ceiling of a device; see ``hroof.integration.Integration``."""
    if device.device == "cpu":
        from hroof_keras.ceilings import cpu as ceilings_cpu

        return ceilings_cpu.kernels(device)
    from hroof_keras.ceilings import gpu as ceilings_gpu

    return ceilings_gpu.kernels(device)


def sweep_kernels(device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
    """A kernel for each working set; none for a GPU. See ``hroof.integration.Integration``."""
    if device.device != "cpu":
        return iter(())
    from hroof_keras.ceilings import sweep as ceilings_sweep

    return ceilings_sweep.cpu_sweep(device, sizes)


def ceiling_facts(device: Device) -> dict[str, Any]:
    """What was seen while the ceilings of a device were measured; see ``ceilings_xla.seen``."""
    from hroof_keras.ceilings import xla as ceilings_xla

    return ceilings_xla.seen() if device.device == "cpu" else {}


def _cpu(tensorflow: Any) -> Device:
    cpus = host.usable_cpus()
    caches, source = host.find_caches(cpus)
    matrix_unit = "amx_tile" in host.cpu_flags()
    model = host.cpu_model()
    facts = {
        "threads": threads(tensorflow, len(cpus)),
        "inter_op_threads": inter_op_threads(tensorflow, len(cpus)),
        "cores": len(cpus),
        "affinity": host.ranges(cpus),
        "clock_limits": host.clock_limits(cpus),
        "cpu": model,
        "matrix_unit": matrix_unit,
        "caches": [host.cache_fact(cache) for cache in caches],
        "cache_source": source,
        "huge_pages": host.huge_pages(),
        **_settings(tensorflow),
    }
    totals = {cache.level: cache.total for cache in caches}
    return Device("cpu", model, totals, shared_pipes=not matrix_unit, facts=facts)


def _gpu(tensorflow: Any, name: str, gpu: Any) -> Device:
    """Describe a GPU by what TensorFlow tells of it, which is neither its caches nor its multiprocessors."""
    details = tensorflow.config.experimental.get_device_details(gpu)
    facts = {
        "compute_capability": list(details.get("compute_capability") or ()),
        "cpu": host.cpu_model(),
        **_settings(tensorflow),
    }
    return Device(name, str(details.get("device_name") or gpu.name), {}, False, facts)


def threads(tensorflow: Any, cores: int) -> int:
    """Threads that one op may use: as the program or the environment says, else one for each usable core.

    They can only be set before TensorFlow starts.
    """
    said = tensorflow.config.threading.get_intra_op_parallelism_threads()
    return min(said or _from_environment(_THREADS) or cores, cores)


def inter_op_threads(tensorflow: Any, cores: int) -> int:
    """Threads on which ops of a graph run side by side."""
    said = tensorflow.config.threading.get_inter_op_parallelism_threads()
    return int(said or _from_environment(_INTER_THREADS) or cores)


def _from_environment(name: str) -> int:
    word = os.environ.get(name, "")
    return int(word) if word.isdigit() else 0


def _settings(tensorflow: Any) -> dict[str, Any]:
    """Versions and switches that decide which kernels run and how fast they are."""
    from hroof_keras.ceilings import xla as ceilings_xla

    return {
        "versions": {"python": platform.python_version(), **_versions()},
        "environment": ceilings_xla.without_own_flags(host.settings(_VARIABLES)),
        "tf32": bool(tensorflow.config.experimental.tensor_float_32_execution_enabled()),
    }


def _versions() -> dict[str, str]:
    """Versions of the packages that are here."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
