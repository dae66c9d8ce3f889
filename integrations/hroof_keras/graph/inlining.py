"""Traced functions as one graph with the names that their nodes get when they run.

This is what is left where the executed graph cannot be had: ops are as traced, so nothing is fused, and bodies of loops
and branches are not followed, since the numbers in their names are given later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hroof_keras.graph.graphs import nodes_of
from hroof_keras.graph.nodes import Node
from hroof_keras.private import runtime as private

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def traced_nodes(graphs: Iterable[Any]) -> dict[str, Node]:
    """The nodes of traced functions with what they call, by name; of several the largest function's are meant.

    Args:
        graphs: Graphs of functions; those inside others are left out by themselves.
    """
    definitions = [graph.as_graph_def(add_shapes=True) for graph in outermost(graphs)]
    merged: dict[str, Node] = {}
    for nodes in sorted((inlined(definition) for definition in definitions), key=len):
        merged |= nodes
    return merged


def outermost(graphs: Iterable[Any]) -> list[Any]:
    """The functions that no other one of these holds."""
    graphs = list(graphs)
    known = {id(graph) for graph in graphs}
    return [
        graph
        for graph in graphs
        if (whole := private.outermost_graph(graph)) is graph or id(whole) not in known
    ]


def inlined(definition: Any) -> dict[str, Node]:
    """The nodes of a ``GraphDef`` with the bodies of the functions that it calls in place of the calls."""
    graph = _Inlined(
        {function.signature.name: function for function in definition.library.function}
    )
    graph.add(definition.node, "")
    return nodes_of([graph])


class _Inlined:
    """A graph that is put together; ``node`` gives its definitions, as a ``GraphDef`` does."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions
        self._nodes: list[Any] = []
        self._same: dict[str, str] = {}

    def add(self, definitions: Iterable[Any], prefix: str) -> None:
        """Add nodes, and what they call, with a prefix."""
        for definition in definitions:
            function = self._functions.get(definition.attr["f"].func.name)
            copy = type(definition)()
            copy.CopyFrom(definition)
            copy.name = prefix + definition.name
            inputs = [prefix + name for name in definition.input if not name.startswith("^")]
            del copy.input[:]
            copy.input.extend(inputs)
            if definition.op == "Placeholder":
                copy.op = "_Arg"
            if definition.op in _CALLS and function is not None:
                self._call(copy, function)
            else:
                self._nodes.append(copy)

    def _call(self, call: Any, function: Any) -> None:
        body, flat_names = private.graph_of_function(function)
        prefix = f"{call.name}/"
        arguments = [argument.name for argument in function.signature.input_arg]
        for argument, given in zip(arguments, call.input, strict=True):
            self._same[f"{prefix}{argument}:0"] = _with_port(given)
        for port, output in enumerate(function.signature.output_arg):
            made = flat_names[function.ret[output.name]]
            self._same[f"{call.name}:{port}"] = f"{prefix}{made}"
        self.add([node for node in body.node if node.name not in arguments], prefix)

    @property
    def node(self) -> list[Any]:
        """The definitions, every input by what really makes it."""
        for definition in self._nodes:
            inputs = [self._origin(name) for name in definition.input]
            del definition.input[:]
            definition.input.extend(inputs)
        return self._nodes

    def _origin(self, tensor: str) -> str:
        tensor = _with_port(tensor)
        while tensor in self._same:
            tensor = self._same[tensor]
        return tensor


def _with_port(tensor: str) -> str:
    return tensor if ":" in tensor else f"{tensor}:0"
