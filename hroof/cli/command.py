"""What a verb of the command line is, and what several of them share."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hroof.errors import UsageError

Arguments = argparse.Namespace


@dataclass(frozen=True)
class Command:
    """One verb.

    Attributes:
        name: What is typed.
        help: One line for the overview.
        description: What it does, for ``--help``.
        examples: Command lines for ``--help``.
        arguments: Adds the arguments to a parser.
        run: Does it; returns the exit status.
        flags: For a verb that starts a program: its options without a value. Everything from
            ``--`` or from the first other word on is the program's and arrives in ``command``.
    """

    name: str
    help: str
    description: str
    examples: tuple[str, ...]
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Arguments], int]
    flags: frozenset[str] | None = None


def split_program(argv: list[str], flags: frozenset[str]) -> tuple[list[str], list[str]]:
    """Take the arguments of a verb and those of the program apart.

    Args:
        argv: Everything after the verb.
        flags: Options of the verb that take no value.

    Returns:
        The verb's arguments; the program's, byte for byte.
    """
    at = 0
    while at < len(argv):
        word = argv[at]
        if word == "--":
            return argv[:at], argv[at + 1 :]
        if not word.startswith("-") or word == "-":
            return argv[:at], argv[at:]
        whole = word in flags or "=" in word or (len(word) > 2 and word[1] != "-")  # -oDIR
        at += 1 if whole else 2
    return argv, []


def grouping(text: str) -> tuple[str, ...]:
    """``layer,phase`` as keys."""
    return tuple(key.strip() for key in text.split(",") if key.strip())


def whole_number(text: str, least: int) -> int:
    """A whole number of at least ``least``.

    Raises:
        argparse.ArgumentTypeError: It is something else.
    """
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return number


def at_least(least: int) -> Callable[[str], int]:
    """A converter of arguments to whole numbers."""
    return lambda text: whole_number(text, least)


def seconds(text: str) -> float:
    """A time in seconds above zero.

    Raises:
        argparse.ArgumentTypeError: It is something else.
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def folder_name(text: str) -> Path:
    """A folder that was named; an empty name, e.g. of an unset variable, would be the current folder.

    Raises:
        argparse.ArgumentTypeError: The name is empty.
    """
    if not text:
        raise argparse.ArgumentTypeError("the name of the folder is empty")
    return Path(text)


def add_grouping(parser: argparse.ArgumentParser) -> None:
    """``--by``, the grouping keys of the rows."""
    parser.add_argument(
        "--by", type=grouping, default=None, metavar="KEYS",
        help="grouping keys of the rows, e.g. layer,phase (default: layer; kernel where none has a layer)",
    )  # fmt: skip


def check_grouping(by: tuple[str, ...] | None) -> None:
    """Refuse wrong keys before anything is started; without any, the run decides.

    Raises:
        UsageError: A key is unknown or given twice.
    """
    from hroof.roofline import check_keys

    if by is None:
        return
    if not by:
        raise UsageError("--by names no key.", "Write e.g. --by layer,phase.")
    check_keys(by)


def print_json(value: Mapping[str, Any]) -> None:
    """One object, and nothing else, on standard output."""
    from hroof.files import json_ready

    json.dump(json_ready(value), sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")


Say = Callable[[str], None]


def progress(quiet: bool) -> Say:
    """Says on standard error what takes its time, unless it is to be quiet."""
    from hroof.report import say

    return (lambda text: None) if quiet else say
