"""``hroof report``: show a saved run as text, JSON, or files of any kind."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from hroof.cli import show
from hroof.cli.command import (
    Arguments,
    Command,
    Say,
    add_grouping,
    at_least,
    check_grouping,
    print_json,
    progress,
)
from hroof.errors import CaptureError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.regions import only_marked, what_was_marked

TOP = 15


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder that hroof run wrote")
    parser.add_argument(
        "-o", "--output", type=Path, action="append", default=[], metavar="FILE",
        help="write a file of the kind that its suffix names instead of text: "
        ".html .png .svg .pdf .csv .json .parquet .txt; may be repeated",
    )  # fmt: skip
    add_grouping(parser)
    parser.add_argument(
        "--top", type=at_least(0), default=TOP, metavar="N",
        help=f"rows of the ranking; 0 for all (default: {TOP})",
    )  # fmt: skip
    parser.add_argument(
        "--full", action="store_true", help="everything there is to say, not the short report"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--machine", type=Path, metavar="FILE", help="ceilings to use (default: those of the run)"
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument("--quiet", action="store_true", help="say nothing on standard error")


def run(arguments: Arguments) -> int:
    """Show the run.

    Raises:
        ProfileError: RUN is not a profile, or FILE no machine.
        OutputError: A file is there already, or cannot be written.
        UsageError: A suffix or a key is unknown.
        CaptureError: The run only marked for a tool outside.
    """
    check_grouping(arguments.by)
    say = progress(arguments.quiet)
    profile = Profile.load(arguments.folder)
    if only_marked(profile):
        raise CaptureError(
            what_was_marked(profile), "Collect with hroof run --counters, or without HROOF=marks."
        )
    machine = _machine(arguments, profile, say)
    for path in arguments.output:
        show.write_file(profile, machine, path, arguments, say)
    if arguments.json:
        print_json(show.as_json(profile, machine, arguments.by))
    elif not arguments.output:
        show.print_text(profile, machine, by=arguments.by, top=arguments.top, full=arguments.full)
    return 0


def _machine(arguments: Arguments, profile: Profile, say: Say) -> Machine | None:
    """As asked; else that of the run; else one that was measured here before. Never measures."""
    if arguments.machine is not None:
        return _doubted(Machine.load(arguments.machine))
    return show.machine_of(arguments.folder, profile, say)


def _doubted(machine: Machine) -> Machine:
    """Ceilings that a user gives, with a warning where they cannot be: peaks with sparsity, above the data sheet."""
    from hroof.ceilings import checks

    warnings = dict.fromkeys((*machine.warnings, *checks.given(machine)))
    return dataclasses.replace(machine, warnings=tuple(warnings))


COMMAND = Command(
    name="report",
    help="show a saved run",
    description="Show a run that was saved. Needs neither the program, the framework nor the device.",
    examples=(
        "hroof report hroof-runs/train",
        "hroof report hroof-runs/train -o report.html -o roofline.png",
        "hroof report hroof-runs/train --by layer,phase --json > rows.json",
    ),
    arguments=_arguments,
    run=run,
)
