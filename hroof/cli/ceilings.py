"""``hroof ceilings``: the measured limits of this machine, cached or measured now."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from hroof.cli import frameworks, kept
from hroof.cli.command import Arguments, Command, Say, grouping, print_json, progress
from hroof.errors import UsageError
from hroof.files import check_free, json_writer, write_atomic
from hroof.integration import Integration, alone
from hroof.machine import Machine

SWEEP = "sweep"
FIGURES = (".png", ".svg", ".pdf")
KINDS = (*FIGURES, ".html", ".json", ".txt")


def _arguments(parser: argparse.ArgumentParser) -> None:
    frameworks.add_framework(parser)
    parser.add_argument("--device", help="cpu or cuda:0 (default: the framework's)")
    parser.add_argument("--refresh", action="store_true", help="measure again")
    parser.add_argument(
        "--quick", action="store_true",
        help="a rough measurement is enough: fp64, fp32 and 16-bit precisions, no sweep",
    )  # fmt: skip
    parser.add_argument(
        "--only", type=grouping, default=(), metavar="NAMES",
        help="measure these again and keep the others, e.g. L1,dram,matrix_bf16,fp32,launch,sweep",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, action="append", default=[], metavar="FILE",
        help=f"write a file of the kind that its suffix names instead of text: {' '.join(KINDS)}; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--list", action="store_true", help="the machines that are known, their age, what is stale"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument("--quiet", action="store_true", help="say nothing on standard error")


def run(arguments: Arguments) -> int:
    """Print the machine.

    Raises:
        MissingError: The framework or the device is not there.
        OutputError: A file is there already, or cannot be written.
        UsageError: A suffix or the name of a ceiling is unknown, or options contradict each other.
    """
    _check(arguments)
    if arguments.list:
        kept.show_list(as_json=arguments.json)
        return 0
    say = progress(arguments.quiet)
    machine = _machine(arguments, alone(frameworks.load(arguments.framework)), say)
    for path in arguments.output:
        say(f"Wrote {write(machine, path)}")
    if arguments.json:
        print_json(machine.to_json())
    elif not arguments.output:
        from hroof.report import ceilings as report

        text = report.text(machine, color=sys.stdout.isatty())
        sys.stdout.write(text.rstrip("\n") + "\n")
    return 0


def _check(arguments: Arguments) -> None:
    """Refuse before anything is measured."""
    if arguments.only and (arguments.quick or arguments.refresh):
        raise UsageError(
            "--only measures in any case.", "Leave --quick and --refresh out, or leave --only out."
        )
    for path in arguments.output:
        if path.suffix.lower() not in KINDS:
            raise UsageError(
                f"{path.name!r} is no kind of figure or report.",
                f"End the name with one of {', '.join(KINDS)}.",
            )
        check_free(path, force=arguments.force)


def _machine(arguments: Arguments, integration: Integration, say: Say) -> Machine:
    """Measured now where the cache does not have it, or where that is asked for."""
    from hroof import ceilings

    steps = Steps(say, live=not arguments.quiet and sys.stderr.isatty())
    try:
        if arguments.only:
            only = {name.lower().replace(" ", "_") for name in arguments.only}
            return ceilings.renewed(integration, arguments.device, only=only, progress=steps)
        return ceilings.cached(
            integration, arguments.device,
            refresh=arguments.refresh, quick=arguments.quick, progress=steps,
        )  # fmt: skip
    finally:
        steps.end()


class Steps:
    """Says what is measured now: on a terminal in one line, else a line when a ceiling comes first, and again.

    Args:
        say: Says a line.
        live: Standard error is a terminal.
    """

    def __init__(self, say: Say, *, live: bool) -> None:
        self._say = say
        self._live = live
        self._begun = False
        self._said: set[str] = set()

    def __call__(self, text: str) -> None:
        """Take note of ``3 of 40: L2: expand.sum``."""
        if not self._begun:
            self._say("hroof: measuring this machine's ceilings …")
            self._begun = True
        if self._live:
            sys.stderr.write(f"\r\x1b[K{text[:_WIDTH]}")
            sys.stderr.flush()
            return
        place, _, rest = text.partition(": ")
        ceiling = place if place == SWEEP else f"{place == 'again'} {rest.partition(': ')[0]}"
        if rest and ceiling not in self._said:
            self._say(f"  {text}")
            self._said.add(ceiling)

    def end(self) -> None:
        """Clear the line."""
        if self._live and self._begun:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


_WIDTH = 78


def write(machine: Machine, path: Path) -> Path:
    """Write a machine as a file of the kind that its suffix names; it appears whole or not at all.

    Raises:
        OutputError: It cannot be written.
    """
    from hroof.report import ceilings as report

    suffix = path.suffix.lower()
    if suffix == ".json":
        write_atomic(path, json_writer(machine.to_json()))
    elif suffix in FIGURES:
        from hroof.report.chart import figure

        figure(machine, path)
    else:
        content = report.page(machine) if suffix == ".html" else report.text(machine)
        write_atomic(path, _content(content.encode("utf-8")))
    return path


def _content(content: bytes) -> Callable[[Path], None]:
    def fill(path: Path) -> None:
        path.write_bytes(content)

    return fill


COMMAND = Command(
    name="ceilings",
    help="measure the limits of this machine, once",
    description=(
        "Print the ceilings of a device: FLOP/s per pipe and precision, B/s per memory level,\n"
        "the cost of a launch. They are measured once and cached; the threads are those that the\n"
        "framework uses, e.g. by OMP_NUM_THREADS; TensorFlow: TF_NUM_INTRAOP_THREADS."
    ),
    examples=(
        "hroof ceilings",
        "hroof ceilings -o roofline.png -o machine.html",
        "hroof ceilings --only L1,matrix_bf16",
        "hroof ceilings --framework keras",
        "hroof ceilings --list",
        "hroof ceilings --json > machine.json",
    ),
    arguments=_arguments,
    run=run,
)
