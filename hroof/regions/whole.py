"""Whole numbers that a program gives, of whatever type."""

from __future__ import annotations

import operator
from typing import Any

from hroof.errors import UsageError


def whole_number(what: str, value: Any, *, least: int) -> int:
    """The ``int`` that a whole number stands for, e.g. one of NumPy's; true and false stand for none.

    Args:
        what: Name of the argument, for the message.
        value: What was given.
        least: The smallest that is allowed.

    Raises:
        UsageError: It is no whole number, or too small.
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise UsageError(
            f"{what}={value!r} is not a whole number of at least {least}.", "Give another one."
        )
    return number
