"""Layers of updates and of gradients without a name, by the weights that are updated."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("keras")

from hroof.attribution import Part
from hroof.units import Phase
from hroof_keras.hlo import HloPlaces
from hroof_keras.hlo.messages import Computation, DotDimensions, Hlo
from tests.integrations.hroof_keras.hlo.made import (
    computation,
    f32,
    op,
    parameter,
    program,
)
from tests.integrations.hroof_keras.hlo.test_places import by_name


def one(phase: Phase, layer: int | None) -> tuple[Part, ...]:
    return (Part(layer, 1.0, phase),)


class Step:
    """A step of two dense layers, 1 and 2, without biases; the gradients of the weights have no names.

    The output's gradient of layer 1 bears the name of the layer behind it, as that of a batch norm would.
    """

    def __init__(self, *, cast: bool = False, tied: bool = False) -> None:
        self.hlos: list[Hlo] = []
        x = self.add(parameter(0, f32(4, 8), "x"))
        w1, w2 = (self.add(parameter(i, f32(8, 8), f"w{i}")) for i in (1, 2))
        m1, m2 = (self.add(parameter(i + 2, f32(8, 8), f"m{i}")) for i in (1, 2))
        if tied:
            w2 = w1
        read1 = self.op("cast", "convert", w1) if cast else w1
        h = self.dot("h", x, read1, "f/1/MatMul")
        y = self.dot("y", h, w2, "f/2/MatMul")
        dy = self.op("dy", "negate", y, name="loss")
        dh = self.dot("dh", dy, w2, "b/2/MatMul")
        dw2 = self.dot("dw2", h, dy, "")
        dw1 = self.dot("dw1", x, dh, "")
        self.update(1, w1, m1, dw1)
        self.update(2, w2, m2, dw2)

    def add(self, hlo: Hlo) -> Hlo:
        self.hlos.append(hlo)
        return hlo

    def op(self, label: str, opcode: str, *operands: Hlo, name: str = "", **more: Any) -> Hlo:
        return self.add(op(label, opcode, operands[0].shape, *operands, op_name=name, **more))

    def dot(self, label: str, a: Hlo, b: Hlo, name: str) -> Hlo:
        return self.op(label, "dot", a, b, name=name, dot=DotDimensions((1,), (0,)))

    def update(self, number: int, w: Hlo, m: Hlo, gradient: Hlo) -> None:
        moment = self.op(f"moment{number}", "add", m, gradient, name="adam/moment")
        copy = self.op(f"copy{number}", "copy", w)
        self.op(f"update{number}", "subtract", copy, moment, name="adam/update")

    def places(self, *others: Computation) -> HloPlaces:
        return HloPlaces(program(computation(0, *self.hlos), *others), by_name)


@pytest.mark.parametrize("cast", [False, True])
def test_moments_and_updates_serve_the_layer_that_reads_the_weights(cast: bool) -> None:
    places = Step(cast=cast).places()
    for layer in (1, 2):
        assert places.parts(f"moment{layer}") == one(Phase.OPTIMIZER, layer)
        assert places.parts(f"update{layer}") == one(Phase.OPTIMIZER, layer)
        assert places.rule(f"update{layer}") == "own"


def test_gradients_without_a_name_are_backward_work_of_the_same_layer() -> None:
    """Not of the optimizer that uses them, nor of the layer whose gradient they take."""
    places = Step().places()
    for layer in (1, 2):
        assert places.parts(f"dw{layer}") == one(Phase.BACKWARD, layer)
        assert places.rule(f"dw{layer}") == "neighbour"


def test_what_only_serves_such_a_gradient_goes_with_it() -> None:
    step = Step()
    turned = step.op("turned", "transpose", step.hlos[0])
    gradient = step.dot("extra", turned, step.hlos[0], "")
    step.update(1, step.hlos[1], step.hlos[3], gradient)
    places = step.places()
    assert places.parts("turned") == places.parts("extra") == one(Phase.BACKWARD, 1)


def test_a_product_of_computed_values_is_placed_with_what_uses_it() -> None:
    step = Step()
    h, dy = (next(hlo for hlo in step.hlos if hlo.name == name) for name in ("h", "dy"))
    shared = step.dot("shared", h, dy, "")
    step.op("user", "negate", shared, name="f/7")
    step.op("taken", "negate", shared, name="adam/odd")
    assert step.places().parts("shared") == one(Phase.FORWARD, 7)


@pytest.mark.parametrize(("user", "phase"), [("b/7", Phase.BACKWARD), ("f/7", Phase.FORWARD)])
def test_a_product_without_a_scope_belongs_to_the_layer_whose_weights_it_takes(
    user: str, phase: Phase
) -> None:
    """In whatever layout; functions within a layer leave such names, for instance ``PartitionedCall/…``."""
    step = Step()
    w2 = next(hlo for hlo in step.hlos if hlo.name == "w2")
    h = next(hlo for hlo in step.hlos if hlo.name == "h")
    turned = step.op("turned", "transpose", step.op("flipped", "reverse", w2))
    product = step.dot("product", h, turned, "PartitionedCall/gradients/grad/MatMul")
    step.op("user", "negate", product, name=user)
    assert step.places().parts("product") == one(phase, 2)
    assert step.places().rule("product") == "neighbour"


def test_weights_of_two_layers_go_to_the_first_that_reads_them() -> None:
    places = Step(tied=True).places()
    assert places.parts("update1") == one(Phase.OPTIMIZER, 1)


def test_a_copy_of_the_weights_for_the_update_is_work_of_the_optimizer() -> None:
    assert Step().places().parts("copy2") == one(Phase.OPTIMIZER, 2)


def test_a_norm_of_all_gradients_serves_no_layer() -> None:
    step = Step()
    gradients = [hlo for hlo in step.hlos if hlo.name in ("dw1", "dw2")]
    norm = step.op("norm", "add", *gradients, name="adam/norm")
    for number in (1, 2):
        scaled = step.op(f"scaled{number}", "multiply", gradients[number - 1], norm, name="adam/x")
        step.update(number, step.hlos[number], step.hlos[number + 2], scaled)
    places = step.places()
    assert places.parts("norm") == one(Phase.OPTIMIZER, None)
    assert places.parts("scaled1") == one(Phase.OPTIMIZER, 1)
