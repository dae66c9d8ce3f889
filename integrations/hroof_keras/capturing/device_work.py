"""Kernels, copies and fills of a GPU, tied to the ops and instructions that they serve. Not run on a GPU.

Written from the sources of TensorFlow: its profiler gives each piece of device work the node (``tf_op``) or the
instruction (``hlo_op``) that was being executed, and the number of the driver's call that started it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hroof_keras.profiling.events import Event

ON_DEVICE = ("kernel", "memcpy", "memset")


@dataclass
class DeviceWork:
    """The device work of one step.

    Attributes:
        of_ops: By the op that started it.
        of_instructions: By (program, instruction).
        unlinked: Whose op is not known.
    """

    of_ops: dict[Event, list[Event]] = field(default_factory=dict)
    of_instructions: dict[tuple[int | None, str], list[Event]] = field(default_factory=dict)
    unlinked: list[Event] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.of_ops or self.of_instructions or self.unlinked)


def tied(events: Iterable[Event], calls: Mapping[int, int]) -> DeviceWork:
    """Give the device work of a step to its ops.

    Args:
        events: Of the step.
        calls: Starts of the driver's calls by correlation.
    """
    ops: dict[str, list[Event]] = {}
    pieces = []
    for event in events:
        if event.kind in ON_DEVICE:
            pieces.append(event)
        elif event.kind == "op":
            ops.setdefault(f"{event.name}:{event.op}", []).append(event)
    found = DeviceWork()
    for piece in pieces:
        op = _started_by(piece, ops.get(piece.node, ()), calls)
        if piece.instruction:
            key = (piece.hlo_program, piece.instruction)
            found.of_instructions.setdefault(key, []).append(piece)
        elif op is not None:
            found.of_ops.setdefault(op, []).append(piece)
        else:
            found.unlinked.append(piece)
    return found


def _started_by(piece: Event, runs: Sequence[Event], calls: Mapping[int, int]) -> Event | None:
    """The execution of its op that started a piece: the last one that began before the call for it."""
    if not runs:
        return None
    when = calls.get(piece.correlation, piece.start)
    at = bisect_right([run.start for run in runs], when) - 1
    return runs[max(at, 0)]
