"""Marks for whoever listens (NVTX): phases process-wide, layers on the thread that runs them."""

from __future__ import annotations

import threading
from typing import Any

from hroof.regions import marks
from hroof.regions.marks import Kind, Mark
from hroof.units import Phase
from hroof_torch.graph import NodeTagger, node_layer, nodes_of
from hroof_torch.layers import LayerMap
from hroof_torch.tracker import Frame, Tracker


class MarkRanges:
    """Turns frames into marks; backward layers come from hooks on the autograd nodes.

    A hook runs in the thread that runs its node, so the layer range is pushed where the kernels are launched.
    """

    def __init__(self, layers: LayerMap, tracker: Tracker) -> None:
        self._layers = layers
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
            frame.marks[2].extend(self._hook_nodes(args[0]))

    def leave(self, frame: Frame, output: Any) -> None:
        """It ends."""
        self._tagger.leave(frame, output)
        if frame.marks is None:
            return
        begun, heard, hooks = frame.marks
        frame.marks = None
        for node_marks in hooks:
            node_marks.remove()
        marks.pop(heard)
        marks.end(begun)

    def _mark(self, layer: int, phase: Phase, recompute: bool = False) -> Mark:
        key = (layer, str(phase), recompute)
        if key not in self._marks:
            if layer >= len(self._names):
                self._names = self._layers.names()
            self._marks[key] = Mark(Kind.LAYER, self._names[layer], str(phase), recompute)
        return self._marks[key]

    def _hook_nodes(self, roots: Any) -> list[NodeMarks]:
        hooked = []
        for node in nodes_of(roots):
            layer = node_layer(node, self._layers)
            if layer is not None:
                hooked.append(NodeMarks(node, self._mark(layer, Phase.BACKWARD)))
        return hooked


class NodeMarks:
    """The range of one autograd node, from just before it runs to just after."""

    def __init__(self, node: Any, mark: Mark) -> None:
        self._mark = mark
        self._open: list[tuple[int, tuple[marks.Listener, ...]]] = []
        self._handles = [node.register_prehook(self._before), node.register_hook(self._after)]

    def _before(self, gradients: Any) -> None:
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
