"""Joining timed with counted ops."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hroof.attribution import Counted, Timed, join
from hroof.units import Phase


def counted(
    op: str = "aten::mm", layer: int | None = 0, signature: Hashable = (4, 4), **changes: Any
) -> Counted:
    values: dict[str, Any] = {
        "phase": Phase.FORWARD,
        "layer": layer,
        "recompute": False,
        "is_sum": False,
        "op": op,
        "signature": signature,
        "work": object(),
        "owner": layer,
    }
    return Counted(**{**values, **changes})


def timed(
    op: str = "aten::mm", layer: int | None = 0, signature: Hashable = (4, 4), **changes: Any
) -> Timed:
    values: dict[str, Any] = {
        "step": 0,
        "phase": Phase.FORWARD,
        "layer": layer,
        "recompute": False,
        "is_sum": False,
        "op": op,
        "signature": signature,
        "start": 0.0,
        "duration": 1.0,
    }
    return Timed(**{**values, **changes})


def test_equal_ops_are_paired_in_order() -> None:
    ops = [counted(), counted(), counted(layer=1)]
    rows = [timed(), timed(layer=1), timed()]
    assert join(rows, ops) == 0
    assert [row.counted for row in rows] == [ops[0], ops[2], ops[1]]
    assert [row.ordinal for row in rows] == [0, 0, 1]


def test_another_shape_is_no_twin() -> None:
    rows = [timed(signature=(3, 4))]
    assert join(rows, [counted(signature=(4, 4))]) == 1
    assert rows[0].counted is None


def test_a_ragged_op_does_not_take_the_work_of_its_neighbour() -> None:
    ops = [counted(signature=(4, 4)), counted(signature=(8, 8))]
    rows = [timed(signature=(5, 5)), timed(signature=(8, 8))]
    assert join(rows, ops) == 1
    assert [row.counted for row in rows] == [None, ops[1]]


def test_composite_ops_need_no_twin_and_take_none() -> None:
    rows = [timed(composite=True), timed()]
    ops = [counted()]
    assert join(rows, ops) == 0
    assert [row.counted for row in rows] == [None, ops[0]]


def test_a_gradient_of_a_shared_weight_is_found_under_the_other_layer() -> None:
    op = counted(layer=1, phase=Phase.BACKWARD)
    row = timed(layer=0, phase=Phase.BACKWARD)
    assert join([row], [op]) == 0
    assert row.counted is op


def test_an_op_that_fell_into_another_phase_is_found_last() -> None:
    loader, model = counted(layer=None, phase=Phase.OTHER), counted(layer=0)
    rows = [timed(layer=None, phase=Phase.DATA), timed(layer=0)]
    assert join(rows, [loader, model]) == 0
    assert [row.counted for row in rows] == [loader, model]


def test_the_phase_comes_before_the_order_of_the_step() -> None:
    backward = counted(phase=Phase.BACKWARD)
    forward = counted(phase=Phase.FORWARD)
    row = timed(phase=Phase.BACKWARD)
    join([row], [forward, backward])
    assert row.counted is backward


def test_recomputed_work_is_told_from_the_first_run() -> None:
    first, again = counted(), counted(recompute=True)
    rows = [timed(recompute=True), timed()]
    assert join(rows, [first, again]) == 0
    assert [row.counted for row in rows] == [again, first]


def test_a_sum_of_gradients_is_told_from_an_add_of_the_program() -> None:
    own = counted("aten::add", phase=Phase.BACKWARD)
    summed = counted("aten::add", phase=Phase.BACKWARD, is_sum=True, owner=7)
    rows = [
        timed("aten::add", phase=Phase.BACKWARD, is_sum=True),
        timed("aten::add", phase=Phase.BACKWARD),
    ]
    assert join(rows, [own, summed]) == 0
    assert [row.counted for row in rows] == [summed, own]


def test_more_timed_than_counted_leaves_the_rest_alone() -> None:
    rows = [timed() for _ in range(5)]
    assert join(rows, [counted() for _ in range(3)]) == 2
    assert [row.counted is None for row in rows] == [False] * 3 + [True] * 2


def test_nothing_counted() -> None:
    rows = [timed(), timed(composite=True)]
    assert join(rows, []) == 1


keys = st.tuples(
    st.sampled_from(["a", "b"]), st.sampled_from([0, 1, None]), st.sampled_from([(2,), (3,)])
)


@given(st.lists(keys, max_size=30), st.randoms())
def test_no_counted_op_is_given_twice(
    program: list[tuple[str, int | None, Hashable]], random: Any
) -> None:
    ops = [counted(*key) for key in program]
    shuffled = list(program)
    random.shuffle(shuffled)
    rows = [timed(*key) for key in shuffled]
    join(rows, ops)
    twins = [id(row.counted) for row in rows if row.counted is not None]
    assert len(twins) == len(set(twins))


@given(st.lists(keys, max_size=30))
def test_the_same_program_joins_whole(program: list[tuple[str, int | None, Hashable]]) -> None:
    ops = [counted(*key) for key in program]
    rows = [timed(*key) for key in program]
    assert join(rows, ops) == 0
    assert [row.counted for row in rows] == ops


@given(st.lists(keys, max_size=20), st.lists(keys, max_size=20))
def test_a_twin_always_has_the_same_op_and_shapes(
    one: list[tuple[str, int | None, Hashable]], other: list[tuple[str, int | None, Hashable]]
) -> None:
    ops = [counted(*key) for key in one]
    rows = [timed(*key) for key in other]
    left = join(rows, ops)
    assert left == sum(row.counted is None for row in rows)
    for row in rows:
        if row.counted is not None:
            assert (row.counted.op, row.counted.signature) == (row.op, row.signature)


def test_a_sum_of_gradients_is_one_op_by_any_name() -> None:
    """It may be made in place in the timed step and not in the counted one."""
    where = (Phase.BACKWARD, 1)
    sums = [Counted(*where, False, True, "aten::add", (), None, owner=4)]
    ops = [Timed(0, *where, False, True, "aten::add_", (), 0.0, 1.0)]
    assert join(ops, sums) == 0
    assert ops[0].counted is sums[0]
    other = [Timed(0, *where, False, False, "aten::add_", (), 0.0, 1.0)]
    assert join(other, sums) == 1, "an addition of the program's own is none"
