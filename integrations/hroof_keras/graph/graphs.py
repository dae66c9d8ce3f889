"""The graphs that TensorFlow executes, after it has placed, fused and inlined what was traced."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hroof.errors import MissingError
from hroof_keras.graph.nodes import Node
from hroof_keras.private import runtime as private

_LARGEST_CONSTANT = 1 << 16
"""Bytes of a constant that is still read: axes, sizes and paddings, not weights."""

_MEETING = ("Collective", "Nccl")
_STATELESS = ("CudnnRNNParamsSize",)

_SENDS = ("_Send", "_HostSend")
_RECEIVES = ("_Recv", "_HostRecv")


class GraphCollection:
    """Collects the graphs of functions that are instantiated between ``start`` and ``stop``.

    TensorFlow does that once per function, at its first call. What was called before the collection began is
    instantiated once more for it, on request, where that leaves the program as it is.
    """

    def __init__(self) -> None:
        self.collisions: frozenset[str] = frozenset()
        self._running = False
        self._before: list[weakref.ref[Any]] = []
        self._restore: Callable[[], None] | None = None

    def start(self) -> None:
        """Collect from now on."""
        self._before = [weakref.ref(graph) for graph in private.traced_graphs()]
        private.collect_graphs(True)
        self._running = True

    @property
    def late(self) -> bool:
        """Whether functions were traced before the collection began that still exist."""
        return any(graph() is not None for graph in self._before)

    def renew(self) -> str:
        """Have functions that were called before instantiated again by this thread, until ``stop``.

        To be called before the first captured step. Nothing is traced again, but every function that the step calls
        gets a second executable, with states of its own: where one draws random numbers in ops that keep their state
        nothing is done.

        Returns:
            Why it was not done although there are such functions; empty otherwise.
        """
        if self._restore is not None or not self.late:
            return ""
        stateful = sorted({op for graph in private.traced_graphs() for op in keeps_state(graph)})
        if stateful:
            return f"they hold ops with a state of their own ({', '.join(stateful)})"
        try:
            self._restore = private.instantiate_anew()
        except MissingError as error:
            return str(error)
        return ""

    def stop(self) -> dict[str, Node]:
        """The nodes by name, over all devices and functions; empty where no function was new.

        Where functions have nodes of the same name, the largest function's are meant, and ``collisions`` names them.
        """
        if not self._running:
            return {}
        self._running = False
        metadata = private.collected()
        private.collect_graphs(False)
        self._end_renewal()
        functions = sorted(metadata.function_graphs, key=_size)
        merged: dict[str, Node] = {}
        collisions: set[str] = set()
        for function in functions:
            nodes = nodes_of(function.partition_graphs)
            collisions |= {name for name in nodes if name in merged}
            merged |= nodes
        self.collisions = frozenset(collisions)
        return merged

    def _end_renewal(self) -> None:
        """Back to the first executables, unless a function that was traced meanwhile keeps a state in the second."""
        restore, self._restore = self._restore, None
        if restore is not None and not any(keeps_state(g) for g in private.traced_graphs()):
            restore()


def keeps_state(graph: Any) -> set[str]:
    """Types of ops of a traced function whose executables hold a state, or must meet others of other processes."""
    return {
        node.op
        for node in private.node_definitions(graph)
        if node.op.startswith(_MEETING)
        or ("seed" in node.attr and node.op not in _STATELESS and _is_seeded(node))
    }


def _is_seeded(node: Any) -> bool:
    """An op without any seed draws other numbers in every run of the program anyway."""
    return any(node.attr[name].i for name in ("seed", "seed2") if name in node.attr)


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
