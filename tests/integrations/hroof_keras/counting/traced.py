"""Nodes of traced TensorFlow functions, with the shapes that TensorFlow itself infers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from hroof.launches import Work
from hroof_keras.counting import Buffers, plain, work_of
from hroof_keras.graph.graphs import nodes_of
from hroof_keras.graph.nodes import Node, TensorSpec


@dataclass(frozen=True)
class Traced:
    """A node with the shapes of its inputs and results."""

    node: Node
    inputs: list[TensorSpec | None]
    outputs: list[TensorSpec | None]

    def work(self, buffers: Buffers | None = None) -> Work:
        """Its work by the rules."""
        return work_of(self.node, self.inputs, self.outputs, buffers or Buffers())


def _spec(tensor: Any) -> TensorSpec:
    shape = tensor.shape
    known = tuple(shape.as_list()) if shape.is_fully_defined() else None
    return TensorSpec(known, tensor.dtype.base_dtype.name)


def trace(function: Callable[..., Any], *arguments: Any) -> list[Traced]:
    """Every node of a function, traced for arguments like these (tensors, or shapes of fp32 tensors)."""
    specs = [
        tf.TensorSpec(argument, tf.float32)
        if isinstance(argument, tuple)
        else tf.TensorSpec(argument.shape, argument.dtype)
        for argument in arguments
    ]
    graph = tf.function(function).get_concrete_function(*specs).graph
    nodes = nodes_of([graph.as_graph_def()])
    return [
        Traced(nodes[op.name], [_spec(t) for t in op.inputs], [_spec(t) for t in op.outputs])
        for op in graph.get_operations()
    ]


def one(op: str, function: Callable[..., Any], *arguments: Any) -> Traced:
    """The only node of this plain type."""
    nodes = trace(function, *arguments)
    found = [item for item in nodes if plain(item.node.op) == op]
    assert len(found) == 1, [item.node.op for item in nodes]
    return found[0]


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function followed by the gradient of the sum of its result with respect to all arguments."""

    def both(*arguments: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            result = function(*arguments)
        return tape.gradient(result, arguments)

    return both
