"""Bytes of instructions by hand; slices, updates in place and fusions; which values share a buffer."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("keras")

from hroof.traffic import Access
from hroof_keras.hlo.buffers import Buffers
from hroof_keras.hlo.messages import Alias, Computation, Hlo
from hroof_keras.hlo.shapes import Shape
from tests.integrations.hroof_keras.hlo.made import (
    alone,
    combining,
    computation,
    f32,
    module,
    op,
    parameter,
    part,
    shape,
    tuple_of,
)

S32 = Shape("int32")


def moved(hlo: Hlo, *others: Computation) -> tuple[float, float]:
    """Bytes read and written."""
    work = alone(hlo, *others).instruction(hlo.name).work  # type: ignore[union-attr]
    return work.bytes_read, work.bytes_written


def accesses(hlo: Hlo, *others: Computation) -> tuple[Access, ...]:
    return alone(hlo, *others).instruction(hlo.name).work.touch.accesses  # type: ignore[union-attr]


def simple(opcode: str, of: Shape, *operands: Shape, **more: Any) -> Hlo:
    return op("it", opcode, of, *(parameter(i, s) for i, s in enumerate(operands)), **more)


class TestInstructions:
    def test_all_operands_and_the_result(self) -> None:
        assert moved(simple("add", f32(10), f32(10), f32(10))) == (80, 40)

    def test_an_operand_that_is_taken_twice_is_read_once(self) -> None:
        x = parameter(0, f32(10))
        assert moved(op("it", "multiply", f32(10), x, x)) == (40, 40)

    @pytest.mark.parametrize("opcode", ["bitcast", "tuple", "get-tuple-element", "parameter"])
    def test_views_move_nothing(self, opcode: str) -> None:
        hlo = simple(opcode, f32(10), tuple_of(f32(10)) if "get" in opcode else f32(10))
        work = alone(hlo).instruction("it").work  # type: ignore[union-attr]
        assert (work.bytes_read, work.bytes_written) == (0, 0)
        assert work.is_view

    def test_slices_read_what_they_give(self) -> None:
        assert moved(simple("slice", f32(2, 10), f32(100, 10))) == (80, 80)
        assert moved(simple("dynamic-slice", f32(1, 10), f32(100, 10), S32, S32)) == (48, 40)
        assert moved(simple("gather", f32(5, 10), f32(100, 10), shape("int32", 5, 1))) == (220, 200)

    def test_an_update_reads_and_writes_what_changes(self) -> None:
        hlo = simple("dynamic-update-slice", f32(100, 10), f32(100, 10), f32(1, 10), S32, S32)
        assert moved(hlo) == (48, 40)

    def test_a_scatter_reads_and_writes_the_places_that_it_meets(self) -> None:
        table, indices, updates = f32(100, 10), shape("int32", 5, 1), f32(5, 10)
        hlo = simple("scatter", table, table, indices, updates, called=(1,))
        assert moved(hlo, combining(1)) == (200 + 20 + 200, 200)

    def test_several_results(self) -> None:
        of = tuple_of(f32(10), shape("int32", 10))
        assert moved(simple("sort", of, f32(10), shape("int32", 10))) == (80, 80)

    def test_half_bytes(self) -> None:
        assert moved(simple("copy", shape("int4", 10), shape("int4", 10))) == (5, 5)


def fusion(body: Computation, of: Shape, *operands: Shape) -> Hlo:
    return simple("fusion", of, *operands, called=(body.id,))


class TestFusions:
    def test_inner_values_are_not_in_memory(self) -> None:
        x = parameter(0, f32(10), "x")
        a = op("a", "negate", f32(10), x)
        b = op("b", "exponential", f32(10), a)
        body = computation(1, x, a, b, fusion=True)
        assert moved(fusion(body, f32(10), f32(10)), body) == (40, 40)

    def test_a_parameter_that_is_only_sliced_counts_its_slices(self) -> None:
        table, i = parameter(0, f32(100, 10), "table"), parameter(1, S32, "i")
        row = op("row", "dynamic-slice", f32(1, 10), table, i, i)
        other = op("other", "slice", f32(2, 10), table)
        both = op("both", "concatenate", f32(3, 10), row, other)
        body = computation(1, table, i, row, other, both, fusion=True)
        assert moved(fusion(body, f32(3, 10), f32(100, 10), S32), body) == (40 + 80 + 4, 120)

    def test_views_may_stand_between(self) -> None:
        table, i = parameter(0, f32(100, 10), "table"), parameter(1, S32, "i")
        flat = op("flat", "bitcast", f32(1000), table)
        some = op("some", "dynamic-slice", f32(7), flat, i)
        body = computation(1, table, i, flat, some, fusion=True)
        assert moved(fusion(body, f32(7), f32(100, 10), S32), body) == (28 + 4, 28)

    def test_a_conversion_between_counts_the_bytes_of_the_parameter(self) -> None:
        table = parameter(0, shape("bfloat16", 100), "table")
        wide = op("wide", "convert", f32(100), table)
        some = op("some", "slice", f32(7), wide)
        body = computation(1, table, wide, some, fusion=True)
        assert moved(fusion(body, f32(7), shape("bfloat16", 100)), body) == (14, 28)

    def test_a_parameter_that_is_also_used_whole_counts_whole(self) -> None:
        x = parameter(0, f32(100), "x")
        head = op("head", "slice", f32(1), x)
        wide = op("wide", "broadcast", f32(100), head)
        body = computation(1, x, head, wide, op("sum", "add", f32(100), x, wide), fusion=True)
        assert moved(fusion(body, f32(100), f32(100)), body) == (400, 400)

    def test_a_parameter_that_is_not_used_is_not_read(self) -> None:
        x, y = parameter(0, f32(100), "x"), parameter(1, f32(10), "y")
        body = computation(1, x, y, op("n", "negate", f32(10), y), fusion=True)
        assert moved(fusion(body, f32(10), f32(100), f32(10)), body) == (40, 40)

    def stacked(self) -> tuple[Hlo, Computation]:
        """What a loop does with a stack: a computed row is written at the counter."""
        stack, i = parameter(0, f32(100, 10), "stack"), parameter(1, S32, "i")
        x = parameter(2, f32(10), "x")
        row = op("row", "bitcast", f32(1, 10), x)
        put = op("put", "dynamic-update-slice", f32(100, 10), stack, row, i, i)
        body = computation(1, stack, i, x, row, put, fusion=True)
        return fusion(body, f32(100, 10), f32(100, 10), S32, f32(10)), body

    def test_an_update_in_place_writes_the_update_only(self) -> None:
        assert moved(*self.stacked()) == (4 + 40, 40)

    def test_what_is_updated_in_place_keeps_its_buffer(self) -> None:
        hlo, body = self.stacked()
        buffers = Buffers(module(computation(0, *hlo.operands, hlo), body))
        assert buffers.of(hlo) == buffers.of(hlo.operands[0])
        assert buffers.of(hlo) != buffers.of(hlo.operands[2])
        written = [access for access in accesses(hlo, body) if access.written]
        assert [access.nbytes for access in written] == [40]

    def test_scattered_additions_read_the_places_that_they_meet(self) -> None:
        table, i = parameter(0, f32(100), "table"), parameter(1, shape("int32", 5), "i")
        u = parameter(2, f32(5), "u")
        body = computation(1, table, i, u, op("s", "scatter", f32(100), table, i, u, called=(2,)))
        hlo = fusion(body, f32(100), f32(100), shape("int32", 5), f32(5))
        assert moved(hlo, body, combining(2)) == (20 + 20 + 20, 20)

    def test_several_results_are_written_each_in_its_own_way(self) -> None:
        stack, x, i = (
            parameter(0, f32(100), "st"),
            parameter(1, f32(1), "x"),
            parameter(2, S32, "i"),
        )
        put = op("put", "dynamic-update-slice", f32(100), stack, x, i)
        twice = op("twice", "add", f32(1), x, x)
        root = op("root", "tuple", tuple_of(f32(100), f32(1)), put, twice)
        body = computation(1, stack, x, i, put, twice, root, fusion=True)
        hlo = fusion(body, tuple_of(f32(100), f32(1)), f32(100), f32(1), S32)
        assert moved(hlo, body) == (8, 8)
        buffers = Buffers(module(computation(0, *hlo.operands, hlo), body))
        assert buffers.of(hlo, (0,)) == buffers.of(hlo.operands[0])
        assert buffers.of(hlo, (1,)) not in {buffers.of(operand) for operand in hlo.operands}


class TestBuffers:
    def test_views_and_tuples(self) -> None:
        x, y = parameter(0, f32(6)), parameter(1, f32(4))
        view = op("view", "bitcast", f32(2, 3), x)
        both = op("both", "tuple", tuple_of(f32(2, 3), f32(4)), view, y)
        first = part("first", both, 0)
        buffers = Buffers(module(computation(0, x, y, view, both, first)))
        assert buffers.of(first) == buffers.of(view) == buffers.of(x) == buffers.of(both, (0,))
        assert buffers.of(both, (1,)) == buffers.of(y) != buffers.of(x)

    def test_what_a_loop_carries_stays_where_it_is(self) -> None:
        state = tuple_of(f32(4), f32(6))
        inner = parameter(0, state, "inner")
        a, b = part("a", inner, 0), part("b", inner, 1)
        turned = op("turned", "negate", f32(4), a)
        body = computation(1, inner, a, b, turned, op("next", "tuple", state, turned, b))
        test = parameter(0, state, "test")
        condition = computation(2, test, op("go", "is-finite", Shape("bool"), test))
        x, y = parameter(0, f32(4)), parameter(1, f32(6))
        start = op("start", "tuple", state, x, y)
        loop = op("loop", "while", state, start, called=(1, 2))
        after = part("after", loop, 1)
        buffers = Buffers(module(computation(0, x, y, start, loop, after), body, condition))
        assert buffers.of(after) == buffers.of(y) == buffers.of(b)
        assert buffers.of(turned) == buffers.of(a) == buffers.of(x) == buffers.of(test, (0,))

    def test_calls_and_branches(self) -> None:
        inner = parameter(0, f32(4), "inner")
        body = computation(1, inner, op("n", "negate", f32(4), inner))
        x, which = parameter(0, f32(4)), parameter(1, S32)
        called = op("called", "call", f32(4), x, called=(1,))
        branch = op("branch", "conditional", f32(4), which, x, called=(1,))
        buffers = Buffers(module(computation(0, x, which, called, branch), body))
        assert buffers.of(inner) == buffers.of(x)
        assert buffers.of(called) == buffers.of(body.root) == buffers.of(branch)

    def test_results_that_are_written_over_parameters(self) -> None:
        x, g = parameter(0, f32(4)), parameter(1, f32(4))
        new = op("new", "subtract", f32(4), x, g)
        root = op("root", "tuple", tuple_of(f32(4)), new)
        entry = computation(0, x, g, new, root)
        apart = Buffers(module(entry))
        assert apart.of(new) != apart.of(x)
        buffers = Buffers(module(entry, aliases=(Alias((0,), 0, ()),)))
        assert buffers.of(new) == buffers.of(x) != buffers.of(g)

    def test_what_a_library_writes_over_an_operand(self) -> None:
        x = parameter(0, f32(4))
        hlo = op("it", "custom-call", f32(4), x, target="t", aliasing=(Alias((), 0, ()),))
        buffers = Buffers(module(computation(0, x, hlo)))
        assert buffers.of(hlo) == buffers.of(x)

    def test_numbers_begin_where_they_are_told_to(self) -> None:
        x, y = parameter(0, f32(4)), parameter(1, f32(4))
        buffers = Buffers(module(computation(0, x, y)), 100)
        assert {buffers.of(x), buffers.of(y)} == {100, 101}

    def test_an_access_that_reads_and_writes_alike_is_one(self) -> None:
        table = f32(100, 10)
        hlo = simple("scatter", table, table, shape("int32", 5, 1), f32(5, 10), called=(1,))
        both = [access for access in accesses(hlo, combining(1)) if access.read and access.written]
        assert [access.nbytes for access in both] == [200]
