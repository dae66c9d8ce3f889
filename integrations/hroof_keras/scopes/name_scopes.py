"""Layers of TensorFlow code without Keras: the name scopes in which variables are read.

``tf.Module.with_name_scope`` and ``tf.name_scope`` open them. They are names only: two calls of one module are two
scopes, and code without scopes has no layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

from hroof_keras.graph.dataflow import takes_variable
from hroof_keras.graph.nodes import Node
from hroof_keras.scopes.layers import LayerMap, Mark
from hroof_keras.scopes.names import Names, part_of_function

BY_SCOPE = (
    "No Keras layer was seen, so layers are the name scopes in which variables are read (tf.Module.with_name_scope, "
    "tf.name_scope)."
)


def learn_name_scopes(layers: LayerMap, nodes: Mapping[str, Node]) -> int:
    """Make layers of name scopes.

    Args:
        layers: Gets them, with their scopes.
        nodes: The executed graph.

    Returns:
        How many there are.
    """
    numbers: dict[str, int] = {}
    for scope in sorted(set(_scopes(layers, nodes))):
        parts = scope.split("/")
        for length in range(1, len(parts) + 1):
            here = "/".join(parts[:length])
            if here not in numbers:
                around = numbers.get("/".join(parts[: length - 1]))
                numbers[here] = layers.add_scope_layer(parts[length - 1], around)
                layers.note(here, Mark("layer", numbers[here]))
    return len(numbers)


def _scopes(layers: LayerMap, nodes: Mapping[str, Node]) -> Iterator[str]:
    names = Names(layers, ())
    made = {
        prefix
        for name, node in nodes.items()
        if node.op != "ReadVariableOp"
        for prefix in accumulate(part_of_function(name).split("/")[:-1], "{}/{}".format)
    }
    for name, node in nodes.items():
        if not takes_variable(node) or "Assign" in node.op or names.place(name) is not None:
            continue
        around = list(accumulate(part_of_function(name).split("/")[:-1], "{}/{}".format))
        # A read may lie below the op that it is for, dense/MatMul/ReadVariableOp: only scopes hold other ops, too.
        scope = next((prefix for prefix in reversed(around) if prefix in made), None)
        if scope is not None:
            yield scope
