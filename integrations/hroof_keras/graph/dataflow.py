"""The edges of an executed graph: what feeds what, and which variable an op works on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from hroof_keras.graph.nodes import Node

_CONSTANTS = frozenset({"Const", "HostConst"})
SOURCES = _CONSTANTS | {"_Arg", "_DeviceArg"}
"""Ops without an origin inside the graph."""

_SHAPES = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Ops whose results do not depend on the values of their inputs."""

_PASSING = frozenset(
    {"Identity", "Enter", "RefEnter", "Switch", "Merge", "Exit", "_Recv", "_HostRecv"}
)
"""Ops that hand their first input on, be it a tensor or the handle of a variable."""

_RESHAPING = frozenset({"Cast", "Reshape", "ExpandDims", "Squeeze", "Transpose", "_MklTranspose"})
"""Ops through which a weight passes on its way into a product."""

_ON_VARIABLE = ("Assign", "Resource")
"""Beginnings of the types of ops whose first input is the handle of a variable, beside reads."""


def producer(tensor: str) -> str:
    """The node that makes ``node:port``."""
    return tensor.partition(":")[0]


def takes_variable(node: Node) -> bool:
    """Whether the first input of a node is the handle of a variable that it reads or changes."""
    return bool(node.inputs) and (
        node.op == "ReadVariableOp"
        or (node.op.startswith(_ON_VARIABLE) and "Variable" in node.op)
        or node.op.startswith(
            ("ResourceGather", "ResourceScatter", "ResourceApply", "ResourceSparse")
        )
    )


class Dataflow:
    """Producers and consumers of every node, by name.

    Args:
        nodes: The graph; inputs that are not in it are passed over.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes = nodes
        self._inputs: dict[str, tuple[str, ...]] = {}
        self._consumers: dict[str, list[str]] = {}
        for name, node in nodes.items():
            made_by = (producer(self._behind_bundles(tensor)) for tensor in _flowing(node))
            self._inputs[name] = tuple(dict.fromkeys(p for p in made_by if p in nodes))
            for source in self._inputs[name]:
                self._consumers.setdefault(source, []).append(name)

    def _behind_bundles(self, tensor: str) -> str:
        """What a tensor is before it went through a node that hands on many side by side."""
        for _ in range(len(self.nodes)):
            name, _, port = tensor.partition(":")
            node = self.nodes.get(name)
            if node is None or node.op != "IdentityN" or int(port or 0) >= len(node.inputs):
                break
            tensor = node.inputs[int(port or 0)]
        return tensor

    def inputs(self, name: str) -> tuple[str, ...]:
        """The nodes whose results a node takes, each once."""
        return self._inputs.get(name, ())

    def consumers(self, name: str) -> tuple[str, ...]:
        """The nodes that take a node's results."""
        return tuple(self._consumers.get(name, ()))

    @cached_property
    def of_shapes(self) -> set[str]:
        """Nodes that depend on constants and shapes alone; several phases may share them."""
        found = {n for n, node in self.nodes.items() if node.op in _SHAPES or node.op in _CONSTANTS}
        waiting = list(found)
        while waiting:
            for near in self.consumers(waiting.pop()):
                if near not in found and all(source in found for source in self.inputs(near)):
                    found.add(near)
                    waiting.append(near)
        return found

    def below(self, starts: Iterable[str]) -> set[str]:
        """Every node that depends on one of these, themselves left out unless they do."""
        return _reach(starts, self.consumers)

    def above(self, starts: Iterable[str]) -> set[str]:
        """Every node that one of these depends on."""
        return _reach(starts, self.inputs)

    def levels(
        self, name: str, step: Callable[[str], Iterable[str]], most: int
    ) -> Iterator[list[str]]:
        """The nodes at distance 1, 2, … in one direction.

        Args:
            name: Where to begin.
            step: ``inputs`` or ``consumers``; it may stop at nodes by giving nothing.
            most: Largest distance.
        """
        seen = {name}
        level = [name]
        for _ in range(most):
            level = [near for far in level for near in step(far) if near not in seen]
            level = list(dict.fromkeys(level))
            seen.update(level)
            if not level:
                return
            yield level

    def variable(self, name: str) -> str | None:
        """The node that a read or an update of a variable gets the handle from; None for other ops."""
        node = self.nodes.get(name)
        return self._origin(node.inputs[0]) if node is not None and takes_variable(node) else None

    def weight_read(self, tensor: str) -> str | None:
        """The read of a variable that a tensor is, but for casts and shape; None where it is computed."""
        name = producer(tensor)
        for _ in range(len(self.nodes)):
            node = self.nodes.get(name)
            if node is None:
                return None
            if node.op == "ReadVariableOp":
                return name
            if node.op not in _PASSING | _RESHAPING or not node.inputs:
                return None
            name = producer(node.inputs[0])
        return None

    def _origin(self, tensor: str) -> str:
        name = producer(tensor)
        for _ in range(len(self.nodes)):
            node = self.nodes.get(name)
            if node is None or node.op not in _PASSING or not node.inputs:
                break
            name = producer(node.inputs[0])
        return name


def _flowing(node: Node) -> tuple[str, ...]:
    """The inputs whose values flow on: not those of which only the shape matters, nor what decides on a branch."""
    if node.op in _SHAPES:
        return ()
    return node.inputs[:1] if node.op == "Switch" else node.inputs


def _reach(starts: Iterable[str], step: Callable[[str], Iterable[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = deque(starts)
    while waiting:
        for near in step(waiting.popleft()):
            if near not in reached:
                reached.add(near)
                waiting.append(near)
    return reached
