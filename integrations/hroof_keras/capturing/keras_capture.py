"""The capture of one region on TensorFlow: skip, count one step, time some, let go."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from hroof.attribution import Timed
from hroof.collect.quiet import without_collector
from hroof.errors import MissingError
from hroof.integration import Device, Stage, StepSink
from hroof.launches import Table
from hroof.profile import Profile
from hroof.units import Source
from hroof_keras.capturing.busy import Overlap
from hroof_keras.capturing.eager_inputs import EagerInputs
from hroof_keras.capturing.eager_step import EagerOps
from hroof_keras.capturing.eager_watch import EagerWatch
from hroof_keras.capturing.graph_step import GraphOps
from hroof_keras.capturing.spans import Spans
from hroof_keras.capturing.telling import about_steps, short_of
from hroof_keras.capturing.wall_capture import HOW as WALL
from hroof_keras.capturing.wall_capture import OP, rows_of, steps_of
from hroof_keras.capturing.xla_step import XlaOps
from hroof_keras.description import described, how_found, rank
from hroof_keras.executions import Execution
from hroof_keras.graph.graphs import GraphCollection
from hroof_keras.graph.inlining import traced_nodes
from hroof_keras.graph.nodes import Node
from hroof_keras.graph.places import Places, place_of_name
from hroof_keras.private import runtime as private
from hroof_keras.profiling.events import Recorded, shapes_within
from hroof_keras.profiling.profiler import Session
from hroof_keras.profiling.reading import Read, Reader
from hroof_keras.scopes.layers import LayerMap
from hroof_keras.scopes.name_scopes import BY_SCOPE, learn_name_scopes
from hroof_keras.scopes.recorder import Recorder
from hroof_keras.scopes.traced import LATE, learn_traced
from hroof_keras.steps import StepFinder

HOW = {
    "time": "TensorFlow's profiler, op by op",
    "flop": "counted from executed nodes with the shapes of each step, and from compiled instructions",
    "bytes": "op-minimal bytes at L1 counted; L2, L3 and DRAM predicted by a last-recently-used model",
}

ONLY_TRACED = (
    "The step's functions were called before the region began, and their executed graphs cannot be had ({}): ops that "
    "TensorFlow has fused have no work. Open the region before the first step."
)


class KerasCapture:
    """Measures one region of a program on TensorFlow; fulfils ``hroof.integration.Capture``.

    Both the counted and the timed steps are profiled with the shapes of every op: without them TensorFlow's profiler
    leaves out ops that it takes for cheap. So each timed step is counted by its own shapes, and the counted one serves
    where none is timed.
    """

    def __init__(self, steps: StepSink) -> None:
        self._region = steps
        self._layers = LayerMap()
        self._recorder = Recorder(self._layers)
        self._graphs = GraphCollection()
        self._finder = StepFinder(steps, self)
        self._session = Session(shapes=True)
        self._inputs = EagerInputs()
        self._watch: EagerWatch | None = None
        self._late = False
        self._hidden = False
        self._stage = Stage.SKIP
        self._nodes: dict[str, Node] = {}
        self._instantiated: set[str] = set()
        self._faults: list[str] = []
        self._foreign = ""
        self._kept: list[Session] = []
        self._spans = Spans(steps, private.sync_devices)
        self._marked = 0
        self._told = False
        try:
            self._recorder.start()
            self._graphs.start()
            self._inputs.start()
            self._finder.start()
        except BaseException:
            self.release()
            raise

    # --- Steps ---

    def stage(self, stage: Stage) -> None:
        """The step that begins now is counted or timed; ``DONE`` detaches everything."""
        if stage is Stage.DONE:
            self._end()
        elif stage is not Stage.SKIP:
            self._end_session()
            if stage is self._stage:
                self._kept.pop()  # several steps were taken for one: once more
            self._stage = stage
            if stage is Stage.COUNT:
                self._begin_count()
            self._session = Session(shapes=True)
            self._session.start()
            self._begin_step()
            if stage is Stage.TIME:
                self._spans.begin()

    def _begin_count(self) -> None:
        self._late = self._graphs.late
        problem = self._graphs.renew()
        self._hidden = bool(problem)
        if problem:
            self._faults.append(ONLY_TRACED.format(problem))
        if self._inputs.calls or not (self._late or self._layers.scopes):
            self._watch = EagerWatch(self._layers)
            try:
                self._watch.start()
            except MissingError as error:
                self._faults.append(str(error))

    def _begin_step(self) -> None:
        self._told = False
        self._marked = self._finished()
        self._session.begin_step()

    def step_ended(self, number: int) -> None:
        """A timed step has just ended."""
        self._end_step()
        self._spans.boundary()
        self._begin_step()

    def execution_begins(self, execution: Execution) -> None:
        """A captured execution of Keras' own loops begins."""
        self._spans.execution_begins()
        self._session.begin_step()

    def execution_ends(self, execution: Execution, steps: int) -> None:
        """It has ended; the region hears of it next."""
        self._session.end_step(steps)
        self._told = True
        if self._spans.begun:
            self._spans.execution_ends(steps)

    def execution_fails(self, execution: Execution) -> None:
        """It ran nothing; the next one begins anew."""

    def _end_step(self) -> None:
        """What the region has heard of ends, unless that was marked already."""
        ended = self._finished() - self._marked
        if ended > 0 and not self._told:
            self._session.end_step(ended)

    def _finished(self) -> int:
        return int(getattr(self._region, "finished_steps", 0))

    def _end_session(self) -> None:
        if self._stage in (Stage.COUNT, Stage.TIME):
            self._end_step()
            self._spans.end()
            if self._watch is not None:
                self._watch.stop()
            self._session.end()
            self._foreign = self._foreign or self._session.foreign
            self._kept.append(self._session)

    def _end(self) -> None:
        self._finder.stop()
        try:
            self._end_session()
        finally:
            self._stage = Stage.DONE
            self._detach()

    def _detach(self) -> None:
        """Let everything go; safe to do twice."""
        if self._watch is not None:
            self._watch.stop()
        self._session.end()
        self._inputs.stop()
        self._recorder.stop()
        nodes = self._graphs.stop()
        # Where the executed graphs cannot be had, those that were traced serve as far as they go.
        traced = traced_nodes(private.traced_graphs()) if self._hidden else {}
        self._hidden = False
        self._instantiated |= nodes.keys()
        self._nodes = traced | nodes | self._nodes

    def flush(self) -> None:
        """Every boundary was told at once."""

    def release(self) -> None:
        """The region is over: leave nothing behind."""
        self._finder.stop()
        self._detach()

    def seen(self) -> str:
        """What was seen of steps, in words."""
        return self._finder.seen()

    # --- The profile ---

    def profile(self) -> Profile | None:
        """What was collected; None when no step was timed or counted."""
        with without_collector():
            return self._build()

    def _build(self) -> Profile | None:
        recorded = [session.stop() for session in self._kept]
        self._xla = self._programs(recorded)
        if self._late:
            self._learn_late(recorded)
        if not self._layers.layers and learn_name_scopes(self._layers, self._nodes):
            self._faults.append(BY_SCOPE)
        chosen = next((one for one in reversed(recorded) if one.steps), None)
        if chosen is None:
            return self._whole_steps()
        timed = chosen is recorded[-1] and len(recorded) > 1
        found = self._reader(recorded).read(chosen)
        device = _device(_where(found))
        table = Table(
            self._layers.labels, device.caches, _unknown, _no_parts, device.device, rank()
        )
        table.origin = found.origin
        rows = table.rows(found.timed, found.device_work, found.counted)
        for step, piece in found.unlinked:
            rows += table.unlinked_rows([piece], step)
        if not timed:
            rows = [_without_time(row) for row in rows]
        return Profile.from_rows(rows, self._describe(table, found, device, timed))

    def _programs(self, recorded: Iterable[Recorded]) -> XlaOps:
        programs = {n: module for one in recorded for n, module in one.hlo_modules.items()}
        return XlaOps(programs, partial(place_of_name, self._layers, ()))

    def _learn_late(self, recorded: Sequence[Recorded]) -> None:
        """Layers of functions that were traced before, by the names of what ran of them."""
        ran = set(self._instantiated)
        # Functions that only serve eager ops say nothing of layers, and those of other models would seem to.
        if not self._is_eager():
            ran |= _executed(recorded)
            ran |= self._xla.op_names(event for one in recorded for event in one.events)
            ran = ran or set(self._nodes)
        if ran and learn_traced(self._layers, ran=ran):
            self._faults.append(LATE)

    def _whole_steps(self) -> Profile | None:
        """Where no profiler could run: the time of whole steps, if any was timed."""
        if not self._spans.all:
            return None
        run = {
            **self._described(_device("cpu")),
            "steps": steps_of(self._spans.all),
            "how": WALL,
            "warnings": [*self._faults, *self._given_way(), *self._how_found()],
            "ops_without_rule": [OP],
        }
        return Profile.from_rows(rows_of(self._spans.all), run)

    def _reader(self, recorded: list[Recorded]) -> Reader:
        self._graph = GraphOps(self._nodes, Places(self._layers, (), self._nodes))
        self._eager = EagerOps(
            self._watch.ops if self._watch is not None else (),
            _shapes(recorded[0]),
            self._graph.buffers,
        )
        return Reader(self._graph, self._xla, self._eager)

    def _is_eager(self) -> bool:
        """Whether layers worked in the step that was followed op by op."""
        return self._watch is not None and any(op.layer is not None for op in self._watch.ops)

    def _describe(self, table: Table, found: Read, device: Device, timed: bool) -> dict[str, Any]:
        overlap = Overlap.of(
            (step.end - step.start, [event for event in step.events if event.device == "cpu"])
            for step in found.steps
        )
        total = sum(found.by_rule.values())
        return {
            **self._described(device),
            "steps": [
                {"step": number, "wall": (step.end - step.start) / 1e9, "count": step.count}
                for number, step in enumerate(found.steps)
                if timed
            ],
            "how": HOW,
            "status_reason": short_of(found, timed, self._region.steps, self._foreign),
            "counting": "in every timed step" if timed else "in a step of its own",
            "overlap": overlap.facts(),
            "placed_by": {rule: time / total for rule, time in sorted(found.by_rule.items())},
            "warnings": self._warnings(found, overlap),
            "ops_without_rule": sorted(table.without_rule),
            "rank": table.rank,
        }

    def _warnings(self, found: Read, overlap: Overlap) -> list[str]:
        warnings = [f"{fault}." for fault in (*self._graph.buffers.faults, *self._xla.faults)]
        warnings += self._faults
        warnings += [f"{fault}." for fault in (self._watch.faults if self._watch else ())]
        warnings += [warning] if (warning := overlap.warning()) else []
        warnings += self._given_way()
        warnings += about_steps(found)
        warnings += [self._eager.missing()] if self._is_eager() else []
        return warnings + self._how_found()

    def _described(self, device: Device) -> dict[str, Any]:
        layers = self._layers.described()
        return described(self._region, layers, device, self._finder.model)

    def _given_way(self) -> list[str]:
        """That another profiler ran."""
        if not self._foreign:
            return []
        return [
            f"{self._foreign}: only one profiler can run at a time. Remove it, or move the region."
        ]

    def _how_found(self) -> list[str]:
        """How steps were found, unless the program said so itself."""
        return how_found(self._region, self._finder.own_loop)


def _executed(recorded: Iterable[Recorded]) -> set[str]:
    """Names of the nodes that ran, those of the input pipeline apart."""
    return {
        event.name
        for one in recorded
        for event in one.events
        if event.kind == "op" and not event.pipeline
    }


def _shapes(counted: Recorded) -> list[str]:
    """What the counted step got."""
    return shapes_within(counted, *counted.steps[0]) if counted.steps else []


def _unknown(op: Timed) -> None:
    """Every op was counted in its own step: there is nothing more to know."""


def _no_parts(signature: Any) -> tuple[()]:
    """The graph tells what an optimizer's op serves."""
    return ()


def _without_time(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a run that ended before a step was timed."""
    missing = Source.MISSING.value
    return {**row, "start": math.nan, "duration": math.nan, "source_time": missing}


def _where(found: Read) -> str:
    """The device that the steps used: the first GPU that worked, else the CPU."""
    return next((work[0].device for work in found.device_work if work), "cpu")


def _device(name: str) -> Device:
    from hroof_keras.ceilings import front as ceilings

    return ceilings.device(name)
