"""Memory of every thread that programs for ceilings read: shared by working sets, taken late, read for real."""

from __future__ import annotations

from typing import Any

import pytest

tensorflow = pytest.importorskip("tensorflow")

from hroof_keras.ceilings.loops import MIXES, REWRITE, Fold  # noqa: E402
from hroof_keras.ceilings.memory import Memory, Walker  # noqa: E402
from hroof_keras.ceilings.xla import Load, Team  # noqa: E402

FOLD = Fold.apart(3, 16)
ROW = 3 * 16 * 4


def memory(threads: int = 1, rows: int = 5, arrays: int = 1) -> Memory:
    return Memory(Team(threads, Load()), 48, arrays * (rows * ROW + 7), arrays)


def walker(threads: int = 1, rows: int = 5) -> Walker:
    return Walker(memory(threads, rows), FOLD)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """What the program was called with: times, first row, rows."""
    seen: list[tuple[int, ...]] = []

    def calls(self: Walker, *numbers: int) -> list[Any]:
        return [lambda: seen.append(numbers)] * self.team.threads

    monkeypatch.setattr(Walker, "calls", calls)
    return seen


def test_every_thread_has_memory_of_its_own_that_is_taken_once() -> None:
    shared = memory(2)
    taken = shared.take()
    assert shared.take() is taken
    assert [[tuple(array.shape) for array in arrays] for arrays in taken] == [[(5, 48)]] * 2
    assert taken[0][0] is not taken[1][0]


@pytest.mark.parametrize("arrays", [1, 2, 3])
def test_bytes_of_a_thread_are_divided_among_its_arrays(arrays: int) -> None:
    (taken,) = memory(arrays=arrays).take()
    assert [tuple(array.shape) for array in taken] == [(5, 48)] * arrays
    assert [isinstance(array, tensorflow.Variable) for array in taken] == [True, False, False][
        :arrays
    ]


def test_no_memory_is_taken_before_it_is_needed() -> None:
    Walker(Memory(Team(1, Load()), 48, 2**50), FOLD)


def test_a_call_reads_the_rows_that_it_is_told() -> None:
    """A half in every place: a row adds 0.75, after the sum was halved."""
    (call,) = walker().calls(2, 1, 3)
    found: Any = call()
    total = 0.5
    for _ in range(6):
        total = total / 2 + 0.75
    assert found[0].numpy()[0].tolist() == [total] * 16
    assert found[0].numpy()[1].tolist() == [0.5] * 16


@pytest.mark.parametrize(("mix", "value"), [(REWRITE, 0.5), (MIXES[0], 0.5), (MIXES[1], 0.75)])
def test_a_call_writes_the_rows_that_it_is_told(mix: Any, value: float) -> None:
    written = memory(arrays=mix.arrays)
    (array, *_) = written.take()[0]
    array.assign(tensorflow.zeros_like(array) if mix.sources else array)
    (call,) = Walker(written, mix).calls(1, 1, 2)
    call()
    untouched = 0.0 if mix.sources else 0.5
    assert array.numpy()[:, 0].tolist() == [untouched, value, value, untouched, untouched]


def test_bytes_of_a_row_are_those_that_are_read_and_written() -> None:
    assert walker().row_bytes == ROW
    assert Walker(memory(), REWRITE).row_bytes == 2 * ROW
    assert Walker(memory(arrays=3), MIXES[1]).row_bytes == 3 * ROW


def test_a_set_is_read_again_and_again(asked: list[tuple[int, ...]]) -> None:
    call, work = walker(2).again(4, 10.0 * ROW)
    call()
    assert asked == [(2, 0, 4)] * 2
    assert work == 2 * 2 * 4 * ROW


def test_it_is_read_once_at_least(asked: list[tuple[int, ...]]) -> None:
    call, work = walker().again(4, 1.0)
    call()
    assert asked == [(1, 0, 4)] and work == 4 * ROW


def test_parts_follow_each_other_and_come_again(asked: list[tuple[int, ...]]) -> None:
    call, work = walker(rows=9).by_parts(9, 4.0 * ROW, fits=False)
    assert asked == []
    for _ in range(3):
        call()
    assert asked == [(1, 0, 4), (1, 4, 4), (1, 0, 4)]
    assert work == 4 * ROW


def test_what_a_cache_may_hold_is_read_once_before(asked: list[tuple[int, ...]]) -> None:
    walker().by_parts(4, 2.0 * ROW, fits=True)
    assert asked == [(1, 0, 2), (1, 2, 2)]


def test_a_part_is_no_more_than_all(asked: list[tuple[int, ...]]) -> None:
    call, work = walker().by_parts(3, 100.0 * ROW, fits=False)
    call()
    assert asked == [(1, 0, 3)] and work == 3 * ROW


def test_many_threads_have_longer_parts(asked: list[tuple[int, ...]]) -> None:
    call, work = walker(8, rows=9).by_parts(9, 2.0 * ROW, fits=False)
    call()
    assert asked == [(1, 0, 4)] * 8 and work == 8 * 4 * ROW
