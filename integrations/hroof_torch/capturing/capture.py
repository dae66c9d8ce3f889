"""The capture of one region: skip, count one step, time some, let go."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hroof.attribution import Counted, Timed, join
from hroof.collect.quiet import without_collector
from hroof.integration import Device, Stage, StepSink
from hroof.launches import LOSS, Table, Work
from hroof.profile import Profile
from hroof.regions import listeners
from hroof.units import Phase
from hroof_torch import private
from hroof_torch.capturing.compiled import CompiledStep
from hroof_torch.capturing.counted import CountingStep, mark_cut_short
from hroof_torch.capturing.description import (
    STEPS_FOUND,
    described,
    device_memory,
    optimizer_steps_seen,
    rank,
)
from hroof_torch.capturing.recounting import Recounting
from hroof_torch.capturing.steps import StepFinder
from hroof_torch.capturing.watch import LossWatch
from hroof_torch.ceilings import device as describe_device
from hroof_torch.profiling.folding import fold_regions
from hroof_torch.profiling.rows import COMPILED_OP, Trace
from hroof_torch.profiling.timed import TimedSteps
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.marking import MarkRanges
from hroof_torch.tracking.optimizers import ParameterShapes
from hroof_torch.tracking.tracker import Frame, Tracker

HOW = {
    "time": "the framework's profiler, op by op",
    "flop": "counted from ops and shapes in a step of its own",
    "bytes": "op-minimal bytes at L1 counted; L2, L3 and DRAM predicted by a last-recently-used model",
}


class TorchCapture:
    """Measures one region of a PyTorch program; fulfils ``hroof.integration.Capture``."""

    def __init__(self, steps: StepSink) -> None:
        self._region = steps
        self._layers = LayerMap()
        self._tracker = Tracker(self._layers, hears_steps=False)
        self._finder = StepFinder(steps, self._tracker.step_ended)
        self._counting = CountingStep(self._tracker)
        self._compiled = CompiledStep(self._tracker)
        self._timed = TimedSteps()
        self._losses = LossWatch()
        self._parameters = ParameterShapes(self._layers)
        self._stage = Stage.SKIP
        self._waiting: Callable[[], None] | None = None
        self._runs: list[list[Counted]] = []
        self._folded: list[Counted] = []
        self._count_live = True
        self._recounting = Recounting(())
        self._looked = False
        self._following: tuple[Any, ...] = ()
        self._marked_at = 0
        self._home = threading.get_ident()
        self._passes_here = False
        self._works_elsewhere = False
        self._finder.start(look_around=steps.skip < 2)

    def stage(self, stage: Stage) -> None:
        """The step that begins now is counted or timed; ``DONE`` detaches everything."""
        begin = {
            Stage.COUNT: self._begin_count,
            Stage.TIME: self._begin_time,
            Stage.DONE: self._end,
        }.get(stage)
        if begin is None:
            return
        if stage is not Stage.DONE and private.current_graph_task_id() != -1:
            # Inside a backward pass (optimizers that step there): wait until the next forward begins.
            self._waiting = begin
            self._attach()
            return
        begin()

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """As an observer: hand on to the counter, once it is known which one may follow this step."""
        if frame.outermost and private.current_graph_task_id() == -1:
            self._finder.flush()
        if self._waiting is not None and private.current_graph_task_id() == -1:
            begin, self._waiting = self._waiting, None
            begin()
            frame.observers = self._following
            for observer in self._following[1:]:
                observer.enter(frame, args, kwargs)
        if self._stage is Stage.COUNT:
            self._notice_thread(frame)
            if self._count_live and frame.module is not None and self._is_compiled(frame.module):
                self._replay_from_here()
            self._counter().enter(frame, args, kwargs)

    def _notice_thread(self, frame: Frame) -> None:
        """Whether the backward passes of the step are started by other threads only."""
        if frame.phase is Phase.BACKWARD and frame.layer is None:
            here = threading.get_ident() == self._home
            self._passes_here = self._passes_here or here
            self._works_elsewhere = not self._passes_here

    def leave(self, frame: Frame, output: Any) -> None:
        """As an observer: hand on to the counter."""
        if self._stage is Stage.COUNT:
            self._counter().leave(frame, output)

    def _counter(self) -> CountingStep | CompiledStep:
        return self._counting if self._count_live else self._compiled

    def _is_compiled(self, module: Any) -> bool:
        """Whether compiled code is about to run."""
        looked, self._looked = self._looked, True
        return any(map(private.is_compiled, module.modules())) or (
            not looked and self._may_compile_yet()
        )

    def _may_compile_yet(self) -> bool:
        """Whether something may be compiled in this very step; looked for only in a program's first."""
        return self._region.skip == 0 and private.has_compiled_callables()

    def _replay_from_here(self) -> None:
        """Compiled code appeared in a step that is counted live: from now on its calls are replayed."""
        self._counting.stop()
        self._runs.append(self._counting.result())
        self._count_live = False
        self._compiled.start()

    def _attach(self) -> None:
        """Let those follow the program who do in the present stage."""
        marking = [MarkRanges(self._layers, self._tracker)] if listeners() else []
        by_stage: dict[Stage, list[Any]] = {
            Stage.COUNT: [self._losses, *marking],
            Stage.TIME: [self._parameters, *marking, self._timed.ranges],
        }
        self._following = (self, *by_stage.get(self._stage, []))
        self._tracker.attach(*self._following)

    def _begin_count(self) -> None:
        self._stop_counting()
        self._stage = Stage.COUNT
        self._runs = []
        self._looked = False
        compiled = private.dynamo_graph_count() > 0 or self._may_compile_yet()
        self._count_live = not compiled
        self._home = threading.get_ident()
        self._works_elsewhere = False
        self._attach()
        self._counter().start()

    def _begin_time(self) -> None:
        self._stop_counting()
        self._stage = Stage.TIME
        self._attach()
        self._timed.start(all_threads=self._works_elsewhere)
        self._marked_at = self._finished_steps()

    def _stop_counting(self) -> None:
        if self._stage is not Stage.COUNT:
            return
        self._counter().stop()
        live = self._count_live
        self._runs += [self._counting.result()] if live else self._compiled.runs

    @property
    def _counted(self) -> list[Counted]:
        return [op for run in self._runs for op in run]

    def execution_begins(self) -> None:
        """What ran since the last step ended belongs to no step, as a validation between two steps of Keras."""
        if self._stage is Stage.TIME:
            self._timed.execution_begins()
        elif self._stage is Stage.COUNT and self._count_live:
            self._counting.forget()
        elif self._stage is Stage.COUNT:
            self._runs = []
            self._compiled.start()

    def execution_ends(self) -> None:
        """What runs until the next step begins belongs to no step; then comes its boundary."""
        if self._stage is Stage.TIME:
            self._timed.execution_ends()

    def step_ended(self, number: int) -> None:
        """A timed step has just ended."""
        self._timed.step_ended()
        self._marked_at = self._finished_steps()

    def _finished_steps(self) -> int:
        return int(getattr(self._region, "finished_steps", 0))

    def _end(self) -> None:
        self._finder.stop()
        try:
            self._stop_counting()
            if self._stage is Stage.TIME and self._finished_steps() > self._marked_at:
                self._timed.step_ended()  # otherwise the region ended inside a step, which is no whole one
            self._timed.stop()
        finally:
            self._tracker.detach()
            self._stage = Stage.DONE

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
        """What was collected; None when no step was timed or counted."""
        with without_collector():
            return self._build()

    def _build(self) -> Profile | None:
        trace = self._timed.trace()
        if trace is None and not self._counted:
            return None
        device = describe_device(_device_of(trace))
        caches = device.caches if self._count_live else {}
        self._recounting = Recounting(self._counted)
        table = Table(
            self._layers.labels,
            caches,
            self._recount,
            self._parameters.parts,
            _device_of(trace),
            rank(),
        )
        table.origin = 0 if trace is None else trace.origin
        rows = (
            self._timed_rows(table, trace)
            if trace is not None and trace.steps
            else table.untimed_rows(self._counted)
        )
        return Profile.from_rows(rows, self._describe(table, trace, device))

    def _timed_rows(self, table: Table, trace: Trace) -> list[dict[str, Any]]:
        whole = [
            (op, work)
            for op, work in zip(trace.ops, trace.device_work, strict=True)
            if op.step >= 0
        ]
        for step in range(len(trace.steps)):
            ops = [op for op, _ in whole if op.step == step]
            rest, made = fold_regions(ops, self._runs)
            self._folded += made
            join([op for op in ops if op.op != COMPILED_OP], rest)
            self._recounting.learn(ops)
            if self._count_live:
                mark_cut_short(ops, self._counted)
        rows = table.rows(
            [op for op, _ in whole], [work for _, work in whole], [*self._counted, *self._folded]
        )
        for step, (begin, end) in enumerate(trace.steps):
            lost = [event for event in trace.unlinked if begin <= event.start < end]
            rows += table.unlinked_rows(lost, step)
        return rows

    def _recount(self, op: Timed) -> Work | None:
        return self._recounting.work(op)

    def _describe(self, table: Table, trace: Trace | None, device: Device) -> dict[str, Any]:
        return {
            **described(self._region, self._layers, device),
            **device_memory(table.device),
            "device": table.device,
            "steps": [] if trace is None else _steps(trace),
            "how": HOW,
            "counting": self._how_counted(),
            "warnings": self._warnings(trace),
            "ops_without_rule": sorted(table.without_rule),
            "rank": table.rank,
        }

    def _how_counted(self) -> str:
        if not self._counted:
            return "no step was counted"
        return (
            "in a live step" if self._count_live else "by a replay on fake tensors beside the run"
        )

    def _warnings(self, trace: Trace | None) -> list[str]:
        found = list(self._losses.warnings())
        found += [f"An op could not be counted: {fault}." for fault in self._counting.faults]
        if self._count_live is False:
            found += self._compiled.warnings()
        found += _unjoined_regions(trace)
        if self._timed.foreign:
            found.append(
                f"{self._timed.foreign}: only one profiler can run at a time. Remove it, or move the region."
            )
        if trace is not None and len(trace.steps) < self._region.steps:
            found.append(f"Only {len(trace.steps)} of {self._region.steps} steps were timed.")
        if self._finder.optimizer_steps and not getattr(self._region, "explicit", False):
            found.append(STEPS_FOUND)
        return found


def _steps(trace: Trace) -> list[dict[str, Any]]:
    """Wall time of each step and, where the program asks a loader for its batches, how long it waits for them."""
    found: list[dict[str, Any]] = [
        {"step": number, "wall": (end - start) / 1e9}
        for number, (start, end) in enumerate(trace.steps)
    ]
    for step, (begin, end) in zip(found, trace.steps if trace.loading else [], strict=False):
        waits = (stop - start for start, stop in trace.loading if begin <= start < end)
        step["loading"] = sum(waits) / 1e9
    return found


def _unjoined_regions(trace: Trace | None) -> list[str]:
    """Says that compiled code ran whose work is not known."""
    ops = trace.ops if trace is not None else []
    rows = [op for op in ops if op.step >= 0 and op.op == COMPILED_OP and op.counted is None]
    if not rows:
        return []
    outside = sum(op.layer in (None, LOSS) for op in rows)
    return [
        f"{len(rows)} compiled regions have a time but no work: {outside} ran outside every module, where they "
        "cannot be replayed."
    ]


def _device_of(trace: Trace | None) -> str:
    if trace is not None:
        for work in trace.device_work:
            if work:
                return work[0].device
    return "cpu"
