"""``hroof run``: start a program, let it measure itself, report what came out."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from hroof.cli import counters, planned, show
from hroof.cli.command import (
    Arguments,
    Command,
    Say,
    add_grouping,
    at_least,
    check_grouping,
    folder_name,
    print_json,
    progress,
    seconds,
)
from hroof.cli.nothing import nothing_captured
from hroof.cli.results import Results
from hroof.cli.target import SIGNALLED, environment, execute
from hroof.errors import HroofError, UsageError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.regions import marks_only, only_marked, switched_off, unknown_value, what_was_marked
from hroof.results import saved_machine

SKIP, STEPS = 5, 3


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "hroof run [options] -- PROGRAM [ARGUMENT ...]"
    parser.add_argument(
        "-o", "--out", type=folder_name, metavar="DIR",
        help="folder for the result (default: hroof-runs/SCRIPT)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace the profile that DIR holds")
    parser.add_argument(
        "--skip", type=at_least(0), default=SKIP, metavar="N",
        help=f"steps to let pass first (default: {SKIP})",
    )  # fmt: skip
    parser.add_argument(
        "--steps", type=at_least(1), default=STEPS, metavar="N",
        help=f"steps to time, after one that is counted (default: {STEPS})",
    )  # fmt: skip
    parser.add_argument("--name", help="name of the run in reports (default: the script's)")
    _counter_arguments(parser)
    add_grouping(parser)
    parser.add_argument(
        "--json", action="store_true",
        help="print one JSON object; the program's output goes to standard error",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="say nothing on standard error")
    parser.add_argument("--no-report", action="store_true", help="only collect")
    parser.set_defaults(files=[], rough=False)


def _counter_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--counters", action="store_true",
        help="count work and bytes with the hardware of an NVIDIA GPU, by Nsight Compute",
    )  # fmt: skip
    parser.add_argument(
        "--cold", action="store_true",
        help="with counters: flush the caches and lock the clock before each pass",
    )  # fmt: skip
    parser.add_argument(
        "--times", action="store_true",
        help="with counters: run the program a second time, without, for the times",
    )  # fmt: skip
    parser.add_argument("--ncu", metavar="PATH", help="with counters: the ncu to use")
    parser.add_argument(
        "--timeout", type=seconds, metavar="S",
        help="with counters: end the program after S seconds and keep what there is",
    )  # fmt: skip
    parser.add_argument(
        "--dry-run", action="store_true", help="with counters: print the command, start nothing"
    )


def run(arguments: Arguments) -> int:
    """Start the program and report.

    Returns:
        The program's exit status.

    Raises:
        UsageError: There is no program, or it cannot be started.
        OutputError: The result cannot be written where it was asked for.
        CaptureError: The program succeeded, but there is nothing to report, or counters were asked for in vain.
        MissingError: The ncu that was named cannot be used.
        ProfileError: What ncu wrote cannot be read.
    """
    if not arguments.command:
        raise UsageError("There is no program to run.", "Write: hroof run -- python train.py")
    check_grouping(arguments.by)
    planned.check(arguments)
    say = progress(arguments.quiet)
    if unknown_value():
        say(f"hroof: {unknown_value()}")
    if arguments.dry_run:
        return planned.dry_run(arguments, say)
    results = _prepare(arguments)
    try:
        done = counters.collect(arguments, results, say) if arguments.counters else None
        status = _plain(arguments, results) if done is None else done.status
        if done is not None and not done.saved:
            say(f"hroof: {_how_it_ended(status)}")
            return status
        _account(results, status, arguments, say)
        if done is not None and done.problem is not None:
            raise done.problem
    finally:
        results.finish()
    return status


def _plain(arguments: Arguments, results: Results) -> int:
    """Let the program measure itself."""
    env = environment(
        results.folder, skip=arguments.skip, steps=arguments.steps, name=arguments.name
    )
    return execute(arguments.command, env, stdout=sys.stderr if arguments.json else None)


def _prepare(arguments: Arguments) -> Results:
    if arguments.out is not None:
        return Results.prepare(arguments.out, force=arguments.force)
    return Results.fresh(arguments.command)


def _account(results: Results, status: int, arguments: Arguments, say: Say) -> None:
    """Report what there is, and say what is missing."""
    found = results.found()
    if status:
        say(f"hroof: {_how_it_ended(status)}{' What it did until then:' if found else ''}")
    if not found and (switched_off() or marks_only()):
        say(f"hroof: HROOF={os.environ['HROOF']} is set, so nothing was measured.")
        return
    if not found and status and not results.began():
        return
    if not found:
        results.check()
        problem = nothing_captured(results, skip=arguments.skip, steps=arguments.steps)
        if not status:
            raise problem
        say(f"hroof: {problem}")
        return
    if not arguments.no_report:
        _report(found, arguments, say)
    for folder in found:
        say(f"Saved in {folder}. See it again with: hroof report {shlex.quote(str(folder))}")


def _how_it_ended(status: int) -> str:
    if status > SIGNALLED and status - SIGNALLED in {*signal.Signals}:
        return f"The program was ended by {signal.Signals(status - SIGNALLED).name}."
    return f"The program ended with exit status {status}."


def _report(found: list[Path], arguments: Arguments, say: Say) -> None:
    """The reports of all regions of rank 0; a damaged one does not keep the others back."""
    reports: list[dict[str, Any]] = []
    problem: HroofError | None = None
    for folder in found:
        try:
            profile = Profile.load(folder)
        except HroofError as error:
            problem = error
            continue
        if only_marked(profile):
            say(f"hroof: {what_was_marked(profile)}")
            continue
        machine = _machine(profile, folder, say, quick=arguments.rough)
        show.keep_machine(machine, folder, say)
        for path in arguments.files if folder == found[0] else []:
            show.write_file(profile, machine, path, arguments, say)
        if arguments.json:
            reports.append(show.as_json(profile, machine, arguments.by))
        else:
            show.print_text(profile, machine, by=arguments.by)
    if arguments.json and reports:
        print_json(reports[0] if len(reports) == 1 else {"runs": reports})
    if problem is not None:
        raise problem


def _machine(profile: Profile, folder: Path, say: Say, *, quick: bool = False) -> Machine | None:
    """Measured ceilings; where they cannot be had, the peaks that counters carry."""
    saved = saved_machine(folder)
    if not show.framework_of(profile) and saved is None:
        again = f"hroof report {shlex.quote(str(folder))} --machine FILE"
        say(
            "hroof: no ceilings: no framework that could measure them was seen in the program, and no counters carry "
            f"peaks. Give those of another machine file with: {again}"
        )
        return None
    known = bool(show.framework_of(profile))
    found = show.measured(profile, say, quick=quick) if known else None
    if found is None and saved is not None:
        say("hroof: the ceilings are the peaks that the counters carry.")
    return found or saved


COMMAND = Command(
    name="run",
    help="run a program and report where its time goes",
    description=(
        "Run a training or inference program, measure a few of its steps, and report.\n"
        "Everything after -- is the program's own, byte for byte. Its exit status is passed on."
    ),
    examples=(
        "hroof run -- python train.py --epochs 1",
        "hroof run --skip 10 --steps 5 --by layer,phase -- python train.py",
        "hroof run --json --out runs/base -- python train.py > base.json",
        "hroof run --counters -- python train.py",
        "hroof run --counters --dry-run -- python train.py",
    ),
    arguments=_arguments,
    run=run,
    flags=frozenset(
        [
            "--force",
            "--json",
            "--quiet",
            "--no-report",
            "--counters",
            "--cold",
            "--times",
            "--dry-run",
            "-h",
            "--help",
        ]
    ),
)
