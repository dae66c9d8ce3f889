"""The graphs that TensorFlow executes, after it has placed, fused and inlined what was traced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hroof_keras import private
from hroof_keras.nodes import Node

_LARGEST_CONSTANT = 1 << 16
"""Bytes of a constant that is still read: axes, sizes and paddings, not weights."""

_SENDS = ("_Send", "_HostSend")
_RECEIVES = ("_Recv", "_HostRecv")


class GraphCollection:
    """Collects the graphs of functions that run for the first time between ``start`` and ``stop``."""

    def __init__(self) -> None:
        self._running = False
        self.collisions: frozenset[str] = frozenset()

    def start(self) -> None:
        """Collect from now on."""
        private.collect_graphs(True)
        self._running = True

    def stop(self) -> dict[str, Node]:
        """The nodes by name, over all devices and functions; empty where no function was new.

        Where functions have nodes of the same name, the largest function's are meant, and ``collisions`` names them.
        """
        if not self._running:
            return {}
        self._running = False
        metadata = private.collected()
        private.collect_graphs(False)
        functions = sorted(metadata.function_graphs, key=_size)
        merged: dict[str, Node] = {}
        collisions: set[str] = set()
        for function in functions:
            nodes = nodes_of(function.partition_graphs)
            collisions |= {name for name in nodes if name in merged}
            merged |= nodes
        self.collisions = frozenset(collisions)
        return merged


def _size(function: Any) -> int:
    return sum(len(graph.node) for graph in function.partition_graphs)


def nodes_of(graphs: Iterable[Any]) -> dict[str, Node]:
    """The nodes of the ``GraphDef`` messages of one function; what one device receives comes from another's graph."""
    definitions = [definition for graph in graphs for definition in graph.node]
    by_name = {definition.name: definition for definition in definitions}
    sent = {
        definition.attr["tensor_name"].s: definition.input[0]
        for definition in definitions
        if definition.op in _SENDS
    }
    constants: dict[str, Any] = {}
    return {d.name: _node(d, by_name, sent, constants) for d in definitions}


def _node(
    definition: Any,
    by_name: Mapping[str, Any],
    sent: Mapping[bytes, str],
    constants: dict[str, Any],
) -> Node:
    inputs = tuple(_tensor(name) for name in definition.input if not name.startswith("^"))
    if definition.op in _RECEIVES and not inputs:
        source = sent.get(definition.attr["tensor_name"].s)
        inputs = () if source is None else (_tensor(source),)
    values = {
        position: value
        for position, name in enumerate(inputs)
        if (value := _constant(name, by_name, constants)) is not None
    }
    return Node(
        definition.name, definition.op, inputs, dict(definition.attr), values, definition.device
    )


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _constant(tensor: str, by_name: Mapping[str, Any], known: dict[str, Any]) -> Any:
    """The value of a small constant, also by way of ops that only pass it on; None for anything else."""
    name = tensor.partition(":")[0]
    for _ in range(8):
        definition = by_name.get(name)
        if definition is None:
            return None
        if definition.op == "Const":
            if name not in known:
                known[name] = _value(definition.attr["value"].tensor)
            return known[name]
        if definition.op not in ("Identity", "Enter", "HostConst") or not definition.input:
            return None
        name = definition.input[0].partition(":")[0]
    return None


def _value(tensor: Any) -> Any:
    return None if tensor.ByteSize() > _LARGEST_CONSTANT else private.array(tensor)
