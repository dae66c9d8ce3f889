"""The steps of a profile → timed ops, each with its own counted work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hroof.attribution import Counted, Timed, join
from hroof_keras.busy import own_times, without_launches
from hroof_keras.division import Step, divided
from hroof_keras.events import Event, Recorded, within
from hroof_keras.graph_step import GraphOps
from hroof_keras.xla_step import XlaOps


@dataclass
class Read:
    """What was read of some steps.

    Attributes:
        steps: The steps.
        timed: Ops of the steps, in order.
        counted: Their work, in the same order.
        by_rule: Seconds by the rule that placed them.
    """

    steps: list[Step] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
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
    """

    def __init__(self, graph: GraphOps, xla: XlaOps) -> None:
        self._graph = graph
        self._xla = xla

    def read(self, recorded: Recorded, wanted: Callable[[Event], bool] = lambda _: True) -> Read:
        """The whole steps of a profile, and of their events those that are wanted."""
        found = Read()
        for (start, end), count in zip(recorded.steps, recorded.at_once, strict=True):
            events = [
                event
                for event in within(recorded.events, start, end)
                if wanted(event) and not self._xla.contains_others(event)
            ]
            execution = Step(start, end, without_launches(events), count)
            for step in divided(execution, self._in_layer):
                self._add(found, step)
        return found

    def _in_layer(self, event: Event) -> bool:
        if event.kind == "hlo":
            return self._xla.counted(event).layer is not None
        return self._graph.place(event).layer is not None

    def _add(self, found: Read, step: Step) -> None:
        number = len(found.steps)
        found.steps.append(step)
        own = own_times(step.events)
        counted = self._counted(step.events)
        timed = [
            self._timed(number, event, work, own[event], found.origin)
            for event, work in zip(step.events, counted, strict=True)
        ]
        join(timed, counted)
        found.timed += timed
        found.counted += counted
        for event in step.events:
            rule = self._rule(event)
            found.by_rule[rule] = found.by_rule.get(rule, 0.0) + own[event] / 1e9

    def _counted(self, events: Sequence[Event]) -> list[Counted]:
        """Work in the order of the events; that of graphs is counted together, since shapes flow through them."""
        of_graph = iter(self._graph.counted([event for event in events if event.kind != "hlo"]))
        return [
            self._xla.counted(event) if event.kind == "hlo" else next(of_graph) for event in events
        ]

    def _timed(self, step: int, event: Event, work: Counted, own: int, origin: int) -> Timed:
        return Timed(
            step=step,
            phase=work.phase,
            layer=work.layer,
            recompute=work.recompute,
            is_sum=work.is_sum,
            op=work.op,
            signature=work.signature,
            start=(event.start - origin) / 1e9,
            duration=own / 1e9,
            thread=event.thread,
        )

    def _rule(self, event: Event) -> str:
        return self._xla.rule(event) if event.kind == "hlo" else self._graph.place(event).rule
