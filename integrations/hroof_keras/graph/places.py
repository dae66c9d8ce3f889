"""Places of the nodes of an executed graph: by their names where these tell, else by the graph around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from hroof.units import Phase
from hroof_keras.graph.dataflow import Dataflow
from hroof_keras.graph.neighbours import Neighbours
from hroof_keras.graph.nodes import Node
from hroof_keras.graph.updates import Updates, owners
from hroof_keras.scopes.layers import LayerMap
from hroof_keras.scopes.names import NOWHERE, Names, Place, Rule, part_of_function, place_of_name

__all__ = ["NOWHERE", "Place", "Places", "Rule", "place_of_name"]

_FUSED = re.compile(r"Fused(MatMul|BatchMatMul|Conv|DepthwiseConv|BatchNormEx)")
"""Products and convolutions with what follows them in one op, which bears the name of the last."""

_PRODUCT = re.compile(r"MatMul|Conv[123]D|DepthwiseConv|Einsum")

_LONGEST = 4
"""Ops that are fused into a product, one after the other."""


class Places:
    """Places of the nodes of one executed graph.

    Args:
        layers: The noted scopes.
        optimizer_names: Names of optimizers beside those that were seen.
        nodes: The graph.
        traces: Numbers of the traces that may have made it, where scopes mean different layers in different functions;
            those that fit best when not given.
    """

    def __init__(
        self,
        layers: LayerMap,
        optimizer_names: Sequence[str],
        nodes: Mapping[str, Node],
        traces: Iterable[int] = (),
    ) -> None:
        self._layers = layers
        if layers.ambiguous and not traces:
            traces = layers.traces_of({part_of_function(name) for name in nodes})
        self._names = Names(layers, optimizer_names, traces)
        self._flow = Dataflow(nodes)
        self._named = {name: self._names.place(name) for name in nodes}
        self._neighbours = Neighbours(layers, self._flow, self._named)
        self._places: dict[tuple[str, str], Place] = {}

    def of(self, node_name: str, op: str = "") -> Place:
        """What a node serves; a node that is not in the graph is placed by its name.

        Args:
            node_name: The node.
            op: The type of the op as executed, where the graph is that which was traced and has it unfused.
        """
        key = (node_name, op)
        if key not in self._places:
            self._places[key] = self._place(node_name, op)
        return self._places[key]

    def _place(self, name: str, op: str) -> Place:
        if name not in self._named:
            return self._names.place(name) or NOWHERE
        read = self._of_weights(name) or self._of_product(name, op) or self._of_variable(name)
        if read is not None:
            return read
        named = self._named[name]
        by_hand = named is None and name in self._neighbours.updates
        if by_hand or (named is not None and named.phase is Phase.OPTIMIZER):
            layer = self._updates.layer(name)
            if layer is not None:
                return Place(Phase.OPTIMIZER, layer, "variable")
            return Place(Phase.OPTIMIZER, None, "neighbour" if by_hand else "scope")
        if named is not None and (named.layer is not None or named.phase is not Phase.BACKWARD):
            return named
        return self._neighbours.place(name)

    def _of_weights(self, name: str) -> Place | None:
        """A fused op belongs to the layer of its weights, if it reads any."""
        node = self._flow.nodes[name]
        if not _FUSED.search(node.op) or len(node.inputs) < 2:
            return None
        read = self._flow.weight_read(node.inputs[1])
        place = self._named.get(read) if read is not None else None
        if place is None or place.layer is None or place == self._named[name]:
            return None
        backward = self._is_backward(name)
        phase = Phase.BACKWARD if backward else place.phase
        return Place(phase, place.layer, "fused", place.recompute)

    def _is_backward(self, name: str) -> bool:
        named = self._named[name]
        return (
            self._neighbours.is_backward(name) if named is None else named.phase is Phase.BACKWARD
        )

    def _of_variable(self, name: str) -> Place | None:
        """A product outside every scope belongs to the layer whose variable it reads: that layer is recomputed."""
        node, named = self._flow.nodes[name], self._named[name]
        if not _PRODUCT.search(node.op) or (named is not None and named.layer is not None):
            return None
        reads = [read for t in node.inputs if (read := self._flow.weight_read(t)) is not None]
        layers = {self._owners.get(self._flow.variable(read) or "") for read in reads} - {None}
        if len(layers) != 1 or (named is not None and named.phase is not Phase.BACKWARD):
            return None
        backward = self._is_backward(name)
        phase = Phase.BACKWARD if backward else Phase.FORWARD
        return Place(phase, layers.pop(), "variable", backward and named is None)

    @cached_property
    def _owners(self) -> dict[str, int]:
        """Layers of variables, by the reads whose names tell."""

        def of_name(name: str) -> int | None:
            place = self._named[name]
            return place.layer if place is not None and place.phase is Phase.FORWARD else None

        return owners(self._layers, self._flow, of_name)

    def _of_product(self, name: str, op: str) -> Place | None:
        """In a graph as it was traced: an op that runs as part of a product belongs where that is."""
        fused = _FUSED.search(op)
        if fused is None or "Fused" in self._flow.nodes[name].op:
            return None
        for level in self._flow.levels(name, self._flow.inputs, _LONGEST):
            products = [node for node in level if self._flow.nodes[node].op.startswith(fused[1])]
            if len(products) == 1 and (place := self._named[products[0]]) is not None:
                return Place(place.phase, place.layer, "fused")
        return None

    @cached_property
    def _updates(self) -> Updates:
        ops = {n for n, place in self._named.items() if place and place.phase is Phase.OPTIMIZER}
        ops |= self._neighbours.updates
        return Updates(self._layers, self._flow, ops, lambda name: self.of(name).layer)
