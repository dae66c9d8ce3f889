"""Executed nodes of a graph → what they serve and what they have to compute."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

from hroof.attribution import Counted
from hroof.launches import Work
from hroof.units import Phase, Source
from hroof_keras.counting import Buffers, output_specs, plain, work_of
from hroof_keras.counting.names import MOVES
from hroof_keras.graph.flow import Flow, Specs, inputs_of
from hroof_keras.graph.nodes import Node
from hroof_keras.graph.places import NOWHERE, Place, Places
from hroof_keras.profiling.events import Event

_FEEDS = ("Iterator", "Optional")
"""Beginnings of the types of ops that hand over what the input pipeline made."""


class GraphOps:
    """Places and work of the ops of graphs, and of eager ops around them.

    Args:
        nodes: Of the executed graphs, by name.
        places: Of the nodes.
    """

    def __init__(self, nodes: Mapping[str, Node], places: Places) -> None:
        self._nodes = nodes
        self._places = places
        self.buffers = Buffers()
        self._works: dict[Hashable, Work] = {}

    def place(self, event: Event) -> Place:
        """What an op serves."""
        if event.pipeline:
            return Place(Phase.DATA, None, "scope")
        known = event.kind == "op"
        place = self._places.of(event.name) if known else NOWHERE
        if place.layer is None and place.phase is Phase.OTHER and event.op.startswith(_FEEDS):
            return Place(Phase.DATA, None, "scope")
        return place

    def counted(self, events: Sequence[Event]) -> list[Counted]:
        """The work of one step.

        Args:
            events: Ops of the step in order of their start; those of compiled programs apart.
        """
        flow = Flow((event for event in events if self._node(event)), self._nodes)
        runs: dict[str, int] = {}
        counted = []
        for event in events:
            run = runs.get(event.name, 0)
            runs[event.name] = run + 1
            counted.append(self._counted(event, self._work(event, flow, run)))
        return counted

    def _counted(self, event: Event, work: Work) -> Counted:
        place = self.place(event)
        return Counted(
            phase=place.phase,
            layer=place.layer,
            recompute=False,
            is_sum=False,
            op=event.op,
            signature=signature(event),
            work=work,
            owner=None,
        )

    def _node(self, event: Event) -> Node | None:
        """The node that ran; None where the graph has none of this name and type."""
        node = self._nodes.get(event.name) if event.kind == "op" else None
        return node if node is not None and plain(node.op) == plain(event.op) else None

    def _work(self, event: Event, flow: Flow, run: int) -> Work:
        node = self._node(event)
        if node is None:
            return self._bare(event)
        inputs = inputs_of(event, node)
        if not any(inputs):
            inputs = _from_neighbours(node, flow, run)
        outputs = flow.outputs(node, run, output_specs(node, inputs))
        return self._known_work(node, inputs, outputs)

    def _known_work(self, node: Node, inputs: Specs, outputs: Specs) -> Work:
        """The work of an execution; the next turn of a loop has the same one."""
        storages = tuple(map(self.buffers.name, node.inputs))
        key = (node.name, inputs, outputs, storages)
        work = self._works.get(key)
        if work is None or work.is_view:
            work = self._works[key] = work_of(node, inputs, outputs, self.buffers)
        return work

    def _bare(self, event: Event) -> Work:
        """Of an op whose attributes and inputs are not known: only whether it computes, and moves, nothing at all."""
        if plain(event.op) in MOVES:
            return Work({}, {}, math.nan, math.nan, Source.COUNTED)
        work = work_of(Node(event.name, event.op), (), (), Buffers())
        idle = work.nominal == {} and work.bytes_read == 0 and work.bytes_written == 0
        return work if idle else Work(None, None, math.nan, math.nan, Source.MISSING)


def _from_neighbours(node: Node, flow: Flow, run: int) -> Specs:
    """Inputs of an op for which the profiler noted none, where other ops take the same tensors."""
    return tuple(flow.spec(tensor, run) for tensor in node.inputs)


def signature(event: Event) -> tuple[object, ...]:
    """What an op of another step must have in common to be the same one."""
    return (event.pipeline, event.name, event.shapes)
