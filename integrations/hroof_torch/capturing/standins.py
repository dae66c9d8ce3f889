"""A module run on stand-ins for its tensors, with everything that the run may change put back."""

from __future__ import annotations

import contextlib
import random
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from hroof_torch import private
from hroof_torch.tracking.graph import nodes_of

Double = Callable[[torch.Tensor], torch.Tensor]

_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_TENSORS = ("_parameters", "_buffers")


@contextlib.contextmanager
def stood_in(module: nn.Module, double: Double) -> Iterator[None]:
    """Put stand-ins in the place of a module's tensors; afterwards the module is as before.

    Parameters and buffers of all parts are replaced, and the tensors that parts keep in plain attributes, also
    in lists and dictionaries. Hooks that are not PyTorch's own stay silent, since they may write anywhere.
    Random states of PyTorch, ``random`` and NumPy are put back.

    Args:
        module: Model whose calls are to have no effect.
        double: Gives the stand-in of a tensor; asked once per use.
    """
    kept = [(part, dict(vars(part))) for part in module.modules()]
    with _random_states_kept(), private.without_global_module_hooks():
        try:
            for part, attributes in kept:
                vars(part).update(_replaced(attributes, double))
            with torch.autograd.graph.saved_tensors_hooks(_same, _same):
                yield
        finally:
            for part, attributes in kept:
                _restore(vars(part), attributes)


def _same(tensor: torch.Tensor) -> torch.Tensor:
    """As a hook for saved tensors: hides those of the program, which would keep the stand-ins."""
    return tensor


def _replaced(attributes: dict[str, Any], double: Double) -> dict[str, Any]:
    new: dict[str, Any] = {}
    for name, value in attributes.items():
        if name in _TENSORS:
            new[name] = {
                key: None if tensor is None else double(tensor) for key, tensor in value.items()
            }
        elif name in private.MODULE_HOOKS:
            new[name] = OrderedDict((key, hook) for key, hook in value.items() if _is_torch(hook))
        elif name == "_modules":
            new[name] = dict(value)
        elif name not in _OF_EVERY_MODULE and _holds_state(value):
            new[name] = pytree.tree_map_only(torch.Tensor, double, value)
    return new


def _holds_state(value: Any) -> bool:
    return isinstance(value, torch.Tensor | list | dict | tuple)


def _is_torch(hook: Any) -> bool:
    """Whether a hook belongs to PyTorch itself, as that of weight normalisation, which makes the weight."""
    owner = getattr(hook, "__module__", None) or type(hook).__module__
    return str(owner).startswith("torch.")


def _restore(now: dict[str, Any], before: dict[str, Any]) -> None:
    for name in [name for name in now if name not in before]:
        del now[name]
    for name, value in before.items():
        if name not in now or now[name] is not value:
            now[name] = value


@contextlib.contextmanager
def _random_states_kept() -> Iterator[None]:
    numpy = sys.modules.get("numpy")
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    numpy_state = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)


@contextlib.contextmanager
def gradients_kept(roots: list[torch.Tensor], first: int, ours: type) -> Iterator[None]:
    """Run a backward pass that reaches only stand-ins.

    Args:
        roots: Where it begins.
        first: Number that this thread's first autograd node of the replay got.
        ours: Class of the stand-ins; the gradients of other leaves are put back.

    Raises:
        RuntimeError: It would reach nodes that the program made before.
    """
    nodes = list(nodes_of(roots))
    leaves: list[Any] = [node.variable for node in nodes if hasattr(node, "variable")]
    if any(
        not hasattr(node, "variable") and private.node_sequence_nr(node) < first for node in nodes
    ):
        raise RuntimeError("its outputs hang on tensors from before the call")
    others: list[Any] = [leaf for leaf in leaves if not isinstance(leaf, ours)]
    strangers = [(leaf, leaf.grad) for leaf in others]
    try:
        yield
    finally:
        for leaf, gradient in strangers:
            leaf.grad = gradient
        for double in (leaf for leaf in leaves if isinstance(leaf, ours)):
            double.grad = None  # type: ignore[attr-defined]
