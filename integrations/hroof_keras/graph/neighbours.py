"""Places of nodes whose names tell no layer: sums of gradients, a loss written by hand, metrics, what loops carry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.graph.dataflow import SOURCES, Dataflow, takes_variable
from hroof_keras.scopes.layers import LayerMap
from hroof_keras.scopes.names import NOWHERE, Place

PLUMBING = frozenset(
    {
        "Enter",
        "Exit",
        "Merge",
        "Switch",
        "NextIteration",
        "LoopCond",
        "Identity",
        "_Retval",
        "_Send",
    }
)
"""Ops that only carry what others made."""

_SUMS = ("AddN", "Add", "AddV2", "AccumulateNV2")
_FAR = 4
"""Levels of the graph that are searched for a neighbour whose name tells."""


class Neighbours:
    """The rules for nodes whose names tell nothing, or only that they are backward.

    Args:
        layers: The layer map.
        flow: The graph.
        named: What the names tell.
    """

    def __init__(self, layers: LayerMap, flow: Dataflow, named: Mapping[str, Place | None]) -> None:
        self._layers = layers
        self._flow = flow
        self._named = named

    def place(self, name: str) -> Place:
        """What a node serves, by the nodes that it depends on and that depend on it."""
        if name in self._after_layers_backward:
            return Place(Phase.BACKWARD, self._layer_of_gradient(name), "neighbour")
        if self._named[name] is not None or name in self._after_backward:
            # Backward, and before any layer's: of what was computed outside the layers.
            layer = self._layer_of_gradient(name) if self._is_sum(name) else None
            if layer is None and self._after_forward:
                layer = LOSS
            return Place(Phase.BACKWARD, layer, "neighbour")
        if name in self._losses:
            return Place(Phase.LOSS, LOSS, "neighbour")
        if self._flow.nodes[name].op in PLUMBING | SOURCES:
            return self._of_consumers(name)
        if name in self._after_forward:
            return self._of_outputs(name)
        if name in self._after_data and name in self._before_layers | self._before_backward:
            return Place(Phase.DATA, None, "neighbour")
        return self._of_consumers(name)

    def is_backward(self, name: str) -> bool:
        """Whether a node depends on a gradient."""
        return name in self._after_backward

    # --- What depends on what ---

    def _with(self, phase: Phase, *, in_layer: bool = False) -> set[str]:
        """Nodes whose names tell this phase; what equal nodes of several phases may have become does not count."""
        return {
            name
            for name, place in self._named.items()
            if place is not None
            and place.phase is phase
            and self._flow.nodes[name].op not in SOURCES
            and name not in self._flow.of_shapes
            and (not in_layer or _in_layer(place))
        }

    @cached_property
    def _after_layers_backward(self) -> set[str]:
        return self._flow.below(self._with(Phase.BACKWARD, in_layer=True))

    @cached_property
    def _after_backward(self) -> set[str]:
        return self._flow.below(self._with(Phase.BACKWARD))

    @cached_property
    def _before_backward(self) -> set[str]:
        return self._flow.above(self._with(Phase.BACKWARD))

    @cached_property
    def _after_forward(self) -> set[str]:
        return self._flow.below(self._with(Phase.FORWARD, in_layer=True))

    @cached_property
    def _before_layers(self) -> set[str]:
        return self._flow.above(self._with(Phase.FORWARD, in_layer=True))

    @cached_property
    def _before_updates(self) -> set[str]:
        return self._flow.above(self._with(Phase.OPTIMIZER))

    @cached_property
    def _after_data(self) -> set[str]:
        return self._flow.below(self._with(Phase.DATA))

    # --- Losses ---

    @cached_property
    def _losses(self) -> set[str]:
        """Nodes of losses outside Keras' own: between the layers' outputs and the backward pass, and what follows."""
        named = self._with(Phase.LOSS)
        between = self._after_forward & self._before_backward
        found = {name for name in between if self._may_be_loss(name)}
        # Metrics may share an inner node of a loss with it; what follows works on its result.
        waiting = [*found, *(n for n in named if not named.intersection(self._flow.consumers(n)))]
        while waiting:
            for near in self._flow.consumers(waiting.pop()):
                if near not in found and self._follows_loss(near, found | named):
                    new = {near, *self._penalties(near)} - found
                    found |= new
                    waiting += new
        return found

    def _may_be_loss(self, name: str) -> bool:
        op = self._flow.nodes[name].op
        if (
            self._named[name] is not None
            or op in PLUMBING | SOURCES
            or name in self._after_backward
        ):
            return False
        # What only one layer's gradient needs, such as zeros of the right shape, belongs there.
        uses = [self._named[node] for node in self._flow.consumers(name)]
        return not all(
            use is not None and use.phase is Phase.BACKWARD and _in_layer(use) for use in uses
        )

    def _follows_loss(self, name: str, losses: set[str]) -> bool:
        """Whether a node works on losses and penalties alone; keeping their mean is a metric's affair."""
        op = self._flow.nodes[name].op
        if self._named[name] is not None or name in self._after_backward:
            return False
        if op in PLUMBING or "Assign" in op or op.startswith("Optional"):
            return False
        others = [near for near in self._flow.inputs(name) if near not in losses]
        return all(
            self._flow.nodes[near].op in SOURCES or self._is_penalty(near) for near in others
        )

    def _is_penalty(self, name: str) -> bool:
        """Whether a node computes something from variables alone."""
        node = self._flow.nodes[name]
        depends = self._after_forward | self._after_data | self._after_backward
        return (
            self._named[name] is None and name not in depends and not takes_variable(node)
        ) and node.op not in PLUMBING | SOURCES

    def _penalties(self, name: str) -> set[str]:
        starts = [near for near in self._flow.inputs(name) if self._is_penalty(near)]
        return {
            near
            for near in {*starts, *self._flow.above(starts)}
            if self._named[near] is None and self._flow.nodes[near].op not in PLUMBING | SOURCES
        }

    # --- Updates by hand ---

    @cached_property
    def updates(self) -> set[str]:
        """Nodes outside every optimizer and layer that only serve to change layers' variables in training."""
        found: set[str] = set()
        variables = {
            self._flow.variable(name) for name in self._with(Phase.FORWARD, in_layer=True)
        } - {None}
        while True:
            new = self._changes(variables) - found
            waiting = list(new)
            while waiting:
                for near in self._flow.inputs(waiting.pop()):
                    if near not in found | new and self._only_serves(near, found | new):
                        new.add(near)
                        waiting.append(near)
            if not new:
                return found
            found |= new
            # What an update reads beside the gradient is a moment: changing that is part of the step.
            variables |= {self._flow.variable(name) for name in new} - {None}

    def _changes(self, variables: set[str | None]) -> set[str]:
        if not self._after_layers_backward:
            return set()
        return {
            name
            for name, node in self._flow.nodes.items()
            if self._named[name] is None
            and node.op.startswith(("Assign", "ResourceApply", "ResourceScatter"))
            and self._flow.variable(name) in variables
        }

    def _only_serves(self, name: str, updates: set[str]) -> bool:
        if self._named[name] is not None or self._flow.nodes[name].op in SOURCES:
            return False
        if self._is_sum(name) and name in self._after_layers_backward:
            sources = (self._named[near] for near in self._flow.inputs(name))
            if all(place is not None and place.phase is Phase.BACKWARD for place in sources):
                return False
        return all(near in updates for near in self._flow.consumers(name))

    # --- Layers ---

    def _is_sum(self, name: str) -> bool:
        return self._flow.nodes[name].op.removeprefix("_Mkl") in _SUMS

    def _layer_of_gradient(self, name: str) -> int | None:
        """What takes one layer's gradients is that layer's; of several, it is the receiver's."""
        receives = self._near(name, self._flow.consumers)
        takes = self._near(name, self._flow.inputs)
        for layers in (takes, receives) if len(takes) == 1 else (receives, takes):
            layer = self._layers.around(layers)
            if layer is not None:
                return layer
        return min(takes | receives, default=None)

    def _near(self, name: str, step: Callable[[str], Iterable[str]]) -> frozenset[int]:
        """Layers of the nearest backward nodes in one direction."""

        def on(node: str) -> Iterable[str]:
            return step(node) if node == name or self._named[node] is None else ()

        for level in self._flow.levels(name, on, _FAR):
            places = (self._named[node] for node in level)
            layers = (p.layer for p in places if p is not None and p.phase is Phase.BACKWARD)
            known = frozenset(layer for layer in layers if layer is not None and layer != LOSS)
            if known:
                return known
        return frozenset()

    def _of_outputs(self, name: str) -> Place:
        """A node that works on what layers computed: for one layer's gradient, or for nothing of the training."""
        if name in self._before_backward:
            return Place(Phase.BACKWARD, self._layer_of_gradient(name), "neighbour")
        return Place(Phase.OTHER, None, "neighbour")

    def _of_consumers(self, name: str) -> Place:
        """Constants, reads of variables and what loops carry belong where their only use is."""
        uses = {self._named[node] for node in self._flow.consumers(name)}
        if len(uses) == 1 and (use := uses.pop()) is not None:
            return Place(use.phase, use.layer, "neighbour")
        if self._flow.nodes[name].op in SOURCES:
            return NOWHERE
        if self._flow.nodes[name].op in PLUMBING:
            return Place(Phase.OTHER, None, "neighbour")
        if self._after_forward and name not in self._before_layers | self._before_updates:
            return Place(Phase.OTHER, None, "neighbour")
        return NOWHERE


def _in_layer(place: Place) -> bool:
    return place.layer is not None and place.layer != LOSS
