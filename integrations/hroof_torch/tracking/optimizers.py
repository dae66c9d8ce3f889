"""Optimizer work → layers: which layer's parameters an op of an optimizer step updates."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch

from hroof.attribution import Part
from hroof.units import Phase
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.tracker import Frame


class OptimizerSplit:
    """Which layer's parameters the tensors of an optimizer's ops belong to.

    Args:
        optimizer: Whose step it is; None for work on gradients between the phases (zeroing, clipping).
        layers: Where parameters are.
    """

    def __init__(self, optimizer: Any, layers: LayerMap) -> None:
        self._layer_of = layers.gradients() if optimizer is None else {}
        self._last: tuple[Part, ...] = ()
        self._last_shapes: list[torch.Size] = []
        for group in getattr(optimizer, "param_groups", ()):
            for parameter in group["params"]:
                self._learn(parameter, layers.of_parameter(parameter), optimizer)

    def _learn(self, parameter: torch.Tensor, layer: int | None, optimizer: Any) -> None:
        state = optimizer.state.get(parameter, {})
        tensors = [parameter, parameter.grad, *(state.values() if isinstance(state, dict) else ())]
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor):
                self._layer_of[id(tensor)] = layer

    def touches(self, args: tuple[Any, ...]) -> bool:
        """Whether the first argument is a known tensor or a list with one."""
        first = args[0] if args else None
        tensors = first if isinstance(first, list | tuple) else [first]
        return any(id(tensor) in self._layer_of for tensor in tensors)

    def parts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Part, ...]:
        """Shares of one op by layer: by the known tensors of its arguments, else as the op before."""
        values = [*args, *kwargs.values()]
        lists = [value for value in values if _is_tensor_list(value)]
        if lists:
            return self._split_lists(lists)
        known = [id(v) for v in values if isinstance(v, torch.Tensor) and id(v) in self._layer_of]
        if known:
            self._last, self._last_shapes = (Part(self._layer_of[known[0]], 1.0),), []
        return self._last if len(self._last) == 1 else ()

    def _split_lists(self, lists: list[list[torch.Tensor]]) -> tuple[Part, ...]:
        longest = max(lists, key=len)
        known = [self._layer_at(lists, index) for index in range(len(longest))]
        shapes = [tensor.shape for tensor in longest]
        if not any(found for found, _ in known):
            return self._last if shapes == self._last_shapes else ()
        self._last = _shares([layer for _, layer in known], [tensor.numel() for tensor in longest])
        self._last_shapes = shapes
        return self._last

    def _layer_at(self, lists: list[list[torch.Tensor]], index: int) -> tuple[bool, int | None]:
        for tensors in lists:
            if index < len(tensors) and id(tensors[index]) in self._layer_of:
                return True, self._layer_of[id(tensors[index])]
        return False, None


def _is_tensor_list(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(v, torch.Tensor) for v in value)
    )


def _shares(layers: list[int | None], sizes: list[int]) -> tuple[Part, ...]:
    """Shares by elements, in order of the layers' first appearance."""
    total = sum(sizes)
    weights = sizes if total else [1] * len(sizes)
    by_layer: dict[int | None, float] = {}
    for layer, weight in zip(layers, weights, strict=True):
        by_layer[layer] = by_layer.get(layer, 0.0) + weight / sum(weights)
    return tuple(Part(layer, share) for layer, share in by_layer.items())


class ParameterShapes:
    """Splits optimizer ops that were not counted, by the shapes of the parameters; an observer."""

    def __init__(self, layers: LayerMap) -> None:
        self._layers = layers
        self._of: dict[int, list[tuple[int | None, tuple[int, ...]]]] = {}

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the parameters of an optimizer when it steps for the first time."""
        if frame.phase is not Phase.OPTIMIZER or id(frame.optimizer) in self._of:
            return
        groups = getattr(frame.optimizer, "param_groups", ())
        self._of[id(frame.optimizer)] = [
            (self._layers.of_parameter(parameter), tuple(parameter.shape))
            for group in groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]

    def leave(self, frame: Frame, output: Any) -> None:
        """Nothing to do."""

    def parts(self, signature: Hashable) -> tuple[Part, ...]:
        """Shares by layer of an op whose tensors have these shapes; empty where it cannot be told."""
        shapes = [shape for shape, _ in signature] if isinstance(signature, tuple) else []
        for parameters in self._of.values():
            known = [shape for _, shape in parameters]
            if known and len(shapes) % len(known) == 0 and shapes[: len(known)] == known:
                sizes = [torch.Size(shape).numel() for shape in known]
                return _shares([layer for layer, _ in parameters], sizes)
        return self._single(shapes)

    def _single(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Part, ...]:
        if not shapes:
            return ()
        places = {
            layer
            for parameters in self._of.values()
            for layer, shape in parameters
            if shape == shapes[0]
        }
        return (Part(places.pop(), 1.0),) if len(places) == 1 else ()
