"""The ops of one eager step in order, each with what it serves; noted while the step runs.

Layers are those whose calls are open; an op of the backward pass belongs to the layer of the op that it
differentiates, which is known by the tensors that the tape kept, or by the gradients that reach it. An op of an
optimizer belongs to the layer of the gradient or of the variable that it takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.graph.nodes import Node, TensorSpec
from hroof_keras.patching import Patches
from hroof_keras.private import eager as private_eager
from hroof_keras.private import runtime as private
from hroof_keras.scopes.layers import LayerMap

_LARGEST_CONSTANT = 64
"""Elements of an integer input that is still read: axes, sizes, paddings."""

Spot = tuple[Phase, int | None]
_ELSEWHERE: Spot = (Phase.OTHER, None)


@dataclass(eq=False)
class EagerOp:
    """One op.

    Attributes:
        node: With a name of its own, so that what flows can be followed.
        inputs: Shapes and types.
        outputs: Shapes and types.
        phase: What it serves.
        layer: Number in the layer map.
        takes: Numbers of the tensors that it takes.
        gives: Numbers of the tensors that it gives.
    """

    node: Node
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec | None, ...]
    phase: Phase
    layer: int | None
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    differentiated: bool = field(default=False, repr=False)


class EagerWatch:
    """Follows one step of this thread between ``start`` and ``stop``; it never breaks the program.

    Args:
        layers: Gets the layers that are called.

    Attributes:
        ops: What was followed.
        faults: Why something is missing.
    """

    def __init__(self, layers: LayerMap) -> None:
        self.ops: list[EagerOp] = []
        self.faults: dict[str, None] = {}
        self._layers = layers
        self._spots: list[Spot] = []
        self._calls: list[tuple[int, Any]] = []
        self._made_by: dict[int, EagerOp] = {}
        self._gradient_of: dict[int, set[int]] = {}
        self._owners: dict[int, int] = {}
        self._patches = Patches()

    def start(self) -> None:
        """Follow from now on.

        Raises:
            MissingError: This version of TensorFlow does not let anybody follow.
        """
        try:
            replaced = self._patches
            replaced.add(private_eager.watch_eager_ops(functools.partial(self._guarded, self._op)))
            replaced.add(private_eager.replace_gradient_function(self._differentiating))
            replaced.replace(keras.Operation, "__call__", self._layer_call)
            replaced.replace(keras.losses.Loss, "__call__", self._loss_call)
            for kind in private.optimizer_classes():
                replaced.replace(kind, "apply", self._apply)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Put everything back as it was; safe to call twice."""
        self._patches.undo()
        self._settle_optimizer()

    # --- What surrounds an op ---

    def _layer_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __call__(operation: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(operation, keras.Layer) or not tf.executing_eagerly():
                return original(operation, *args, **kwargs)
            number = self._guarded(self._number, operation)
            self._calls.append((number, operation))
            try:
                return self._within((Phase.FORWARD, number), original, operation, *args, **kwargs)
            finally:
                self._calls.pop()

        return __call__

    def _guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run something of hroof's own inside the program; a fault is noted, and the result is then None."""
        try:
            return call(*args)
        except Exception as error:  # whatever it is, the program goes on
            self.faults.setdefault(f"An eager op could not be followed: {error!r}")
            return None

    def _number(self, layer: Any) -> int:
        """The number of a layer that is called, of which the variables are known from now on."""
        number = self._layers.at(layer, *(self._calls[-1] if self._calls else (None, None)))
        for variable in private.own_weights(layer):
            self._owners[private_eager.tensor_number(private.handle(variable))] = number
        return number

    def _loss_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __call__(loss: Any, /, *args: Any, **kwargs: Any) -> Any:
            return self._within((Phase.LOSS, LOSS), original, loss, *args, **kwargs)

        return __call__

    def _apply(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def apply(optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
            given = dict(zip(("grads", "trainable_variables"), args, strict=False)) | kwargs
            self._guarded(self._know_gradients, optimizer, given)
            return self._within((Phase.OPTIMIZER, None), original, optimizer, *args, **kwargs)

        return apply

    def _know_gradients(self, optimizer: Any, given: dict[str, Any]) -> None:
        gradients, variables = given.get("grads"), given.get("trainable_variables")
        if not isinstance(gradients, list | tuple):
            return  # looking at it would use it up
        for gradient, variable in zip(
            gradients, variables or private_eager.optimized(optimizer), strict=False
        ):
            owner = self._owners.get(private_eager.tensor_number(private.handle(variable)))
            if owner is not None:
                self._owners.update(dict.fromkeys(_numbers([gradient]), owner))

    def _within(self, spot: Spot, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._spots.append(spot)
        try:
            return call(*args, **kwargs)
        finally:
            self._spots.pop()

    # --- Backward ---

    def _differentiating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def differentiate(
            op: str, attrs: Any, count: int, inputs: Any, outputs: Any, gradients: Any, *rest: Any
        ) -> Any:
            forward = self._guarded(self._forward_op, op, inputs, outputs, gradients)
            spot = (Phase.BACKWARD, None if forward is None else forward.layer)
            given = (op, attrs, count, inputs, outputs, gradients, *rest)
            found = self._within(spot, original, *given)
            if forward is not None:
                self._guarded(self._know_flow, forward, found)
            return found

        return differentiate

    def _forward_op(self, op: str, inputs: Any, outputs: Any, gradients: Any) -> EagerOp | None:
        """The op that is differentiated: what it gave, what its result's gradients are, or what it took."""
        kept = [self._made_by.get(number) for number in _numbers(outputs)]
        reached = [
            self._made_by.get(number)
            for gradient in _numbers(gradients)
            for number in self._gradient_of.get(gradient, ())
        ]
        for found in (*kept, *reached):
            if found is not None and found.node.op == op and not found.differentiated:
                return found
        taken = _numbers(inputs)
        fitting = (
            known
            for known in reversed(self.ops)
            if known.node.op == op and not known.differentiated and set(taken) <= set(known.takes)
        )
        return next(fitting, None) if taken else None

    def _know_flow(self, forward: EagerOp, gradients: Any) -> None:
        """A gradient that comes out of an op is that of the tensor which went in."""
        forward.differentiated = True
        for taken, gradient in zip(forward.takes, _listed(gradients), strict=False):
            for number in _numbers([gradient]):
                self._gradient_of.setdefault(number, set()).add(taken)

    def _of_sum(self, takes: Sequence[int], gives: Sequence[int]) -> Spot | None:
        """Gradients that meet are added by the tape: for the layer that made their tensor."""
        tensors = set().union(*(self._gradient_of.get(number, set()) for number in takes))
        if not tensors:
            return None
        for number in gives:
            self._gradient_of.setdefault(number, set()).update(tensors)
        makers = (self._made_by.get(number) for number in tensors)
        return (Phase.BACKWARD, next((op.layer for op in makers if op is not None), None))

    # --- Ops ---

    def _op(self, op: str, inputs: Any, attrs: Any, outputs: Any) -> None:
        taken, given = _listed(inputs), _listed(outputs)
        takes = tuple(map(private_eager.tensor_number, taken))
        gives = tuple(map(private_eager.tensor_number, given))
        spot = self._spots[-1] if self._spots else self._of_sum(takes, gives) or _ELSEWHERE
        node = self._node(op, taken, attrs)
        specs = tuple(map(_spec, taken)), tuple(map(_spec, given))
        found = EagerOp(node, *specs, *spot, takes, gives)
        self._made_by.update(dict.fromkeys(gives, found))
        self.ops.append(found)

    def _node(self, op: str, inputs: Sequence[Any], attrs: Any) -> Node:
        kinds = private_eager.attr_kinds(op)
        pairs = zip(attrs[::2], attrs[1::2], strict=True) if attrs else ()
        values = {
            str(name): private_eager.attr_value(kinds.get(str(name), ""), value)
            for name, value in pairs
        }
        constants = {
            place: tensor.numpy() for place, tensor in enumerate(inputs) if _is_constant(tensor)
        }
        return Node(
            f"eager{len(self.ops)}",
            op,
            tuple(self._tensor(tensor) for tensor in inputs),
            {name: value for name, value in values.items() if value is not None},
            constants,
        )

    def _tensor(self, tensor: Any) -> str:
        """``node:port`` of an input, by the op that made it."""
        number = private_eager.tensor_number(tensor)
        maker = self._made_by.get(number)
        return (
            f"given{number}:0"
            if maker is None
            else f"{maker.node.name}:{maker.gives.index(number)}"
        )

    # --- Optimizer ---

    def _settle_optimizer(self) -> None:
        """Layers of the ops of optimizers; what they keep of a variable is known once it is changed."""
        updates = [op for op in self.ops if op.phase is Phase.OPTIMIZER]
        for _ in range(2):
            for op in updates:
                self._settle_by_inputs(op)
        self._settle_by_use(updates)

    def _settle_by_inputs(self, op: EagerOp) -> None:
        owners = {self._owners[number] for number in op.takes if number in self._owners}
        if op.layer is None and len(owners) == 1:
            op.layer = owners.pop()
            handles = (
                number
                for number, spec in zip(op.takes, op.inputs, strict=True)
                if spec is not None and spec.dtype == "resource"
            )
            self._owners.update(dict.fromkeys((*op.gives, *handles), op.layer))

    def _settle_by_use(self, updates: Sequence[EagerOp]) -> None:
        """What takes no gradient and no variable serves the layer whose ops alone use it."""
        used: dict[int, set[int | None]] = {}
        for op in reversed(updates):
            users = set().union(*(used.get(number, set()) for number in op.gives))
            if op.layer is None and len(users) == 1:
                op.layer = users.pop()
            for number in op.takes:
                used.setdefault(number, set()).add(op.layer)


def _listed(value: Any) -> list[Any]:
    """One tensor or several, as a list; iterating a tensor would compute."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _numbers(tensors: Iterable[Any] | None) -> list[int]:
    """Numbers of the tensors that there are; of a sparse gradient its values."""
    found = (private_eager.tensor_number(getattr(t, "values", t)) for t in _listed(tensors))
    return [number for number in found if number >= 0]


def _spec(tensor: Any) -> TensorSpec | None:
    shape, dtype = getattr(tensor, "shape", None), getattr(tensor, "dtype", None)
    if shape is None or dtype is None:
        return None
    return TensorSpec(tuple(shape) if shape.rank is not None else None, str(dtype.name))


def _is_constant(tensor: Any) -> bool:
    dtype = getattr(getattr(tensor, "dtype", None), "name", "")
    shape = getattr(tensor, "shape", None)
    if dtype not in ("int32", "int64") or shape is None or shape.num_elements() is None:
        return False
    return bool(shape.num_elements() <= _LARGEST_CONSTANT)
