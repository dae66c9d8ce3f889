"""Runs a program twice, recording what is traced and then what is executed, for tests of layers and places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hroof.launches import LOSS, LOSS_NAME
from hroof_keras.graph.graphs import GraphCollection
from hroof_keras.graph.nodes import Node
from hroof_keras.graph.places import Place, Places
from hroof_keras.profiling.events import Event
from hroof_keras.profiling.profiler import Session
from hroof_keras.scopes.layers import LayerMap
from hroof_keras.scopes.recorder import Recorder

PRODUCTS = ("MatMul", "Conv", "Einsum")


@dataclass(frozen=True)
class Followed:
    """A program that ran.

    Attributes:
        layers: Its layers.
        nodes: The executed graph.
        places: Where its nodes are.
        events: What was executed the second time.
    """

    layers: LayerMap
    nodes: Mapping[str, Node]
    places: Places
    events: Sequence[Event]

    def name(self, layer: int | None) -> str | None:
        """A layer by its name."""
        if layer is None or layer == LOSS:
            return None if layer is None else LOSS_NAME
        return self.layers.names()[layer]

    def at(self, node: str) -> tuple[str, str | None, str]:
        """Phase, layer and rule of a node."""
        place: Place = self.places.of(node)
        return place.phase.value, self.name(place.layer), place.rule

    def products(self) -> Iterator[tuple[Event, str, str | None]]:
        """Executed matrix products and convolutions with their phase and layer."""
        for event in self.events:
            if event.kind == "op" and any(kind in event.op for kind in PRODUCTS):
                phase, layer, _ = self.at(event.name)
                yield event, phase, layer

    def step(self) -> list[Event]:
        """Executed ops that are not the input pipeline's."""
        return [
            e for e in self.events if e.kind == "op" and not e.pipeline and e.name in self.nodes
        ]

    def share_of_time(self) -> float:
        """Part of the time of executed ops whose place is known."""
        ops = [event for event in self.events if event.kind == "op" and not event.pipeline]
        known = [event for event in ops if self.places.of(event.name).rule != "none"]
        return sum(e.duration for e in known) / sum(e.duration for e in ops)


def follow(run: Callable[[], object], optimizers: Sequence[str] = ()) -> Followed:
    """Run a program twice: it must trace in the first run and execute the same in the second."""
    layers = LayerMap()
    recorder, graphs = Recorder(layers), GraphCollection()
    recorder.start()
    graphs.start()
    try:
        run()
    finally:
        recorder.stop()
        nodes = graphs.stop()
    session = Session(shapes=True)
    session.start()
    run()
    events = session.stop().events
    return Followed(layers, nodes, Places(layers, optimizers, nodes), events)
