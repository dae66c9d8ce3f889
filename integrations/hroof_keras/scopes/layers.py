"""Layers of Keras models: names as their users know them, and the name scopes in which their ops were traced."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

from hroof.launches import LOSS, LOSS_NAME, Label
from hroof_keras.private import runtime as private

Kind = Literal["layer", "loss", "optimizer"]

BEFORE = -1
"""Number of the traces that nobody watched; what was noted while a function was traced is better."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer object, wherever it is called.

    Attributes:
        parent: Number of the layer that called it first; None for a model or a layer called from outside any.
        name: Its own name, or the attribute under which a class of the user's own holds it.
        type: Class.
        parameters: Elements of the weights that the layer itself holds; its children's are theirs.
            None where that cannot be known.
        container: It has children, so work of its own is what its ``call`` does directly.
    """

    parent: int | None
    name: str
    type: str
    parameters: int | None
    container: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """Whose ops a name scope holds.

    Attributes:
        kind: What it is.
        layer: Number of the layer; None for a loss and an optimizer.
        recompute: The layer was called again inside a backward pass, to have its activations once more.
    """

    kind: Kind
    layer: int | None = None
    recompute: bool = False


@dataclass
class _Scope:
    """The marks of one scope by trace: several functions may use the same scope, for different layers even."""

    by_trace: dict[int, Mark] = field(default_factory=dict)


class LayerMap:
    """The layers that were seen and the scopes of their ops; numbers are stable for the life of the map.

    Layers are told apart by identity and held weakly. Scopes are noted while functions are traced: Keras numbers them
    so that a name alone tells neither whether two scopes are one layer nor which layer a scope belongs to.
    """

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self._numbers: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._scopes: dict[str, _Scope] = {}
        self._optimizers: dict[str, None] = {}
        self._traces: list[weakref.ref[Any]] = []
        self._learning = threading.RLock()

    # --- Layers ---

    def at(self, layer: Any, parent: int | None, holder: Any = None) -> int:
        """The number of a layer; a new one is learnt as a child of ``parent``.

        Args:
            layer: The object.
            parent: The layer that calls it.
            holder: The object behind ``parent``, for the name of the attribute.
        """
        with self._learning:
            known = self._numbers.get(id(layer))
            if known is not None and known[0]() is layer:
                return known[1]
            number = len(self.layers)
            self.layers.append(_described(layer, parent, holder))
            self._numbers[id(layer)] = (weakref.ref(layer), number)
            return number

    def number_of(self, layer: Any) -> int | None:
        """The number of a layer that was seen."""
        known = self._numbers.get(id(layer))
        return known[1] if known is not None and known[0]() is layer else None

    def add_scope_layer(self, name: str, parent: int | None) -> int:
        """A layer of which only a name scope is known: code without Keras."""
        with self._learning:
            self.layers.append(Layer(parent, name, "name scope", None, False))
            return len(self.layers) - 1

    def lineage(self, number: int) -> list[int]:
        """A layer and the layers around it, outermost last."""
        line = [number]
        while (parent := self.layers[line[-1]].parent) is not None:
            line.append(parent)
        return line

    def around(self, numbers: Iterable[int]) -> int | None:
        """The innermost layer that is, or is around, each of these layers."""
        lines = [self.lineage(number) for number in numbers]
        if not lines:
            return None
        return next((number for number in lines[0] if all(number in line for line in lines)), None)

    # --- Scopes ---

    def note(self, scope: str, mark: Mark, trace: int = 0) -> None:
        """A scope was seen while function ``trace`` was traced; the root scope belongs to nobody."""
        if scope:
            with self._learning:
                self._scopes.setdefault(scope, _Scope()).by_trace.setdefault(trace, mark)

    def note_optimizer(self, name: str) -> None:
        """An optimizer of this name was applied; its scope is the name, perhaps with a number."""
        self._optimizers.setdefault(name)

    @property
    def optimizers(self) -> tuple[str, ...]:
        """Names of the optimizers that were seen."""
        return tuple(self._optimizers)

    @property
    def scopes(self) -> tuple[str, ...]:
        """All noted scopes."""
        return tuple(self._scopes)

    def has(self, scope: str) -> bool:
        """Whether this very scope was noted."""
        return scope in self._scopes

    @property
    def ambiguous(self) -> tuple[str, ...]:
        """Scopes that belong to different layers in different functions."""
        return tuple(scope for scope in self._scopes if len(self._marks(scope, ())) > 1)

    def find(
        self, parts: Sequence[str], within: int | None = None, traces: Iterable[int] = ()
    ) -> Mark | None:
        """Whose scope the longest noted prefix of a name is.

        Args:
            parts: Components of the name of an op.
            within: A layer around it that is known otherwise; decides between functions that use one scope.
            traces: The functions that may be meant; all without any.

        Returns:
            None where no prefix was noted. Where several layers use the scope, the layer around them all, or None.
        """
        for length in range(len(parts), 0, -1):
            scope = "/".join(parts[:length])
            if scope in self._scopes:
                return self._decide(self._marks(scope, traces), within)
        return None

    def trace(self, graph: Any) -> int:
        """The number of a function that is being traced, by its outermost graph, which is held weakly."""
        with self._learning:
            for number, known in enumerate(self._traces):
                if known() is graph:
                    return number
            self._traces.append(weakref.ref(graph))
            return len(self._traces) - 1

    def traces_of(self, executed: Set[str]) -> tuple[int, ...]:
        """The traced functions that may have run: of the ops that only they have, some did, or they have none.

        Args:
            executed: Names of executed nodes, each as in its own function.
        """
        graphs = {
            n: graph for n, known in enumerate(self._traces) if (graph := known()) is not None
        }
        names = {number: operations_within(graph) for number, graph in graphs.items()}
        ran = []
        for number, own in names.items():
            others: set[str] = set().union(*(names[other] for other in names if other != number))
            if not own - others or (own - others) & executed:
                ran.append(number)
        return tuple(ran)

    def _marks(self, scope: str, traces: Iterable[int]) -> list[Mark]:
        by_trace = self._scopes[scope].by_trace
        wanted = [by_trace[trace] for trace in traces if trace in by_trace]
        watched = [mark for trace, mark in by_trace.items() if trace != BEFORE]
        return list(dict.fromkeys(wanted or watched or by_trace.values()))

    def _decide(self, marks: list[Mark], within: int | None) -> Mark | None:
        if len(marks) == 1:
            return marks[0]
        inside = [
            mark
            for mark in marks
            if within is not None and mark.layer is not None and within in self.lineage(mark.layer)
        ]
        if len(inside) == 1:
            return inside[0]
        owners = [mark.layer for mark in inside or marks if mark.layer is not None]
        around = self.around(owners) if len(owners) == len(inside or marks) else None
        return None if around is None else Mark("layer", around)

    # --- What a reader sees ---

    def names(self) -> list[str]:
        """The dotted path of every layer below its model; models by their own name.

        With several models the model's name comes first. Equal names are told apart by a number.
        """
        models = {
            self.lineage(number)[-1]
            for number, layer in enumerate(self.layers)
            if layer.parameters != 0
        }
        names: list[str] = []
        seen: dict[str, int] = {}
        for layer in self.layers:
            name = self._name(names, layer, models)
            seen[name] = seen.get(name, 0) + 1
            names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
        return names

    def _name(self, names: list[str], layer: Layer, models: set[int]) -> str:
        if layer.parent is None:
            return layer.name
        is_root = self.layers[layer.parent].parent is None
        if is_root and (len(models) <= 1 or layer.parent not in models):
            return layer.name
        return f"{names[layer.parent]}.{layer.name}"

    def labels(self) -> list[Label]:
        """Name and class of every layer."""
        return [
            Label(name, layer.type) for name, layer in zip(self.names(), self.layers, strict=True)
        ]

    def described(self) -> list[dict[str, Any]]:
        """Every layer for ``Profile.run``, and the loss that is computed outside all of them."""
        rows = [
            {
                "name": name,
                "type": layer.type,
                "depth": self._depth(number, name),
                "parameters": layer.parameters,
                "container": layer.container,
            }
            for number, (name, layer) in enumerate(zip(self.names(), self.layers, strict=True))
        ]
        loss = {"name": LOSS_NAME, "type": "loss", "depth": LOSS}
        return [*rows, {**loss, "parameters": 0, "container": False}]

    def _depth(self, number: int, name: str) -> int:
        return 0 if self.layers[number].parent is None else name.count(".") + 1


def _described(layer: Any, parent: int | None, holder: Any) -> Layer:
    own = private.own_weights(layer)
    return Layer(
        parent=parent,
        name=_own_name(layer, holder),
        type=type(layer).__name__,
        parameters=sum(_elements(weight) for weight in own),
        container=bool(private.sublayers(layer)),
    )


def _elements(weight: Any) -> int:
    count = 1
    for length in weight.shape:
        count *= int(length)
    return count


def _own_name(layer: Any, holder: Any) -> str:
    """The name the user gave, or the attribute where the user's own class holds a layer that got no name.

    Names that Keras makes up are numbered through the whole process, so they differ from run to run.
    """
    name = str(layer.name) or type(layer).__name__
    if holder is None or private.is_keras_own(type(holder)) or not private.has_made_up_name(layer):
        return name
    return _attribute(holder, layer) or name


def _attribute(holder: Any, layer: Any) -> str | None:
    """Where an object holds a layer: ``attribute``, ``attribute.0`` in a list, ``attribute.key`` in a dict."""
    for name, value in vars(holder).items():
        if name.startswith("_"):
            continue
        if value is layer:
            return name
        items = _items(value)
        for key, item in items:
            if item is layer:
                return f"{name}.{key}"
    return None


def _items(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    return []


def operations_within(graph: Any) -> set[str]:
    """Names of the ops of a traced function and of those that it calls, each as in its own function."""
    definition = graph.as_graph_def()
    inner = (node.name for function in definition.library.function for node in function.node_def)
    return {*(node.name for node in definition.node), *inner}
