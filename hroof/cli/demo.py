"""``hroof demo``: a small real training run and its report, on any laptop."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from hroof.cli import frameworks
from hroof.cli import run as run_verb
from hroof.cli.command import Arguments, Command, at_least, progress
from hroof.cli.frameworks import KNOWN
from hroof.errors import MissingError

STEPS = 3
SKIP = 2


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--steps", type=at_least(1), default=STEPS, metavar="N",
        help=f"steps to time (default: {STEPS})",
    )  # fmt: skip
    frameworks.add_framework(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the result")
    parser.add_argument("--force", action="store_true", help="replace the profile that DIR holds")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as HTML too")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="say nothing on standard error")


def run(arguments: Arguments) -> int:
    """Train, measure, report.

    Raises:
        MissingError: No framework that could train is installed.
    """
    program = _program(arguments.framework)
    progress(arguments.quiet)(
        f"hroof: training a small transformer for {SKIP + 1 + arguments.steps} steps. "
        f"With a program of your own: hroof run -- python train.py"
    )
    return run_verb.run(_as_run(arguments, program))


def _program(name: str | None) -> Path:
    """The script, found without importing the framework.

    Raises:
        MissingError: The framework is not installed, or there is no demo of it.
    """
    wanted = [one for one in KNOWN if name is None or one.name == name]
    chosen = next((one for one in wanted if one.installed), None)
    package = importlib.util.find_spec(f"hroof_{chosen.name}") if chosen is not None else None
    if package is None or package.origin is None:
        titles = " or ".join(one.title for one in wanted) or repr(name)
        remedies = ", or ".join(one.remedy for one in wanted or KNOWN)
        raise MissingError(
            f"The demo trains a model of {titles}, which is not installed.",
            f"Install it with: {remedies}.",
        )
    return Path(package.origin).with_name("demo.py")


def _as_run(arguments: Arguments, program: Path) -> Arguments:
    steps = SKIP + 1 + arguments.steps
    return Arguments(
        command=[sys.executable, str(program), str(steps)],
        out=arguments.out,
        force=arguments.force,
        skip=SKIP,
        steps=arguments.steps,
        name="demo",
        by=("layer",),
        json=arguments.json,
        quiet=arguments.quiet,
        no_report=False,
        files=[] if arguments.html is None else [arguments.html],
        counters=False,
        cold=False,
        times=False,
        ncu=None,
        timeout=None,
        dry_run=False,
        rough=True,
    )


COMMAND = Command(
    name="demo",
    help="a small real training run and its report",
    description="Train a small transformer on this machine's CPU for a few steps, and report.",
    examples=(
        "hroof demo",
        "hroof demo --html demo.html",
        "hroof demo --steps 10 --json",
        "hroof demo --framework keras",
    ),
    arguments=_arguments,
    run=run,
)
