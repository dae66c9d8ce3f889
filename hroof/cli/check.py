"""``hroof check``: a saved run against a budget, or against another run; the exit status is for CI."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hroof.cli import show
from hroof.cli.command import Arguments, Command, Say, at_least, print_json, progress
from hroof.errors import CaptureError, UsageError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.regions import only_marked, what_was_marked
from hroof.results import at_its_clock
from hroof.units import parse_share

if TYPE_CHECKING:
    from hroof.budgets import Budget, Check

OVER, UNKNOWN = 7, 8
"""Exit statuses: a limit is missed; none is, but one cannot be judged."""
TOLERANCE = 0.05
"""What may become worse than in a baseline run where nothing is said."""
STDOUT = Path("-")
TOP = 30


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder that hroof run wrote")
    parser.add_argument(
        "--budget", type=Path, action="append", default=[], metavar="FILE",
        help="limits in TOML; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", type=Path, metavar="RUN2", help="a run that this one may not be worse than"
    )
    parser.add_argument(
        "--tolerance", type=_share, metavar="SHARE",
        help="what may become worse than in the baseline, e.g. 5%% (the default); beside --budget it asks for the "
        "limits of a baseline as well",
    )  # fmt: skip
    parser.add_argument(
        "--write", type=Path, metavar="FILE",
        help="check nothing: write a budget to begin with, the numbers of RUN with --tolerance to spare",
    )  # fmt: skip
    parser.add_argument(
        "--strict", action="store_true", help="a limit that is missed by noise only is missed, too"
    )
    parser.add_argument(
        "--top", type=at_least(0), default=TOP, metavar="N",
        help=f"limits to show of each outcome; 0 for all (default: {TOP})",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--markdown", type=Path, action="append", default=[], metavar="FILE",
        help="write a GitHub-flavoured summary; - adds it to the page of the job that runs (the file that "
        "$GITHUB_STEP_SUMMARY names), or prints it where there is none",
    )  # fmt: skip
    parser.add_argument(
        "--machine", type=Path, metavar="FILE", help="ceilings to use (default: those of the run)"
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument("--quiet", action="store_true", help="say nothing on standard error")


def _share(text: str) -> float:
    """A share of one, 0 or more.

    Raises:
        argparse.ArgumentTypeError: It is something else.
    """
    try:
        share = parse_share(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if share < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is below 0")
    return share


def run(arguments: Arguments) -> int:
    """Check the run.

    Returns:
        0 where every limit is kept, 7 where one is missed, 8 where none is but one cannot be judged.

    Raises:
        ProfileError: RUN or RUN2 is not a profile, or FILE no machine.
        OutputError: A file is there already, or cannot be written.
        UsageError: The budget is wrong, needs a baseline, or the runs cannot be compared.
        CaptureError: A run only marked for a tool outside.
    """
    from hroof.budgets import Verdict

    written = [path for path in (*arguments.markdown, arguments.write) if path is not None]
    show.keep_runs(written, arguments.folder, arguments.baseline)
    say = progress(arguments.quiet)
    if arguments.write is not None:
        return _write_budget(arguments, say)
    budget = _budget(arguments)
    found = _checked(arguments, budget, say)
    printed = _write(arguments, found, say)
    if arguments.json:
        from hroof.report.checked import export

        print_json(export.to_json(found))
    elif not printed:
        _print(found, arguments.top)
    return {Verdict.OVER: OVER, Verdict.UNKNOWN: UNKNOWN}.get(found.verdict, 0)


def _write_budget(arguments: Arguments, say: Say) -> int:
    """Write the numbers of the run as limits."""
    from hroof.budgets import first_budget
    from hroof.report.checked import export

    others = (arguments.budget, arguments.baseline, arguments.markdown, arguments.json)
    if any(others):
        raise UsageError("--write checks nothing.", "Write the budget first, then check with it.")
    profile, machine = _loaded(arguments.folder, "RUN", arguments.machine, True, say)
    text = first_budget(profile, machine, _tolerance(arguments))
    say(f"Wrote {export.write_text(text, arguments.write, force=arguments.force)}")
    return 0


def _tolerance(arguments: Arguments) -> float:
    return TOLERANCE if arguments.tolerance is None else float(arguments.tolerance)


def _budget(arguments: Arguments) -> Budget:
    """The limits of the files; those of a baseline where there is no file, or they are asked for."""
    from hroof.budgets import Budget, losses, merged

    if arguments.tolerance is not None and arguments.baseline is None:
        raise UsageError(
            "--tolerance is about a baseline, or a budget to write.",
            "Name it with --baseline RUN2, or --write FILE.",
        )
    budgets = [Budget.load(path) for path in arguments.budget]
    if arguments.baseline is not None and (not budgets or arguments.tolerance is not None):
        budgets.append(losses(_tolerance(arguments)))
    if not budgets:
        raise UsageError(
            "There is nothing to check the run against.",
            "Give limits with --budget FILE (hroof check RUN --write FILE makes some), or another run with "
            "--baseline RUN2.",
        )
    return merged(*budgets)


def _checked(arguments: Arguments, budget: Budget, say: Say) -> Check:
    from hroof.budgets import check

    profile, machine = _loaded(arguments.folder, "RUN", arguments.machine, budget.ceilings, say)
    base, base_machine = None, None
    if arguments.baseline is not None:
        given = (arguments.baseline, "RUN2", arguments.machine, budget.ceilings, say)
        base, base_machine = _loaded(*given)
    return check(
        profile,
        budget,
        machine=machine,
        baseline=base,
        baseline_machine=base_machine,
        strict=arguments.strict,
    )


def _loaded(
    folder: Path, name: str, machine: Path | None, needed: bool, say: Say
) -> tuple[Profile, Machine | None]:
    """A run and its ceilings at the clock of the run; nothing is said of ceilings that no limit needs."""
    profile = Profile.load(folder)
    if only_marked(profile):
        raise CaptureError(
            f"{name}: {what_was_marked(profile)}",
            "Collect with hroof run --counters, or without HROOF=marks.",
        )
    if machine is not None:
        return profile, at_its_clock(profile, Machine.load(machine))
    told = say if needed else progress(quiet=True)
    found = show.machine_of(folder, profile, lambda text: told(f"{text} ({name})"))
    return profile, at_its_clock(profile, found)


def _write(arguments: Arguments, found: Check, say: Say) -> bool:
    """Write the summaries; say whether one of them took standard output."""
    from hroof.report.checked import export, markdown

    printed = False
    for path in arguments.markdown:
        job = export.job_summary()
        if path != STDOUT:
            say(f"Wrote {export.write_markdown(found, path, force=arguments.force)}")
        elif job is not None:
            say(f"Added to {export.append(found, job)}")
        elif arguments.json:
            raise UsageError(
                "--json and --markdown - both take standard output.", "Give one of them a file."
            )
        else:
            sys.stdout.write(markdown.render(found))
            printed = True
    return printed


def _print(found: Check, top: int) -> None:
    from hroof.report.checked import text

    sys.stdout.write(text.render(found, top=top, color=sys.stdout.isatty()))
    sys.stdout.flush()


COMMAND = Command(
    name="check",
    help="a saved run against a budget, for CI",
    description="Hold a saved run against limits in a TOML file, or against another run. Status 0: every limit is "
    "kept; 7: one is missed; 8: one cannot be judged, because the run does not have the number.",
    examples=(
        "hroof check hroof-runs/train --write budget.toml",
        "hroof check hroof-runs/train --budget budget.toml",
        "hroof check runs/branch --baseline runs/main --tolerance 5%",
        "hroof check runs/branch --budget budget.toml --markdown - --json > check.json",
    ),
    arguments=_arguments,
    run=run,
)
