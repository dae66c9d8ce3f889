"""Counting where compiled code runs: the step is replayed beside the run, on fake tensors.

A dispatch mode would make a compiled module run its eager ops, so none is active while the program computes.
Instead each call of a model is repeated on tensors without data: forward, and backward from its outputs. No
gradient, buffer or random state is touched. What the program computes outside its models is counted from
the shapes that the profiler records.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from hroof.attribution import Counted, Timed
from hroof.units import Phase
from hroof_torch.counted import CountingStep
from hroof_torch.counting import Work
from hroof_torch.graph import tensors_of
from hroof_torch.layers import unwrap
from hroof_torch.rows import COMPILED_OP
from hroof_torch.tracker import Frame, Tracker


class CompiledStep:
    """Replays every outermost model call of one step; an observer of the tracker."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._counting = CountingStep(tracker)
        self._replaying = False
        self._problems: list[str] = []
        self._counted: list[Counted] = []

    def start(self) -> None:
        """Begin a step."""
        self._counted = []
        self._problems = []

    def stop(self) -> None:
        """End the step."""

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep the arguments of an outermost call until it returns."""
        if self._replaying:
            self._counting.enter(frame, args, kwargs)
        elif _is_model_call(frame):
            frame.notes = (args, kwargs)

    def leave(self, frame: Frame, output: Any) -> None:
        """Replay an outermost call that returned."""
        if self._replaying:
            self._counting.leave(frame, output)
        elif _is_model_call(frame) and frame.notes is not None:
            (args, kwargs), frame.notes = frame.notes, None
            if output is not None and frame.module is not None:
                self._replay(frame.module, args, kwargs)

    def _replay(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._replaying = True
        try:
            with _untouched(module), torch.compiler.set_stance("force_eager"):
                self._counted += self._run(unwrap(module), args, kwargs)
        except Exception as error:  # the program must go on; the report says what is missing
            self._problems.append(f"{type(error).__name__}: {error}".splitlines()[0])
        finally:
            self._replaying = False
            self._tracker.layers.forget_aliases()

    def _run(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[Counted]:
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        state = {name: self._fake(fake, tensor) for name, tensor in _state(module)}
        inputs = pytree.tree_map_only(torch.Tensor, fake.from_tensor, (args, kwargs))
        with fake:
            self._counting.start()
            try:
                output = torch.func.functional_call(module, state, *inputs)
                roots = [tensor for tensor in tensors_of(output) if tensor.requires_grad]
                if roots and torch.is_grad_enabled():
                    torch.autograd.backward(roots, [torch.empty_like(root) for root in roots])
            finally:
                self._counting.stop()
        return self._counting.result()

    def _fake(self, fake: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
        copy = fake.from_tensor(tensor)
        self._tracker.layers.alias(copy, tensor)
        return copy

    def result(self) -> list[Counted]:
        """The counted ops in order."""
        return self._counted

    def warnings(self) -> list[str]:
        """What the reader should know."""
        found = [
            "Compiled code ran: its FLOP are those of the uncompiled ops, its bytes at least what must be read; "
            "traffic below L1 is not predicted."
        ]
        return found + [
            f"A model call could not be replayed for counting: {problem}."
            for problem in self._problems
        ]


def _is_model_call(frame: Frame) -> bool:
    return frame.outermost and frame.phase is Phase.FORWARD


def _state(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(remove_duplicate=True)
    yield from module.named_buffers(remove_duplicate=True)


@contextlib.contextmanager
def _untouched(module: nn.Module) -> Iterator[None]:
    """Put back random states and plain attributes of modules that a replay may change."""
    before = [(part, dict(vars(part))) for part in module.modules()]
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        for part, attributes in before:
            vars(part).clear()
            vars(part).update(attributes)
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)


def fold_regions(ops: Sequence[Timed], counted: Sequence[Counted]) -> list[Counted]:
    """Give each compiled region of one step the work of the ops that it replaced.

    Several regions of one layer and phase share the work in proportion to their time.

    Returns:
        The counted ops that no region stands for.
    """
    regions: dict[tuple[Phase, int | None], list[Timed]] = {}
    for op in ops:
        if op.op == COMPILED_OP:
            regions.setdefault((op.phase, op.layer), []).append(op)
    for (phase, layer), rows in regions.items():
        inside = [op for op in counted if (op.phase, op.layer) == (phase, layer)]
        if inside:
            _share(rows, inside)
    return [op for op in counted if (op.phase, op.layer) not in regions]


def _share(rows: list[Timed], inside: list[Counted]) -> None:
    work = fused_work([op.work for op in inside])
    total = sum(row.duration for row in rows)
    for row in rows:
        share = row.duration / total if total else 1 / len(rows)
        row.counted = Counted(
            row.phase,
            row.layer,
            row.recompute,
            False,
            row.op,
            row.signature,
            work.scaled(share),
            row.layer,
        )


def fused_work(works: Sequence[Work]) -> Work:
    """Work of a region from that of its ops: FLOP add up, bytes are those that must be read from outside."""
    known: set[int] = set()
    outside = 0.0
    for work in works:
        for access in work.touch.accesses:
            if access.buffer not in known and access.read:
                outside += access.nbytes
            known.add(access.buffer)
    merged = Work.total(works)
    return dataclasses.replace(merged, bytes_read=outside, bytes_written=0.0)
