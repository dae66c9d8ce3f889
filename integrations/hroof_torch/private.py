"""Every private name of PyTorch that hroof uses, in one place, so that a new version fails here."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, TypeVar

import torch
import torch.autograd.graph
from torch.utils import checkpoint as checkpointing

# The package torch.optim hides the module behind its own names.
_optimizer = importlib.import_module("torch.optim.optimizer")

Function = TypeVar("Function", bound=Callable[..., Any])

RecordRange = torch._C._profiler._RecordFunctionFast
"""A range in the profiler's trace; nearly free when no profiler runs."""

current_graph_task_id = torch._C._current_graph_task_id
"""Number of the running backward pass on this thread, -1 outside one."""

current_autograd_node = torch._C._current_autograd_node
"""The autograd node that runs on this thread, or None."""

sequence_nr = torch._C._autograd._get_sequence_nr
"""This thread's counter of created autograd nodes."""


def node_sequence_nr(node: Any) -> int:
    """Number that a node got from the counter of the thread that made it."""
    return int(node._sequence_nr())


def engine_run_backward() -> Any:
    """The function through which every backward pass goes."""
    return torch.autograd._engine_run_backward


def replace_engine_run_backward(function: Any) -> None:
    """Put another function in its place, wherever it is looked up."""
    torch.autograd._engine_run_backward = function
    torch.autograd.graph._engine_run_backward = function


_NEAR = 14
"""Frames in which a step that calls another one is looked for; the whole stack would cost more."""


@functools.lru_cache(maxsize=256)
def may_nest(kind: type) -> bool:
    """Whether a class of optimizers inherits a step that its own may call."""
    own = [c for c in kind.__mro__ if "step" in vars(c) and c is not torch.optim.Optimizer]
    return len(own) > 1


def within_another_step(optimizer: Any) -> bool:
    """Whether the hook that calls this serves a step that the optimizer took within its own step.

    PyTorch wraps ``step`` once per class, so that a class which calls ``super().step()`` runs the hooks twice.
    """
    kind: Any = type(optimizer)
    if not may_nest(kind):
        return False
    wrappers = []
    frame = sys._getframe(1)
    for _ in range(_NEAR):
        code = frame.f_code
        if code.co_name == "wrapper" and code.co_filename == _optimizer.__file__:
            wrappers.append(frame)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return len(wrappers) > 1 and sum(w.f_locals.get("self") is optimizer for w in wrappers) > 1


def is_last_post_hook(handle: Any) -> bool:
    """Whether a global optimizer post hook is the last of all.

    Only the last may go while the hooks are being called: the dictionary must not change under an iteration
    that goes on.
    """
    return next(reversed(_optimizer._global_optimizer_post_hooks), None) == handle.id


def dynamo_graph_count() -> int:
    """How many graphs torch.compile has made so far in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])


def forget_call_wrapper(wrapper: Any, original: Any) -> None:
    """Tell the compiler what an unpatched module call is, if it noted the wrapper as such at its import."""
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        compiler: Any = sys.modules.get(name)
        if getattr(compiler, "unpatched_nn_module_call", None) is wrapper:
            compiler.unpatched_nn_module_call = original


def is_compiled(module: torch.nn.Module) -> bool:
    """Whether calling this module enters code that torch.compile made."""
    compiled_call = getattr(module, "_compiled_call_impl", None) is not None
    return compiled_call or type(module).__name__ == "OptimizedModule"


MODULE_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
"""Attributes of a module that hold the hooks of its calls, by number."""


@contextlib.contextmanager
def without_global_module_hooks() -> Iterator[None]:
    """No global module hook is called inside."""
    hooks = [getattr(torch.nn.modules.module, f"_global{name}") for name in MODULE_HOOKS]
    before = [dict(of_kind) for of_kind in hooks]
    for of_kind in hooks:
        of_kind.clear()
    try:
        yield
    finally:
        for of_kind, kept in zip(hooks, before, strict=True):
            of_kind.update(kept)


def has_compiled_callables() -> bool:
    """Whether the program made anything that torch.compile compiles when it is first called."""
    if "torch._dynamo" not in sys.modules:
        return False
    return any(_is_compiled_callable(value) for value in gc.get_objects())


def _is_compiled_callable(value: Any) -> bool:
    if type(value) is FunctionType:
        of_function = value.__dict__
        return "_torchdynamo_orig_callable" in of_function and not of_function.get(
            "_torchdynamo_disable"
        )
    return issubclass(type(value), torch.nn.Module) and is_compiled(value)


_frames = torch._C._dynamo.eval_frame


def never_compiled(function: Function) -> Function:
    """Mark a function: torch.compile may inline it, but does not begin a graph with its frame."""
    _frames.set_code_exec_strategy(
        function.__code__,
        _frames._FrameExecStrategy(_frames._FrameAction.SKIP, _frames._FrameAction.DEFAULT),
    )
    return function


def unseen_by_compiler(function: Function) -> Function:
    """Decorate a function: what it calls is not compiled, even where compiled code calls it at a graph break."""
    switch = _frames.set_eval_frame

    @functools.wraps(function)
    def unseen(*args: Any, **kwargs: Any) -> Any:
        before = switch(None)
        try:
            return function(*args, **kwargs)
        finally:
            switch(before)

    never_compiled(unseen)
    return unseen  # type: ignore[return-value]


def left_alone_in_graphs(function: Function) -> Function:
    """Decorate a hook as ``unseen_in_graphs`` does, with nothing to pay at each call.

    What it calls is not compiled either; nothing that it calls may run a program's code.
    """
    skip = _frames._FrameAction.SKIP
    _frames.set_code_exec_strategy(function.__code__, _frames._FrameExecStrategy(skip, skip))
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    return function


def unseen_in_graphs(function: Function) -> Function:
    """Decorate a hook: torch.compile runs it as it is, with a graph break around it, and eager code pays nothing."""
    hook = unseen_by_compiler(function)
    hook._torchdynamo_disable = True  # type: ignore[attr-defined]
    return hook


def has_cuda_events() -> bool:
    """Whether a profiler can be expected to see device kernels."""
    return bool(torch.cuda.is_available())


def foreign_profiler() -> bool:
    """Whether a profiler of the program runs, or has been prepared by a schedule's warm-up."""
    if torch._C._autograd._profiler_enabled():
        return True
    kind = torch.profiler.profile
    warming = torch.profiler.ProfilerAction.WARMUP
    # Instances refer to their class; to walk over all objects in Python would take ten times as long.
    live = (found for found in gc.get_referrers(kind) if type(found) is kind)
    return any(getattr(profiler, "current_action", None) == warming for profiler in live)


def before_profiling(call: Callable[[], None]) -> Callable[[], None]:
    """Let ``call`` run before anybody prepares or starts a profiler; the result takes it back."""
    module = torch.autograd.profiler
    names = ("_prepare_profiler", "_enable_profiler")
    originals = {name: getattr(module, name) for name in names}

    def undo() -> None:
        for name, original in originals.items():
            setattr(module, name, original)

    def wrapped(original: Any) -> Any:
        @functools.wraps(original)
        def begin(*args: Any, **kwargs: Any) -> Any:
            call()
            return original(*args, **kwargs)

        return begin

    for name, original in originals.items():
        setattr(module, name, wrapped(original))
    return undo


def all_threads() -> Any:
    """Options of a profiler that hears every thread, not only the one that starts it; None where unknown."""
    try:
        return torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        return None


Run = Callable[..., Any]


def wrap_recomputations(wrap: Callable[[Run], Run]) -> Callable[[], None]:
    """Put ``wrap`` around what checkpointing will run again, for either way of it; called in forward.

    Returns:
        What puts everything back.
    """
    frame, function = checkpointing._CheckpointFrame, checkpointing.CheckpointFunction
    init, forward = frame.__init__, function.forward

    def new_init(self: Any, recompute_fn: Run, *args: Any, **kwargs: Any) -> None:
        init(self, wrap(recompute_fn), *args, **kwargs)

    def new_forward(ctx: Any, run_function: Run, *args: Any) -> Any:
        outputs = forward(ctx, run_function, *args)
        ctx.run_function = wrap(run_function)
        return outputs

    def restore() -> None:
        frame.__init__, function.forward = init, staticmethod(forward)

    frame.__init__, function.forward = new_init, staticmethod(new_forward)
    return restore
