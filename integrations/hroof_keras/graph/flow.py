"""Shapes of what flows through an executed graph: the profiler notes inputs, so outputs are read where they go in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hroof_keras.graph.nodes import Node, TensorSpec
from hroof_keras.profiling.events import Event

Specs = tuple[TensorSpec | None, ...]


class Flow:
    """Shapes of the tensors of one step, execution by execution.

    A node in a loop runs many times; where a consumer runs as often, its n-th input is the n-th output. Otherwise a
    shape is known only if all agree.

    Args:
        events: Executed ops of the step in order of their start, with shapes of their inputs.
        nodes: Nodes of the executed graph by name.
    """

    def __init__(self, events: Iterable[Event], nodes: Mapping[str, Node]) -> None:
        self._seen: dict[str, dict[str, list[TensorSpec | None]]] = {}
        self._ports: dict[str, int] = {}
        self._runs: dict[str, int] = {}
        for event in events:
            self._runs[event.name] = self._runs.get(event.name, 0) + 1
            node = nodes.get(event.name)
            if node is not None:
                self._note(node, inputs_of(event, node))

    def _note(self, node: Node, specs: Specs) -> None:
        for place, (tensor, spec) in enumerate(zip(node.inputs, specs, strict=True)):
            consumer = f"{node.name}#{place}"
            self._seen.setdefault(tensor, {}).setdefault(consumer, []).append(spec)
            producer, port = split(tensor)
            self._ports[producer] = max(self._ports.get(producer, 0), port + 1)

    def outputs(self, node: Node, run: int, inferred: Sequence[TensorSpec | None]) -> Specs:
        """Shapes of what one execution of a node gives.

        Args:
            node: The node.
            run: Which of its executions, from 0.
            inferred: What its rule says, for outputs whose consumers do not tell.
        """
        ports = max(self._ports.get(node.name, 0), len(inferred))
        guesses = [*inferred, *[None] * (ports - len(inferred))]
        return tuple(
            self.spec(f"{node.name}:{port}", run) or guesses[port] for port in range(ports)
        )

    def spec(self, tensor: str, run: int) -> TensorSpec | None:
        """Shape of a tensor as its consumers saw it, where they tell."""
        by_consumer = self._seen.get(tensor, {})
        runs = self._runs.get(split(tensor)[0], 0)
        for specs in by_consumer.values():
            if len(specs) == runs and run < runs and specs[run] is not None:
                return specs[run]
        found = {spec for specs in by_consumer.values() for spec in specs if spec is not None}
        return found.pop() if len(found) == 1 else None


def inputs_of(event: Event, node: Node) -> Specs:
    """Shapes of the inputs of an event, one for each input of its node; unknown where the profiler noted none."""
    if event.shapes is None or len(event.shapes) != len(node.inputs):
        return (None,) * len(node.inputs)
    return event.shapes


def split(tensor: str) -> tuple[str, int]:
    """Node and port of ``node:port``."""
    node, _, port = tensor.rpartition(":")
    return (node, int(port)) if node and port.isdigit() else (tensor, 0)
