"""Kernels of the sweep over working sets on a CUDA device: every multiprocessor reads memory of its own.

Not run on a GPU so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from hroof.integration import CeilingKernel, Device
from hroof_torch.ceilings.cuda.memory import (
    free_memory,
    multiprocessors,
    random_values,
    whole_window,
    window_kernel,
)
from hroof_torch.ceilings.cuda.program import obstacle
from hroof_torch.ceilings.cuda.timing import Prepared, Timer

_FLOAT = 4
_SHARE_OF_FREE = 2
_BATCH = 5e-3
"""Seconds of one call: there are many sizes, and a curve needs less exactness than a ceiling."""


class Memory:
    """Memory that all sizes share; taken when the first of them needs it.

    Args:
        device: Such as ``cuda:0``.
        nbytes: How much.
    """

    def __init__(self, device: str, nbytes: int) -> None:
        self._device = device
        self._nbytes = nbytes
        self._values: torch.Tensor | None = None

    def get(self, nbytes: int) -> torch.Tensor:
        """At least so many bytes of it."""
        if self._values is None:
            self._values = random_values(self._device, self._nbytes // _FLOAT)
        return self._values


def cuda_sweep_kernels(device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
    """Reads of one window per multiprocessor, through L1, again and again in one launch.

    Args:
        device: As ``hroof_torch.ceilings.device`` describes it.
        sizes: Bytes per multiprocessor; rounded down to what its threads read without a remainder, so that those
            below 16 KiB and those that come out alike are left out.

    Yields:
        One kernel per size; none where kernels of our own cannot be compiled.
    """
    if obstacle() is not None:
        return
    units, room = multiprocessors(device), free_memory(device) // _SHARE_OF_FREE
    windows = dict.fromkeys(whole_window(size) for size in sizes)
    fit = [window for window in windows if window and window * units <= room]
    memory, timer = Memory(device.device, max(fit, default=0) * units), Timer(device.device)
    for window in fit:
        yield _kernel(device, timer, memory, window)


def _kernel(device: Device, timer: Timer, memory: Memory, window: int) -> CeilingKernel:
    def prepare() -> Prepared:
        return window_kernel(device, timer, "sweep", memory.get, window, near=True, batch=_BATCH)

    return CeilingKernel(
        f"read {window // 1024} KiB per multiprocessor",
        "bandwidth",
        prepare,
        threads=multiprocessors(device),
        note="Reads are counted; every multiprocessor has memory of its own.",
        size=window,
        how="measured",
    )
