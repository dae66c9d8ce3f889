"""Marks for whoever listens (NVTX): phases process-wide, layers on the thread that runs them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hroof.launches import LOSS_NAME
from hroof.regions import marks
from hroof.regions.marks import Kind, Mark
from hroof.units import Phase
from hroof_torch.profiling.ranges import keeps_graph
from hroof_torch.tracking.graph import NodeTagger, Sums, node_layer, nodes_of
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.tracker import Frame, Tracker

_LOSS = Mark(Kind.LAYER, LOSS_NAME, str(Phase.BACKWARD))


class MarkRanges:
    """Turns frames into marks; backward layers come from hooks on the autograd nodes.

    A hook runs in the thread that runs its node, so the layer range is pushed where the kernels are launched.

    Args:
        layers: Where module calls are.
        tracker: Gives the frames.
        whole: In backward also mark what is no layer's own function: a loss that no module computed, and the sums
            of gradients that meet, which belong to the layer that receives them. It takes a hook on every node.
    """

    def __init__(self, layers: LayerMap, tracker: Tracker, *, whole: bool = False) -> None:
        self._layers = layers
        self._whole = whole
        self._graphs = False
        self._sums = OpenSums()
        self._tagger = NodeTagger(layers)
        self._names: list[str] = []
        self._marks: dict[tuple[int, str, bool], Mark] = {}

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A module, a backward pass or an optimizer step begins."""
        self._tagger.enter(frame, args, kwargs)
        if frame.layer is not None:
            begun = (
                marks.start(Mark(Kind.PHASE, str(frame.phase)))
                if frame.outermost and not frame.recompute
                else ()
            )
            heard = marks.push(self._mark(frame.layer, frame.phase, frame.recompute))
            frame.marks = (begun, heard, [])
            return
        frame.marks = (marks.start(Mark(Kind.PHASE, str(frame.phase))), (), [])
        if frame.phase is Phase.BACKWARD:
            self._graphs = self._graphs or keeps_graph(args)
            frame.marks[2].extend(self._hook_nodes(args[0]))

    def leave(self, frame: Frame, output: Any) -> None:
        """It ends."""
        self._tagger.leave(frame, output)
        if frame.marks is None:
            return
        begun, heard, hooks = frame.marks
        frame.marks = None
        for let_go in hooks:
            let_go()
        if hooks:
            self._sums.end()
        marks.pop(heard)
        marks.end(begun)

    def _mark(self, layer: int, phase: Phase, recompute: bool = False) -> Mark:
        key = (layer, str(phase), recompute)
        if key not in self._marks:
            if layer >= len(self._names):
                self._names = self._layers.names()
            self._marks[key] = Mark(Kind.LAYER, self._names[layer], str(phase), recompute)
        return self._marks[key]

    def _hook_nodes(self, roots: Any) -> list[Callable[[], None]]:
        """Mark the nodes that the pass can reach, and say how to let go of them."""
        if not self._whole:
            marked = [(node, self._mark_of(node)) for node in nodes_of(roots)]
            return [NodeMarks(node, mark).remove for node, mark in marked if mark is not None]
        sums = Sums(roots)  # first: it has to hear of the end of a node before its marks do
        removes = [
            WholeNodeMarks(
                node, self._mark_of(node), self._receivers(node, sums), self._sums
            ).remove
            for node in nodes_of(roots)
        ]
        return [*removes, sums.forget]

    def _mark_of(self, node: Any) -> Mark | None:
        """The mark of a node's layer; None where it is not known.

        A node that no module made belongs to the loss, unless it may come from a backward pass.
        """
        layer = node_layer(node, self._layers)
        if layer is not None:
            return self._mark(layer, Phase.BACKWARD)
        of_loss = self._whole and not self._graphs and not hasattr(node, "variable")
        return _LOSS if of_loss else None

    def _receivers(self, node: Any, sums: Sums) -> Callable[[], Mark | None]:
        """Whose sums follow a node that has just run: the one layer's, or None."""

        def receivers() -> Mark | None:
            found = {
                self._mark_of(receiver) for receiver in iter(lambda: sums.receiver(node), None)
            }
            return found.pop() if len(found) == 1 else None

        return receivers


class NodeMarks:
    """The range of one autograd node, from just before it runs to just after."""

    def __init__(self, node: Any, mark: Mark | None) -> None:
        self._mark = mark
        self._open: list[tuple[int, tuple[marks.Listener, ...]]] = []
        self._handles = [node.register_prehook(self._before), node.register_hook(self._after)]

    def _before(self, gradients: Any) -> None:
        if self._mark is not None:
            self._open.append((threading.get_ident(), marks.push(self._mark)))

    def _after(self, inputs: Any, outputs: Any) -> None:
        if self._open:
            marks.pop(self._open.pop()[1])

    def remove(self) -> None:
        """Take the hooks away, and end a range that an exception left open on this thread."""
        for handle in self._handles:
            handle.remove()
        while self._open:
            thread, heard = self._open.pop()
            if thread == threading.get_ident():
                marks.pop(heard)


class WholeNodeMarks(NodeMarks):
    """The range of one autograd node, and after it that of the sums which its gradients become part of."""

    def __init__(
        self,
        node: Any,
        mark: Mark | None,
        receiver: Callable[[], Mark | None],
        sums: OpenSums,
    ) -> None:
        super().__init__(node, mark)
        self._receiver = receiver
        self._sums = sums

    def _before(self, gradients: Any) -> None:
        self._sums.end()
        super()._before(gradients)

    def _after(self, inputs: Any, outputs: Any) -> None:
        super()._after(inputs, outputs)
        self._sums.begin(self._receiver())


class OpenSums:
    """Ranges of sums of gradients, at most one per thread: each lasts until the thread's next node begins."""

    def __init__(self) -> None:
        self._open = threading.local()

    def begin(self, mark: Mark | None) -> None:
        """The engine adds gradients now, on this thread, for the layer of a mark."""
        if mark is not None:
            self._open.heard = marks.push(mark)

    def end(self) -> None:
        """It is done on this thread."""
        heard = getattr(self._open, "heard", ())
        self._open.heard = ()
        marks.pop(heard)
