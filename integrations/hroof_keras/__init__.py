"""Keras and TensorFlow for hroof: a callback, layers and phases, counted work, timing, ceiling kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hroof.integration import CeilingKernel, Device

FRAMEWORK = "keras"

__all__ = [
    "FRAMEWORK",
    "ceiling_facts",
    "ceiling_kernels",
    "device",
    "sweep_kernels",
]


def device(name: str | None = None) -> Device:
    """Describe a device; see ``hroof.integration.Integration.device``."""
    from hroof_keras import ceilings

    return ceilings.device(name)


def ceiling_kernels(device: Device) -> Iterator[CeilingKernel]:
    """Candidate kernels for every ceiling that the device has."""
    from hroof_keras import ceilings

    return ceilings.ceiling_kernels(device)


def ceiling_facts(device: Device) -> dict[str, Any]:
    """What was seen while the ceilings were measured: the share of the processor time, flags of XLA."""
    from hroof_keras import ceilings

    return ceilings.ceiling_facts(device)


def sweep_kernels(device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
    """A kernel for each working set, for the sweep over sizes."""
    from hroof_keras import ceilings

    return ceilings.sweep_kernels(device, sizes)
