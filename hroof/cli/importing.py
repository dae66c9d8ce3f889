"""``hroof import``: what another profiler measured, as a run of hroof."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from hroof.cli import show
from hroof.cli.command import Arguments, Command, Say, folder_name, progress
from hroof.cli.results import Results, check_replaceable, run_name
from hroof.errors import ProfileError
from hroof.profile import Profile
from hroof.run import RUNS

if TYPE_CHECKING:
    from hroof.counters import Chip
    from hroof.machine import Machine


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", type=Path, nargs="+", metavar="FILE",
        help="a .ncu-rep, what ncu --csv printed, or several files of one run; .gz as well",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--out", type=folder_name, metavar="RUN",
        help=f"folder for the run (default: {RUNS}/NAME)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace the profile that RUN holds")
    parser.add_argument("--name", help="name of the run in reports (default: the file's)")
    parser.add_argument(
        "--chip", metavar="NAME",
        help="chip of the device, e.g. V100 or GA100, where the files do not say it",
    )  # fmt: skip
    parser.add_argument(
        "--strict", action="store_true", help="refuse files that were cut off (exit status 3)"
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing on standard error")


def run(arguments: Arguments) -> int:
    """Read the files and save the run.

    Raises:
        ProfileError: A file is damaged, of another tool or holds no launches; with ``--strict`` also one that was
            cut off.
        MissingError: A report needs the package that reads it.
        OutputError: The folder holds a profile, or cannot be written.
        UsageError: The chip is not known.
    """
    from hroof import readers

    say = progress(arguments.quiet)
    folder = arguments.out or _folder(arguments.paths[0])
    check_replaceable(folder, force=arguments.force)
    raw = readers.read(arguments.paths)
    if raw.incomplete and arguments.strict:
        raise ProfileError(" ".join(raw.problems), "Leave --strict out to take what there is.")
    known = {"name": arguments.name or folder.name}
    profile, machine = readers.profile_of(raw, known, chip=_chip(arguments.chip))
    _save(profile, machine, folder, arguments, say)
    _tell(profile, machine is not None, folder, say)
    return 0


def _save(
    profile: Profile, machine: Machine | None, folder: Path, arguments: Arguments, say: Say
) -> None:
    """Put the run into its folder; of one that it replaces nothing stays, least of all its machine.

    Raises:
        OutputError: The folder cannot be written. It is as it was before.
    """
    from_there = any(path.resolve().parent == folder.resolve() for path in arguments.paths)
    results = Results.prepare(folder, force=arguments.force, keep_counters=from_there)
    try:
        profile.save(folder)
        show.keep_machine(machine, folder, say)
    finally:
        results.finish()


def _folder(file: Path) -> Path:
    """``hroof-runs/report`` for ``report.ncu-rep`` or ``report.csv.gz``."""
    stem = file.name
    for suffix in (".gz", ".csv", ".txt", ".log", ".ncu-rep"):
        stem = stem.removesuffix(suffix)
    return Path(RUNS) / run_name([stem or file.parent.name])


def _chip(name: str | None) -> Chip | None:
    from hroof import counters

    return None if name is None else counters.by_name(name)


def _tell(profile: Profile, has_machine: bool, folder: Path, say: Say) -> None:
    for text in profile.run["warnings"]:
        say(f"hroof: {text}")
    launches = round(float(profile.launches["launches"].sum()))
    peaks = "with the peaks that its counters carry" if has_machine else "without ceilings"
    count = f"{launches} launch{'' if launches == 1 else 'es'}"
    again = f"hroof report {shlex.quote(str(folder))}"
    say(
        f"{count}, {peaks}, saved in {folder}. See {'it' if launches == 1 else 'them'} with: {again}"
    )


COMMAND = Command(
    name="import",
    help="take over what another profiler measured",
    description=(
        "Read reports of Nsight Compute, or what ncu --csv printed, and save them as a run.\n"
        "Several tables are joined: one metric per file is fine."
    ),
    examples=(
        "hroof import report.ncu-rep",
        "hroof import profile.csv -o runs/base --chip A100",
        "hroof import metrics/*.csv.gz -o runs/deepcam --chip V100",
    ),
    arguments=_arguments,
    run=run,
)
