"""When captured steps ran: executions with a begin and an end, and steps from one boundary to the next."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("keras")

from hroof_keras.capturing.spans import Span, Spans


class Clocked:
    """Spans of a made-up region, whose clock ticks at every look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.finished_steps = 0
        self.synchronized = 0
        self._time = 0
        monkeypatch.setattr("hroof_keras.capturing.spans.time.perf_counter_ns", self._tick)
        region: Any = self
        self.spans = Spans(region, self._synchronize)

    def _tick(self) -> int:
        self._time += 1
        return self._time

    def _synchronize(self) -> None:
        self.synchronized += 1

    def execution(self, steps: int) -> None:
        self.spans.execution_begins()
        self.spans.execution_ends(steps)
        self.finished_steps += steps

    @property
    def found(self) -> list[tuple[int, int, int]]:
        """First step, count, ticks."""
        return [(span.first, span.count, span.end - span.begin) for span in self.spans.all]


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Clocked:
    return Clocked(monkeypatch)


def test_an_execution_is_a_span(clocked: Clocked) -> None:
    clocked.finished_steps = 5
    clocked.spans.begin()
    clocked.execution(1)
    clocked.spans.boundary()
    clocked.execution(3)
    clocked.spans.end()
    assert clocked.found == [(5, 1, 1), (6, 3, 1)]
    assert [span.name for span in clocked.spans.all] == ["5", "6-8"]


def test_a_step_of_the_users_lasts_until_the_next(clocked: Clocked) -> None:
    clocked.spans.begin()
    for _ in range(2):
        clocked.finished_steps += 1
        clocked.spans.boundary()
    assert clocked.found == [(0, 1, 1), (1, 1, 1)]


def test_the_capture_may_end_at_a_boundary_or_within_a_step(clocked: Clocked) -> None:
    clocked.spans.begin()
    clocked.finished_steps += 1
    clocked.spans.end()
    assert clocked.found == [(0, 1, 1)]
    clocked.spans.begin()
    clocked.spans.end()
    assert clocked.found == []
    assert not clocked.spans.begun


def test_to_begin_again_forgets(clocked: Clocked) -> None:
    clocked.spans.begin()
    clocked.execution(2)
    clocked.spans.boundary()
    clocked.spans.begin()
    assert clocked.found == []


def test_devices_are_at_rest_whenever_the_clock_is_read(clocked: Clocked) -> None:
    clocked.spans.begin()
    clocked.execution(1)
    clocked.spans.end()
    assert clocked.synchronized == clocked._time


def test_seconds() -> None:
    assert Span(0, 1, 500, 1_500_000_500).seconds == 1.5


def test_without_a_captured_step_there_is_nothing_to_end(clocked: Clocked) -> None:
    clocked.spans.end()
    assert clocked.found == []
