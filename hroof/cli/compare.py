"""``hroof compare``: two saved runs side by side, as text, JSON, or files of any kind."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hroof.cli import show
from hroof.cli.command import Arguments, Command, Say, at_least, print_json, progress
from hroof.errors import CaptureError
from hroof.profile import Profile
from hroof.regions import only_marked, what_was_marked
from hroof.results import at_its_clock

if TYPE_CHECKING:
    from hroof.compare import Comparison
    from hroof.machine import Machine

TOP = 12


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("base", type=Path, metavar="BASE", help="folder of the run to compare with")
    parser.add_argument("new", type=Path, metavar="NEW", help="folder of the other run")
    parser.add_argument(
        "-o", "--output", type=Path, action="append", default=[], metavar="FILE",
        help="write a file of the kind that its suffix names instead of text: "
        ".html .png .svg .pdf .csv .json .parquet .txt; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--top", type=at_least(0), default=TOP, metavar="N",
        help=f"rows of layers and of kernels; 0 for all (default: {TOP})",
    )  # fmt: skip
    parser.add_argument(
        "--full", action="store_true", help="FLOP, bytes at every level, and the warnings of both"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument("--quiet", action="store_true", help="say nothing on standard error")


def run(arguments: Arguments) -> int:
    """Compare two runs.

    Raises:
        ProfileError: BASE or NEW is not a profile.
        OutputError: A file is there already, or cannot be written.
        UsageError: A suffix is unknown, or the runs cannot be compared.
        CaptureError: A run only marked for a tool outside.
    """
    from hroof.report.compared import export

    show.keep_runs(arguments.output, arguments.base, arguments.new)
    say = progress(arguments.quiet)
    found = _compared(arguments.base, arguments.new, say)
    for path in arguments.output:
        say(f"Wrote {export.write(found, path, force=arguments.force)}")
    if arguments.json:
        print_json(export.to_json(found))
    elif not arguments.output:
        _print(found, arguments)
    return 0


def _compared(base: Path, new: Path, say: Say) -> Comparison:
    from hroof.compare import compare

    (before, roofs_before), (after, roofs_after) = (
        _loaded(folder, name, say) for folder, name in ((base, "BASE"), (new, "NEW"))
    )
    found = compare(before, after, base_machine=roofs_before, new_machine=roofs_after)
    if before.name != after.name or base == new:
        return found
    # A program that ran twice has given both runs one name: then only the folders tell them apart.
    one, other = (
        dataclasses.replace(side, name=str(folder))
        for side, folder in ((found.base, base), (found.new, new))
    )
    return dataclasses.replace(found, base=one, new=other)


def _loaded(folder: Path, name: str, say: Say) -> tuple[Profile, Machine | None]:
    """A run and its ceilings at the clock of the run."""
    profile = Profile.load(folder)
    if only_marked(profile):
        raise CaptureError(
            f"{name}: {what_was_marked(profile)}",
            "Collect with hroof run --counters, or without HROOF=marks.",
        )
    machine = show.machine_of(folder, profile, lambda text: say(f"{text} ({name})"))
    return profile, at_its_clock(profile, machine)


def _print(found: Comparison, arguments: Arguments) -> None:
    from hroof.report.compared import text

    color = sys.stdout.isatty()
    sys.stdout.write(text.render(found, top=arguments.top, full=arguments.full, color=color))
    sys.stdout.flush()


COMMAND = Command(
    name="compare",
    help="two saved runs side by side",
    description="Compare two runs that were saved: two precisions, commits, frameworks or machines. Differences that "
    "the steps of one run show as well are noise, and are called so.",
    examples=(
        "hroof compare hroof-runs/base hroof-runs/bf16",
        "hroof compare runs/main runs/branch -o compare.html -o arrows.png",
        "hroof compare runs/torch runs/keras --json > differences.json",
    ),
    arguments=_arguments,
    run=run,
)
