"""Times of ops that run at once: one inside another, several side by side."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from hroof_keras.capturing.busy import OVERLAP, Overlap, own_times, union, without_launches
from hroof_keras.profiling.events import Event


def op(start: int, end: int, thread: int = 0, name: str = "a", op: str = "Mul") -> Event:
    return Event(name, op, start, end, thread)


def instruction(start: int, end: int, thread: int = 0) -> Event:
    return Event("fusion", "", start, end, thread, "hlo")


def test_an_op_alone_has_its_whole_time() -> None:
    alone = op(2, 9)
    assert own_times([alone]) == {alone: 7}


def test_what_runs_inside_an_op_is_not_its_own() -> None:
    outer, first, second = op(0, 10), op(1, 3), op(5, 9)
    assert own_times([first, outer, second]) == {outer: 4, first: 2, second: 4}


def test_only_the_direct_inside_counts() -> None:
    outer, middle, inner = op(0, 10), op(1, 9), op(2, 8)
    assert own_times([outer, middle, inner]) == {outer: 2, middle: 2, inner: 6}


def test_other_threads_do_not_run_inside() -> None:
    here, there = op(0, 10), op(1, 9, thread=1)
    assert own_times([here, there]) == {here: 10, there: 8}


def test_streams_of_devices_are_apart() -> None:
    events = [
        Event("k", "", 0, 5, kind="kernel", device="cuda:0", stream=stream) for stream in (1, 2)
    ]
    assert list(own_times(events).values()) == [5, 5]


def test_no_time_is_negative_where_clocks_are_coarse() -> None:
    outer, inner, late = op(0, 4), op(0, 4), op(3, 9)
    assert all(time >= 0 for time in own_times([outer, inner, late]).values())


spans = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(0, 2)), min_size=1, max_size=12
)


@given(spans)
def test_the_union_is_what_a_count_of_moments_gives(found: list[tuple[int, int, int]]) -> None:
    events = [op(start, start + length, thread) for start, length, thread in found]
    moments = {moment for event in events for moment in range(event.start, event.end)}
    assert union(events) == len(moments)
    assert union(events) <= sum(event.duration for event in events)


def test_what_only_runs_a_compiled_program_is_left_out() -> None:
    launch, inside = op(0, 100, op="StatefulPartitionedCall"), instruction(10, 20, 1)
    assert without_launches([launch, inside]) == [inside]


def test_a_call_of_a_function_is_kept() -> None:
    call, elsewhere = op(0, 5, op="StatefulPartitionedCall"), instruction(10, 20, 1)
    assert without_launches([call, elsewhere]) == [call, elsewhere]


def test_other_ops_beside_a_compiled_program_are_kept() -> None:
    beside, inside = op(0, 100, op="MatMul"), instruction(10, 20, 1)
    assert without_launches([beside, inside]) == [beside, inside]


def test_overlap() -> None:
    overlap = Overlap.of([(20, [op(0, 10), op(5, 10, 1)]), (10, [op(20, 25)])])
    assert overlap.facts() == {
        "sum": pytest.approx(20e-9),
        "union": pytest.approx(15e-9),
        "wall": pytest.approx(30e-9),
        "factor": pytest.approx(4 / 3),
    }
    warning = overlap.warning()
    assert warning is not None
    assert warning.startswith("1.33 ops ran at once")


def test_little_overlap_needs_no_words() -> None:
    assert Overlap(OVERLAP, 1.0, 2.0).warning() is None
    assert Overlap(1.0, 1.0, 2.0).warning() is None


def test_without_ops_the_factor_is_missing() -> None:
    overlap = Overlap.of([])
    assert math.isnan(overlap.factor)
    assert overlap.warning() is None
