"""Layers of functions that were traced before anybody took note: from the variables that their ops read.

A traced function holds the handles of the variables that it was made with, so the layer of an op that reads one is
certain, and with it the layers whose scopes are open around the op. Layers without variables are found by their names
below a known scope, where only one of them can be meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from hroof_keras.private import runtime as private
from hroof_keras.scopes.layers import BEFORE, LayerMap, Mark
from hroof_keras.scopes.names import part_of_function

LATE = (
    "The step's functions were traced before the region began: their layers were found through the variables that they "
    "read, layers without variables by name."
)

_NOT_FORWARD = re.compile(r"(?:^|/)gradient_tape/")


def learn_traced(
    layers: LayerMap, models: Sequence[Any] | None = None, ran: Iterable[str] = ()
) -> int:
    """Note the scopes of layers in functions that were traced before.

    Args:
        layers: Gets the layers and scopes; what was noted while functions were traced stays as it is.
        models: The models that are meant; all that exist when not given.
        ran: Names of executed nodes, to tell the functions that ran from others; all are meant without any.

    Returns:
        How many scopes were found.
    """
    executed = {part_of_function(name) for name in ran}
    graphs = _that_ran(private.traced_graphs(), executed)
    if not graphs:
        return 0
    tree = _Tree(private.keras_layers() if models is None else _with_sublayers(models))
    scopes: dict[str, Any] = {}
    for name, variable in _reads(graphs):
        owner = tree.owner(variable)
        if owner is not None and not _NOT_FORWARD.search(name):
            scopes |= _aligned(tree.line(owner), name.split("/")[:-1])
    names = {op.name for graph in graphs for op in graph.get_operations()}
    _by_name(scopes, names)
    if executed:
        used = {prefix for name in executed for prefix in accumulate(name.split("/"), _joined)}
        scopes = {scope: layer for scope, layer in scopes.items() if scope in used}
    for optimizer in private.keras_optimizers():
        if any(name.startswith(optimizer.name) for name in executed or names):
            layers.note_optimizer(optimizer.name)
    known = set(layers.scopes)
    unknown = [scope for scope in scopes if scope not in known]
    for scope in sorted(unknown, key=lambda scope: scope.count("/")):
        number = _learn(layers, tree, scopes[scope])
        layers.note(scope, Mark("layer", number), BEFORE)
    return len(scopes.keys() - known)


def _joined(scope: str, part: str) -> str:
    return f"{scope}/{part}"


def _that_ran(graphs: Sequence[Any], ran: set[str]) -> list[Any]:
    """The functions, with those inside them, that have most of the executed nodes by name."""
    families: dict[int, list[Any]] = {}
    for graph in graphs:
        families.setdefault(id(private.outermost_graph(graph)), []).append(graph)
    shares = {
        key: len(ran & {op.name for graph in family for op in graph.get_operations()})
        for key, family in families.items()
    }
    most = max(shares.values(), default=0)
    # A retraced function has the same names; half of them is more than functions share by chance.
    return [g for key, family in families.items() if shares[key] * 2 >= most for g in family]


def _with_sublayers(models: Iterable[Any]) -> list[Any]:
    found: dict[int, Any] = {}
    waiting = list(models)
    while waiting:
        layer = waiting.pop(0)
        if id(layer) not in found:
            found[id(layer)] = layer
            waiting += private.sublayers(layer)
    return list(found.values())


class _Tree:
    """Which layer holds which, and which variables."""

    def __init__(self, layers: Sequence[Any]) -> None:
        self._holder: dict[int, Any] = {}
        self._owners: dict[int, Any] = {}
        for layer in layers:
            for child in private.sublayers(layer):
                if child is not layer:
                    self._holder.setdefault(id(child), layer)
            for variable in private.own_weights(layer):
                handle = private.handle(variable)
                if handle is not None:
                    self._owners.setdefault(id(handle), layer)

    def owner(self, handle: Any) -> Any:
        """The layer whose variable a handle is; None for others' variables."""
        return self._owners.get(id(handle))

    def holder(self, layer: Any) -> Any:
        """The layer that holds a layer."""
        return self._holder.get(id(layer))

    def line(self, layer: Any) -> list[Any]:
        """A layer and all around it, outermost first."""
        line = [layer]
        while (around := self.holder(line[0])) is not None and around not in line:
            line.insert(0, around)
        return line


def _reads(graphs: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """(Name of the op, handle) for everything that takes the handle of a variable."""
    outside = {id(inner): outer for graph in graphs for outer, inner in private.captures(graph)}
    for graph in graphs:
        for _, inner in private.captures(graph):
            origin: Any = inner
            # Bodies of loops take it from the function around them.
            while id(origin) in outside:
                origin = outside[id(origin)]
            for operation in inner.consumers():
                yield operation.name, origin


def _aligned(line: Sequence[Any], parts: Sequence[str]) -> dict[str, Any]:
    """The scopes in a name, by the layers that may be open around an op, in order; some may open none."""
    found: dict[str, Any] = {}
    left = list(line)
    for length, part in enumerate(parts, start=1):
        at = next((n for n, layer in enumerate(left) if _may_be(part, layer)), None)
        if at is not None:
            found["/".join(parts[:length])] = left[at]
            left = left[at + 1 :]
    return found


def _may_be(part: str, layer: Any) -> bool:
    return re.fullmatch(re.escape(layer.name) + r"(?:_\d+)?", part) is not None


def _by_name(scopes: dict[str, Any], names: set[str]) -> None:
    """Layers without variables: a part of a name below a known scope that only one child of its layer can be."""
    named = {id(layer) for layer in scopes.values()}
    for name in sorted(names):
        parts = name.split("/")[:-1]
        for length in range(1, len(parts)):
            around = scopes.get("/".join(parts[:length]))
            scope = "/".join(parts[: length + 1])
            if around is None or scope in scopes:
                continue
            children = private.sublayers(around)
            fitting = [child for child in children if _may_be(parts[length], child)]
            if len(fitting) == 1 and id(fitting[0]) not in named:
                scopes[scope] = fitting[0]


def _learn(layers: LayerMap, tree: _Tree, layer: Any) -> int:
    """The number of a layer; those around it that have scopes are known already, others are learnt with it."""
    known = layers.number_of(layer)
    if known is not None:
        return known
    holder = tree.holder(layer)
    if holder is None:
        return layers.at(layer, None)
    return layers.at(layer, _learn(layers, tree, holder), holder)
