"""The entry of the command line: the table of verbs, and the one place that catches errors."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

import hroof
from hroof.cli.command import Command, split_program
from hroof.errors import HroofError

VERBS = ("run", "report", "ceilings", "count", "doctor", "demo")
INTERRUPTED = 130
BROKEN_PIPE = 141


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
    try:
        status = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return status
    except HroofError as error:
        print(f"hroof: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED


def _dispatch(argv: list[str]) -> int:
    known = {command.name: command for command in commands()}
    command = known.get(argv[0]) if argv else None
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
