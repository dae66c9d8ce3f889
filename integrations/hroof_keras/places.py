"""From the name of an executed op, and from the graph around it, to what it serves: phase and layer.

Names first: the longest noted scope after the prefixes that the runtime adds. Ops without a scope (sums of gradients, a
loss written by hand, metrics) are placed by the graph, and say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.dataflow import Dataflow
from hroof_keras.layers import LayerMap, Mark
from hroof_keras.nodes import Node
from hroof_keras.updates import Updates

Rule = Literal["scope", "fused", "variable", "neighbour", "none"]


@dataclass(frozen=True, slots=True)
class Place:
    """What an op serves.

    Attributes:
        phase: Part of the step.
        layer: Number in the layer map; LOSS for a loss outside every layer; None where it serves no single one.
        rule: How this is known: from the op's own name, from the weights that a fused op reads, from the variable that
            an op of an optimizer serves, from the ops around it, or not at all.
    """

    phase: Phase
    layer: int | None
    rule: Rule


NOWHERE = Place(Phase.OTHER, None, "none")

_CALL = r"(?:Stateful)?PartitionedCall(?:_\d+)?"
_BRANCH = r"(?:body|cond|then|else)/_\d+"
_BORDER = re.compile(rf"(?:^|(?<=/))(?:{_CALL}|{_BRANCH})(?:/|$)")
"""Where the names of an inlined function, loop body or branch begin anew."""

_LEADING = re.compile(r"^(?:ConstantFolding|Func|replica_\d+)/")
_TAPE = re.compile(r"^gradient_tape(?:/|$)")
_GRADIENTS = "/gradients/"
"""In the backward body of a loop the names of the forward body follow this."""


def place_of_name(layers: LayerMap, optimizer_names: Sequence[str], op_name: str) -> Place | None:
    """What the name alone tells, for a node of a graph or the ``op_name`` of an XLA instruction.

    Args:
        layers: The noted scopes.
        optimizer_names: Names of optimizers beside those that were seen.
        op_name: The name.

    Returns:
        None where it tells nothing; a backward place without a layer where only that is known.
    """
    return _Names(layers, optimizer_names).place(op_name)


class _Names:
    """The rules for names, for one set of optimizers."""

    def __init__(
        self, layers: LayerMap, optimizers: Sequence[str], traces: Iterable[int] = ()
    ) -> None:
        self._layers = layers
        self._traces = tuple(traces)
        names = "|".join(re.escape(name) for name in {*optimizers, *layers.optimizers})
        self._optimizer = re.compile(rf"(?:{names})(?:_\d+)?" if names else r"(?!)")

    def place(self, name: str) -> Place | None:
        segments = [segment for segment in _BORDER.split(name) if segment.strip("/")]
        backward = False
        outer: int | None = None
        found: Place | None = None
        for segment in segments:
            rest, of_tape = _unprefixed(segment)
            backward = backward or of_tape
            here = self._of_segment(rest, backward, outer)
            # The innermost part that tells something tells most.
            found = here or found
            outer = here.layer if here is not None and here.layer not in (None, LOSS) else outer
        if found is None:
            return Place(Phase.BACKWARD, None, "scope") if backward else None
        if backward and found.phase in (Phase.FORWARD, Phase.LOSS):
            return Place(Phase.BACKWARD, found.layer, "scope")
        return found

    def _of_segment(self, rest: str, backward: bool, outer: int | None) -> Place | None:
        candidates = [rest]
        if backward and _GRADIENTS in rest:
            candidates.insert(0, rest.rpartition(_GRADIENTS)[2])
        for candidate in candidates:
            parts = candidate.strip("/").split("/")
            mark = self._layers.find(parts, outer, self._traces)
            if mark is not None:
                return _of_mark(mark)
        return self._of_first(rest.strip("/").split("/"))

    def _of_first(self, parts: Sequence[str]) -> Place | None:
        """What the first component tells that is not the number of a loop or branch."""
        first = next(
            (part for part in parts if not re.fullmatch(r"(?:while|cond)(?:_\d+)?", part)), ""
        )
        if self._optimizer.fullmatch(first):
            return Place(Phase.OPTIMIZER, None, "scope")
        if first.startswith("compile_loss"):
            return Place(Phase.LOSS, LOSS, "scope")
        if first.startswith("Iterator"):
            return Place(Phase.DATA, None, "scope")
        return None


def _of_mark(mark: Mark) -> Place:
    if mark.kind == "layer":
        return Place(Phase.FORWARD, mark.layer, "scope")
    if mark.kind == "loss":
        return Place(Phase.LOSS, LOSS, "scope")
    return Place(Phase.OPTIMIZER, None, "scope")


def _unprefixed(segment: str) -> tuple[str, bool]:
    """A part of a name without what comes before the scope, and whether a gradient tape made it."""
    backward = False
    while True:
        rest = _LEADING.sub("", segment)
        if _TAPE.match(rest):
            backward, rest = True, _TAPE.sub("", rest)
        if rest == segment:
            return segment, backward or "while_grad/" in segment
        segment = rest


_FUSED = re.compile(r"Fused(?:MatMul|BatchMatMul|Conv|DepthwiseConv|BatchNormEx)")
"""Products and convolutions with what follows them in one op, which bears the name of the last."""

_SOURCES = ("Const", "HostConst", "_Arg", "_DeviceArg")
_SUMS = ("AddN", "Add", "AddV2", "AccumulateNV2")
_FAR = 4
"""Levels of the graph that are searched for a neighbour with a place."""


class Places:
    """Places of the nodes of one executed graph.

    Args:
        layers: The noted scopes.
        optimizer_names: Names of optimizers beside those that were seen.
        nodes: The graph.
        traces: Numbers of the traces that may have made it, where scopes mean different layers in different functions.
    """

    def __init__(
        self,
        layers: LayerMap,
        optimizer_names: Sequence[str],
        nodes: Mapping[str, Node],
        traces: Iterable[int] = (),
    ) -> None:
        self._layers = layers
        self._names = _Names(layers, optimizer_names, traces)
        self._flow = Dataflow(nodes)
        self._places: dict[str, Place] = {}
        self._named = {name: self._names.place(name) for name in nodes}

    def of(self, node_name: str) -> Place:
        """What a node serves; a node that is not in the graph is placed by its name."""
        if node_name not in self._places:
            self._places[node_name] = self._place(node_name)
        return self._places[node_name]

    def _place(self, name: str) -> Place:
        named = self._named.get(name)
        if name not in self._named:
            return self._names.place(name) or NOWHERE
        fused = self._of_weights(name)
        if fused is not None:
            return fused
        if named is not None and named.phase is Phase.OPTIMIZER:
            layer = self._updates.layer(name)
            return named if layer is None else Place(Phase.OPTIMIZER, layer, "variable")
        if named is not None and (named.layer is not None or named.phase is not Phase.BACKWARD):
            return named
        return self._of_graph(name)

    def _of_weights(self, name: str) -> Place | None:
        """A fused op belongs to the layer of its weights, if it reads any."""
        node = self._flow.nodes[name]
        if not _FUSED.search(node.op) or len(node.inputs) < 2:
            return None
        read = self._flow.weight_read(node.inputs[1])
        place = self._named.get(read) if read is not None else None
        if place is None or place.layer is None or place == self._named[name]:
            return None
        return Place(place.phase, place.layer, "fused")

    # --- What the whole graph tells ---

    def _with(self, phase: Phase, *, in_layer: bool = False) -> set[str]:
        """Nodes whose names tell this phase; constants do not count, for equal ones of several phases become one."""
        return {
            name
            for name, place in self._named.items()
            if place is not None
            and self._flow.nodes[name].op not in _SOURCES
            and place.phase is phase
            and (not in_layer or (place.layer is not None and place.layer != LOSS))
        }

    @cached_property
    def _after_backward(self) -> set[str]:
        """Nodes that depend on the backward pass of a layer."""
        return self._flow.below(self._with(Phase.BACKWARD, in_layer=True))

    @cached_property
    def _before_backward(self) -> set[str]:
        return self._flow.above(self._with(Phase.BACKWARD))

    @cached_property
    def _after_forward(self) -> set[str]:
        return self._flow.below(self._with(Phase.FORWARD, in_layer=True))

    @cached_property
    def _before_forward(self) -> set[str]:
        return self._flow.above(self._with(Phase.FORWARD, in_layer=True))

    @cached_property
    def _before_updates(self) -> set[str]:
        return self._flow.above(self._with(Phase.OPTIMIZER))

    @cached_property
    def _after_data(self) -> set[str]:
        return self._flow.below(self._with(Phase.DATA))

    def _optimizer_ops(self) -> set[str]:
        return {n for n, place in self._named.items() if place and place.phase is Phase.OPTIMIZER}

    @cached_property
    def _updates(self) -> Updates:
        return Updates(
            self._layers, self._flow, self._optimizer_ops(), lambda name: self.of(name).layer
        )

    def _of_graph(self, name: str) -> Place:
        """A node whose name tells no layer."""
        if name in self._after_backward:
            return Place(Phase.BACKWARD, self._layer_of_gradient(name), "neighbour")
        if self._named[name] is not None:
            # Backward, and before any layer's: of what was computed outside the layers.
            return Place(Phase.BACKWARD, LOSS, "neighbour")
        if name in self._after_forward:
            is_loss = name in self._before_backward or self._continues_loss(name)
            return Place(*((Phase.LOSS, LOSS) if is_loss else (Phase.OTHER, None)), "neighbour")
        if name in self._after_data and name in self._before_forward | self._before_backward:
            return Place(Phase.DATA, None, "neighbour")
        return self._of_consumers(name)

    def _layer_of_gradient(self, name: str) -> int | None:
        """A sum of gradients goes to the layer that receives it, other ops to the one whose gradients they take."""
        receives = self._near(name, self._flow.consumers, Phase.BACKWARD)
        takes = self._near(name, self._flow.inputs, Phase.BACKWARD)
        is_sum = self._flow.nodes[name].op.removeprefix("_Mkl") in _SUMS
        for layers in (receives, takes) if is_sum and len(takes) > 1 else (takes, receives):
            layer = self._layers.around(layers)
            if layer is not None:
                return layer
        return min(takes | receives, default=None)

    def _near(
        self, name: str, step: Callable[[str], Iterable[str]], phase: Phase
    ) -> frozenset[int]:
        """Layers of the nearest nodes of a phase in one direction."""

        def on(node: str) -> Iterable[str]:
            return step(node) if node == name or self._named[node] is None else ()

        for level in self._flow.levels(name, on, _FAR):
            found = [self._named[node] for node in level]
            layers = {p.layer for p in found if p is not None and p.phase is phase}
            known = frozenset(layer for layer in layers if layer is not None and layer != LOSS)
            if known:
                return known
        return frozenset()

    def _continues_loss(self, name: str) -> bool:
        """Whether a node works on a loss; keeping its mean is a metric's affair."""
        if "Assign" in self._flow.nodes[name].op:
            return False
        places = (self._named[node] for node in self._flow.inputs(name))
        return any(place is not None and place.phase is Phase.LOSS for place in places)

    def _of_consumers(self, name: str) -> Place:
        """Constants and reads of variables belong where their only use is."""
        uses = {self._named[node] for node in self._flow.consumers(name)}
        if len(uses) == 1 and (use := uses.pop()) is not None:
            return Place(use.phase, use.layer, "neighbour")
        if self._flow.nodes[name].op in _SOURCES:
            return NOWHERE
        if name in self._before_backward:
            # Of variables alone, and differentiated: a penalty on weights.
            return Place(Phase.LOSS, LOSS, "neighbour")
        if self._after_forward and name not in self._before_forward | self._before_updates:
            return Place(Phase.OTHER, None, "neighbour")
        return NOWHERE
