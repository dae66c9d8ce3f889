"""Ranges in the profiler's trace: the layer, backward pass or optimizer step that an op runs in."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from hroof.units import Phase
from hroof_torch import private
from hroof_torch.tracking.tracker import Frame

PREFIX = "hroof:"
STEP = f"{PREFIX}step"
BEGIN, END = f"{PREFIX}begin", f"{PREFIX}end"


@dataclass(frozen=True, slots=True)
class Range:
    """What the name of a range says.

    Attributes:
        kind: ``layer``, ``backward``, ``optimizer``, ``step``, or ``begin`` and ``end`` of what is a step's.
        layer: Number in the layer map.
        recompute: Forward work that runs inside a backward pass.
        outermost: A module that no other module called.
        loss: The module belongs to the loss.
        keeps_graph: A backward pass that builds a graph itself (``create_graph``).
    """

    kind: str
    layer: int | None = None
    recompute: bool = False
    outermost: bool = False
    loss: bool = False
    keeps_graph: bool = False


def name_of(frame: Frame, *, keeps_graph: bool = False) -> str:
    """Name of the range of a frame; ``read`` is its inverse."""
    if frame.layer is not None:
        flags = (
            ("r" * frame.recompute) + ("o" * frame.outermost) + ("l" * (frame.phase is Phase.LOSS))
        )
        return f"{PREFIX}layer:{frame.layer}:{flags}"
    return f"{PREFIX}{frame.phase}:{'g' if keeps_graph else ''}"


def read(name: str) -> Range | None:
    """What a range's name says; None for a name of somebody else."""
    if not name.startswith(PREFIX):
        return None
    kind, _, rest = name.removeprefix(PREFIX).partition(":")
    if kind != "layer":
        return Range(kind, keeps_graph="g" in rest)
    number, _, flags = rest.partition(":")
    return Range("layer", int(number), "r" in flags, "o" in flags, "l" in flags)


def mark(name: str) -> None:
    """Leave a mark in the trace: ``STEP`` where one step ends and the next begins.

    ``BEGIN`` and ``END`` stand between two of them where work in between belongs to no step.
    """
    with private.RecordRange(name):
        pass


def keeps_graph(args: tuple[Any, ...]) -> bool:
    """Whether a backward pass was asked to build a graph: args are (roots, gradients, keep, create, ...)."""
    return bool(args[3]) if len(args) > 3 else False


class TraceRanges:
    """Opens a range in the trace for every frame that begins while the profiler runs.

    Attributes:
        running: The profiler has started and has not been asked to stop. A range that was entered outside a
            session must not be left inside one.
    """

    def __init__(self) -> None:
        self.running = False

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Open the frame's range."""
        if not self.running:
            return
        graph = frame.phase is Phase.BACKWARD and frame.layer is None and keeps_graph(args)
        frame.notes = private.RecordRange(name_of(frame, keeps_graph=graph))
        frame.notes.__enter__()

    def leave(self, frame: Frame, output: Any) -> None:
        """Close it."""
        opened, frame.notes = frame.notes, None
        if opened is not None:
            try:
                opened.__exit__(None, None, None)
            except (
                RuntimeError
            ):  # the session changed on this thread meanwhile; the program must not notice
                logging.getLogger("hroof").debug("a range was left outside its session")
