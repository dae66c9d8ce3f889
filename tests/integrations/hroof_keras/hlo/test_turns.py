"""Turns of loops, on loops made by hand and on what the profiler of this machine sees."""

from __future__ import annotations

import math
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from hroof.units import Pipe, Precision  # noqa: E402
from hroof_keras.hlo import HloModule  # noqa: E402
from hroof_keras.hlo.messages import Computation, Hlo, Module  # noqa: E402
from hroof_keras.hlo.shapes import Shape  # noqa: E402
from hroof_keras.hlo.turns import Turns  # noqa: E402
from tests.integrations.hroof_keras.hlo.compiled import profiled  # noqa: E402
from tests.integrations.hroof_keras.hlo.made import (  # noqa: E402
    computation,
    f32,
    module,
    op,
    parameter,
    part,
    tuple_of,
)

S32, BOOL = Shape("int32"), Shape("bool")
STATE = tuple_of(S32, f32(8))


def number(value: int, name: str = "") -> Hlo:
    return op(name or f"c{value}", "constant", S32, constant=value)


def condition(direction: str, limit: Hlo, id_: int = 1) -> Computation:
    state = parameter(0, STATE, f"state{id_}")
    counter = part(f"i{id_}", state, 0)
    test = op(f"test{id_}", "compare", BOOL, counter, limit, direction=direction)
    return computation(id_, state, counter, limit, test)


def body(opcode: str, step: Hlo, id_: int = 2) -> Computation:
    state = parameter(0, STATE, f"state{id_}")
    counter, data = part(f"i{id_}", state, 0), part(f"x{id_}", state, 1)
    after = op(f"next{id_}", opcode, S32, counter, step)
    root = op(f"root{id_}", "tuple", STATE, after, data)
    return computation(id_, state, counter, data, step, after, root)


def loop_from(start: Hlo, *computations: Computation, config: bytes = b"") -> tuple[Module, Hlo]:
    data = parameter(0, f32(8), "data")
    state = op("state", "tuple", STATE, start, data)
    called = tuple(item.id for item in computations)
    loop = op("loop", "while", STATE, state, called=called, backend_config=config)
    return module(computation(0, data, start, state, loop), *computations), loop


@pytest.mark.parametrize(
    ("start", "direction", "limit", "step", "turns"),
    [
        (0, "LT", 5, 1, 5),
        (2, "LE", 6, 2, 3),
        (10, "GT", 0, -3, 4),
        (0, "NE", 7, 1, 7),
        (5, "LT", 5, 1, 0),
    ],
)
def test_counters_are_followed(
    start: int, direction: str, limit: int, step: int, turns: int
) -> None:
    made, loop = loop_from(
        number(start, "start"),
        body("add", number(step, "step")),
        condition(direction, number(limit, "limit")),
    )
    assert Turns(made).of(loop) == turns


def test_a_limit_that_depends_on_data_is_not_known() -> None:
    limit = op("limit", "sort", S32)
    made, loop = loop_from(number(0), body("add", number(1)), condition("LT", limit))
    assert math.isnan(Turns(made).of(loop))


def test_what_the_compiler_wrote_down_is_used_then() -> None:
    limit = op("limit", "sort", S32)
    config = b'{"known_trip_count":{"n":"12"},"other":[]}'
    made, loop = loop_from(number(0), body("add", number(1)), condition("LT", limit), config=config)
    assert Turns(made).of(loop) == 12


def test_settings_that_are_no_json_say_nothing() -> None:
    limit = op("limit", "sort", S32)
    made, loop = loop_from(
        number(0), body("add", number(1)), condition("LT", limit), config=b"\x08\x01"
    )
    assert math.isnan(Turns(made).of(loop))


def test_a_loop_without_an_end_is_given_up() -> None:
    made, loop = loop_from(
        number(0), body("multiply", number(1, "one")), condition("LT", number(5, "limit"))
    )
    assert math.isnan(Turns(made).of(loop))


def test_a_truth_value_that_decides_alone() -> None:
    """``i < 5 and <data>`` fails where ``i`` reaches 5, if the data does not stop it before: not known."""
    state = parameter(0, STATE, "s")
    counter, limit = part("i", state, 0), number(5, "limit")
    first = op("first", "compare", BOOL, counter, limit, direction="LT")
    unknown = op("unknown", "is-finite", BOOL, counter)
    both = op("both", "and", BOOL, first, unknown)
    test = computation(1, state, counter, limit, first, unknown, both)
    made, loop = loop_from(number(0, "start"), body("add", number(1, "step")), test)
    assert math.isnan(Turns(made).of(loop))
    same = op("both", "and", BOOL, first, first)
    test = computation(1, state, counter, limit, first, same)
    made, loop = loop_from(number(0, "start"), body("add", number(1, "step")), test)
    assert Turns(made).of(loop) == 5


def test_a_loop_that_starts_where_another_ended() -> None:
    made, first = loop_from(
        number(0, "start"),
        body("add", number(1, "up")),
        condition("LT", number(6, "top")),
        body("subtract", number(2, "down"), 4),
        condition("GT", number(0, "zero"), 3),
    )
    entry = made.entry
    second = op("second", "while", STATE, first, called=(4, 3))
    whole = computation(0, *entry.instructions, second)
    first = next(hlo for hlo in whole.instructions if hlo.name == "loop")
    turns = Turns(module(whole, *(made.computations[i] for i in (1, 2, 3, 4))))
    assert (turns.of(first), turns.of(second)) == (6, 3)


class TestAsProfiled:
    """The counts that the profiler sees are those that are computed here."""

    def test_a_small_loop_is_one_kernel_with_the_work_of_all_its_turns(self) -> None:
        def loop(x: Any, w: Any) -> Any:
            for _ in tf.range(5):
                x = tf.tanh(x @ w)
            return x

        program, ran = profiled(loop, tf.ones((4, 6)), tf.ones((6, 6)))
        assert ran == program.executions()
        call = program.instruction("call")
        assert call is not None
        assert not call.contains
        assert call.work.nominal is not None
        assert call.work.nominal[Pipe.MATRIX, Precision.FP32] == 5 * 2.0 * 4 * 36
        assert call.work.nominal[Pipe.VECTOR, Precision.FP32] == 5 * 24.0
        assert call.work.bytes_read <= 4 * (1 + 24 + 36)
        assert "while" in {hlo.opcode for hlo in program.hlos.values()}
        assert not any(name.startswith("while") for name in program.executions())

    def test_a_large_loop_runs_its_instructions_one_by_one(self) -> None:
        """Forward and backward; the second loop counts down from where the first one ended."""

        def gradient(x: Any, w: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(w)
                for _ in tf.range(7):
                    x = tf.tanh(x @ w)
            return tape.gradient(x, w)

        program, ran = profiled(gradient, tf.ones((64, 256)), tf.ones((256, 256)))
        assert ran == program.executions()
        flop = 0.0
        for name, count in ran.items():
            instruction = program.instruction(name)
            assert instruction is not None
            flop += count * instruction.work.flop(Pipe.MATRIX)
        product = 2.0 * 64 * 256 * 256
        # The gradient of the first input is not used, but a loop computes it in every turn.
        assert flop in (7 * 3 * product, (7 * 3 - 1) * product)


def test_only_calls_that_are_no_kernel_contain_others() -> None:
    made, _ = loop_from(number(0, "start"), body("add", number(1)), condition("LT", number(5, "l")))
    x = made.entry.parameters[0]
    small = op("call.1", "call", f32(8), x, called=(9,), attributes={"xla_cpu_small_call": "true"})
    large = op("call.2", "call", f32(8), x, called=(9,))
    inner = parameter(0, f32(8), "inner")
    callee = computation(9, inner, op("negated", "negate", f32(8), inner))
    entry = computation(0, *made.entry.instructions, small, large)
    program = HloModule(module(entry, *(made.computations[i] for i in (1, 2)), callee))
    contains = {
        name: found.contains
        for name in ("loop", "call.1", "call.2", "negated")
        if (found := program.instruction(name)) is not None
    }
    assert contains == {"loop": True, "call.1": False, "call.2": True, "negated": False}
    counts = program.executions()
    assert counts["call.1"] == counts["negated"] == 1
    assert counts["next2"] == 5
    assert "call.2" not in counts
