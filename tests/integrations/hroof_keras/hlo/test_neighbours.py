"""What flows into an instruction and out of it, through tuples and loops."""

from __future__ import annotations

import pytest

pytest.importorskip("keras")

from hroof_keras.hlo.messages import Hlo, Module
from hroof_keras.hlo.neighbours import Neighbours
from hroof_keras.hlo.shapes import Shape
from tests.integrations.hroof_keras.hlo.made import (
    computation,
    f32,
    module,
    op,
    parameter,
    part,
    tuple_of,
)


def names(found: list[Hlo]) -> list[str]:
    return [hlo.name for hlo in found]


def test_users_and_sources_in_order() -> None:
    x, y = parameter(0, f32(4)), parameter(1, f32(4))
    a = op("a", "negate", f32(4), x)
    b = op("b", "add", f32(4), a, y)
    c = op("c", "add", f32(4), a, b)
    near = Neighbours(module(computation(0, x, y, a, b, c)))
    assert names(near.users(a)) == ["b", "c"]
    assert names(near.sources(c)) == ["a", "b"]
    assert near.sources(a) == []
    assert near.users(c) == []
    assert near.caller(a) is None


def test_views_are_passed_over() -> None:
    x = parameter(0, f32(4))
    a = op("a", "negate", f32(4), x)
    view = op("view", "bitcast", f32(2, 2), a)
    both = op("both", "tuple", tuple_of(f32(2, 2), f32(4)), view, x)
    first, second = part("first", both, 0), part("second", both, 1)
    b, c = op("b", "exp", f32(2, 2), first), op("c", "exp", f32(4), second)
    near = Neighbours(module(computation(0, x, a, view, both, first, second, b, c)))
    assert names(near.users(a)) == ["b"]
    assert names(near.sources(b)) == ["a"]
    assert near.sources(c) == []


def loop() -> tuple[Module, dict[str, Hlo]]:
    """Carries what is turned and what stays; both come from instructions and go to others."""
    state = tuple_of(f32(4), f32(6))
    inner = parameter(0, state, "inner")
    a, b = part("a", inner, 0), part("b", inner, 1)
    turned = op("turned", "negate", f32(4), a)
    seen = op("seen", "reduce", f32(), b)
    body = computation(1, inner, a, b, turned, seen, op("next", "tuple", state, turned, b))
    test = parameter(0, state, "test")
    condition = computation(2, test, op("go", "is-finite", Shape("bool"), test))
    x, y = parameter(0, f32(4)), parameter(1, f32(6))
    before, stays = op("before", "copy", f32(4), x), op("stays", "copy", f32(6), y)
    start = op("start", "tuple", state, before, stays)
    whole = op("loop", "while", state, start, called=(1, 2))
    first, second = part("first", whole, 0), part("second", whole, 1)
    after, other = op("after", "exp", f32(4), first), op("other", "exp", f32(6), second)
    entry = computation(0, x, y, before, stays, start, whole, first, second, after, other)
    made = module(entry, body, condition)
    return made, {h.name: h for c in made.computations.values() for h in c.instructions}


def test_what_a_loop_takes_is_used_in_it_and_after_it() -> None:
    made, hlos = loop()
    near = Neighbours(made)
    assert set(names(near.users(hlos["before"]))) == {"after", "turned", "go"}
    assert set(names(near.users(hlos["stays"]))) == {"other", "seen", "go"}


def test_what_a_turn_leaves_is_used_by_the_next_and_after_the_loop() -> None:
    made, hlos = loop()
    assert set(names(Neighbours(made).users(hlos["turned"]))) == {"after", "go"}


def test_the_result_of_a_loop_is_made_by_its_last_turn() -> None:
    made, hlos = loop()
    near = Neighbours(made)
    assert names(near.sources(hlos["after"])) == ["turned"]
    assert names(near.sources(hlos["other"])) == ["stays"]
    assert names(near.sources(hlos["turned"])) == ["before"]


def test_the_caller_of_an_instruction_in_a_loop() -> None:
    made, hlos = loop()
    near = Neighbours(made)
    assert near.caller(hlos["turned"]) is hlos["loop"]
    assert near.caller(hlos["before"]) is None


def test_calls_hand_their_operands_and_results_on() -> None:
    p, q = parameter(0, f32(4), "p"), parameter(1, f32(4), "q")
    body = computation(1, p, q, op("sum", "add", f32(4), p, q))
    x = parameter(0, f32(4))
    a, b = op("a", "negate", f32(4), x), op("b", "copy", f32(4), x)
    call = op("call", "call", f32(4), a, b, called=(1,))
    c = op("c", "exp", f32(4), call)
    near = Neighbours(module(computation(0, x, a, b, call, c), body))
    assert names(near.sources(body.root)) == ["a", "b"]
    assert "c" in names(near.users(body.root)) + names(near.users(call))


def test_rounds_go_one_step_further_each() -> None:
    chain = [parameter(0, f32(4))]
    for index in range(4):
        chain.append(op(f"c{index}", "negate", f32(4), chain[-1]))
    near = Neighbours(module(computation(0, *chain)))
    rounds = near.rounds(chain[1], near.users, far=3)
    assert [names(here) for here in rounds] == [["c1"], ["c2"], ["c3"]]


def test_parameters_are_found_through_copies_and_views_and_into_loops() -> None:
    made, hlos = loop()
    near = Neighbours(made)
    assert names(near.parameters(hlos["turned"])) == ["arg0"]
    assert names(near.parameters(hlos["seen"])) == ["arg1"]
    assert near.parameters(hlos["after"]) == []
    x, y = parameter(0, f32(4)), parameter(1, f32(4))
    copied = op("copied", "convert", f32(4), op("c", "copy", f32(4), x))
    both = op("both", "add", f32(4), copied, y)
    more = op("more", "negate", f32(4), both)
    near = Neighbours(module(computation(0, x, y, copied.operands[0], copied, both, more)))
    assert set(names(near.parameters(both))) == {"arg0", "arg1"}
    assert near.parameters(more) == []
