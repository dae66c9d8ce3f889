"""Places of compiled instructions, rule by rule, on programs made by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

pytest.importorskip("keras")

from hroof.attribution import Part
from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.hlo import HloPlaces
from hroof_keras.hlo.messages import Computation, Hlo
from tests.integrations.hroof_keras.hlo.made import (
    combining,
    computation,
    f32,
    op,
    parameter,
    program,
    tuple_of,
)

FORWARD, BACKWARD, OPTIMIZER = Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER


@dataclass(frozen=True)
class Spot:
    phase: Phase
    layer: int | None


def by_name(name: str) -> Spot | None:
    """``f/2/…`` is forward work of layer 2, ``b/2`` its backward work, ``adam`` an optimizer's."""
    kind, _, rest = name.partition("/")
    if kind == "adam":
        return Spot(OPTIMIZER, None)
    if kind == "loss":
        return Spot(Phase.LOSS, LOSS)
    if kind not in "fb" or not rest:
        return None
    return Spot(FORWARD if kind == "f" else BACKWARD, int(rest.split("/")[0]))


def places(entry: Computation, *others: Computation) -> HloPlaces:
    return HloPlaces(program(entry, *others), by_name)


def one(phase: Phase, layer: int | None) -> tuple[Part, ...]:
    return (Part(layer, 1.0, phase),)


def entry(*hlos: Hlo) -> Computation:
    return computation(0, *hlos)


X = parameter(0, f32(8), "x")


def test_own_name() -> None:
    found = places(entry(X, op("a", "negate", f32(8), X, op_name="f/3/Neg")))
    assert found.parts("a") == one(FORWARD, 3)
    assert found.rule("a") == "own"


def test_an_instruction_that_is_not_there() -> None:
    found = places(entry(X))
    assert found.parts("gone") == ()
    assert found.rule("gone") == "none"


def body(*pieces: tuple[str, str], size: int = 8, number: int = 1) -> Computation:
    """A fusion's body: a chain of (opcode, name)."""
    chain = [parameter(0, f32(size), f"p{number}")]
    for index, (opcode, name) in enumerate(pieces):
        chain.append(op(f"{opcode}{number}{index}", opcode, f32(size), chain[-1], op_name=name))
    return computation(number, *chain, fusion=True)


def fused(*pieces: tuple[str, str], name: str = "") -> HloPlaces:
    hlo = op("it", "fusion", f32(8), X, called=(1,), op_name=name)
    return places(entry(X, hlo), body(*pieces))


class TestFusions:
    def test_names_that_agree(self) -> None:
        found = fused(("negate", "f/1/a"), ("exponential", "f/1/b"), name="f/1/b")
        assert (found.parts("it"), found.rule("it")) == (one(FORWARD, 1), "own")

    def test_names_of_the_callee_alone(self) -> None:
        found = fused(("negate", "f/1/a"), ("exponential", ""))
        assert (found.parts("it"), found.rule("it")) == (one(FORWARD, 1), "callee")

    def test_work_is_shared_by_flop(self) -> None:
        found = fused(("negate", "f/1"), ("logistic", "b/2"), ("copy", "f/3"), name="b/2")
        assert found.parts("it") == (Part(1, 0.25, FORWARD), Part(2, 0.75, BACKWARD))
        assert found.rule("it") == "split"

    def test_without_flop_by_the_bytes_of_the_results(self) -> None:
        half = op("half", "slice", f32(4), X, op_name="f/1")
        whole = op("whole", "pad", f32(12), half, op_name="f/2")
        inner = computation(1, X, half, whole, fusion=True)
        found = places(entry(X, op("it", "fusion", f32(12), X, called=(1,))), inner)
        assert found.parts("it") == (Part(1, 0.25, FORWARD), Part(2, 0.75, FORWARD))

    def test_a_part_below_a_hundredth_gets_nothing(self) -> None:
        tiny = op("tiny", "negate", f32(1), parameter(0, f32(1), "s"), op_name="f/1")
        much = op("much", "negate", f32(1000), parameter(1, f32(1000), "v"), op_name="f/2")
        inner = computation(1, *tiny.operands, *much.operands, tiny, much, fusion=True)
        found = places(entry(X, op("it", "fusion", f32(1000), X, called=(1,))), inner)
        assert (found.parts("it"), found.rule("it")) == (one(FORWARD, 2), "callee")

    def test_parameters_and_constants_are_no_pieces(self) -> None:
        named = parameter(0, f32(8), "p")
        named = replace(named, op_name="f/9")
        zero = op("zero", "constant", f32(8), op_name="f/8")
        inner = computation(1, named, zero, op("n", "copy", f32(8), zero, op_name="f/1"))
        found = places(entry(X, op("it", "fusion", f32(8), X, called=(1,))), inner)
        assert found.parts("it") == one(FORWARD, 1)

    def test_fusions_in_fusions_and_reductions(self) -> None:
        p = parameter(0, f32(8), "p")
        inner = op("inner", "fusion", f32(8), p, called=(2,))
        total = op("total", "reduce", f32(), inner, called=(3,), op_name="b/4")
        outer = computation(1, p, inner, total, fusion=True)
        nested = body(("negate", "f/5"), number=2)
        found = places(
            entry(X, op("it", "fusion", f32(), X, called=(1,))), outer, nested, combining(3)
        )
        assert found.parts("it") == (Part(5, 0.5, FORWARD), Part(4, 0.5, BACKWARD))

    def test_a_name_that_tells_nothing_leaves_its_work_to_the_others(self) -> None:
        found = fused(("negate", "f/1"), ("logistic", "mystery"), ("negate", "f/2"))
        assert found.parts("it") == (Part(1, 0.5, FORWARD), Part(2, 0.5, FORWARD))

    def test_shares_sum_to_one(self) -> None:
        found = fused(*(("negate", f"f/{layer}") for layer in range(7)))
        assert sum(part.share for part in found.parts("it")) == pytest.approx(1.0)


class TestNeighbours:
    def test_the_nearest_user_comes_first(self) -> None:
        before = op("before", "negate", f32(8), X, op_name="f/1")
        it = op("it", "copy", f32(8), before)
        step = op("step", "transpose", f32(8), it)
        after = op("after", "negate", f32(8), step, op_name="b/2")
        found = places(entry(X, before, it, step, after))
        assert (found.parts("it"), found.rule("it")) == (one(BACKWARD, 2), "neighbour")

    def test_operands_where_no_user_tells(self) -> None:
        before = op("before", "negate", f32(8), X, op_name="f/1")
        it = op("it", "copy", f32(8), before)
        assert places(entry(X, before, it)).parts("it") == one(FORWARD, 1)

    def test_most_of_the_nearest(self) -> None:
        it = op("it", "copy", f32(8), X)
        users = [op(f"u{i}", "negate", f32(8), it, op_name=f"f/{i // 2 + 1}") for i in range(1, 4)]
        assert places(entry(X, it, *users)).parts("it") == one(FORWARD, 2)

    def test_a_user_that_is_shared_gives_its_largest_part(self) -> None:
        it = op("it", "copy", f32(8), X)
        user = op("user", "fusion", f32(8), it, called=(1,))
        inner = body(("negate", "f/1"), ("logistic", "f/2"))
        assert places(entry(X, it, user), inner).parts("it") == one(FORWARD, 2)

    @pytest.mark.parametrize(("steps", "reached"), [(5, True), (6, False)])
    def test_six_steps_and_no_further(self, steps: int, reached: bool) -> None:
        chain = [op("it", "copy", f32(8), X)]
        for index in range(steps):
            chain.append(op(f"c{index}", "copy", f32(8), chain[-1]))
        chain.append(op("end", "negate", f32(8), chain[-1], op_name="f/1"))
        found = places(entry(X, *chain))
        assert found.rule("it") == ("neighbour" if reached else "none")

    def test_in_a_loop_that_tells_nothing_else_the_loop_does(self) -> None:
        state = parameter(0, f32(8), "state")
        turn = computation(1, state, op("it", "copy", f32(8), state))
        other = parameter(0, f32(8), "t")
        test = computation(2, other, op("go", "is-finite", f32(), other))
        start = parameter(0, f32(8), "start")
        loop = op("loop", "while", f32(8), start, called=(1, 2), op_name="f/4/while")
        found = places(entry(start, loop), turn, test)
        assert (found.parts("it"), found.rule("it")) == (one(FORWARD, 4), "neighbour")


class TestOptimizer:
    def test_it_serves_the_layer_whose_gradient_it_takes(self) -> None:
        gradient = op("g", "negate", f32(8), X, op_name="b/5/MatMul")
        moment = op("m", "add", f32(8), gradient, X, op_name="adam/moment")
        weights = parameter(1, f32(8), "w")
        update = op("u", "subtract", f32(8), weights, moment, op_name="adam/update")
        found = places(entry(X, weights, gradient, moment, update))
        assert found.parts("m") == found.parts("u") == one(OPTIMIZER, 5)
        assert found.rule("u") == "own"

    def test_what_serves_all_layers_serves_none(self) -> None:
        first = op("g1", "negate", f32(8), X, op_name="b/1")
        second = op("g2", "negate", f32(8), X, op_name="b/2")
        norm = op("norm", "add", f32(8), first, second, op_name="adam/norm")
        found = places(entry(X, first, second, norm))
        assert found.parts("norm") == one(OPTIMIZER, None)

    def test_what_takes_no_gradient_serves_none(self) -> None:
        rate = op("rate", "negate", f32(8), X, op_name="adam/rate")
        assert places(entry(X, rate)).parts("rate") == one(OPTIMIZER, None)

    def test_forward_work_and_losses_are_no_gradients(self) -> None:
        forward = op("f", "negate", f32(8), X, op_name="f/1")
        loss = op("l", "negate", f32(8), forward, op_name="loss")
        rate = op("rate", "negate", f32(8), loss, op_name="adam/rate")
        assert places(entry(X, forward, loss, rate)).parts("rate") == one(OPTIMIZER, None)

    def test_its_part_of_a_shared_fusion(self) -> None:
        gradient = op("g", "negate", f32(8), X, op_name="b/5")
        it = op("it", "fusion", f32(8), gradient, called=(1,))
        found = places(entry(X, gradient, it), body(("negate", "b/6"), ("negate", "adam/a")))
        assert found.parts("it") == (Part(6, 0.5, BACKWARD), Part(5, 0.5, OPTIMIZER))


def test_a_small_loop_is_split_by_the_work_of_its_turns() -> None:
    """A call that is one kernel has no name; the names are in the loop that it holds."""
    state = tuple_of(f32(8))
    s = parameter(0, state, "s")
    x = op("x1", "get-tuple-element", f32(8), s)
    turn = op("turn", "negate", f32(8), x, op_name="f/3/while/Neg")
    inner = computation(2, s, x, turn, op("next", "tuple", state, turn))
    t = parameter(0, state, "t")
    test = computation(3, t, op("go", "is-finite", f32(), t))
    c = parameter(0, state, "c")
    loop = op("loop", "while", state, c, called=(2, 3), op_name="f/3/while")
    callee = computation(1, c, loop)
    start = op("start", "tuple", state, X)
    small = {"xla_cpu_small_call": "true"}
    call = op("call", "call", state, start, called=(1,), attributes=small)
    found = places(entry(X, start, call), callee, inner, test)
    assert found.parts("call") == one(FORWARD, 3)
    assert found.rule("call") == "callee"


def test_shares_of_time_by_rule() -> None:
    a = op("a", "negate", f32(8), X, op_name="f/1")
    b = op("b", "copy", f32(8), a)
    found = places(entry(X, a, b))
    shares = found.shares({"a": 6.0, "b": 1.0, "gone": 1.0})
    assert shares == {"own": 0.75, "callee": 0.0, "split": 0.0, "neighbour": 0.125, "none": 0.125}
    assert found.shares({})["own"] == 0.0
