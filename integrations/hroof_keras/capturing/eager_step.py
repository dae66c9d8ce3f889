"""Eager ops of a profile → what they serve and what they have to compute, by the order of a step that was followed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from hroof.attribution import Counted
from hroof.launches import Work
from hroof.units import Phase, Source
from hroof_keras.capturing.eager_watch import EagerOp
from hroof_keras.counting import Buffers, work_of
from hroof_keras.profiling.events import Event

CONSTANT = "_EagerConst"
"""Keeps a number that Python gave; it is no op of the program's, and not followed."""

_FOLLOWED = (
    "Eager ops have no graph: layers and work were noted in one step and are taken over in the order of its ops, work "
    "only where a step got the same shapes"
)
_FEEDS = ("Iterator", "Optional")
_IDLE = Work({}, {}, 0.0, 0.0, Source.COUNTED)
_UNKNOWN = Work(None, None, math.nan, math.nan, Source.MISSING)


class EagerOps:
    """Places and work of the eager ops of steps.

    A step runs the same ops in the same order as the one that was followed; where it differs, what is equal
    before and after is paired, and the rest has no layer. The work is that of the followed step only where both got
    data of the same shapes.

    Args:
        followed: Ops of the step that was followed, in order.
        shapes: What that step got.
        buffers: Identities of storages.
    """

    def __init__(
        self, followed: Sequence[EagerOp], shapes: Sequence[str], buffers: Buffers
    ) -> None:
        self._followed = [op for op in followed if op.node.op != CONSTANT]
        self._order = [op.node.op for op in self._followed]
        self._shapes = list(shapes)
        self._works = [work_of(op.node, op.inputs, op.outputs, buffers) for op in self._followed]
        self.steps = 0
        self.other_shapes = 0
        self.unpaired = 0

    def __bool__(self) -> bool:
        return bool(self._followed)

    def counted(self, events: Sequence[Event], shapes: Sequence[str]) -> list[Counted]:
        """What the ops of one step serve and compute.

        Args:
            events: Its eager ops in order.
            shapes: What the step got.
        """
        pairs = self._pairs([event.op for event in events])
        known = bool(shapes) and list(shapes) == self._shapes
        self.steps += 1
        self.other_shapes += not known
        following = _next_known(pairs)
        return [
            self._one(event, pair, near, known)
            for event, pair, near in zip(events, pairs, following, strict=True)
        ]

    def missing(self) -> str:
        """What is not known of the steps that were counted, in a sentence."""
        backward = [op.layer for op in self._followed if op.phase is Phase.BACKWARD]
        without = backward.count(None)
        gaps = [
            f"{self.other_shapes} of {self.steps} steps got other shapes, so their ops have no work"
            if self.other_shapes
            else "",
            f"{without} of {len(backward)} backward ops have no layer, since nothing that the tape kept tells it"
            if without
            else "",
            f"{self.unpaired} ops have neither, since the followed step has none in their place"
            if self.unpaired
            else "",
        ]
        return "; ".join([_FOLLOWED, *filter(None, gaps)]) + "."

    def _pairs(self, order: Sequence[str]) -> list[int | None]:
        """The followed op for each op of a step."""
        places = [place for place, op in enumerate(order) if op != CONSTANT]
        wanted = [order[place] for place in places]
        pairs: list[int | None] = [None] * len(order)
        if wanted == self._order:
            blocks: Iterable[tuple[int, int, int]] = [(0, 0, len(wanted))]
        else:
            blocks = SequenceMatcher(
                None, wanted, self._order, autojunk=False
            ).get_matching_blocks()
        for begin, twin, length in blocks:
            for offset in range(length):
                pairs[places[begin + offset]] = twin + offset
        return pairs

    def _one(self, event: Event, pair: int | None, near: int | None, known: bool) -> Counted:
        if pair is None:
            return self._unpaired(event, near)
        op = self._followed[pair]
        phase = Phase.DATA if event.op.startswith(_FEEDS) else op.phase
        work = self._works[pair]
        fits = known or work.is_view or (work.nominal == {} and not work.bytes_read)
        return _counted(event, phase, op.layer, work if fits else _UNKNOWN)

    def _unpaired(self, event: Event, near: int | None) -> Counted:
        """A constant serves the op that comes next; nothing is known of other ops."""
        if event.op == CONSTANT:
            op = self._followed[near] if near is not None else None
            phase, layer = (Phase.OTHER, None) if op is None else (op.phase, op.layer)
            return _counted(event, phase, layer, _IDLE)
        if event.op.startswith(_FEEDS):
            return _counted(event, Phase.DATA, None, _IDLE)
        self.unpaired += 1
        return _counted(event, Phase.OTHER, None, _UNKNOWN)


def _next_known(pairs: Sequence[int | None]) -> list[int | None]:
    following: list[int | None] = []
    last = None
    for pair in reversed(pairs):
        last = last if pair is None else pair
        following.append(last)
    return following[::-1]


def _counted(event: Event, phase: Phase, layer: int | None, work: Work) -> Counted:
    return Counted(
        phase=phase,
        layer=layer,
        recompute=False,
        is_sum=False,
        op=event.op,
        signature=("eager", event.op),
        work=work,
        owner=None,
    )
