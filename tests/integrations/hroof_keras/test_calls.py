"""Calls: whether one still runs, and what it ended with."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

pytest.importorskip("keras")

from hroof_keras.calls import Call


def as_keras(source: str) -> dict[str, Any]:
    """What a module of Keras' own defines."""
    names: dict[str, Any] = {"__name__": "keras.src.made_up"}
    exec(source, names)
    return names


KERAS = as_keras("""
def fit(hook):
    return hook()

def error_handler(hook):
    return fit(hook)
""")


def test_it_runs_within_and_is_over_behind() -> None:
    seen: list[tuple[Call, bool]] = []

    def hook() -> None:
        call = Call.around("fit")
        seen.append((call, call.is_over()))

    KERAS["error_handler"](hook)
    (call, within) = seen[0]
    assert not within
    assert call.is_over()
    assert call.thread == threading.get_ident()


def test_the_outermost_frame_within_keras_is_taken() -> None:
    def hook() -> tuple[Call, int]:
        return Call.around("fit"), id(sys._getframe(2))

    call, wrapper = KERAS["error_handler"](hook)
    assert call.frame == wrapper


def test_a_loop_of_the_users_own_is_never_known_to_be_over() -> None:
    def fit() -> Call:
        return Call.around("fit")

    call = fit()
    assert call.frame is None
    assert not call.is_over()


def test_it_runs_in_its_own_thread() -> None:
    within, go_on = threading.Event(), threading.Event()
    calls: list[Call] = []

    def hook() -> None:
        calls.append(Call.around("fit"))
        within.set()
        assert go_on.wait(60)

    thread = threading.Thread(target=KERAS["fit"], args=(hook,))
    thread.start()
    assert within.wait(60)
    assert not calls[0].is_over()
    go_on.set()
    thread.join()
    assert calls[0].is_over()


def left_by(error: BaseException) -> Call:
    calls: list[Call] = []

    def hook() -> None:
        calls.append(Call.around("fit"))
        raise error

    with pytest.raises(type(error)):
        KERAS["error_handler"](hook)
    return calls[0]


def test_the_exception_that_ended_it() -> None:
    error = KeyError("its own")
    call = left_by(error)
    assert call.error() is None
    try:
        raise error
    except KeyError:
        assert call.error() is error


def test_another_exception_has_not_ended_it() -> None:
    kept = KeyError("its own")
    call = left_by(kept)
    try:
        raise ValueError("another one")
    except ValueError:
        assert call.error() is None


def test_the_last_one_that_nobody_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    error = KeyError("its own")
    call = left_by(error)
    monkeypatch.setattr(sys, "last_exc", error, raising=False)
    assert call.error() is error
    monkeypatch.setattr(sys, "last_exc", ValueError("another one"), raising=False)
    assert call.error() is None


def test_of_a_loop_of_the_users_own_the_exception_that_is_dealt_with() -> None:
    call = Call(threading.get_ident(), None)
    assert call.error() is None
    try:
        raise ValueError
    except ValueError as error:
        assert call.error() is error
