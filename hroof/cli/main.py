"""The entry of the command line: the table of verbs, and the one place that catches errors."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence

import hroof
from hroof.cli.command import Command, split_program
from hroof.errors import HroofError, OutputError, UsageError
from hroof.report import say

VERBS = ("run", "report", "compare", "check", "importing", "ceilings", "count", "doctor", "demo")
"""Modules, in the order of the overview."""
INTERRUPTED = 130
BROKEN_PIPE = 141
NOT_WRITTEN = frozenset({errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT})
"""Errors of a write to a stream that is there but takes nothing."""


def commands() -> list[Command]:
    """Every verb, in the order of the overview."""
    return [importlib.import_module(f"hroof.cli.{verb}").COMMAND for verb in VERBS]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        argv: Arguments without the program's name; by default those of this process.

    Returns:
        The exit status: 0; that of the program that was run; 1 to 6 for the errors of
        ``hroof.errors``; 126 or 127 for a program that cannot be started; 130 after Ctrl-C.
    """
    _write_what_the_terminal_can()
    try:
        if sys.stdout is None:
            raise OutputError("Standard output is closed.", "Redirect it, e.g. to /dev/null.")
        status = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return status
    except HroofError as error:
        say(f"hroof: {error}")
        return error.exit_code
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except OSError as error:
        if error.filename is not None or error.errno not in NOT_WRITTEN:
            raise
        _discard_output()
        say(f"hroof: Cannot write to standard output: {error.strerror}. Redirect it elsewhere.")
        return OutputError.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


def _write_what_the_terminal_can() -> None:
    """A character that the encoding of the terminal lacks becomes a question mark, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _dispatch(argv: list[str]) -> int:
    known = {command.name: command for command in commands()}
    if not argv:
        _parser().print_help(sys.stderr)
        return UsageError.exit_code
    command = known.get(argv[0])
    program: list[str] = []
    if command is not None and command.flags is not None:
        own, program = split_program(argv[1:], command.flags)
        argv = [command.name, *own]
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse has printed the help, the version or what is wrong
        return int(stop.code or 0)
    arguments.command = program
    return known[arguments.verb].run(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hroof",
        description="The hierarchical Roofline of a training program, layer by layer.",
        epilog="Begin with: hroof demo, or hroof run -- python train.py",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hroof {hroof.__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for command in commands():
        sub = verbs.add_parser(
            command.name,
            help=command.help,
            description=command.description,
            epilog="examples:\n" + "\n".join(f"  {line}" for line in command.examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.arguments(sub)
    return parser


def _discard_output() -> None:
    """The reader has gone: what is still in the buffer goes nowhere, quietly."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return  # not a real file: nothing is buffered for a reader
