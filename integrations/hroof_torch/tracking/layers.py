"""Layers: the qualified name of every module call, for shared modules, wrappers and several models."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import nn

from hroof.launches import Label
from hroof_torch.tracking import keras_layers

_WRAPPERS = (
    "DataParallel",
    "DistributedDataParallel",
    "OptimizedModule",
    "FullyShardedDataParallel",
)
"""Modules that hold another under one attribute and are no layer of their own."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One place in a model where a module is called.

    Attributes:
        root: Number of the model, in order of its first call.
        path: Path below the model, empty for the model itself.
        type: Class of the module.
        depth: Number of path components.
        parameters: Elements of the parameters that the module itself holds.
        container: It has children, so work of its own is what its ``forward`` calls directly.
    """

    root: int
    path: str
    type: str
    depth: int
    parameters: int
    container: bool


@dataclass
class Root:
    """A module that was called with no other module around it; ``label`` stands for it in names."""

    label: str
    is_loss: bool
    has_parameters: bool
    places: weakref.WeakKeyDictionary[nn.Module, list[str]] = field(
        default_factory=weakref.WeakKeyDictionary
    )


def is_wrapper(module: nn.Module) -> bool:
    """Whether a module only wraps another one."""
    return type(module).__name__ in _WRAPPERS


def unwrap(module: nn.Module) -> nn.Module:
    """The module inside all wrappers."""
    while is_wrapper(module):
        inner = next(iter(module.children()), None)
        if inner is None:
            break
        module = inner
    return module


def children_of(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The parts that a module holds itself, by name."""
    if keras_layers.is_layer(module):
        yield from keras_layers.children(module)
        return
    for name, child in module._modules.items():
        if child is not None:
            yield name, child


def parameters_of(module: nn.Module) -> list[torch.Tensor]:
    """The parameters that a module holds itself."""
    if keras_layers.is_layer(module):
        return keras_layers.parameters(module)
    return [parameter for parameter in module._parameters.values() if parameter is not None]


def walk(module: nn.Module, path: str = "") -> Iterator[tuple[nn.Module, str]]:
    """Every (module, path) below and including a module; a shared module once per path."""
    yield module, path
    for name, child in children_of(module):
        yield from walk(child, path if is_wrapper(module) else f"{path}.{name}".lstrip("."))


class LayerMap:
    """Gives every module call its layer; numbers are stable for the life of the map."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self._roots: list[Root] = []
        self._root_of: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        self._numbers: dict[tuple[int, str, str], int] = {}
        self._cache: weakref.WeakKeyDictionary[nn.Module, dict[int | None, int]] = (
            weakref.WeakKeyDictionary()
        )
        self._of_parameter: dict[int, int] = {}
        self._unbuilt: dict[int, weakref.ref[nn.Module]] = {}
        self._learning = threading.RLock()
        self._aliases: dict[int, int] = {}

    def root(self, module: nn.Module) -> Root:
        """The model that a module called from outside any other belongs to; new ones are learnt.

        A part of a known model belongs to that one: checkpointing calls it from outside when it recomputes,
        and programs do when they use an encoder or the module inside a wrapper alone.
        """
        number = self._root_of.get(module)
        if number is not None:
            return self._roots[number]
        with self._learning:
            number = self._holder(unwrap(module))
            if number is None:
                number = len(self._roots)
                self._roots.append(_describe_root(module))
                self._learn(module, number)
            self._root_of[module] = number
            return self._roots[number]

    def _holder(self, module: nn.Module) -> int | None:
        """The first known model that a module is part of."""
        holders = (number for number, root in enumerate(self._roots) if module in root.places)
        return next(holders, None)

    def _learn(self, module: nn.Module, number: int) -> None:
        """Note every path of the model, and which layer holds which parameter."""
        places = self._roots[number].places
        unbuilt = False
        for part, path in walk(module):
            unbuilt = unbuilt or (keras_layers.is_layer(part) and not keras_layers.is_built(part))
            known = places.setdefault(part, [])
            if path not in known:
                known.append(path)
            if not is_wrapper(part):
                layer = self._number(number, path, part)
                self.layers[layer] = _sized(self.layers[layer], part)
                for parameter in parameters_of(part):
                    self._of_parameter.setdefault(id(parameter), layer)
        if unbuilt:
            self._unbuilt[number] = weakref.ref(module)

    def _learn_built(self) -> None:
        """Learn the models again that had layers without weights: Keras makes them in the first call."""
        with self._learning:
            unbuilt, self._unbuilt = self._unbuilt, {}
            for number, reference in unbuilt.items():
                module = reference()
                if module is not None:
                    self._learn(module, number)
                    self._roots[number].has_parameters = number in self._unbuilt or _has_parameters(
                        module
                    )

    def at(self, module: nn.Module, parent: int | None) -> int:
        """The layer of a module called inside the layer ``parent`` (None: from outside any)."""
        by_parent = self._cache.get(module)
        if by_parent is None:
            by_parent = self._cache.setdefault(module, {})
        if parent not in by_parent:
            with self._learning:
                by_parent[parent] = self._find(module, parent)
        return by_parent[parent]

    def _find(self, module: nn.Module, parent: int | None) -> int:
        if parent is None:
            inner = unwrap(module)
            path = self.root(module).places[inner][0]
            return self._number(self._root_of[module], path, inner)
        root, above = self.layers[parent].root, self.layers[parent].path
        if module not in self._roots[root].places and root in self._unbuilt:
            self._learn_built()
        paths = self._roots[root].places.get(module)
        if not paths:
            return self._number(root, self._late_path(module, parent), module)
        return self._number(root, _nearest(paths, above), module)

    def _late_path(self, module: nn.Module, parent: int) -> str:
        """Name of a module that was not there when its model was first called."""
        layer = self.layers[parent]
        for part, paths in list(self._roots[layer.root].places.items()):
            for name, child in children_of(part):
                if child is module:
                    return f"{paths[0]}.{name}".lstrip(".")
        return f"{layer.path}.({type(module).__name__})".lstrip(".")

    def _number(self, root: int, path: str, module: nn.Module) -> int:
        key = (root, path, type(module).__name__)
        if key not in self._numbers:
            self._numbers[key] = len(self.layers)
            depth = len(path.split(".")) if path else 0
            self.layers.append(_sized(Layer(root, path, key[2], depth, 0, False), module))
        return self._numbers[key]

    def of_parameter(self, parameter: object) -> int | None:
        """The layer that holds a parameter (a tied one: the first that holds it)."""
        found = self._of_parameter.get(id(parameter))
        if found is None and self._unbuilt:
            self._learn_built()
            found = self._of_parameter.get(id(parameter))
        return self._aliases.get(id(parameter)) if found is None else found

    def gradients(self) -> dict[int, int | None]:
        """The layer of every gradient that a parameter has now, by the gradient's identity."""
        parts = {part: None for root in self._roots for part in root.places}
        return {
            id(parameter.grad): self.of_parameter(parameter)
            for part in parts
            for parameter in parameters_of(part)
            if parameter.grad is not None
        }

    def alias(self, copy: object, parameter: object) -> None:
        """Let a copy of a parameter belong to the same layer."""
        layer = self.of_parameter(parameter)
        if layer is not None:
            self._aliases[id(copy)] = layer

    def forget_aliases(self) -> None:
        """The copies are gone; others may get their identities."""
        self._aliases.clear()

    def is_loss(self, layer: int) -> bool:
        """Whether a layer belongs to a loss module or another model without parameters."""
        root = self._roots[self.layers[layer].root]
        return root.is_loss or not root.has_parameters

    def labels(self) -> list[Label]:
        """Name and class of every layer."""
        return [
            Label(name, layer.type) for name, layer in zip(self.names(), self.layers, strict=True)
        ]

    def names(self) -> list[str]:
        """The qualified name of every layer; with several models, the model's label comes first."""
        models = [
            number
            for number, root in enumerate(self._roots)
            if root.has_parameters and not root.is_loss
        ]
        labels = _told_apart([root.label for root in self._roots])
        names = []
        for layer in self.layers:
            prefix = (
                []
                if len(models) <= 1 and layer.root in models and layer.path
                else [labels[layer.root]]
            )
            name = ".".join([*prefix, layer.path] if layer.path else prefix)
            # A lone surrogate cannot be written anywhere; it is shown escaped.
            names.append(name.encode("utf-8", "backslashreplace").decode("utf-8"))
        return names


def _describe_root(module: nn.Module) -> Root:
    inner = unwrap(module)
    is_loss = isinstance(inner, nn.modules.loss._Loss)
    unbuilt = keras_layers.is_layer(inner) and not keras_layers.is_built(inner)
    label = str(inner.name) if keras_layers.is_layer(inner) else type(inner).__name__
    return Root(label, is_loss, unbuilt or _has_parameters(inner))


def _has_parameters(module: nn.Module) -> bool:
    return any(parameters_of(part) for part, _ in walk(module))


def _sized(layer: Layer, module: nn.Module) -> Layer:
    """A layer with what its module holds now."""
    parameters = sum(parameter.numel() for parameter in parameters_of(module))
    container = next(children_of(module), None) is not None
    return dataclasses.replace(layer, parameters=parameters, container=container)


def _nearest(paths: list[str], above: str) -> str:
    """Of the paths of a shared module, the one below the calling layer that is nearest to it."""
    prefix = f"{above}." if above else ""
    below = [path for path in paths if path.startswith(prefix) or path == above]
    return min(below or paths, key=lambda path: (path.count("."), paths.index(path)))


def _told_apart(names: list[str]) -> list[str]:
    """Labels of models, told apart by a number where two share one."""
    seen: dict[str, int] = {}
    labels = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        labels.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return labels
