"""From the name of an executed op to what it serves: the longest noted scope after prefixes that the runtime adds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.scopes.layers import LayerMap, Mark

Rule = Literal["scope", "fused", "variable", "neighbour", "none"]


@dataclass(frozen=True, slots=True)
class Place:
    """What an op serves.

    Attributes:
        phase: Part of the step.
        layer: Number in the layer map; LOSS for a loss outside every layer; None where it serves no single one.
        rule: How this is known: from the op's own name, from the weights that a fused op reads, from the variable that
            an op of an optimizer serves, from the ops around it, or not at all.
        recompute: Forward work that runs again inside the backward pass.
    """

    phase: Phase
    layer: int | None
    rule: Rule
    recompute: bool = False


NOWHERE = Place(Phase.OTHER, None, "none")

_CALL = r"(?:Stateful)?PartitionedCall(?:_\d+)?"
_BRANCH = r"(?:body|cond|then|else)/_\d+"
_BORDER = re.compile(rf"(?:^|(?<=/))(?:{_CALL}|{_BRANCH})(?:/|$)")
"""Where the names of an inlined function, loop body or branch begin anew."""

_LEADING = re.compile(r"^(?:ConstantFolding|Func|replica_\d+)/")
_TAPE = re.compile(r"^gradient_tape(?:/|$)")
_GRADIENTS = "/gradients/"
"""In the backward body of a loop the names of the forward body follow this."""


def place_of_name(layers: LayerMap, optimizer_names: Sequence[str], op_name: str) -> Place | None:
    """What the name alone tells, for a node of a graph or the ``op_name`` of an XLA instruction.

    Args:
        layers: The noted scopes.
        optimizer_names: Names of optimizers beside those that were seen.
        op_name: The name.

    Returns:
        None where it tells nothing; a backward place without a layer where only that is known.
    """
    return Names(layers, optimizer_names).place(op_name)


class Names:
    """The rules for names.

    Args:
        layers: The noted scopes.
        optimizers: Names of optimizers beside those that were seen.
        traces: The functions that may be meant, where scopes mean different layers in different ones.
    """

    def __init__(
        self, layers: LayerMap, optimizers: Sequence[str], traces: Iterable[int] = ()
    ) -> None:
        self._layers = layers
        self._traces = tuple(traces)
        names = "|".join(re.escape(name) for name in {*optimizers, *layers.optimizers})
        self._optimizer = re.compile(rf"(?:{names})(?:_\d+)?" if names else r"(?!)")

    def place(self, name: str) -> Place | None:
        """What a name tells; see ``place_of_name``."""
        segments = self._segments(name)
        backward = False
        outer: int | None = None
        found: Place | None = None
        for segment in segments:
            rest, of_tape = _unprefixed(segment)
            backward = backward or of_tape
            here = self._of_segment(rest, backward, outer)
            # The innermost part that tells something tells most.
            found = here or found
            outer = here.layer if here is not None and here.layer not in (None, LOSS) else outer
        if found is None:
            return Place(Phase.BACKWARD, None, "scope") if backward else None
        if backward and found.phase in (Phase.FORWARD, Phase.BACKWARD, Phase.LOSS):
            return Place(Phase.BACKWARD, found.layer, "scope")
        return found

    def _segments(self, name: str) -> list[str]:
        """The parts of a name that functions, loop bodies and branches begin anew.

        What looks like such a border is none within a noted scope: models and layers may bear these names as well.
        """
        segments, begin, within = [], 0, self._scope(name, 0)
        for border in _BORDER.finditer(name):
            if within[0] < border.start() < within[1]:
                continue
            segments.append(name[begin : border.start()])
            within = self._scope(name, border.start())
            # A scope of the border's own name alone may be the call itself.
            own = within[1] > border.end()
            begin = border.start() if own else border.end()
            within = within if own else self._scope(name, begin)
        return [segment for segment in (*segments, name[begin:]) if segment.strip("/")]

    def _scope(self, name: str, begin: int) -> tuple[int, int]:
        """Begin and end of the longest noted scope from here on, after what comes before scopes."""
        rest, _ = _unprefixed(name[begin:])
        begin = len(name) - len(rest)
        parts = rest.split("/")
        while parts:
            scope = "/".join(parts)
            if self._layers.has(scope):
                return begin, begin + len(scope)
            parts.pop()
        return begin, begin

    def _of_segment(self, rest: str, backward: bool, outer: int | None) -> Place | None:
        candidates = [rest]
        if backward and _GRADIENTS in rest:
            candidates.insert(0, rest.rpartition(_GRADIENTS)[2])
        for candidate in candidates:
            parts = candidate.strip("/").split("/")
            mark = self._layers.find(parts, outer, self._traces)
            if mark is not None:
                return _of_mark(mark)
        return self._of_first(rest.strip("/").split("/"))

    def _of_first(self, parts: Sequence[str]) -> Place | None:
        """What the first component tells that is not the number of a loop or branch."""
        first = next(
            (part for part in parts if not re.fullmatch(r"(?:while|cond)(?:_\d+)?", part)), ""
        )
        if self._optimizer.fullmatch(first):
            return Place(Phase.OPTIMIZER, None, "scope")
        if first.startswith("compile_loss"):
            return Place(Phase.LOSS, LOSS, "scope")
        if first.startswith("Iterator"):
            return Place(Phase.DATA, None, "scope")
        return None


def part_of_function(name: str) -> str:
    """The name that a node has in the innermost function, loop body or branch it was traced in."""
    segments = [segment for segment in _BORDER.split(name) if segment.strip("/")]
    return segments[-1].strip("/") if segments else name


def _of_mark(mark: Mark) -> Place:
    if mark.kind == "layer":
        phase = Phase.BACKWARD if mark.recompute else Phase.FORWARD
        return Place(phase, mark.layer, "scope", mark.recompute)
    if mark.kind == "loss":
        return Place(Phase.LOSS, LOSS, "scope")
    return Place(Phase.OPTIMIZER, None, "scope")


def _unprefixed(segment: str) -> tuple[str, bool]:
    """A part of a name without what comes before the scope, and whether a gradient tape made it."""
    backward = False
    while True:
        rest = _LEADING.sub("", segment)
        if _TAPE.match(rest):
            backward, rest = True, _TAPE.sub("", rest)
        if rest == segment:
            return segment, backward or "while_grad/" in segment
        segment = rest
