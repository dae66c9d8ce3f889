"""Autograd graphs: the layer of every node, and which node receives a sum of gradients."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hroof.units import Phase
from hroof_torch import private
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.tracker import Frame

TAG = "hroof"


def tensors_of(value: Any, depth: int = 4) -> Iterator[torch.Tensor]:
    """Tensors in a module's output: also in dataclasses and objects that pytree does not open."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    leaves = pytree.tree_leaves(value)
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif (
            depth > 0 and hasattr(leaf, "__dict__") and not isinstance(leaf, type | torch.nn.Module)
        ):
            for inner in list(vars(leaf).values()):
                yield from tensors_of(inner, depth - 1)


class NodeTagger:
    """Writes the layer into each autograd node when the module that made it returns.

    Nodes are told apart by the thread's node counter, read at every enter and leave, and tagged in the
    thread that made them: a lookup by number alone would confuse threads.
    """

    def __init__(self, layers: LayerMap) -> None:
        self._layers = layers
        self._local = threading.local()

    def _timeline(self) -> tuple[list[int], list[int | None]]:
        try:
            return self._local.timeline
        except AttributeError:
            self._local.timeline = ([], [])
            self._local.open = []
            return self._local.timeline

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """From this node number on, nodes belong to the frame's layer."""
        if frame.layer is None:
            return
        numbers, layers = self._timeline()
        if not self._local.open:
            numbers.clear()
            layers.clear()
        self._local.open.append(frame.layer)
        numbers.append(private.sequence_nr())
        layers.append(frame.layer)

    def leave(self, frame: Frame, output: Any) -> None:
        """Tag what the output hangs on, as far as it was made since the outermost module began."""
        if frame.layer is None:
            return
        numbers, layers = self._timeline()
        if not self._local.open:
            return
        self._local.open.pop()
        if output is not None and frame.phase is not Phase.OPTIMIZER:
            self._tag(output, numbers, layers)
        numbers.append(private.sequence_nr())
        layers.append(self._local.open[-1] if self._local.open else None)

    def _tag(self, output: Any, numbers: list[int], layers: list[int | None]) -> None:
        todo = [tensor.grad_fn for tensor in tensors_of(output)]
        first = numbers[0]
        while todo:
            node = todo.pop()
            if node is None or TAG in node.metadata:
                continue
            number = private.node_sequence_nr(node)
            if number < first or hasattr(node, "variable"):
                continue
            node.metadata[TAG] = layers[bisect_right(numbers, number) - 1]
            todo.extend(following for following, _ in node.next_functions)


class MadeInBackward:
    """Nodes that a backward pass makes when it builds a graph itself (``create_graph``).

    A node takes its number before its op reaches a dispatch mode, so the numbers from one op to the next belong
    to the layer of the later one.
    """

    def __init__(self) -> None:
        self._first = private.sequence_nr()
        self._numbers: list[int] = []
        self._layers: list[int | None] = []

    def note(self, layer: int | None) -> None:
        """An op runs for this layer, and its node is made."""
        self._numbers.append(private.sequence_nr())
        self._layers.append(layer)

    def tag(self, gradients: Any) -> None:
        """Tag what the gradients hang on, as far as this pass made it."""
        todo = [tensor.grad_fn for tensor in tensors_of(gradients)]
        while todo:
            node = todo.pop()
            if node is None or TAG in node.metadata or hasattr(node, "variable"):
                continue
            number = private.node_sequence_nr(node)
            index = bisect_right(self._numbers, number)
            if number < self._first or index == len(self._numbers):
                continue
            node.metadata[TAG] = self._layers[index]
            todo.extend(following for following, _ in node.next_functions)


def node_layer(node: Any, layers: LayerMap) -> int | None:
    """The layer of a node: its tag, or for a leaf the layer that holds the parameter."""
    if node is None:
        return None
    tag = node.metadata.get(TAG)
    if tag is None and hasattr(node, "variable"):
        return layers.of_parameter(node.variable)
    return tag


def nodes_of(roots: Any) -> Iterator[Any]:
    """Every node that a backward pass from these tensors can reach."""
    seen: set[Any] = set()
    todo = [_root_node(tensor) for tensor in tensors_of(roots)]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        todo.extend(following for following, _ in node.next_functions)


def edges_of(roots: Any) -> Iterator[tuple[Any, int]]:
    """Every (node, number of its output) that a backward pass from these tensors goes through."""
    seen: set[tuple[Any, int]] = set()
    todo = [(_root_node(tensor), tensor.output_nr) for tensor in tensors_of(roots)]
    opened: set[Any] = set()
    while todo:
        edge = todo.pop()
        if edge[0] is None or edge in seen:
            continue
        seen.add(edge)
        yield edge
        if edge[0] not in opened:
            opened.add(edge[0])
            todo.extend(edge[0].next_functions)


def _root_node(tensor: torch.Tensor) -> Any:
    if tensor.grad_fn is not None or not tensor.requires_grad:
        return tensor.grad_fn
    return torch.autograd.graph.get_gradient_edge(tensor).node


Edge = tuple[Any, int]


class Sums:
    """Which node receives the sum when two gradients meet, in one backward pass.

    The engine computes it while a producer is still current, after the producer's own function has returned:
    the first gradient of an input is kept, each later one is added to it.
    """

    def __init__(self, roots: Any) -> None:
        producers: dict[Edge, int] = {}
        nodes = list(nodes_of(roots))
        for node in nodes:
            for edge in node.next_functions:
                producers[edge] = producers.get(edge, 0) + 1
        self._meeting = {edge for edge, count in producers.items() if count > 1 and edge[0]}
        self._arrived: set[Edge] = set()
        self._waiting: dict[Any, list[Any]] = {}
        self._handles = [
            node.register_hook(self._returned(node))
            for node in nodes
            if self._meeting.intersection(node.next_functions)
        ]

    def _returned(self, node: Any) -> Callable[[Any, Any], None]:
        def hook(gradients: Any, unused: Any) -> None:
            self._waiting[node] = []
            for edge, gradient in zip(node.next_functions, gradients, strict=False):
                if edge not in self._meeting or gradient is None:
                    continue
                if edge in self._arrived:
                    self._waiting[node].append(edge[0])
                self._arrived.add(edge)

        return hook

    def forget(self) -> None:
        """Let go of the graph."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._meeting.clear()
        self._arrived.clear()
        self._waiting.clear()

    def receiver(self, node: Any) -> Any:
        """The node that gets the sum computed while ``node`` is current, or None: it is no sum."""
        waiting = self._waiting.get(node)
        return waiting.pop(0) if waiting else None
