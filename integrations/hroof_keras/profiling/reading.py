"""The steps of a profile → timed ops, each with its own counted work."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from hroof.attribution import Counted, Timed, join
from hroof.units import Phase
from hroof_keras.capturing.busy import own_times, without_launches
from hroof_keras.capturing.device_work import ON_DEVICE, tied
from hroof_keras.capturing.division import Step, divided
from hroof_keras.capturing.eager_step import EagerOps
from hroof_keras.capturing.graph_step import GraphOps
from hroof_keras.capturing.xla_step import XlaOps
from hroof_keras.profiling.events import Event, Recorded, shapes_within, within


@dataclass
class Read:
    """What was read of some steps.

    Attributes:
        steps: The steps.
        timed: Ops of the steps, in order.
        device_work: What each of them started on a device.
        counted: Their work, each once: steps that execute the same with the same shapes share it.
        unlinked: (step, device work whose op is not known).
        by_rule: Seconds by the rule that placed them.
    """

    steps: list[Step] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    device_work: list[list[Event]] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    unlinked: list[tuple[int, Event]] = field(default_factory=list)
    by_rule: dict[str, float] = field(default_factory=dict)

    @property
    def origin(self) -> int:
        """Nanoseconds of second 0."""
        return self.steps[0].start if self.steps else 0


class Reader:
    """Reads steps.

    Args:
        graph: Places and work of nodes and of eager ops.
        xla: Places and work of instructions.
        eager: Places and work of eager ops, where a step of them was followed.
    """

    def __init__(self, graph: GraphOps, xla: XlaOps, eager: EagerOps) -> None:
        self._graph = graph
        self._xla = xla
        self._eager = eager
        self._repeated = _Repeated()

    def read(self, recorded: Recorded) -> Read:
        """The whole steps of a profile."""
        found = Read()
        for (start, end), count in zip(recorded.steps, recorded.at_once, strict=True):
            events = [
                event
                for event in within(recorded.events, start, end)
                if not self._xla.contains_others(event)
            ]
            execution = Step(start, end, without_launches(events), count)
            for step in divided(execution, self._in_layer):
                self._add(found, step, recorded)
        return found

    def _in_layer(self, event: Event) -> bool:
        if event.kind == "hlo":
            return self._xla.counted(event).layer is not None
        return self._graph.place(event).layer is not None

    def _add(self, found: Read, step: Step, recorded: Recorded) -> None:
        number = len(found.steps)
        found.steps.append(step)
        host = [event for event in step.events if event.kind not in ON_DEVICE]
        own = own_times(host)
        counted = self._counted(host, shapes_within(recorded, step.start, step.end))
        timed = [
            _timed(number, work, event, own[event], found.origin)
            for event, work in zip(host, counted, strict=True)
        ]
        device = tied(step.events, recorded.calls)
        started = [device.of_ops.get(event, []) for event in host]
        for pieces in device.of_instructions.values():
            work = self._xla.executed(pieces)
            timed.append(_timed(number, work, pieces[0], 0, found.origin))
            counted.append(work)
            started.append(pieces)
        join(timed, counted)
        found.timed += timed
        new = {id(work) for work in counted} - {id(work) for work in found.counted}
        found.counted += [work for work in counted if id(work) in new]
        found.device_work += started
        found.unlinked += [(number, piece) for piece in device.unlinked]
        for event, work in zip(host, counted, strict=False):
            rule = self._rule(event, work)
            found.by_rule[rule] = found.by_rule.get(rule, 0.0) + own[event] / 1e9

    def _counted(self, events: Sequence[Event], shapes: Sequence[str]) -> list[Counted]:
        """Work in the order of the events; that of graphs is counted together, since shapes flow through them."""
        eager = [event for event in events if event.kind == "eager" and self._eager]
        known = dict(zip(eager, self._eager.counted(eager, shapes), strict=True))
        whole = [event for event in events if event.kind in ("op", "hlo") and not event.pipeline]
        known |= self._repeated.of(whole) or self._repeated.keep(whole, self._executed(whole))
        rest = [event for event in events if event not in known]
        known |= zip(rest, self._executed(rest), strict=True)
        return [known[event] for event in events]

    def _executed(self, events: Sequence[Event]) -> list[Counted]:
        graph = [event for event in events if event.kind != "hlo"]
        known = dict(zip(graph, self._graph.counted(graph), strict=True))
        return [
            self._xla.counted(event) if event.kind == "hlo" else known[event] for event in events
        ]

    def _rule(self, event: Event, work: Counted) -> str:
        if event.kind == "hlo":
            return self._xla.rule(event)
        if event.kind == "eager" and self._eager:
            return "none" if work.layer is None and work.phase is Phase.OTHER else "call"
        return self._graph.place(event).rule


class _Repeated:
    """The work of the first step, for later ones that execute the same nodes equally often with equal shapes."""

    def __init__(self) -> None:
        self._works: dict[Hashable, list[Counted]] = {}

    def keep(self, events: Sequence[Event], works: Sequence[Counted]) -> dict[Event, Counted]:
        """Keep the work of a step, if none is kept yet."""
        if not self._works:
            for event, work in zip(events, works, strict=True):
                self._works.setdefault(_alike(event), []).append(work)
        return dict(zip(events, works, strict=True))

    def of(self, events: Sequence[Event]) -> dict[Event, Counted]:
        """The work of a step that does what the kept one did; nothing for any other."""
        runs: dict[Hashable, list[Event]] = {}
        for event in events:
            runs.setdefault(_alike(event), []).append(event)
        if {key: len(found) for key, found in runs.items()} != {
            key: len(works) for key, works in self._works.items()
        }:
            return {}
        return {
            event: work
            for key, found in runs.items()
            for event, work in zip(found, self._works[key], strict=True)
        }


def _alike(event: Event) -> Hashable:
    return (event.kind, event.name, event.op, event.shapes, event.hlo_program)


def _timed(step: int, work: Counted, event: Event, own: int, origin: int) -> Timed:
    start = (event.start - origin) / 1e9
    return Timed.like(work, step=step, start=start, duration=own / 1e9, thread=event.thread)
