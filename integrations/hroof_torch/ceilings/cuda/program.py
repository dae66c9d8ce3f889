"""The kernels of ``kernels.cu``, compiled for a device when the first one is needed.

Not run on a GPU so far; that every kernel compiles to the instructions it counts is tested without one.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from hroof.errors import MissingError
from hroof.integration import Device
from hroof_torch.ceilings.cuda import nvrtc

_SOURCE = Path(__file__).with_name("kernels.cu")


def source() -> str:
    """The CUDA C++ source of all kernels."""
    return _SOURCE.read_text(encoding="utf-8")


def capability(device: Device) -> tuple[int, int]:
    """The compute capability in a device's facts."""
    major, minor = str(device.facts["capability"]).split(".")
    return int(major), int(minor)


def obstacle() -> MissingError | None:
    """What is missing for kernels of our own: NVRTC or the driver; None where both are there.

    With ROCm, where a capability means something else, both are.
    """
    if torch.version.hip:
        return MissingError("NVRTC does not compile for this GPU.", "Use the framework's kernels.")
    try:
        nvrtc.driver()
        nvrtc.compiler()
    except MissingError as error:
        return error
    return None


@functools.cache
def load(device: str, capability: tuple[int, int]) -> Callable[[str], nvrtc.Function]:
    """The kernels by name, in the context that PyTorch has on a device.

    Raises:
        MissingError: NVRTC or the driver is not there.
        RuntimeError: The program cannot be compiled or loaded.
    """
    with torch.cuda.device(device):
        torch.cuda.synchronize(device)  # the context is made, and current on this thread
        image = nvrtc.compiler().compile(source(), capability, _SOURCE.name)
        return nvrtc.driver().load(image)


class Launcher:
    """Launches one of the kernels on PyTorch's stream, and does not wait.

    Args:
        device: As ``hroof_torch.ceilings.device`` describes it.
        name: Of the kernel.
        shape: Blocks, and threads per block.
        arguments: Tensors, and ctypes values for all else, in the order in which the kernel declares them.
        prefer_l1: Leave as much as possible of the memory that L1 and shared memory divide to L1.
    """

    def __init__(
        self,
        device: Device,
        name: str,
        shape: tuple[int, int],
        arguments: Sequence[nvrtc.Argument | torch.Tensor],
        *,
        prefer_l1: bool = False,
    ) -> None:
        kernel = load(device.device, capability(device))(name)
        if prefer_l1:
            kernel.prefer_l1()
        self._device = device.device
        self._arguments = arguments  # held: the kernel has only the addresses of the tensors
        self._launch = kernel.bind(*shape, [_plain(argument) for argument in arguments])

    def __call__(self) -> None:
        with torch.cuda.device(self._device):  # of several devices, the context of this one
            self._launch(torch.cuda.current_stream().cuda_stream)


def _plain(argument: nvrtc.Argument | torch.Tensor) -> nvrtc.Argument:
    if isinstance(argument, torch.Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return argument
