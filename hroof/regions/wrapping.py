"""Functions of every kind inside a region: plain, coroutine, generator and asynchronous generator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any


def inside(region: AbstractContextManager[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same kind whose body runs inside the region, at every call.

    For a generator the body is what runs between the first item and the end, not the call.
    """
    if inspect.iscoroutinefunction(function):
        return _coroutine(region, function)
    if inspect.isasyncgenfunction(function):
        return _async_generator(region, function)
    if inspect.isgeneratorfunction(function):
        return _generator(region, function)

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with region:
            return function(*args, **kwargs)

    return plain


def _coroutine(
    region: AbstractContextManager[Any], function: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with region:
            return await function(*args, **kwargs)

    return coroutine


def _generator(
    region: AbstractContextManager[Any], function: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with region:
            return (yield from function(*args, **kwargs))

    return generator


def _async_generator(
    region: AbstractContextManager[Any], function: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(function)
    async def generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with region:
            inner = function(*args, **kwargs)
            try:
                item = await anext(inner)
                while True:
                    try:
                        sent = yield item
                    except Exception as error:
                        item = await inner.athrow(error)
                    else:
                        item = await inner.asend(sent)
            except StopAsyncIteration:
                return
            finally:
                await inner.aclose()

    return generator
