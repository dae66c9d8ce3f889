"""The capture of one region on JAX: skip, count one step, time some, let go.

A step is one compiled program, so it is read like those of XLA under TensorFlow: executed instructions from the
profiler, their work by rules over HLO, phases and layers from the names of ops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from hroof.attribution import Counted, Timed, join
from hroof.integration import Device, Stage, StepSink
from hroof.launches import Table
from hroof.profile import Profile
from hroof.units import Source
from hroof_keras.capturing.busy import Overlap, own_times
from hroof_keras.capturing.xla_step import XlaOps
from hroof_keras.description import described, how_found, rank
from hroof_keras.executions import Execution
from hroof_keras.on_jax import device as jax_device
from hroof_keras.on_jax.names import JaxNames
from hroof_keras.on_jax.recorder import JaxRecorder, learn_model
from hroof_keras.on_jax.session import JaxSession
from hroof_keras.profiling.events import Event, Recorded, within
from hroof_keras.scopes.layers import LayerMap
from hroof_keras.steps import StepFinder

HOW = {
    "time": "JAX' profiler, compiled instruction by compiled instruction",
    "flop": "counted from compiled instructions",
    "bytes": "op-minimal bytes at L1 counted; L2, L3 and DRAM predicted by a last-recently-used model",
}

_SAME_NAMES = (
    "JAX names scopes after layers and does not tell layers of one name in one place apart; their work is "
    "reported under the layer around them: {}."
)

_EAGER = (
    "The model runs eagerly: JAX compiles each op by itself and names no layers, so work and times are known, but "
    "neither phases nor layers. Leave run_eagerly out of compile()."
)


@dataclass
class _Read:
    """What was read of some steps: spans, ops, their work, and seconds by the rule that placed them."""

    spans: list[tuple[int, int, int]] = field(default_factory=list)
    events: list[list[Event]] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    by_rule: dict[str, float] = field(default_factory=dict)


class JaxCapture:
    """Measures one region of a program on JAX; fulfils ``hroof.integration.Capture``."""

    def __init__(self, steps: StepSink) -> None:
        self._region = steps
        self._layers = LayerMap()
        self._recorder = JaxRecorder(self._layers)
        self._finder = StepFinder(steps, self)
        self._session = JaxSession()
        self._kept: list[JaxSession] = []
        self._stage = Stage.SKIP
        self._marked = 0
        self._told = False
        self._recorder.start()
        self._finder.start()

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
            self._session = JaxSession()
            self._session.start()
            self._begin_step()

    def _begin_step(self) -> None:
        self._told = False
        self._marked = self._finished()
        self._session.begin_step()

    def step_ended(self, number: int) -> None:
        """A timed step has just ended."""
        self._end_step()
        self._begin_step()

    def execution_begins(self, execution: Execution) -> None:
        """A captured execution of Keras' own loops begins."""
        self._session.begin_step()

    def execution_ends(self, execution: Execution, steps: int) -> None:
        """It has ended; the region hears of it next."""
        self._session.end_step(steps)
        self._told = True

    def execution_fails(self, execution: Execution) -> None:
        """It ran nothing; the next one begins anew."""

    def _end_step(self) -> None:
        ended = self._finished() - self._marked
        if ended > 0 and not self._told:
            self._session.end_step(ended)

    def _finished(self) -> int:
        return int(getattr(self._region, "finished_steps", 0))

    def _end_session(self) -> None:
        if self._stage in (Stage.COUNT, Stage.TIME):
            self._end_step()
            self._session.end()
            self._kept.append(self._session)

    def _end(self) -> None:
        self._finder.stop()
        try:
            self._end_session()
        finally:
            self._stage = Stage.DONE
            self._detach()

    def _detach(self) -> None:
        self._session.end()
        self._recorder.stop()

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
        recorded = [session.stop() for session in self._kept]
        chosen = next((one for one in reversed(recorded) if one.steps), None)
        if chosen is None:
            return None
        if not self._layers.scopes and self._finder.model is not None:
            learn_model(self._layers, self._finder.model)
        timed = chosen is recorded[-1] and len(recorded) > 1
        programs = {key: module for one in recorded for key, module in one.hlo_modules.items()}
        xla = XlaOps(programs, JaxNames(self._layers).place)
        found = _read(chosen, xla)
        device = jax_device.cpu()
        table = Table(
            self._layers.labels, device.caches, _unknown, _no_parts, device.device, rank()
        )
        rows = table.rows(found.timed, [[] for _ in found.timed], found.counted)
        if not timed:
            rows = [_without_time(row) for row in rows]
        return Profile.from_rows(rows, self._describe(table, found, device, timed, xla))

    def _describe(
        self, table: Table, found: _Read, device: Device, timed: bool, xla: XlaOps
    ) -> dict[str, Any]:
        overlap = Overlap.of(
            (end - start, events)
            for (start, end, _), events in zip(found.spans, found.events, strict=True)
        )
        total = sum(found.by_rule.values())
        return {
            **described(self._region, self._layers.described(), device, self._finder.model),
            "device": table.device,
            "steps": [
                {"step": number, "wall": (end - start) / 1e9, "count": count}
                for number, (start, end, count) in enumerate(found.spans)
                if timed
            ],
            "how": HOW,
            "counting": "in every timed step" if timed else "in a step of its own",
            "overlap": overlap.facts(),
            "placed_by": {rule: time / total for rule, time in sorted(found.by_rule.items())},
            "warnings": self._warnings(found, overlap, timed, xla),
            "ops_without_rule": sorted(table.without_rule),
            "rank": table.rank,
        }

    def _warnings(self, found: _Read, overlap: Overlap, timed: bool, xla: XlaOps) -> list[str]:
        warnings = [f"{fault}." for fault in xla.faults]
        if overlap.factor > 1.05:
            warnings.append(
                f"{overlap.factor:.2f} instructions ran at once on average: times per layer are busy times, which add "
                "up to more than the step and contain the wait for shared cores and memory."
            )
        if getattr(self._finder.model, "run_eagerly", False):
            warnings.append(_EAGER)
        if self._layers.ambiguous:
            warnings.append(_SAME_NAMES.format(", ".join(self._layers.ambiguous)))
        foreign = next((session.foreign for session in self._kept if session.foreign), "")
        if foreign:
            warnings.append(
                f"{foreign}: only one profiler can run at a time. Remove it, or move the region."
            )
        steps = sum(count for _, _, count in found.spans)
        if timed and steps < self._region.steps:
            warnings.append(f"Only {steps} of {self._region.steps} steps were timed.")
        return warnings + how_found(self._region, self._finder.own_loop)


def _read(recorded: Recorded, xla: XlaOps) -> _Read:
    """The whole steps of a profile."""
    found = _Read()
    origin = recorded.steps[0][0]
    for number, ((start, end), count) in enumerate(
        zip(recorded.steps, recorded.at_once, strict=True)
    ):
        events = [
            event
            for event in within(recorded.events, start, end)
            if event.kind == "hlo" and not xla.contains_others(event)
        ]
        own = own_times(events)
        counted = [xla.counted(event) for event in events]
        timed = [
            _timed(number, event, work, own[event], origin)
            for event, work in zip(events, counted, strict=True)
        ]
        join(timed, counted)
        found.spans.append((start, end, count))
        found.events.append(events)
        found.timed += timed
        found.counted += counted
        for event in events:
            rule = xla.rule(event)
            found.by_rule[rule] = found.by_rule.get(rule, 0.0) + own[event] / 1e9
    return found


def _timed(step: int, event: Event, work: Counted, own: int, origin: int) -> Timed:
    start = (event.start - origin) / 1e9
    return Timed.like(work, step=step, start=start, duration=own / 1e9, thread=event.thread)


def _unknown(op: Timed) -> None:
    """Every instruction was counted in its own step: there is nothing more to know."""


def _no_parts(signature: Any) -> tuple[()]:
    """The program tells what an optimizer's instruction serves."""
    return ()


def _without_time(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a run that ended before a step was timed."""
    missing = Source.MISSING.value
    return {**row, "start": math.nan, "duration": math.nan, "source_time": missing}
