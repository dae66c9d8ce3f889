"""The phase and layer that every instruction of a compiled program serves, and by which rule that is known.

1. ``own``: the name of its op tells, and whatever it calls agrees.
2. ``callee``: the names in the computation that it calls agree with each other.
3. ``split``: a fused instruction holds work of several places. Its time and work are shared among them in
   proportion to the FLOP of its pieces or, where they compute none, to the bytes of their results; a place with
   less than one hundredth of it gets nothing.
4. ``neighbour``: no name tells. It is placed with the nearest instruction that uses its result or, where none
   within six steps has a place, with the nearest one that its operands come from; where several are equally
   near, with most of them. In a loop that tells nothing else it is placed with the loop. A product or convolution
   whose result goes to an optimizer computes a gradient: backward work of the layer whose weights are updated; any
   other one belongs to the layer whose weights it takes, in the phase of what uses it.

Work of an optimizer serves the layer whose weights it updates, see ``variables``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from hroof.attribution import Part
from hroof.units import Phase, Pipe
from hroof_keras.hlo.flop import NO_FLOP
from hroof_keras.hlo.messages import Hlo
from hroof_keras.hlo.module import HloModule
from hroof_keras.hlo.neighbours import Neighbours
from hroof_keras.hlo.spots import UNKNOWN, Known, Place, Rule, Spot, Spots, alone
from hroof_keras.hlo.variables import Variables

RULES: tuple[Rule, ...] = ("own", "callee", "split", "neighbour", "none")

_FAR = 6
"""Steps that are searched for a neighbour with a place."""

_LAYS_OUT = frozenset({"fusion", "copy", "convert", "transpose", "reverse", "reshape"})


class HloPlaces:
    """Places the instructions of one program.

    Args:
        module: The program.
        place_of_name: What the name of an op tells; None where it tells nothing.
    """

    def __init__(self, module: HloModule, place_of_name: Callable[[str], Place | None]) -> None:
        self._module = module
        self._spots = Spots(module, place_of_name)
        self._neighbours = Neighbours(module.module)
        self._variables = Variables(self._neighbours, self._spots)
        self._products: dict[Hlo, Spot | None] = {}
        self._placed: dict[Hlo, Known] = {}

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

    def _known(self, name: str) -> Known:
        hlo = self._module.hlos.get(name)
        if hlo is None:
            return UNKNOWN
        if hlo not in self._placed:
            parts, rule = self._spots.of(hlo)
            if not parts:
                parts, rule = self._by_neighbours(hlo)
            self._placed[hlo] = self._with_layers(hlo, parts), rule
        return self._placed[hlo]

    def _by_neighbours(self, hlo: Hlo) -> Known:
        product = self._product(hlo)
        if product is not None:
            return alone(product, "neighbour")
        for reach in (self._neighbours.users, self._neighbours.sources):
            spot = self._nearest(hlo, reach)
            if spot is not None:
                return alone(spot, "neighbour")
        caller = self._neighbours.caller(hlo)
        while caller is not None:
            spot = self._spots.of_name(caller.op_name)
            if spot is not None:
                return alone(spot, "neighbour")
            caller = self._neighbours.caller(caller)
        return UNKNOWN

    def _nearest(self, hlo: Hlo, reach: Callable[[Hlo], Iterable[Hlo]]) -> Spot | None:
        """The place of most of the nearest instructions that have one."""
        for here in self._neighbours.rounds(hlo, reach, _FAR):
            spots = Counter(spot for near in here if (spot := self._spot(near)) is not None)
            if spots:
                return spots.most_common(1)[0][0]
        return None

    def _spot(self, hlo: Hlo) -> Spot | None:
        return self._spots.of_result(hlo) or self._product(hlo)

    def _product(self, hlo: Hlo) -> Spot | None:
        """The place of matrix work whose name tells nothing, by the weights that it takes or whose gradient it is."""
        if hlo not in self._products:
            self._products[hlo] = self._of_product(hlo)
        return self._products[hlo]

    def _of_product(self, hlo: Hlo) -> Spot | None:
        flop = self._module.counter.of(hlo)
        computes = flop is not None and any(pipe is Pipe.MATRIX for pipe, _ in flop.nominal)
        if not computes or self._spots.of(hlo)[0]:
            return None
        for here in self._neighbours.rounds(hlo, self._neighbours.users, _FAR):
            phases = {spot[0] for near in here if (spot := self._spots.of_result(near)) is not None}
            if phases == {Phase.OPTIMIZER}:
                return Phase.BACKWARD, self._variables.layer_of_update(hlo)
            if phases:
                layer = self._variables.layer_of_weights(hlo, self._moves)
                phase = Phase.BACKWARD if Phase.BACKWARD in phases else Phase.FORWARD
                return None if layer is None else (phase, layer)
        return None

    def _moves(self, hlo: Hlo) -> bool:
        """Whether an instruction lays its one operand out anew, and computes nothing."""
        flop = self._module.counter.of(hlo)
        return hlo.opcode in _LAYS_OUT and len(hlo.operands) == 1 and flop == NO_FLOP

    def _with_layers(self, hlo: Hlo, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The same parts; those of an optimizer with the layer that they serve."""
        if all(part.phase is not Phase.OPTIMIZER or part.layer is not None for part in parts):
            return parts
        layer = self._variables.layer_of_update(hlo)
        return tuple(
            replace(part, layer=layer)
            if part.phase is Phase.OPTIMIZER and part.layer is None
            else part
            for part in parts
        )
