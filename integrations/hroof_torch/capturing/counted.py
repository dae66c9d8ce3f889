"""The counting step: every op with its work, and where in the program it ran."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hroof.attribution import Counted, Part, Timed
from hroof.launches import LOSS
from hroof.units import Phase
from hroof_torch import private
from hroof_torch.counting import CountedOp, CountingMode
from hroof_torch.profiling.events import is_communication
from hroof_torch.profiling.ranges import keeps_graph
from hroof_torch.tracking.graph import MadeInBackward, NodeTagger, Sums, node_layer
from hroof_torch.tracking.optimizers import OptimizerSplit
from hroof_torch.tracking.tracker import Frame, Tracker


@dataclass(frozen=True, slots=True)
class Where:
    """Where an op ran.

    Attributes:
        phase: None between the phases, until the neighbours are known.
        layer: Number in the layer map.
        recompute: Forward work that checkpointing runs again.
        is_sum: The op adds gradients that meet at the node of ``receiver``.
        receiver: Layer whose node receives that sum.
        parts: Shares of an optimizer op by layer.
        zeroed: Tensors between the phases that were set to zero; they may be gradients.
    """

    phase: Phase | None = None
    layer: int | None = None
    recompute: bool = False
    is_sum: bool = False
    receiver: int | None = None
    parts: tuple[Part, ...] = ()
    zeroed: tuple[weakref.ref[torch.Tensor], ...] = ()


_ZEROES = ("aten::zero_", "aten::_foreach_zero_")


@dataclass(frozen=True, slots=True)
class Pass:
    """A backward pass that runs.

    Attributes:
        sums: Where its gradients meet.
        made: The nodes that it makes, if it builds a graph itself.
    """

    sums: Sums
    made: MadeInBackward | None


class CountingStep:
    """Counts the ops of one step while it runs; an observer of the tracker."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._layers = tracker.layers
        self._tagger = NodeTagger(tracker.layers)
        self._passes: list[Pass] = []
        self._gradients: OptimizerSplit | None = None
        self._stream: list[CountedOp[Where] | str] = []
        self._thread = 0
        self._mode: CountingMode[Where] | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """Ops that a rule could not count, with the reason."""
        return tuple(self._mode.faults) if self._mode is not None else ()

    def start(self) -> None:
        """Begin to count on this thread."""
        self._stream.clear()
        self._thread = threading.get_ident()
        self._mode = CountingMode(record=self._stream.append, where=self.where)
        self._mode.__enter__()

    def forget(self) -> None:
        """What was counted so far belongs to no step."""
        self._stream.clear()

    def stop(self) -> None:
        """Stop counting; safe to call twice."""
        self._find_zeroed()
        if self._mode is not None and self._mode.active:
            if self._thread == threading.get_ident():
                self._mode.__exit__(None, None, None)
            else:  # a mode can only be left by its own thread
                self._mode.retire()
        while self._passes:
            self._passes.pop().sums.forget()

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A module, a backward pass or an optimizer step begins."""
        self._gradients = None
        self._tagger.enter(frame, args, kwargs)
        if frame.phase is Phase.OPTIMIZER:
            frame.notes = OptimizerSplit(frame.optimizer, self._layers)
            self._stream.append("optimizer+")
        elif frame.layer is None:
            frame.notes = Pass(Sums(args[0]), MadeInBackward() if keeps_graph(args) else None)
            self._passes.append(frame.notes)
            self._stream.append("backward+")
        elif frame.outermost and frame.phase is Phase.FORWARD:
            self._stream.append("forward+")

    def leave(self, frame: Frame, output: Any) -> None:
        """It ends."""
        self._gradients = None
        self._tagger.leave(frame, output)
        if frame.phase is Phase.OPTIMIZER:
            self._stream.append("optimizer-")
        elif frame.layer is None:
            self._end_pass(frame.notes, output)
            self._stream.append("backward-")
        elif frame.outermost and frame.phase is Phase.FORWARD:
            self._stream.append("forward-")

    def _end_pass(self, ended: Pass, gradients: Any) -> None:
        ended.sums.forget()
        if ended.made is not None:
            ended.made.tag(gradients)
        if ended in self._passes:
            self._passes.remove(ended)

    def _pass(self) -> Pass | None:
        """The backward pass that this thread runs: its innermost one, on a device thread the latest."""
        for frame in reversed(self._tracker.stack):
            if isinstance(frame.notes, Pass):
                return frame.notes
        return self._passes[-1] if self._passes else None

    def where(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Where:
        """Where the op that is about to run belongs."""
        where = self._where(function, args, kwargs)
        if is_communication(function._schema.name):
            return Where(where.phase)
        return where

    def _where(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Where:
        stack = self._tracker.stack
        top = stack[-1] if stack else None
        if top is not None and top.layer is not None:
            return Where(top.phase, top.layer, top.recompute)
        if top is not None and top.phase is Phase.OPTIMIZER:
            return Where(Phase.OPTIMIZER, parts=top.notes.parts(args, kwargs))
        if private.current_graph_task_id() != -1:
            return self._in_backward(function, args)
        return self._between(function, args, kwargs)

    def _between(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Where:
        """Work between the phases, by layer where it is done on gradients."""
        if function._schema.name in _ZEROES:  # at the start of a step no model is known yet
            tensors = args[0] if isinstance(args[0], list | tuple) else [args[0]]
            return Where(zeroed=tuple(weakref.ref(tensor) for tensor in tensors))
        if self._gradients is None:
            self._gradients = OptimizerSplit(None, self._layers)
        if not self._gradients.touches(args):
            return Where()
        return Where(parts=self._gradients.parts(args, kwargs))

    def _find_zeroed(self) -> None:
        """Give the zeroing of gradients to the layers, now that the models are known."""
        gradients = OptimizerSplit(None, self._layers)
        for index, entry in enumerate(self._stream):
            if isinstance(entry, str) or entry.where is None or not entry.where.zeroed:
                continue
            tensors = [tensor() for tensor in entry.where.zeroed]
            if gradients.touches((tensors,)):
                parts = gradients.parts((tensors,), {})
                where = Where(Phase.OPTIMIZER, parts=parts)
                self._stream[index] = dataclasses.replace(entry, where=where)

    def _in_backward(self, function: Any, args: tuple[Any, ...]) -> Where:
        node = private.current_autograd_node()
        layer = node_layer(node, self._layers)
        if layer is None and node is not None and not hasattr(node, "variable"):
            layer = LOSS
        running = self._pass()
        made = running.made if running is not None else None
        if made is not None:
            made.note(layer)
        recompute = torch.is_grad_enabled() and made is None
        if running is not None and not recompute and _adds_gradients(function, args):
            receiver = running.sums.receiver(node)
            if receiver is not None:
                owner = node_layer(receiver, self._layers)
                return Where(Phase.BACKWARD, layer, False, True, LOSS if owner is None else owner)
        return Where(Phase.BACKWARD, layer, recompute)

    def result(self) -> list[Counted]:
        """The counted ops in order."""
        return list(_settled(self._stream))


def mark_cut_short(timed: Sequence[Timed], counted: Sequence[Counted]) -> None:
    """Take the work from ops that recomputation began but did not run; call it after ``join``.

    Checkpointing stops as soon as the last tensor that is needed has been saved again. The op that saves it
    has begun by then, so the profiler shows it, but it computes nothing.

    Args:
        timed: Ops of one step in order of their start.
        counted: Ops of the counted step.
    """
    known = Counter(_place(op) for op in counted if op.recompute)
    for index, op in enumerate(timed):
        following = timed[index + 1] if index + 1 < len(timed) else None
        last = following is None or not following.recompute
        if op.recompute and last and op.counted is None and op.ordinal >= known[_place(op)]:
            op.composite = True


def _place(op: Timed | Counted) -> tuple[Phase, int | None, str]:
    return (op.phase, op.layer, op.op)


def _adds_gradients(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether an op looks like the engine's sum of two gradients: an add of two tensors of one shape."""
    if function._schema.name not in ("aten::add", "aten::add_") or len(args) != 2:
        return False
    first, second = args
    return isinstance(second, torch.Tensor) and first.shape == second.shape


def gap_phase(before: str, after: str) -> Phase:
    """Phase of work between the phases, by its neighbours.

    After a forward and before a backward it is the loss; after a backward and before an optimizer step it
    serves the optimizer (clipping, unscaling); the rest is other work.
    """
    if before == "forward-" and after == "backward+":
        return Phase.LOSS
    if before == "backward-" and after == "optimizer+":
        return Phase.OPTIMIZER
    return Phase.OTHER


def _settled(stream: Iterable[CountedOp[Where] | str]) -> Iterator[Counted]:
    """Counted ops with the phases of gaps filled in."""
    entries = list(stream)
    following = ""
    after = [""] * len(entries)
    for index in range(len(entries) - 1, -1, -1):
        after[index] = following
        entry = entries[index]
        following = entry if isinstance(entry, str) else following
    before = ""
    for index, entry in enumerate(entries):
        if isinstance(entry, str):
            before = entry
        else:
            yield _counted(entry, gap_phase(before, after[index]))


def _counted(op: CountedOp[Where], gap: Phase) -> Counted:
    where = op.where or Where()
    phase = where.phase or gap
    layer = LOSS if where.layer is None and phase is Phase.LOSS else where.layer
    return Counted(
        phase=phase,
        layer=layer,
        recompute=where.recompute,
        is_sum=where.is_sum,
        op=op.name,
        signature=op.signature,
        work=op.work,
        owner=where.receiver if where.is_sum else layer,
        parts=where.parts if phase is Phase.OPTIMIZER else (),
        template=op.template,
    )
