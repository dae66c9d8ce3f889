"""The phase and layer that every instruction of a compiled program serves, and by which rule that is known.

1. ``own``: the name of its op tells, and whatever it calls agrees.
2. ``callee``: the names in the computation that it calls agree with each other.
3. ``split``: a fused instruction holds work of several places. Its time and work are shared among them in
   proportion to the FLOP of its pieces or, where they compute none, to the bytes of their results; a place with
   less than one hundredth of it gets nothing.
4. ``neighbour``: no name tells. It is placed with the nearest instruction that uses its result or, where none
   within six steps has a place, with the nearest one that its operands come from; where several are equally
   near, with most of them. In a loop that tells nothing else it is placed with the loop.

Work of an optimizer whose name tells no layer serves the layer whose gradient it takes: the nearest backward
instruction that its operands come from. Where several layers are equally near (a norm of all gradients), none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, Protocol

from hroof.attribution import Part
from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.hlo.flop import floating
from hroof_keras.hlo.messages import Hlo
from hroof_keras.hlo.module import HloModule
from hroof_keras.hlo.neighbours import Neighbours
from hroof_keras.hlo.rules import contains_others

Rule = Literal["own", "callee", "split", "neighbour", "none"]

RULES: tuple[Rule, ...] = ("own", "callee", "split", "neighbour", "none")

_FAR = 6
"""Steps that are searched for a neighbour with a place."""

_LEAST_SHARE = 0.01

_COMPOSED = frozenset({"fusion", "call", "async-start", "while", "conditional"})
_NO_PIECE = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})


class Place(Protocol):
    """What a name tells: a phase, and a layer where one is served."""

    @property
    def phase(self) -> Phase:
        """Part of the step."""

    @property
    def layer(self) -> int | None:
        """Number in the layer map."""


Spot = tuple[Phase, int | None]
_Known = tuple[tuple[Part, ...], Rule]

_UNKNOWN: _Known = ((), "none")


class HloPlaces:
    """Places the instructions of one program.

    Args:
        module: The program.
        place_of_name: What the name of an op tells; None where it tells nothing.
    """

    def __init__(self, module: HloModule, place_of_name: Callable[[str], Place | None]) -> None:
        self._module = module
        self._of_name = place_of_name
        self._names: dict[str, Spot | None] = {"": None}
        self._neighbours = Neighbours(module.module)
        self._direct: dict[Hlo, _Known] = {}
        self._placed: dict[Hlo, _Known] = {}

    def parts(self, name: str) -> tuple[Part, ...]:
        """What an instruction serves: one part, or several whose shares sum to 1; empty where nothing tells.

        Args:
            name: Of the instruction.
        """
        return self._known(name)[0]

    def rule(self, name: str) -> Rule:
        """By which rule that is known."""
        return self._known(name)[1]

    def shares(self, amounts: Mapping[str, float]) -> dict[Rule, float]:
        """Share of an amount, such as time, by the rule that placed it; the shares sum to 1.

        Args:
            amounts: The amount of each instruction by name.
        """
        sums = dict.fromkeys(RULES, 0.0)
        for name, amount in amounts.items():
            sums[self.rule(name)] += amount
        total = sum(sums.values())
        return {rule: value / total if total else 0.0 for rule, value in sums.items()}

    def _known(self, name: str) -> _Known:
        hlo = self._module.hlos.get(name)
        if hlo is None:
            return _UNKNOWN
        if hlo not in self._placed:
            parts, rule = self._by_names(hlo)
            if not parts:
                parts, rule = self._by_neighbours(hlo)
            self._placed[hlo] = self._with_layers(hlo, parts), rule
        return self._placed[hlo]

    def _spot(self, op_name: str) -> Spot | None:
        if op_name not in self._names:
            place = self._of_name(op_name)
            self._names[op_name] = None if place is None else (place.phase, place.layer)
        return self._names[op_name]

    def _by_names(self, hlo: Hlo) -> _Known:
        if hlo not in self._direct:
            self._direct[hlo] = self._named(hlo)
        return self._direct[hlo]

    def _named(self, hlo: Hlo) -> _Known:
        own = self._spot(hlo.op_name)
        shares = self._shares_of_pieces(hlo) if _is_composed(hlo) else {}
        if len(shares) > 1:
            parts = (Part(layer, share, phase) for (phase, layer), share in shares.items())
            return tuple(parts), "split"
        spot = next(iter(shares), own)
        if spot is None:
            return _UNKNOWN
        return (Part(spot[1], 1.0, spot[0]),), "own" if spot == own else "callee"

    def _shares_of_pieces(self, hlo: Hlo) -> dict[Spot, float]:
        flop: dict[Spot, float] = {}
        moved: dict[Spot, float] = {}
        for piece, runs in self._pieces(hlo):
            spot = self._spot(piece.op_name)
            if spot is not None:
                work = runs * floating(self._module.counter.of(piece))
                flop[spot] = flop.get(spot, 0.0) + work
                moved[spot] = moved.get(spot, 0.0) + runs * piece.shape.nbytes
        weights = flop if any(flop.values()) else moved
        least = _LEAST_SHARE * sum(weights.values())
        kept = {spot: weight for spot, weight in weights.items() if weight > 0 and weight >= least}
        total = sum(kept.values())
        return {spot: weight / total for spot, weight in kept.items()}

    def _pieces(self, hlo: Hlo, runs: float = 1.0) -> Iterator[tuple[Hlo, float]]:
        """Instructions within one kernel and how often they run; a reduction is one piece."""
        if hlo.opcode == "while":
            turns = self._module.counter.turns.of(hlo)
            runs *= 1.0 if math.isnan(turns) else turns
        for number in hlo.called:
            for piece in self._module.module.computations[number].instructions:
                if piece.opcode in _COMPOSED:
                    yield from self._pieces(piece, runs)
                elif piece.opcode not in _NO_PIECE:
                    yield piece, runs

    def _by_neighbours(self, hlo: Hlo) -> _Known:
        for reach in (self._neighbours.users, self._neighbours.sources):
            spot = self._nearest(hlo, reach)
            if spot is not None:
                return (Part(spot[1], 1.0, spot[0]),), "neighbour"
        caller = self._neighbours.caller(hlo)
        while caller is not None:
            spot = self._spot(caller.op_name)
            if spot is not None:
                return (Part(spot[1], 1.0, spot[0]),), "neighbour"
            caller = self._neighbours.caller(caller)
        return _UNKNOWN

    def _rounds(self, hlo: Hlo, reach: Callable[[Hlo], Iterable[Hlo]]) -> Iterator[list[Hlo]]:
        """Instructions at one step, at two steps, and so on."""
        seen, here = {hlo}, [hlo]
        for _ in range(_FAR):
            found = dict.fromkeys(near for one in here for near in reach(one))
            here = [near for near in found if near not in seen]
            seen.update(here)
            yield here

    def _nearest(self, hlo: Hlo, reach: Callable[[Hlo], Iterable[Hlo]]) -> Spot | None:
        """The place of most of the nearest instructions that have one."""
        for here in self._rounds(hlo, reach):
            spots = Counter(spot for near in here if (spot := self._main(near)) is not None)
            if spots:
                return spots.most_common(1)[0][0]
        return None

    def _with_layers(self, hlo: Hlo, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The same parts, where an optimizer's name a layer if their gradients tell it."""
        if all(part.phase is not Phase.OPTIMIZER or part.layer is not None for part in parts):
            return parts
        layer = self._layer_of_gradient(hlo)
        return tuple(
            replace(part, layer=layer)
            if part.phase is Phase.OPTIMIZER and part.layer is None
            else part
            for part in parts
        )

    def _layer_of_gradient(self, hlo: Hlo) -> int | None:
        for near in self._rounds(hlo, self._neighbours.sources):
            layers = {
                part.layer
                for one in near
                for part in self._by_names(one)[0]
                if part.phase is Phase.BACKWARD and part.layer not in (None, LOSS)
            }
            if layers:
                return layers.pop() if len(layers) == 1 else None
        return None

    def _main(self, hlo: Hlo) -> Spot | None:
        """Where most of an instruction belongs by the names in it."""
        parts, _ = self._by_names(hlo)
        if not parts:
            return None
        most = max(parts, key=lambda part: part.share)
        return (most.phase or Phase.OTHER, most.layer)


def _is_composed(hlo: Hlo) -> bool:
    """Whether an instruction is one kernel that is made of others."""
    return hlo.opcode in _COMPOSED and not contains_others(hlo)
