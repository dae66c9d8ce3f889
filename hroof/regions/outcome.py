"""What a region ended with, and how the reader is told without breaking the program."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hroof.profile import Profile


class Status(StrEnum):
    """How far a region came."""

    WAITING = "waiting"
    COMPLETE = "complete"
    PARTIAL = "partial"
    EMPTY = "empty"
    MARKS = "marks"
    OFF = "off"


class HroofWarning(RuntimeWarning):
    """Something that the program does not suffer from but the reader should know."""


@dataclass(frozen=True)
class Outcome:
    """What a region ended with.

    Attributes:
        status: ``complete``; ``partial`` (fewer steps than asked, or an exception); ``empty``; ``marks``
            (another region was collecting, so this one only marked); ``off``.
        profile: What was collected, if anything.
        reason: Why it is not complete, and the call that would fit.
    """

    status: Status
    profile: Profile | None = None
    reason: str = ""


def tell(text: str) -> None:
    """Warn; where the program makes warnings errors, log instead: it must not break."""
    try:
        warnings.warn(text, HroofWarning, stacklevel=2)
    except HroofWarning:
        logging.getLogger("hroof").warning(text)
