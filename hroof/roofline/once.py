"""Answers that are worked out once: while one report is written, the same table is asked the same many times."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import numpy as np

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")
_Answers = dict[Hashable, tuple[Any, object]]

_ANSWERS: ContextVar[_Answers | None] = ContextVar("answers", default=None)
_PLAIN = (str, int, float, type(None))


@contextlib.contextmanager
def remembering() -> Iterator[None]:
    """Keep the answers of the functions that are ``remembered`` until the outermost block ends.

    Tables, profiles and machines are known by their identity: within the block nobody may change one, or an answer.
    Outside every block each question is worked out anew, since a table may have changed.
    """
    if _ANSWERS.get() is not None:
        yield
        return
    token = _ANSWERS.set({})
    try:
        yield
    finally:
        _ANSWERS.reset(token)


def remembered(function: Callable[_Asked, _Answer]) -> Callable[_Asked, _Answer]:
    """Let a function answer each question once within ``remembering``."""

    signature = inspect.signature(function)

    @functools.wraps(function)
    def ask(*args: _Asked.args, **kwargs: _Asked.kwargs) -> _Answer:
        answers = _ANSWERS.get()
        if answers is None:
            return function(*args, **kwargs)
        asked = signature.bind(*args, **kwargs)
        asked.apply_defaults()  # the same question, however it is put
        key = (function, *map(_key, asked.arguments.values()))
        if key not in answers:
            # The arguments are kept as well: their identity is theirs only as long as they live.
            answers[key] = function(*args, **kwargs), (args, kwargs)
        answer: _Answer = answers[key][0]
        return answer

    return ask


def _key(value: object) -> Hashable:
    """What tells one argument from another: plain values by themselves, arrays by content, all else by identity."""
    if isinstance(value, _PLAIN):
        return type(value), value
    if isinstance(value, tuple | list):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(value[name])) for name in sorted(value))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return id(value)
