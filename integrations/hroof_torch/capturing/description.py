"""What a capture says of the program, whatever it measured: its layers, versions and schedule."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from hroof.integration import Device, StepSink
from hroof.launches import LOSS, LOSS_NAME
from hroof_torch.tracking.layers import LayerMap

STEPS_FOUND = (
    "Steps were found from optimizer steps; a step that a gradient scaler skips, closures and "
    "optimizers that are not PyTorch's need hroof.step()."
)


def described(steps: StepSink, layers: LayerMap, device: Device) -> dict[str, Any]:
    """The part of ``hroof.profile.Profile.run`` that does not depend on how the region was measured.

    Args:
        steps: The region.
        layers: Its layers.
        device: What it ran on.
    """
    return {
        "program": list(sys.argv),
        "framework": "torch",
        "versions": {"torch": torch.__version__, "python": sys.version.split()[0]},
        "device": device.device,
        "device_name": device.name,
        "facts": dict(device.facts),
        "schedule": {"skip": steps.skip, "steps": steps.steps},
        "layers": layer_list(layers),
        "rank": rank(),
    }


def device_memory(device: str) -> dict[str, int]:
    """The most bytes that PyTorch had allocated on a device up to now, for ``Profile.run``; nothing for a CPU.

    Not run on a GPU yet.

    Args:
        device: E.g. ``cuda:0``.
    """
    if not device.startswith("cuda") or not torch.cuda.is_initialized():
        return {}
    return {"peak_device_memory": int(torch.cuda.max_memory_allocated(device))}


def module_list(layers: LayerMap) -> list[dict[str, Any]]:
    """Every layer in model order, for ``Profile.run``."""
    return [
        {
            "name": name,
            "type": layer.type,
            "depth": layer.depth,
            "parameters": layer.parameters,
            "container": layer.container,
        }
        for layer, name in zip(layers.layers, layers.names(), strict=True)
    ]


def layer_list(layers: LayerMap) -> list[dict[str, Any]]:
    """Every layer in model order, and the loss that is computed outside all of them."""
    return [
        *module_list(layers),
        {"name": LOSS_NAME, "type": "loss", "depth": LOSS, "parameters": 0, "container": False},
    ]


def rank() -> int:
    """Number of this process among those that train together; 0 when it trains alone."""
    try:
        return int(os.environ.get("RANK", "0"))
    except ValueError:
        return 0


def optimizer_steps_seen(count: int) -> str:
    """In words, for a region that got too few steps."""
    if count == 0:
        return "It saw no optimizer step."
    return f"It saw {count} optimizer {'step' if count == 1 else 'steps'}."
