"""What a capture says of the program, whatever it measured: versions, settings, schedule."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from hroof.integration import Device, StepSink
from hroof_keras.private import steps as private_steps

STEPS_FOUND = (
    "Steps were found from train_on_batch and its kin and from optimizer.apply outside tf.function; a loop of your own "
    "around a tf.function needs hroof.step()."
)

_PACKAGES = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly"),
    "torch": ("torch",),
    "jax": ("jax",),
}


def described(
    steps: StepSink, layers: Sequence[dict[str, Any]], device: Device, model: Any = None
) -> dict[str, Any]:
    """The part of ``hroof.profile.Profile.run`` that does not depend on how the region was measured.

    Args:
        steps: The region.
        layers: As ``LayerMap.described()`` gives them.
        device: What it ran on.
        model: The model whose steps were seen last, if one is known.
    """
    return {
        "program": list(sys.argv),
        "framework": "keras",
        "versions": versions(),
        "device": device.device,
        "device_name": device.name,
        "facts": {**device.facts, **settings(model)},
        "schedule": {"skip": steps.skip, "steps": steps.steps},
        "layers": list(layers),
        "rank": rank(),
    }


def how_found(steps: StepSink, own_loop: bool) -> list[str]:
    """A word on how steps were found, where hroof had to look for them itself.

    Keras' own loops say where each step ends, and so does a program that calls ``hroof.step()``.

    Args:
        steps: The region.
        own_loop: Whether executions of a loop of the user's own were taken for steps.
    """
    return [STEPS_FOUND] if own_loop and not getattr(steps, "explicit", False) else []


def versions() -> dict[str, str]:
    """Of Keras, the framework that computes for it, and Python."""
    import keras

    found = {"keras": str(keras.__version__), "python": sys.version.split()[0]}
    for package in _PACKAGES.get(keras.backend.backend(), ()):
        try:
            return {**found, keras.backend.backend(): metadata.version(package)}
        except metadata.PackageNotFoundError:
            continue
    return found


def settings(model: Any = None) -> dict[str, Any]:
    """What decides how a model is computed: backend, compilation, precision, threads.

    Args:
        model: The model; without one, only what holds for all.
    """
    import keras

    backend = keras.backend.backend()
    found: dict[str, Any] = {
        "backend": backend,
        "dtype_policy": keras.config.dtype_policy().name,
        "image_data_format": keras.config.image_data_format(),
    }
    if backend == "tensorflow":
        found |= private_steps.thread_settings()
    if model is not None:
        found |= _of_model(model)
    return found


def _of_model(model: Any) -> dict[str, Any]:
    """How ``compile`` has settled it: ``jit_compile="auto"`` differs by device."""
    policy = getattr(getattr(model, "dtype_policy", None), "name", None)
    return {
        "model": str(model.name),
        "model_type": type(model).__name__,
        "jit_compile": getattr(model, "jit_compile", None),
        "run_eagerly": bool(getattr(model, "run_eagerly", False)),
        "steps_per_execution": int(getattr(model, "steps_per_execution", None) or 1),
        "optimizer": type(getattr(model, "optimizer", None)).__name__,
        **({} if policy is None else {"dtype_policy": policy}),
    }


def rank() -> int:
    """Number of this process among those that train together; 0 when it trains alone."""
    try:
        return int(os.environ.get("RANK", "0"))
    except ValueError:
        return 0
