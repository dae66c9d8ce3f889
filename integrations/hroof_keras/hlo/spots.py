"""What the names in an instruction tell about its phase and layer: its own name, and those in what it calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal, Protocol

from hroof.attribution import Part
from hroof.units import Phase
from hroof_keras.hlo.flop import floating
from hroof_keras.hlo.messages import Hlo
from hroof_keras.hlo.module import HloModule
from hroof_keras.hlo.rules import contains_others

Rule = Literal["own", "callee", "split", "neighbour", "none"]

Spot = tuple[Phase, int | None]
"""A phase and a layer."""

Known = tuple[tuple[Part, ...], Rule]

UNKNOWN: Known = ((), "none")

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


def alone(spot: Spot, rule: Rule) -> Known:
    """All of an instruction at one place."""
    return (Part(spot[1], 1.0, spot[0]),), rule


class Spots:
    """Reads names.

    Args:
        module: The program.
        place_of_name: What the name of an op tells; None where it tells nothing.
    """

    def __init__(self, module: HloModule, place_of_name: Callable[[str], Place | None]) -> None:
        self._module = module
        self._of_name = place_of_name
        self._names: dict[str, Spot | None] = {"": None}
        self._known: dict[Hlo, Known] = {}

    def of_name(self, op_name: str) -> Spot | None:
        """What one name tells."""
        if op_name not in self._names:
            place = self._of_name(op_name)
            self._names[op_name] = None if place is None else (place.phase, place.layer)
        return self._names[op_name]

    def of(self, hlo: Hlo) -> Known:
        """The parts of an instruction by the names in it."""
        if hlo not in self._known:
            self._known[hlo] = self._read(hlo)
        return self._known[hlo]

    def of_result(self, hlo: Hlo) -> Spot | None:
        """What the result of an instruction belongs to: its own name tells best, since a fusion has its root's."""
        own = self.of_name(hlo.op_name)
        if own is not None:
            return own
        parts, _ = self.of(hlo)
        if not parts:
            return None
        most = max(parts, key=lambda part: part.share)
        return (most.phase or Phase.OTHER, most.layer)

    def _read(self, hlo: Hlo) -> Known:
        own = self.of_name(hlo.op_name)
        shares = self._shares(hlo) if _is_composed(hlo) else {}
        if len(shares) > 1:
            parts = (Part(layer, share, phase) for (phase, layer), share in shares.items())
            return tuple(parts), "split"
        spot = next(iter(shares), own)
        return UNKNOWN if spot is None else alone(spot, "own" if spot == own else "callee")

    def _shares(self, hlo: Hlo) -> dict[Spot, float]:
        flop: dict[Spot, float] = {}
        moved: dict[Spot, float] = {}
        for piece, runs in self._pieces(hlo):
            spot = self.of_name(piece.op_name)
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


def _is_composed(hlo: Hlo) -> bool:
    """Whether an instruction is one kernel that is made of others."""
    return hlo.opcode in _COMPOSED and not contains_others(hlo)
