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
    grouping,
    print_json,
    progress,
)
from hroof.errors import CaptureError, UsageError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.regions import only_marked, what_was_marked
from hroof.report.charts.choice import CHARTS, KINDS, STYLE_NAMES, USUAL, Choice, levels_of

TOP = 15


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder that hroof run wrote")
    parser.add_argument(
        "-o", "--output", type=Path, action="append", default=[], metavar="FILE",
        help="write a file of the kind that its suffix names instead of text: "
        ".html .png .svg .pdf .md .csv .json .parquet .txt; may be repeated",
    )  # fmt: skip
    add_grouping(parser)
    _chart_arguments(parser)
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


def _chart_arguments(parser: argparse.ArgumentParser) -> None:
    """What is drawn into pictures."""
    parser.add_argument(
        "--chart", choices=KINDS, default=None,
        help="of .png .svg .pdf: the Roofline, the same as times, or one panel each for forward, backward "
        f"and optimizer (default: {USUAL.kind})",
    )  # fmt: skip
    parser.add_argument(
        "--style", choices=STYLE_NAMES, default=None,
        help=f"of .png .svg .pdf; paper: as the figures of arXiv 2009.05257 (default: {USUAL.style})",
    )  # fmt: skip
    parser.add_argument(
        "--levels", type=grouping, default=None, metavar="LEVELS",
        help="of .png .svg .pdf: only these memory levels, e.g. l2,dram (default: all)",
    )  # fmt: skip


def _choice(arguments: Arguments) -> Choice:
    """Which chart was asked for.

    Raises:
        UsageError: No picture is written that it could be about, or it cannot be drawn.
    """
    asked = [arguments.chart, arguments.style, arguments.levels]
    pictures = [path for path in arguments.output if path.suffix.lower() in CHARTS]
    if not pictures and any(one is not None for one in asked):
        raise UsageError(
            "--chart, --style and --levels are about a picture, and none is written.",
            "Add -o FILE.png, .svg or .pdf.",
        )
    return Choice(
        kind=arguments.chart or USUAL.kind,
        style=arguments.style or USUAL.style,
        levels=None if arguments.levels is None else levels_of(arguments.levels),
    )


def run(arguments: Arguments) -> int:
    """Show the run.

    Raises:
        ProfileError: RUN is not a profile, or FILE no machine.
        OutputError: A file is there already, or cannot be written.
        UsageError: A suffix or a key is unknown, or a chart is chosen and none is written.
        CaptureError: The run only marked for a tool outside.
    """
    check_grouping(arguments.by)
    chart = _choice(arguments)
    show.keep_runs(arguments.output, arguments.folder)
    say = progress(arguments.quiet)
    profile = Profile.load(arguments.folder)
    if only_marked(profile):
        raise CaptureError(
            what_was_marked(profile), "Collect with hroof run --counters, or without HROOF=marks."
        )
    machine = _machine(arguments, profile, say)
    for path in arguments.output:
        show.write_file(profile, machine, path, arguments, say, chart)
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
        "hroof report hroof-runs/train --chart time --by phase -o times.png",
        "hroof report hroof-runs/train --chart phases --style dark -o phases.svg",
        "hroof report hroof-runs/train --by layer,phase --json > rows.json",
    ),
    arguments=_arguments,
    run=run,
)
