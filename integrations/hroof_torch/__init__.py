"""PyTorch for hroof: layers and phases, counted work, timing, ceiling kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover - needs an environment without torch
    raise ImportError(
        "hroof_torch needs PyTorch; install it with: pip install 'hroof[torch]'"
    ) from error

from hroof.integration import Capture, CeilingKernel, Device, StepSink
from hroof.regions import marks_only
from hroof_torch.annotate import annotate
from hroof_torch.capturing.capture import TorchCapture

# Here and not in ``capture``: the first import of the module puts it in place of the function.
from hroof_torch.capturing.marks import MarksCapture

FRAMEWORK = "torch"

__all__ = [
    "FRAMEWORK",
    "annotate",
    "capture",
    "ceiling_facts",
    "ceiling_kernels",
    "device",
    "in_use",
    "sweep_kernels",
    "watch_program",
]


def capture(steps: StepSink) -> Capture:
    """Get ready to measure a region, or only to mark it; ``steps`` hears where steps end."""
    return MarksCapture(steps) if marks_only() else TorchCapture(steps)


def device(name: str | None = None) -> Device:
    """Describe a device; see ``hroof.integration.Integration.device``."""
    from hroof_torch import ceilings

    return ceilings.device(name)


def ceiling_kernels(device: Device) -> Iterator[CeilingKernel]:
    """Candidate kernels for every ceiling that the device has."""
    from hroof_torch import ceilings

    return ceilings.ceiling_kernels(device)


def ceiling_facts(device: Device) -> dict[str, Any]:
    """What a device did while its ceilings were measured: clocks, power, reasons for a lower clock."""
    from hroof_torch import ceilings

    return ceilings.ceiling_facts(device)


def sweep_kernels(device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
    """A kernel for each working set, all of one kind, for the sweep over sizes."""
    from hroof_torch import ceilings

    return ceilings.sweep_kernels(device, sizes)


def in_use() -> bool:
    """Whether the program trains, or could train, something with PyTorch."""
    from hroof_torch import use

    return use.in_use()


def watch_program(begin: Callable[[], object]) -> None:
    """Call ``begin`` at the first sign of work in a program without a region of its own."""
    from hroof_torch.startup import watch_program as watch

    watch(begin)
