"""What hroof must know of Keras on the torch backend, where a layer is a module with ways of its own.

A Keras layer is an ``nn.Module`` that brings its own ``__call__``, keeps its parts in a list instead of attributes,
and its weights in variables around parameters. Its optimizers are none of PyTorch's. Keras is never imported here: it
is looked for among the modules that the program has imported. Every private name of Keras that hroof_torch uses stands
in this file; where one is gone, the plain way of PyTorch is gone instead.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

Apply = Callable[..., Any]

_PARAMETERS = "_torch_params"
"""Attribute under which a layer keeps the parameters of itself and all below, for PyTorch's optimizers."""

_NO_STATE = ("_variables", "_trainable_variables")
"""Lists of an optimizer that do not hold one state per variable."""


def layer_class() -> type[nn.Module] | None:
    """Keras' class of layers; None where Keras is not used, or not on torch."""
    kind = getattr(sys.modules.get("keras"), "Layer", None)
    return kind if isinstance(kind, type) and issubclass(kind, nn.Module) else None


def is_layer(module: object) -> bool:
    """Whether a module is a layer of Keras."""
    kind = layer_class()
    return kind is not None and isinstance(module, kind)


def is_symbolic(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a layer is called to learn shapes only: nothing is computed."""
    symbol = getattr(sys.modules.get("keras"), "KerasTensor", ())
    return any(
        isinstance(leaf, symbol) or (isinstance(leaf, torch.Tensor) and leaf.is_meta)
        for leaf in pytree.tree_leaves((args, kwargs))
    )


def children(layer: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The parts of a layer: Keras layers by their names, plain modules by attribute.

    Inputs of a functional model are no parts, since nothing runs there. Of several parts of one name, all but the
    first get a number.
    """
    seen: dict[str, int] = {}
    for part in _sublayers(layer):
        if type(part).__name__ != "InputLayer":
            count = seen[part.name] = seen.get(part.name, 0) + 1
            yield (part.name if count == 1 else f"{part.name}#{count}"), part
    for name, plain in layer._modules.items():
        if plain is not None and name != _PARAMETERS and not is_layer(plain):
            yield name, plain


def _sublayers(layer: Any) -> list[Any]:
    flatten = getattr(layer, "_flatten_layers", None)
    if flatten is None:
        return [part for part in layer._modules.values() if is_layer(part)]
    return list(flatten(include_self=False, recursive=False))


def parameters(layer: Any) -> list[torch.Tensor]:
    """The weights that a layer holds itself, those that are not trained included."""
    below = {id(tensor) for part in _sublayers(layer) for tensor in _values(part.weights)}
    for _, part in children(layer):
        if not is_layer(part):
            below.update(map(id, part.parameters()))
    return [tensor for tensor in _values(layer.weights) if id(tensor) not in below]


def is_built(layer: Any) -> bool:
    """Whether a layer has the weights and parts that it will have."""
    return bool(layer.built)


def _values(variables: Any) -> list[torch.Tensor]:
    """The tensors of variables; not ``value``, which may be a copy of lower precision within a layer."""
    found = (getattr(variable, "_value", None) for variable in variables)
    return [value for value in found if isinstance(value, torch.Tensor)]


def wrap_apply(wrap: Callable[[Apply], Apply]) -> Callable[[], None]:
    """Put ``wrap`` around ``apply``, through which every step of a Keras optimizer goes.

    Returns:
        What puts the original back.
    """
    optimizers = getattr(sys.modules.get("keras"), "optimizers", None)
    kinds = getattr(getattr(optimizers, "Optimizer", None), "__mro__", ())
    kind = next((kind for kind in kinds if "apply" in vars(kind)), None)
    if kind is None or layer_class() is None:
        return _nothing
    original = vars(kind)["apply"]

    def restore() -> None:
        kind.apply = original

    kind.apply = wrap(original)
    return restore


def _nothing() -> None:
    """Nothing to undo."""


@contextlib.contextmanager
def random_without_seeds() -> Iterator[None]:
    """Keras draws random numbers without looking at a seed, which a tensor without data does not have."""
    module: Any = sys.modules.get("keras.src.backend.torch.random")
    original = getattr(module, "torch_seed_generator", None)
    if original is None:
        yield
        return
    module.torch_seed_generator = lambda seed: torch.Generator(torch.get_default_device())
    try:
        yield
    finally:
        module.torch_seed_generator = original


class OptimizerView:
    """A Keras optimizer as one of PyTorch's: groups of parameters, and the state of each.

    Args:
        optimizer: The optimizer, which is not kept alive.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = weakref.ref(optimizer)

    @property
    def _variables(self) -> list[Any]:
        return list(getattr(self._optimizer(), "_trainable_variables", ()))

    @property
    def param_groups(self) -> list[dict[str, list[torch.Tensor]]]:
        """One group with every parameter that the optimizer trains."""
        return [{"params": _values(self._variables)}]

    @property
    def state(self) -> dict[torch.Tensor, dict[str, torch.Tensor]]:
        """Tensors that the optimizer keeps for each parameter, by the name of their list."""
        variables = self._variables
        lists = {
            name: value
            for name, value in getattr(self._optimizer(), "__dict__", {}).items()
            if isinstance(value, list) and len(value) == len(variables) and name not in _NO_STATE
        }
        return {
            parameter: {
                name: kept for name, of_all in lists.items() for kept in _values([of_all[index]])
            }
            for index, variable in enumerate(variables)
            for parameter in _values([variable])
        }


_views: weakref.WeakKeyDictionary[Any, OptimizerView] = weakref.WeakKeyDictionary()


def view_of(optimizer: Any) -> OptimizerView:
    """The one view of an optimizer."""
    view = _views.get(optimizer)
    if view is None:
        view = _views.setdefault(optimizer, OptimizerView(optimizer))
    return view
