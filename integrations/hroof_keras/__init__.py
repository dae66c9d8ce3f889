"""Keras and TensorFlow for hroof: a callback, layers and phases, counted work, timing, ceiling kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hroof.errors import MissingError
from hroof.integration import Capture, CeilingKernel, Device, StepSink

# Not imported here: what only needs TensorFlow, or nothing of both yet, must not wait for Keras.
if find_spec("keras") is None:
    raise ImportError("hroof_keras needs Keras 3; install it with: pip install 'hroof[keras]'")

if TYPE_CHECKING:
    from hroof_keras.callback import RooflineCallback

FRAMEWORK = "keras"
_BACKENDS = ("tensorflow", "torch", "jax")

__all__ = [
    "FRAMEWORK",
    "RooflineCallback",
    "capture",
    "ceiling_facts",
    "ceiling_kernels",
    "device",
    "in_use",
    "measures_for",
    "own_process",
    "sweep_kernels",
    "watch_program",
]


def __getattr__(name: str) -> Any:
    """The callback is a class of Keras', which is imported when it is asked for."""
    if name != "RooflineCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from hroof_keras.callback import RooflineCallback
    except ModuleNotFoundError as error:
        if error.name not in _BACKENDS:
            raise
        raise MissingError(
            f"Keras computes with {error.name} here, which is not installed.",
            "Install it, or another one that the variable KERAS_BACKEND then names: pip install tensorflow "
            "(tensorflow-cpu without a GPU), torch or jax.",
        ) from error
    return RooflineCallback


def capture(steps: StepSink) -> Capture:
    """Get ready to measure a region, or only to mark it; ``steps`` hears where steps end."""
    from hroof_keras import backends

    return backends.capture(steps)


def in_use() -> bool:
    """Whether the program trains, or could train, something with Keras or TensorFlow."""
    from hroof_keras import backends

    return backends.in_use()


def measures_for() -> tuple[str, ...]:
    """Integrations whose framework is measured through this one: that of the backend."""
    from hroof_keras import backends

    return backends.measures_for()


def watch_program(begin: Callable[[], object]) -> None:
    """Call ``begin`` at the first sign of work in a program without a region of its own."""
    from hroof_keras.startup import watch_program as watch

    watch(begin)


def device(name: str | None = None) -> Device:
    """Describe a device; see ``hroof.integration.Integration.device``."""
    from hroof_keras.ceilings import front as ceilings

    return ceilings.device(name)


def ceiling_kernels(device: Device) -> Iterator[CeilingKernel]:
    """Candidate kernels for every ceiling that the device has."""
    from hroof_keras.ceilings import front as ceilings

    return ceilings.ceiling_kernels(device)


def ceiling_facts(device: Device) -> dict[str, Any]:
    """What was seen while the ceilings were measured: the share of the processor time, flags of XLA."""
    from hroof_keras.ceilings import front as ceilings

    return ceilings.ceiling_facts(device)


def own_process() -> None:
    """No program runs in this process but hroof: XLA may use the widest vectors for the ceilings."""
    from hroof_keras.ceilings import xla as ceilings_xla

    ceilings_xla.own_process()


def sweep_kernels(device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
    """A kernel for each working set, for the sweep over sizes."""
    from hroof_keras.ceilings import front as ceilings

    return ceilings.sweep_kernels(device, sizes)
