"""Work of timed ops whose shapes no counted op had: from their own shapes, never from another's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, cast

from hroof.attribution import Counted, Timed
from hroof.launches import Work
from hroof_torch.counting import Signature, Spec, recount


class Recounting:
    """Counts timed ops again after a counted op that stood in their place.

    What shapes do not tell (stride, padding, dimensions) is taken from the counted op with the same ordinal,
    if the step had as many ops in that place, or from any, if all of them agree.

    Args:
        counted: Ops of the counted step in order.
    """

    def __init__(self, counted: Iterable[Counted]) -> None:
        self._twins: dict[Hashable, list[Counted]] = {}
        for op in counted:
            if op.template is not None:
                self._twins.setdefault(_place(op), []).append(op)
        self._like_counted: set[Hashable] = set()
        self._known: dict[Hashable, Work | None] = {}

    def learn(self, ops: Sequence[Timed]) -> None:
        """Compare the ops of one step with the counted ones, place by place; ordinals are set already."""
        found = Counter(_place(op) for op in ops if not op.composite)
        step = ops[0].step if ops else -1
        self._like_counted |= {
            (step, place) for place, number in found.items() if number == len(self._at(place))
        }

    def work(self, op: Timed) -> Work | None:
        """Work of an op; None where it cannot be told."""
        template = self._template(op)
        key = (op.op, op.signature, template)
        if key not in self._known:
            self._known[key] = recount(op.op, cast(Signature, op.signature), template)
        return self._known[key]

    def _at(self, place: Hashable) -> list[Counted]:
        return self._twins.get(place, [])

    def _template(self, op: Timed) -> Any:
        twins = self._at(_place(op))
        if (op.step, _place(op)) in self._like_counted:
            return twins[op.ordinal].template
        agreed = {_without_tensors(twin.template) for twin in twins}
        return twins[0].template if len(agreed) == 1 else None


def _place(op: Counted | Timed) -> Hashable:
    return (op.phase, op.recompute, op.layer, op.is_sum, op.op)


def _without_tensors(value: Any) -> Any:
    """A template's arguments with nothing in the places of tensors."""
    if isinstance(value, Spec):
        return None
    if isinstance(value, tuple):
        return tuple(map(_without_tensors, value))
    return value
