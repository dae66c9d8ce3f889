"""Timing on a CUDA device: warm up until the clock is stable, then batches that are long against a synchronisation.

Not run on a GPU so far.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch

from hroof_torch.ceilings.cuda.nvml import Gpu, Look

Launch = Callable[[], Any]
Prepared = tuple[Callable[[], object], float]

BATCH = 1e-2
"""Seconds of device work per call: one synchronisation of some ten microseconds is lost in it."""
_SETTLE_BATCH = 5e-3
_SETTLED = 0.01
_WARM_UP = 0.1
"""Seconds of work after which the clock of an idle device has risen."""
_LONGEST_WARM_UP = 0.5
_IDLE = 0.5
"""Seconds after which a device may have lowered its clock."""
_MOST_LAUNCHES = 2000
_LOOK_EVERY = 0.05


def batch_size(seconds: float, batch: float = BATCH) -> int:
    """How many launches of a kernel that takes some seconds fill a batch."""
    return min(max(math.ceil(batch / max(seconds, 1e-9)), 1), _MOST_LAUNCHES)


def elapsed(launch: Launch, times: int, device: str) -> float:
    """Seconds that a device needs for some launches back to back, by CUDA events."""
    with torch.cuda.device(device):
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        for _ in range(times):
            launch()
        ended.record()
        ended.synchronize()
        return float(begun.elapsed_time(ended)) * 1e-3


class Timer:
    """Times kernels of one device, and looks at the device while they run.

    Args:
        device: Such as ``cuda:0``.
        gpu: Whom to ask for clocks; None where NVML is not there.
        clock: Seconds, monotonic.
        elapsed: Seconds of some launches on the device, instead of CUDA events.
        wait: Waits until the device has done everything.
        sleep: Leaves the device idle for some seconds.
    """

    def __init__(
        self,
        device: str,
        gpu: Gpu | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
        elapsed: Callable[[Launch, int, str], float] = elapsed,
        wait: Callable[[str], Any] = torch.cuda.synchronize,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        self.device = device
        self.looks: dict[str, list[Look]] = {}
        self.utilization = gpu.utilization() if gpu is not None else None
        self._gpu = gpu
        self._clock = clock
        self._elapsed = elapsed
        self._wait = wait
        self._sleep = sleep
        self._last_work = self._last_look = -math.inf

    def settle(self, launch: Launch) -> float:
        """Launch a kernel until two batches in a row take the same time within 1 %, at most 0.5 s.

        A device that was idle works for 0.1 s at least, since its clock rises in steps.

        Returns:
            Seconds per launch.
        """
        begun = self._clock()
        until = begun + (_WARM_UP if begun - self._last_work > _IDLE else 0.0)
        before = self._elapsed(launch, 1, self.device)
        while True:
            times = batch_size(before, _SETTLE_BATCH)
            seconds = self._elapsed(launch, times, self.device) / times
            self._last_work = now = self._clock()
            steady = abs(seconds - before) <= _SETTLED * seconds and now >= until
            if steady or now - begun >= _LONGEST_WARM_UP:
                return seconds
            before = seconds

    def batched(
        self, name: str, launch: Launch, work: float, *, batch: float = BATCH, pause: float = 0.0
    ) -> Prepared:
        """A call that launches a kernel back to back for a while, then waits; what a ceiling kernel prepares.

        Args:
            name: Under which looks at the device are kept.
            launch: Launches the kernel once and does not wait.
            work: Of one launch.
            batch: Seconds of device work per call.
            pause: Seconds in which the device is idle afterwards, so that it cools and its power budget recovers.
        """
        times = batch_size(self.settle(launch), batch)
        if pause:
            self._sleep(pause)

        def call() -> None:
            for _ in range(times):
                launch()
            self._look(name)
            self._wait(self.device)
            self._last_work = self._clock()

        return call, work * times

    def _look(self, name: str) -> None:
        """Look at the device while it works; not often, since an answer may take a millisecond."""
        if self._gpu is not None and self._clock() - self._last_look >= _LOOK_EVERY:
            self.looks.setdefault(name, []).append(self._gpu.look())
            self._last_look = self._clock()
