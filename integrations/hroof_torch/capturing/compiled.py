"""Counting where compiled code runs: the step is replayed beside the run, on fake tensors.

A dispatch mode would make a compiled module run its eager ops, so none is active while the program computes.
Instead each call of a model is repeated on tensors without data when it returns, and its backward pass when the
program's own begins, from those outputs that it reaches. No gradient, buffer or random state is touched.
What the program computes outside its models is counted from the shapes that the profiler records.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from hroof.attribution import Counted
from hroof.units import Phase
from hroof_torch import private
from hroof_torch.capturing.counted import CountingStep
from hroof_torch.capturing.standins import gradients_kept, stood_in
from hroof_torch.tracking import keras_layers
from hroof_torch.tracking.graph import edges_of, tensors_of
from hroof_torch.tracking.layers import unwrap, walk
from hroof_torch.tracking.tracker import Frame, Tracker

_CALLS = "hroof calls"


@dataclass(eq=False)
class Call:
    """One replayed call of a model.

    Attributes:
        module: The model inside its wrappers.
        fake: The mode that its stand-ins belong to.
        doubles: Stand-ins by the identity of the tensors that they stand for.
        first: Number of the first autograd node that the replay made.
        outputs: What the replay returned, in the order of the program's outputs.
    """

    module: nn.Module
    fake: FakeTensorMode
    doubles: dict[int, tuple[torch.Tensor, torch.Tensor]]
    first: int
    outputs: list[torch.Tensor]


class CompiledStep:
    """Replays every outermost module call of one step; an observer of the tracker.

    As where a step is counted live, only calls of the thread that begins the step are followed, and the backward
    passes that reach them, whoever starts those. Models in other threads are left alone.
    """

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._counting = CountingStep(tracker)
        self._home = 0
        self._replaying: int | None = None  # the thread that replays now
        self._one_at_a_time = threading.Lock()
        self._problems: dict[str, None] = {}
        self._calls: list[Call] = []
        self.runs: list[list[Counted]] = []

    def start(self) -> None:
        """Begin a step."""
        self.runs = []
        self._calls = []
        self._problems = {}
        self._home = threading.get_ident()

    def stop(self) -> None:
        """End the step: the stand-ins are not needed any more."""
        self._calls = []

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep the arguments of an outermost call; replay the backward passes that one reaches."""
        here = threading.get_ident()
        if self._replaying == here:
            self._counting.enter(frame, args, kwargs)
        elif _is_model_call(frame):
            frame.notes = (args, kwargs) if here == self._home else None
        elif frame.phase is Phase.BACKWARD and frame.layer is None:
            self._replay_backward(args[0])

    def leave(self, frame: Frame, output: Any) -> None:
        """Replay an outermost call that returned."""
        if self._replaying == threading.get_ident():
            self._counting.leave(frame, output)
        elif _is_model_call(frame) and frame.notes is not None:
            (args, kwargs), frame.notes = frame.notes, None
            if output is not None and frame.module is not None and self._may_replay():
                with self._replay(frame.module):
                    self._replay_forward(unwrap(frame.module), args, kwargs, output)

    def _may_replay(self) -> bool:
        """Whether no other thread replays now; then ``_replay`` follows. To wait might never end."""
        if self._one_at_a_time.acquire(blocking=False):
            return True
        self._problems.setdefault("two threads worked at the same time")
        return False

    @contextlib.contextmanager
    def _replay(self, module: nn.Module) -> Iterator[None]:
        """The program goes on whatever happens here; the report says what is missing."""
        self._replaying = threading.get_ident()
        try:
            with torch.compiler.set_stance("force_eager"):
                yield
        except Exception as error:
            reason = f"{type(unwrap(module)).__name__}: {type(error).__name__}: {error}"
            self._problems.setdefault(reason.splitlines()[0])
        finally:
            self._replaying = None
            self._one_at_a_time.release()
            self._tracker.layers.forget_aliases()

    def _replay_forward(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        if any(keras_layers.is_layer(part) for part, _ in walk(module)):
            raise RuntimeError("variables of Keras cannot be replaced by stand-ins")
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        call = Call(module, fake, {}, private.sequence_nr(), [])
        with self._counted(call):
            inputs = pytree.tree_map_only(torch.Tensor, self._input(call), (args, kwargs))
            result = self._count(lambda: module(*inputs[0], **inputs[1]))
        call.outputs = list(tensors_of(result))
        self._remember(call, list(tensors_of(output)))

    def _remember(self, call: Call, outputs: list[torch.Tensor]) -> None:
        """Write into the nodes of the program's outputs which replayed output belongs to them."""
        if len(outputs) != len(call.outputs):
            raise RuntimeError("replayed, it returns another number of tensors")
        number = len(self._calls)
        self._calls.append(call)
        for index, tensor in enumerate(outputs):
            if tensor.grad_fn is not None:
                known = tensor.grad_fn.metadata.setdefault(_CALLS, {})
                known.setdefault(tensor.output_nr, []).append((id(call), number, index))

    def _replay_backward(self, roots: Any) -> None:
        reached: dict[int, list[int]] = {}
        for node, output in edges_of(roots):
            for identity, number, index in node.metadata.get(_CALLS, {}).get(output, ()):
                if number < len(self._calls) and id(self._calls[number]) == identity:
                    reached.setdefault(number, []).append(index)
        for number in sorted(reached, reverse=True):
            call = self._calls[number]
            if self._may_replay():
                with self._replay(call.module), _no_autocast():
                    self._backward(call, [call.outputs[i] for i in sorted(reached[number])])

    def _backward(self, call: Call, outputs: list[torch.Tensor]) -> None:
        roots = [tensor for tensor in outputs if tensor.requires_grad]
        with call.fake:
            gradients = [torch.empty_like(root) for root in roots]
        with self._counted(call), gradients_kept(roots, call.first, FakeTensor):
            self._count(lambda: torch.autograd.backward(roots, gradients, retain_graph=True))

    @contextlib.contextmanager
    def _counted(self, call: Call) -> Iterator[None]:
        with stood_in(call.module, self._double(call)), call.fake:
            yield

    def _count(self, run: Any) -> Any:
        self._counting.start()
        try:
            return run()
        finally:
            self._counting.stop()
            self.runs.append(self._counting.result())

    def _double(self, call: Call) -> Any:
        """Gives stand-ins: the same one for the same tensor, and the layer of a parameter to its own."""

        def double(tensor: torch.Tensor) -> torch.Tensor:
            known = call.doubles.get(id(tensor))
            if known is None:
                # The tensor itself is kept, so that its identity is not given to another one.
                known = call.doubles[id(tensor)] = (tensor, _without_data(call.fake, tensor))
            self._tracker.layers.alias(known[1], tensor)
            return known[1]

        return double

    def _input(self, call: Call) -> Any:
        """Gives stand-ins of inputs, which are not kept beyond the call."""
        own: dict[int, torch.Tensor] = {}

        def double(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) in call.doubles:
                return call.doubles[id(tensor)][1]
            if id(tensor) not in own:
                own[id(tensor)] = _without_data(call.fake, tensor)
            return own[id(tensor)]

        return double

    def result(self) -> list[Counted]:
        """The counted ops in order."""
        return [op for run in self.runs for op in run]

    def warnings(self) -> list[str]:
        """What the reader should know."""
        found = [
            "Compiled code ran: its FLOP are those of the uncompiled ops, its bytes at least what must be read and "
            "written; traffic below L1 is not predicted."
        ]
        found += [f"An op could not be counted: {fault}." for fault in self._counting.faults]
        return found + [
            f"A model call could not be replayed for counting ({problem})."
            for problem in self._problems
        ]


def _without_data(fake: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """A stand-in; that of a computed tensor is computed too, but hangs on nothing of the program."""
    if tensor.is_leaf:
        return fake.from_tensor(tensor)
    return fake.from_tensor(tensor.detach()).requires_grad_(tensor.requires_grad).clone()


def _is_model_call(frame: Frame) -> bool:
    return frame.outermost and frame.phase in (Phase.FORWARD, Phase.LOSS)


@contextlib.contextmanager
def _no_autocast() -> Iterator[None]:
    """The program's backward pass begins outside autocast, or belongs there."""
    with torch.autocast("cpu", enabled=False):
        if torch.cuda.is_available():
            with torch.autocast("cuda", enabled=False):
                yield
        else:
            yield
