"""Which layer an optimizer's instruction serves: the one whose forward pass reads the weights that it updates.

Weights are parameters of the program. A moment is updated from the gradient, the weights from the moments: from any
of these instructions, what uses their results leads to the update of the weights, which reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.hlo.messages import Hlo
from hroof_keras.hlo.neighbours import Neighbours
from hroof_keras.hlo.spots import Spots

_FAR = 6
"""Steps from the weights to the instruction that computes with them, which casts and copies may precede."""

_UPDATE = 4
"""Steps from a gradient or a moment to the update of its weights."""

Layer = int | None


class Variables:
    """Finds the layers of updates.

    Args:
        neighbours: The flow of values.
        spots: What names tell.
    """

    def __init__(self, neighbours: Neighbours, spots: Spots) -> None:
        self._neighbours = neighbours
        self._spots = spots
        self._readers: dict[Hlo, Layer] = {}

    def layer_of_update(self, hlo: Hlo) -> Layer:
        """The layer that an instruction of an optimizer, or a gradient, serves; None where it is not one layer's.

        The nearest update decides; where several are equally near (a norm of all gradients), none.
        """
        for number, here in enumerate(self._neighbours.rounds(hlo, self._neighbours.users)):
            if number == 0:
                here = [hlo, *here]
            layers = {layer for near in here if (layer := self._updated(near)) is not None}
            if layers:
                return layers.pop() if len(layers) == 1 else None
            if number == _UPDATE:
                break
        return self._layer_of_gradient(hlo)

    def layer_of_weights(self, hlo: Hlo, moves: Callable[[Hlo], bool]) -> Layer:
        """The layer whose forward pass reads the weights that a product takes, laid out in whatever way.

        Args:
            hlo: The product.
            moves: Whether an instruction only lays its operand out anew.
        """
        layers = {self._reader(parameter) for parameter in self._neighbours.parameters(hlo, moves)}
        layers.discard(None)
        return layers.pop() if len(layers) == 1 else None

    def _updated(self, hlo: Hlo) -> Layer:
        """The layer of the weights that an optimizer's instruction reads."""
        parts, _ = self._spots.of(hlo)
        if not any(part.phase is Phase.OPTIMIZER for part in parts):
            return None
        layers = {self._reader(parameter) for parameter in self._neighbours.parameters(hlo)}
        layers.discard(None)
        return layers.pop() if len(layers) == 1 else None

    def _reader(self, parameter: Hlo) -> Layer:
        """The layer whose forward pass reads a parameter; the first of the most."""
        if parameter not in self._readers:
            self._readers[parameter] = self._first_reader(parameter)
        return self._readers[parameter]

    def _first_reader(self, parameter: Hlo) -> Layer:
        for here in self._neighbours.rounds(parameter, self._neighbours.users, _FAR):
            layers = Counter(
                part.layer
                for near in here
                for part in self._spots.of(near)[0]
                if part.phase is Phase.FORWARD and part.layer is not None
            )
            if layers:
                return layers.most_common(1)[0][0]
        return None

    def _layer_of_gradient(self, hlo: Hlo) -> Layer:
        """Where no weights tell: the nearest backward instruction that the operands come from."""
        for here in self._neighbours.rounds(hlo, self._neighbours.sources, _FAR):
            spots = [self._spots.of_result(near) for near in here]
            layers = {
                spot[1]
                for spot in spots
                if spot is not None and spot[0] is Phase.BACKWARD and spot[1] not in (None, LOSS)
            }
            if layers:
                return layers.pop() if len(layers) == 1 else None
        return None
