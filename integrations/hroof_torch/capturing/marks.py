"""The capture of a region that only marks, for a profiler outside the process (``HROOF=marks``).

Nothing is counted and nothing is timed: no profiler, no dispatch mode, no value of a tensor is looked
at. Within the captured steps the program's layers and phases become marks, which ``hroof.collect.nvtx``
turns into ranges; before them one hook counts steps, and after them nothing is left.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import torch

from hroof.integration import Stage, StepSink
from hroof.profile import Profile
from hroof.regions import MARKS_ONLY, Kind, Mark, marks
from hroof.units import Phase
from hroof_torch import private
from hroof_torch.capturing.description import STEPS_FOUND, described, optimizer_steps_seen
from hroof_torch.capturing.steps import StepFinder
from hroof_torch.ceilings import device as describe_device
from hroof_torch.tracking.graph import tensors_of
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.marking import MarkRanges
from hroof_torch.tracking.tracker import Frame, Tracker

_OUTSIDE = f"{MARKS_ONLY}: a tool outside the process measures what runs within them"
HOW = {"time": _OUTSIDE, "flop": _OUTSIDE, "bytes": _OUTSIDE}


class MarksCapture:
    """Marks one region of a PyTorch program; fulfils ``hroof.integration.Capture``."""

    def __init__(self, steps: StepSink) -> None:
        self._region = steps
        self._layers = LayerMap()
        self._tracker = Tracker(self._layers, hears_steps=False)
        self._finder = StepFinder(steps, self._tracker.step_ended)
        self._marking = MarkRanges(self._layers, self._tracker, whole=True)
        self._loss = LossGap()
        self._edges: list[int] = []
        self._first = 0
        self._marks = False
        self._finder.start(look_around=steps.skip < 2)

    def stage(self, stage: Stage) -> None:
        """The step that begins now is marked; ``DONE`` detaches everything."""
        if stage is Stage.TIME:
            self._begin()
        elif stage is Stage.DONE:
            self._end()

    def _begin(self) -> None:
        """The first captured step begins; or again, where several steps had been taken for one."""
        self._marks = True
        self._tracker.attach(self)
        self._edges = []
        self._edge()
        self._first = self._finished_steps()

    def step_ended(self, number: int) -> None:
        """A captured step has just ended, and the next one begins."""
        self._edge()

    def _edge(self) -> None:
        """Between two steps: what the device still has to do belongs to the one before."""
        self._loss.end()
        _synchronize()
        self._edges.append(time.perf_counter_ns())

    def _end(self) -> None:
        self._finder.stop()
        try:
            if self._marks and self._finished_steps() >= self._first + len(self._edges):
                self._edge()  # otherwise the region ended inside a step, which is no whole one
        finally:
            self._marks = False
            self._loss.end()
            self._tracker.detach()

    def _finished_steps(self) -> int:
        return int(getattr(self._region, "finished_steps", 0))

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """As an observer: mark what begins, unless the capture ends just before it."""
        if frame.outermost and private.current_graph_task_id() == -1:
            self._finder.flush()
        if self._marks:
            self._loss.enter(frame)
            frame.notes = True
            self._marking.enter(frame, args, kwargs)

    def leave(self, frame: Frame, output: Any) -> None:
        """As an observer: end what was marked, also after the capture's end."""
        if frame.notes is None:
            return
        frame.notes = None
        self._marking.leave(frame, output)
        if self._marks:
            self._loss.leave(frame, output)

    def flush(self) -> None:
        """Tell the region of boundaries that waited for the end of a backward pass."""
        self._finder.flush()

    def release(self) -> None:
        """The region is over, and no hook is being called: leave nothing behind."""
        self._finder.stop()

    def seen(self) -> str:
        """What was seen of steps, in words."""
        return optimizer_steps_seen(self._finder.optimizer_steps)

    def profile(self) -> Profile | None:
        """What is known of the run, with an empty launch table; None when no step was marked."""
        if not self._edges:
            return None
        device = describe_device(_device_name())
        return Profile.from_rows(
            [],
            {
                **described(self._region, self._layers, device),
                "steps": self._steps(),
                "how": HOW,
                "warnings": self._warnings(),
            },
        )

    def _steps(self) -> list[dict[str, Any]]:
        """Whole steps: ``number`` is that of the mark, ``marked_wall`` the seconds with the tool attached.

        That is no time of the program: a tool that replays kernels makes a step many times longer.
        """
        spans = zip(self._edges, self._edges[1:], strict=False)
        return [
            {
                "step": index,
                "number": self._first + index,
                "wall": None,
                "marked_wall": (end - begin) / 1e9,
            }
            for index, (begin, end) in enumerate(spans)
        ]

    def _warnings(self) -> list[str]:
        found, whole = [], len(self._edges) - 1
        if whole < self._region.steps:
            found.append(f"Only {whole} of {self._region.steps} steps were marked to their end.")
        if self._finder.optimizer_steps and not getattr(self._region, "explicit", False):
            found.append(STEPS_FOUND)
        return found


class LossGap:
    """The phase ``loss`` between a forward pass and the backward pass: a loss that no module computes.

    It begins where a model returns something that has gradients, and ends with whatever comes next.
    """

    def __init__(self) -> None:
        self._open: marks.Handles = ()
        self._lock = threading.Lock()

    def enter(self, frame: Frame) -> None:
        """A model, a backward pass or an optimizer step begins."""
        if frame.outermost or frame.layer is None:
            self.end()

    def leave(self, frame: Frame, output: Any) -> None:
        """After a model or a loss module that was called from outside any other."""
        if not frame.outermost or frame.recompute or frame.phase is Phase.BACKWARD:
            return
        if any(tensor.requires_grad for tensor in tensors_of(output)):
            self.end()
            begun = marks.start(Mark(Kind.PHASE, str(Phase.LOSS)))
            with self._lock:
                self._open = begun

    def end(self) -> None:
        """It is over, if it was open; any thread may say so."""
        with self._lock:
            handles, self._open = self._open, ()
        marks.end(handles)


def _synchronize() -> None:
    """Wait for the device, if the program uses one and may wait just now."""
    cuda = torch.cuda
    if cuda.is_initialized() and not cuda.is_current_stream_capturing():
        cuda.synchronize()


def _device_name() -> str:
    """The device that the program uses, without touching one that it does not."""
    return f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_initialized() else "cpu"
