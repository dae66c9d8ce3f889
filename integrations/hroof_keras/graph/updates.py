"""Which layer's variable each op of an optimizer serves, from the flow of gradients into variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from hroof_keras.graph.dataflow import Dataflow, takes_variable
from hroof_keras.scopes.layers import LayerMap

_NO_LAYERS: frozenset[int] = frozenset()


class Updates:
    """Layers of the ops of optimizers.

    An op on a variable of a layer is that layer's. The others go to the layer whose gradients alone they take, else to
    the layer whose variables alone they change; what serves many layers (a learning rate, a global norm) stays without
    one.

    Args:
        layers: The layer map.
        flow: The graph.
        ops: Names of the optimizers' ops.
        layer_of: Layer of every other op, None where it has none.
    """

    def __init__(
        self,
        layers: LayerMap,
        flow: Dataflow,
        ops: Set[str],
        layer_of: Callable[[str], int | None],
    ) -> None:
        self._layers = layers
        self._flow = flow
        self._ops = ops
        self._layer_of = layer_of
        self._variables = owners(layers, flow, lambda name: None if name in ops else layer_of(name))
        own = {name: self._own(name) for name in ops}
        self._own_layers = {name: layer for name, layer in own.items() if layer is not None}
        takes = self._spread(self._from_outside, flow.inputs, flow.consumers)
        gives = self._spread(self._to_variables, flow.consumers, flow.inputs)
        self._found = {name: self._choose(name, takes, gives) for name in ops}
        self._settle_slots()

    def layer(self, name: str) -> int | None:
        """The layer that an op of an optimizer serves."""
        return self._found.get(name)

    def _own(self, name: str) -> int | None:
        variable = self._flow.variable(name)
        return None if variable is None else self._variables.get(variable)

    def _from_outside(self, name: str) -> frozenset[int]:
        """Layers whose gradients, or whose variables, an op takes itself."""
        if name in self._own_layers:
            return frozenset({self._own_layers[name]})
        sources = (
            self._layer_of(near) for near in self._flow.inputs(name) if near not in self._ops
        )
        return frozenset(layer for layer in sources if layer is not None and layer >= 0)

    def _to_variables(self, name: str) -> frozenset[int]:
        """The layer whose variable an op changes itself; a read gives to others only."""
        node = self._flow.nodes[name]
        if name in self._own_layers and node.op != "ReadVariableOp":
            return frozenset({self._own_layers[name]})
        return _NO_LAYERS

    def _spread(
        self,
        start: Callable[[str], frozenset[int]],
        sources: Callable[[str], Iterable[str]],
        targets: Callable[[str], Iterable[str]],
    ) -> dict[str, frozenset[int]]:
        """What reaches every op through other ops of the optimizers, until nothing changes."""
        reached = {name: start(name) for name in self._ops}
        waiting = list(self._ops)
        while waiting:
            name = waiting.pop()
            new = reached[name].union(*(reached[near] for near in sources(name) if near in reached))
            if new != reached[name]:
                reached[name] = new
                waiting += [near for near in targets(name) if near in reached]
            elif new:
                waiting += [
                    near for near in targets(name) if near in reached and not new <= reached[near]
                ]
        return reached

    def _choose(
        self,
        name: str,
        takes: Mapping[str, frozenset[int]],
        gives: Mapping[str, frozenset[int]],
    ) -> int | None:
        if name in self._own_layers:
            return self._own_layers[name]
        return next((min(found) for found in (takes[name], gives[name]) if len(found) == 1), None)

    def _settle_slots(self) -> None:
        """Moments and other variables of an optimizer belong where any op on them does."""
        slots: dict[str, set[int]] = {}
        touching: dict[str, list[str]] = {}
        for name in self._ops:
            variable = self._flow.variable(name)
            if variable is None or variable in self._variables:
                continue
            touching.setdefault(variable, []).append(name)
            layer = self._found[name]
            if layer is not None:
                slots.setdefault(variable, set()).add(layer)
        for variable, layers in slots.items():
            if len(layers) == 1:
                for name in touching[variable]:
                    self._found[name] = min(layers)


def owners(
    layers: LayerMap, flow: Dataflow, layer_of: Callable[[str], int | None]
) -> dict[str, int]:
    """The layer of every variable that layers read, by the node that gives its handle.

    Args:
        layers: The layer map.
        flow: The graph.
        layer_of: Layer of a node, None where it has none or does not count.
    """
    readers: dict[str, list[int]] = {}
    for name, node in flow.nodes.items():
        if takes_variable(node):
            variable, layer = flow.variable(name), layer_of(name)
            if variable is not None and layer is not None and layer >= 0:
                readers.setdefault(variable, []).append(layer)
    return {variable: _holder(layers, found) for variable, found in readers.items()}


def _holder(layers: LayerMap, readers: list[int]) -> int:
    """Of several layers that read a variable: the innermost of those around each other, else the first seen."""
    for layer in readers:
        if all(other in layers.lineage(layer) for other in readers):
            return layer
    return min(readers)
