"""The one error tree; a message is the fact, then the remedy.

HroofError
├── UsageError        the call or the command line asks for something impossible
├── ProfileError      a saved profile or machine is foreign, damaged or too new
├── OutputError       a result cannot be written where it was asked for
├── CaptureError      a region saw nothing that it could measure
└── MissingError      a framework, package or device that is needed is not there
"""

from __future__ import annotations


class HroofError(Exception):
    """Base of every error that hroof raises on purpose.

    Args:
        fact: What is wrong, with the value in question.
        remedy: What the reader can do about it.
    """

    exit_code = 1

    def __init__(self, fact: str, remedy: str = "") -> None:
        self.fact = fact
        self.remedy = remedy
        super().__init__(f"{fact} {remedy}".strip())


class UsageError(HroofError, ValueError):
    """The call or the command line asks for something impossible."""

    exit_code = 2


class ProfileError(HroofError, ValueError):
    """A saved profile or machine is foreign, damaged or newer than this hroof."""

    exit_code = 3


class OutputError(HroofError, OSError):
    """A result cannot be written where it was asked for."""

    exit_code = 4

    def __init__(self, fact: str, remedy: str = "") -> None:
        HroofError.__init__(self, fact, remedy)


class CaptureError(HroofError, RuntimeError):
    """A region or a run saw nothing that it could measure."""

    exit_code = 5


class MissingError(HroofError, ImportError):
    """A framework, a package or a device that is needed is not there."""

    exit_code = 6
