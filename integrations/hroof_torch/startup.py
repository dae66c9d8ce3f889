"""Watches a program that ``hroof run`` started, and gives it a region where it opens none itself."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
from torch import nn

from hroof.integration import Stage
from hroof.regions import Region, marks_only, when_opening
from hroof.report import say

# The package torch.optim hides the module behind its own names.
_optimizer = importlib.import_module("torch.optim.optimizer")


def watch_program(begin: Callable[[], object]) -> None:
    """Give the program a region of its first training steps, or of its first model calls.

    The region opens at the first optimizer step, which counts as skipped. Until then each call of
    the first model counts as a step of an inference region; an optimizer step drops that one. As
    soon as the program opens a region itself, what was opened here is dropped.

    Args:
        begin: Makes the region (``hroof.regions.Region``), not yet entered.
    """
    Watch(begin).start()


class Watch:
    """Waits for the first model call and the first optimizer step.

    While it waits, ``nn.Module.__call__`` is wrapped. The wrapper stays outside of what a capture
    puts there: it steps aside whenever the region's stage may change, and comes back on top.
    """

    def __init__(self, begin: Callable[[], object]) -> None:
        self._begin = begin
        self._region: Region | None = None
        self._model: weakref.ref[nn.Module] | None = None
        self._original = nn.Module.__call__
        self._below: Callable[..., Any] = self._original
        self._call = self._wrapper()
        self._step_hook: Any = None
        self._training = False
        self._calls_over = False
        self._over = False

    def start(self) -> None:
        """Begin to watch."""
        nn.Module.__call__ = self._call
        self._step_hook = _optimizer.register_optimizer_step_pre_hook(self._before_step)
        when_opening(self._program_opens)
        os.register_at_fork(after_in_child=self._in_child)

    # --- calls of the model -----------------------------------------------------------------------

    def _wrapper(self) -> Callable[..., Any]:
        is_compiling, original = torch.compiler.is_compiling, self._original
        thread = threading.local()

        def __call__(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(module, *args, **kwargs)
            if self._calls_over or getattr(thread, "inside", False):
                return self._below(module, *args, **kwargs)
            thread.inside = True
            try:
                self._before_call(module)
                output = self._below(module, *args, **kwargs)
                self._after_call(module)
                return output
            finally:
                thread.inside = False

        _look_through(__call__.__code__)
        return __call__

    def _before_call(self, module: nn.Module) -> None:
        with self._guarded():
            if self._model is None and next(module.parameters(), None) is not None:
                self._model = weakref.ref(module)
            if self._training:
                self._train(first_step_over=True)
            elif nn.Module.__call__ is not self._call:
                self._end_calls()  # somebody else has wrapped it: optimizer steps still tell
            elif self._region is None and self._is_model(module):
                with self._aside():
                    self._open(self._make_for_calls())

    def _after_call(self, module: nn.Module) -> None:
        region = self._region
        if region is None or self._calls_over or self._training or not self._is_model(module):
            return
        with self._guarded():
            with self._aside():
                region.boundary()
            if region.stage is Stage.DONE:
                self._end_calls()

    def _is_model(self, module: nn.Module) -> bool:
        """Other models (a decoder, a discriminator) run within the step of the first one."""
        return self._model is not None and self._model() is module and not _only_trains(module)

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """Take the wrapper off, and put it back on top of whatever is there then."""
        nn.Module.__call__ = self._below
        try:
            yield
        finally:
            if not self._calls_over:
                self._below = nn.Module.__call__
                nn.Module.__call__ = self._call
                self._hook_last()

    def _hook_last(self) -> None:
        """Keep the step hook the last one: only the last may change hooks while they are called."""
        if self._step_hook is not None and not self._is_last_hook():
            self._step_hook.remove()
            self._step_hook = _optimizer.register_optimizer_step_pre_hook(self._before_step)

    def _is_last_hook(self) -> bool:
        return bool(
            next(reversed(_optimizer._global_optimizer_pre_hooks), None) == self._step_hook.id
        )

    def _end_calls(self) -> None:
        """Count calls no longer; safe to call twice."""
        self._calls_over = True
        if nn.Module.__call__ is self._call:
            nn.Module.__call__ = self._below
        self._below = self._original
        for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
            # It notes at its import what an unpatched call is, and that may have been the wrapper.
            dynamo: Any = sys.modules.get(name)
            if getattr(dynamo, "unpatched_nn_module_call", None) is self._call:
                dynamo.unpatched_nn_module_call = self._original

    # --- optimizer steps --------------------------------------------------------------------------

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._over or self._training:
            return
        with self._guarded():
            capturing = self._region is not None and self._region.stage in (Stage.COUNT, Stage.TIME)
            if capturing and not self._is_last_hook():
                self._training = True  # a capture takes hooks away: the next model call does it
            else:
                self._train(first_step_over=False)

    def _train(self, *, first_step_over: bool) -> None:
        """From inference, if any was seen, to training."""
        self._training = self._over = True
        self._drop()
        self._end_calls()
        if first_step_over or self._is_last_hook():
            self._unhook()
        region = self._make()
        region.skip = max(region.skip, 1)
        region.finished_steps = int(first_step_over)
        self._open(region)

    # --- the region -------------------------------------------------------------------------------

    def _make(self) -> Region:
        region = self._begin()
        assert isinstance(region, Region)
        return region

    def _make_for_calls(self) -> Region:
        """A region of inference; where it may be dropped, its marks must not be those of the training after it."""
        region = self._make()
        if marks_only():
            region.name = f"{region.name} (inference)"
        return region

    def _open(self, region: Region) -> None:
        self._region = region
        region.__enter__()

    def _drop(self) -> None:
        region, self._region = self._region, None
        if region is not None:
            region.drop()

    def _program_opens(self, region: Region) -> None:
        """The program marks itself: its own region is the one that counts."""
        if region is self._region or (self._over and self._region is None):
            return
        with self._guarded():
            self._retire()

    def _retire(self) -> None:
        self._over = True
        self._drop()
        self._end_calls()
        self._unhook()

    def _unhook(self) -> None:
        hook, self._step_hook = self._step_hook, None
        if hook is not None:
            hook.remove()

    def _in_child(self) -> None:
        """A forked child does not measure; it may not take a lock that another thread had."""
        self._over = self._calls_over = self._training = True
        self._below = self._original
        region, self._region = self._region, None
        if region is not None:
            region.abandon()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """A fault of hroof never reaches the program; it ends the watching, with one line."""
        try:
            yield
        except Exception as error:
            self._over = self._calls_over = True
            say(f"hroof: watching the program failed ({error!r}); it goes on unmeasured.")


def _only_trains(module: nn.Module) -> bool:
    """Whether a call is part of a training step and must not be marked as inference.

    Gradients may be accumulated over many calls before the first optimizer step. What a tool outside has captured of
    them could not be taken back when that step comes.
    """
    return marks_only() and module.training and torch.is_grad_enabled()


def _look_through(code: CodeType) -> None:
    """Let torch.compile skip this frame and take up the model's own below it, as without hroof."""
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip, default = frames._FrameAction.SKIP, frames._FrameAction.DEFAULT
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, default))
    else:  # PyTorch 2.6
        frames.skip_code(code)
