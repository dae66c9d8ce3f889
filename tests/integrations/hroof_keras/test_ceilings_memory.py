"""Memory of every thread that programs for ceilings read: shared by working sets, taken late, read for real."""

from __future__ import annotations

from typing import Any

import pytest

tensorflow = pytest.importorskip("tensorflow")

from hroof_keras.ceilings_loops import Fold  # noqa: E402
from hroof_keras.ceilings_memory import Memory  # noqa: E402
from hroof_keras.ceilings_xla import Load, Team  # noqa: E402

FOLD = Fold.apart(3, 16)
ROW = 3 * 16 * 4


def memory(threads: int = 1, rows: int = 5) -> Memory:
    return Memory(Team(threads, Load()), FOLD, rows * ROW + 7)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """What the program was called with: times, first row, rows."""
    seen: list[tuple[int, ...]] = []

    def calls(self: Memory, *numbers: int) -> list[Any]:
        return [lambda: seen.append(numbers)] * self.team.threads

    monkeypatch.setattr(Memory, "calls", calls)
    return seen


def test_working_sets_share_one_memory_and_every_thread_has_its_own() -> None:
    shared = memory(2)
    shared.calls(1, 0, 1)
    taken = list(shared._memories)
    shared.calls(1, 0, 5)
    assert shared._memories == taken
    assert [tuple(rows.shape) for rows, _ in taken] == [(5, 48)] * 2
    assert taken[0][0] is not taken[1][0]


def test_no_memory_is_taken_before_it_is_needed() -> None:
    assert Memory(Team(1, Load()), FOLD, 2**50)._memories == []


def test_a_call_reads_the_rows_that_it_is_told() -> None:
    """A half in every place: a row adds 0.75, after the sum was halved."""
    (call,) = memory().calls(2, 1, 3)
    found: Any = call()
    total = 0.5
    for _ in range(6):
        total = total / 2 + 0.75
    assert found[0].numpy()[0].tolist() == [total] * 16
    assert found[0].numpy()[1].tolist() == [0.5] * 16


def test_a_set_is_read_again_and_again(asked: list[tuple[int, ...]]) -> None:
    call, work = memory(2).again(4, 10.0 * ROW)
    call()
    assert asked == [(2, 0, 4)] * 2
    assert work == 2 * 2 * 4 * ROW


def test_it_is_read_once_at_least(asked: list[tuple[int, ...]]) -> None:
    call, work = memory().again(4, 1.0)
    call()
    assert asked == [(1, 0, 4)] and work == 4 * ROW


def test_parts_follow_each_other_and_come_again(asked: list[tuple[int, ...]]) -> None:
    call, work = memory(rows=9).by_parts(9, 4.0 * ROW, fits=False)
    assert asked == []
    for _ in range(3):
        call()
    assert asked == [(1, 0, 4), (1, 4, 4), (1, 0, 4)]
    assert work == 4 * ROW


def test_what_a_cache_may_hold_is_read_once_before(asked: list[tuple[int, ...]]) -> None:
    memory().by_parts(4, 2.0 * ROW, fits=True)
    assert asked == [(1, 0, 2), (1, 2, 2)]


def test_a_part_is_no_more_than_all(asked: list[tuple[int, ...]]) -> None:
    call, work = memory().by_parts(3, 100.0 * ROW, fits=False)
    call()
    assert asked == [(1, 0, 3)] and work == 3 * ROW


def test_many_threads_have_longer_parts(asked: list[tuple[int, ...]]) -> None:
    call, work = memory(8, rows=9).by_parts(9, 2.0 * ROW, fits=False)
    call()
    assert asked == [(1, 0, 4)] * 8 and work == 8 * 4 * ROW
