"""Marks: every listener hears every mark that began while it listened."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.regions import marks
from hroof.regions.marks import Kind, Mark

STEP = Mark(Kind.STEP, "0")
LAYER = Mark(Kind.LAYER, "encoder.0", phase="forward")


class Recorder:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def start(self, mark: Mark) -> Any:
        self.heard.append(("start", mark))
        return len(self.heard)

    def end(self, handle: Any) -> None:
        self.heard.append(("end", handle))

    def push(self, mark: Mark) -> None:
        self.heard.append(("push", mark))

    def pop(self) -> None:
        self.heard.append(("pop", None))


class Same(Recorder):
    """Listeners that compare equal are still two listeners."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same)

    __hash__ = None  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def _nobody_listens() -> Iterator[None]:
    assert marks.listeners() == ()
    yield
    for listener in marks.listeners():
        marks.unlisten(listener)


def test_without_a_listener_a_mark_is_an_empty_handle() -> None:
    handles, heard = marks.start(STEP), marks.push(LAYER)
    assert (handles, heard) == ((), ())
    marks.end(handles)
    marks.pop(heard)


def test_a_listener_hears_the_spans_and_gets_its_handle_back() -> None:
    listener = Recorder()
    marks.listen(listener)
    handles = marks.start(STEP)
    heard = marks.push(LAYER)
    marks.pop(heard)
    marks.end(handles)
    assert listener.heard == [("start", STEP), ("push", LAYER), ("pop", None), ("end", 1)]


def test_listening_twice_is_hearing_once() -> None:
    listener = Recorder()
    marks.listen(listener)
    marks.listen(listener)
    marks.end(marks.start(STEP))
    assert len(listener.heard) == 2


def test_equal_listeners_are_two_listeners() -> None:
    one, other = Same(), Same()
    marks.listen(one)
    marks.listen(other)
    marks.unlisten(one)
    marks.push(LAYER)
    assert (one.heard, other.heard) == ([], [("push", LAYER)])


def test_listeners_hear_in_the_order_in_which_they_came() -> None:
    one, other = Recorder(), Recorder()
    marks.listen(one)
    marks.listen(other)
    assert marks.listeners() == (one, other)
    assert [listener for listener, _ in marks.start(STEP)] == [one, other]


def test_who_came_late_hears_no_end_of_what_it_did_not_hear_begin() -> None:
    early, late = Recorder(), Recorder()
    marks.listen(early)
    handles, heard = marks.start(STEP), marks.push(LAYER)
    marks.listen(late)
    marks.pop(heard)
    marks.end(handles)
    assert late.heard == []
    assert [what for what, _ in early.heard] == ["start", "push", "pop", "end"]


def test_who_left_early_still_hears_the_end_of_what_it_heard_begin() -> None:
    listener = Recorder()
    marks.listen(listener)
    handles = marks.start(STEP)
    marks.unlisten(listener)
    marks.end(handles)
    assert [what for what, _ in listener.heard] == ["start", "end"]


def test_leaving_without_having_come_does_nothing() -> None:
    marks.unlisten(Recorder())
    assert marks.listeners() == ()


def test_all_may_leave_at_once() -> None:
    listener = Recorder()
    marks.listen(listener)
    marks.unlisten_all()
    assert marks.listeners() == ()
    assert marks.push(LAYER) == ()
    assert listener.heard == []


def test_a_lock_that_a_fork_left_held_hinders_nobody() -> None:
    with marks._changing:
        marks.unlisten_all()
        marks.listen(Recorder())
    assert len(marks.listeners()) == 1


def test_any_thread_may_end_a_process_wide_span() -> None:
    listener = Recorder()
    marks.listen(listener)
    handles = marks.start(STEP)
    thread = threading.Thread(target=marks.end, args=(handles,))
    thread.start()
    thread.join()
    assert listener.heard[-1] == ("end", 1)


def test_no_listener_is_lost_when_many_come_at_once() -> None:
    def come() -> None:
        for _ in range(50):
            marks.listen(Recorder())

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(marks.listeners()) == 400


@given(st.lists(st.booleans(), max_size=20))
def test_however_spans_nest_each_begin_has_its_end(opens: list[bool]) -> None:
    listener = Recorder()
    marks.listen(listener)
    stack = []
    for opening in opens:
        if opening:
            stack.append(marks.push(LAYER))
        elif stack:
            marks.pop(stack.pop())
    while stack:
        marks.pop(stack.pop())
    marks.unlisten(listener)
    kinds = [what for what, _ in listener.heard]
    assert kinds.count("push") == kinds.count("pop")
    assert all(kinds[:n].count("push") >= kinds[:n].count("pop") for n in range(len(kinds)))


def test_marks_are_values() -> None:
    assert Mark(Kind.LAYER, "a", "forward") == Mark(Kind.LAYER, "a", phase="forward")
    assert len({STEP, Mark(Kind.STEP, "0")}) == 1
    assert [str(kind) for kind in Kind] == ["region", "step", "phase", "layer"]
