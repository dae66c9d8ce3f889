"""Follows a running program: which module, backward pass or optimizer each thread is in.

While attached, ``nn.Module.__call__`` and those of classes that bring their own, the autograd engine's entry and the
optimizers' step hooks (of Keras' optimizers ``apply``) report to observers; detached, the originals are back and
nothing is left. One stack per thread holds modules, backward passes and optimizer steps together, and each leave
unwinds to the depth noted at its enter.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from hroof.units import Phase
from hroof_torch import private
from hroof_torch.tracking import keras_layers
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.own_calls import own_calls, wrap_own_calls

Marker = Literal["forward+", "forward-", "backward+", "backward-", "optimizer+", "optimizer-"]


@dataclass(slots=True, eq=False)
class Frame:
    """One entry of a thread's stack.

    Attributes:
        phase: What runs while the frame is on top.
        layer: Number in the layer map, for a module.
        recompute: A module that runs inside a backward pass.
        compiled: A module whose call enters compiled code; what it calls counts as this layer.
        outermost: A module that no other module called.
        optimizer: The optimizer whose step this is.
        module: The module itself, for an outermost call.
        called: The module itself, for every call.
        observers: Who heard it begin; the same hear it end.
        notes: Of the observer that measures.
        marks: Of the observer that marks.
    """

    phase: Phase
    layer: int | None = None
    recompute: bool = False
    compiled: bool = False
    outermost: bool = False
    optimizer: Any = None
    module: nn.Module | None = None
    called: nn.Module | None = None
    observers: tuple[Observer, ...] = ()
    notes: Any = None
    marks: Any = None


class Observer(Protocol):
    """Somebody who wants to know where the program is."""

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A module, a backward pass (args: its roots) or an optimizer step begins on this thread."""

    def leave(self, frame: Frame, output: Any) -> None:
        """It ends; ``output`` is what a module or a backward pass returned, None after an exception."""


class Tracker:
    """Attaches to PyTorch and tells observers what runs.

    Args:
        layers: Where module calls are.
        hears_steps: Hook the end of optimizer steps itself; otherwise somebody calls ``step_ended``.
    """

    _attached: Tracker | None = None
    _lock = threading.Lock()

    def __init__(self, layers: LayerMap, *, hears_steps: bool = True) -> None:
        self.layers = layers
        self._hears_steps = hears_steps
        self._observers: tuple[Observer, ...] = ()
        self._local = threading.local()
        self._own: tuple[type[nn.Module], ...] = ()
        self._undo: list[Callable[[], None]] = []

    @property
    def stack(self) -> list[Frame]:
        """Frames of this thread, innermost last."""
        try:
            return self._local.stack
        except AttributeError:
            self._local.stack = []
            return self._local.stack

    def attach(self, *observers: Observer) -> None:
        """Report to these observers from now on (replacing others)."""
        self._observers = observers
        with Tracker._lock:
            if Tracker._attached is self:
                return
            if Tracker._attached is not None:
                raise RuntimeError("another hroof tracker is attached")
            Tracker._attached = self
            self._install()

    def detach(self) -> None:
        """Put everything back as it was; safe to call twice."""
        with Tracker._lock:
            self._observers = ()
            if Tracker._attached is not self:
                return
            while self._undo:
                self._undo.pop()()
            Tracker._attached = None

    def _install(self) -> None:
        kinds = own_calls()
        self._own = tuple(kinds)
        module_call = nn.Module.__call__
        engine = private.engine_run_backward()
        wrapper = nn.Module.__call__ = self._module_call(module_call)
        unwrap_own_calls = wrap_own_calls(kinds, self._module_call)
        unwrap_apply = keras_layers.wrap_apply(self._apply)
        private.replace_engine_run_backward(self._engine_call(engine))
        unwrap_recomputations = private.wrap_recomputations(self._recomputation)
        before = register_optimizer_step_pre_hook(self._before_step)
        after = register_optimizer_step_post_hook(self._after_step) if self._hears_steps else None

        def restore() -> None:
            nn.Module.__call__ = module_call
            unwrap_own_calls()
            unwrap_apply()
            private.forget_call_wrapper(wrapper, module_call)
            private.replace_engine_run_backward(engine)
            unwrap_recomputations()
            before.remove()
            if after is not None:
                after.remove()

        self._undo.append(restore)

    def _module_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        is_compiling = torch.compiler.is_compiling

        def __call__(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            if (
                is_compiling()
                or isinstance(module, torch.fx.GraphModule)
                or (isinstance(module, self._own) and self._passes_by(module, args, kwargs))
            ):
                return original(module, *args, **kwargs)
            frame = self._module_frame(module)
            depth = self._enter(frame, args, kwargs)
            output = None
            try:
                output = original(module, *args, **kwargs)
                return output
            finally:
                self._leave(depth, output)

        return private.never_compiled(__call__)

    @private.unseen_by_compiler
    def _passes_by(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call of a module with its own ``__call__`` is part of one that is known, or computes nothing."""
        stack = self.stack
        inside = bool(stack) and stack[-1].called is module
        return inside or (keras_layers.is_layer(module) and keras_layers.is_symbolic(args, kwargs))

    @private.unseen_by_compiler
    def _module_frame(self, module: nn.Module) -> Frame:
        stack = self.stack
        top = next((frame for frame in reversed(stack) if frame.layer is not None), None)
        if top is not None and top.compiled:
            return Frame(top.phase, top.layer, top.recompute, True, called=module)
        layer = self.layers.at(module, top.layer if top else None)
        recompute = bool(stack and stack[-1].phase is Phase.BACKWARD) or _in_backward()
        phase = (
            Phase.BACKWARD
            if recompute
            else Phase.LOSS
            if self.layers.is_loss(layer)
            else Phase.FORWARD
        )
        compiled = private.is_compiled(module)
        outermost = module if top is None else None
        return Frame(
            phase, layer, recompute, compiled, top is None, module=outermost, called=module
        )

    def _recomputation(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """What checkpointing runs again, inside the layer that asked for it in forward."""
        top = next((frame for frame in reversed(self.stack) if frame.layer is not None), None)
        if top is None or top.compiled or torch.compiler.is_compiling():
            return run

        def recompute(*args: Any, **kwargs: Any) -> Any:
            if Tracker._attached is not self:
                return run(*args, **kwargs)
            depth = self._enter(Frame(Phase.BACKWARD, top.layer, recompute=True), args, kwargs)
            output = None
            try:
                output = run(*args, **kwargs)
                return output
            finally:
                self._leave(depth, output)

        return recompute

    def _engine_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _engine_run_backward(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
            depth = self._enter(Frame(Phase.BACKWARD), (t_outputs, *args), kwargs)
            gradients = None
            try:
                gradients = original(t_outputs, *args, **kwargs)
                return gradients
            finally:
                self._leave(depth, gradients)

        return private.never_compiled(_engine_run_backward)

    def _apply(self, original: Callable[..., Any]) -> Callable[..., Any]:
        is_compiling = torch.compiler.is_compiling

        def apply(optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(optimizer, *args, **kwargs)
            view = keras_layers.view_of(optimizer)
            depth = self._enter(Frame(Phase.OPTIMIZER, optimizer=view), (), {})
            try:
                return original(optimizer, *args, **kwargs)
            finally:
                self._leave(depth, None)

        return private.never_compiled(apply)

    @private.unseen_in_graphs
    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if private.within_another_step(optimizer):
            return
        self.step_ended(optimizer)  # its last step, if that raised: nobody told of its end
        self._enter(Frame(Phase.OPTIMIZER, optimizer=optimizer), (), {})

    @private.unseen_in_graphs
    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not private.within_another_step(optimizer):
            self.step_ended(optimizer)

    def step_ended(self, optimizer: Any) -> None:
        """The step of an optimizer ends."""
        stack = self.stack
        for depth in range(len(stack) - 1, -1, -1):
            if stack[depth].optimizer is optimizer:
                self._leave(depth, None)
                return

    @private.unseen_by_compiler
    def _enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        stack = self.stack
        depth = len(stack)
        stack.append(frame)
        frame.observers = self._observers
        for observer in frame.observers:
            observer.enter(frame, args, kwargs)
        return depth

    @private.unseen_by_compiler
    def _leave(self, depth: int, output: Any) -> None:
        """Unwind to ``depth``: frames that an exception left open above it end too."""
        stack = self.stack
        while len(stack) > depth:
            frame = stack[-1]
            result = output if len(stack) == depth + 1 else None
            for observer in frame.observers:
                observer.leave(frame, result)
            stack.pop()


def _detach_in_child() -> None:
    """A forked child (a data worker) is followed by nobody."""
    Tracker._lock = threading.Lock()
    if Tracker._attached is not None:
        Tracker._attached.detach()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_in_child)


def _in_backward() -> bool:
    return bool(private.current_graph_task_id() != -1)
