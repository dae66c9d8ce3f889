"""``hroof ceilings``: the measured limits of this machine, cached or measured now."""

from __future__ import annotations

import argparse
import sys

from hroof.cli import show
from hroof.cli.command import Arguments, Command, print_json, progress
from hroof.machine import Ceiling, Machine
from hroof.units import percent, si

FRAMEWORK = "torch"


def add_framework(parser: argparse.ArgumentParser) -> None:
    """``--framework`` and ``--device``."""
    parser.add_argument(
        "--framework", default=FRAMEWORK, help=f"whose kernels (default: {FRAMEWORK})"
    )
    parser.add_argument("--device", help="cpu or cuda:0 (default: the framework's)")


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_framework(parser)
    parser.add_argument("--refresh", action="store_true", help="measure again")
    parser.add_argument("--quick", action="store_true", help="a rough measurement is enough")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="say nothing on standard error")


def run(arguments: Arguments) -> int:
    """Print the machine.

    Raises:
        MissingError: The framework or the device is not there.
    """
    from hroof import ceilings
    from hroof.ceilings.cache import cache_path

    say = progress(arguments.quiet)
    integration = show.need_framework(arguments.framework)
    path = cache_path(integration, integration.device(arguments.device))
    if arguments.refresh or not path.exists():
        say("hroof: measuring this machine's ceilings …")
    machine = ceilings.cached(
        integration, arguments.device, refresh=arguments.refresh, quick=arguments.quick
    )
    if arguments.json:
        print_json(machine.to_json())
    else:
        sys.stdout.write(_text(machine))
    return 0


def _text(machine: Machine) -> str:
    rows = [f"{machine.name} ({machine.device})", ""]
    for (pipe, precision), ceiling in machine.peaks.items():
        rows.append(
            _row(f"{pipe} {precision}", ceiling, "OP/s" if "int" in precision else "FLOP/s")
        )
    for level, ceiling in machine.bandwidths.items():
        rows.append(_row(str(level).upper(), ceiling, "B/s"))
    if machine.launch_cost is not None:
        rows.append(_row("launch cost", machine.launch_cost, "s"))
    if machine.warnings:
        rows += ["", *(f"! {warning}" for warning in machine.warnings)]
    return "\n".join(rows) + "\n"


def _row(name: str, ceiling: Ceiling, unit: str) -> str:
    spread = "" if ceiling.spread != ceiling.spread else f"  spread {percent(ceiling.spread)}"
    return f"{name:14} {si(ceiling.rate, unit):>16}  {ceiling.how}, {ceiling.kernel}{spread}"


COMMAND = Command(
    name="ceilings",
    help="measure the limits of this machine, once",
    description=(
        "Print the ceilings of a device: FLOP/s per pipe and precision, B/s per memory level,\n"
        "the cost of a launch. They are measured once and cached."
    ),
    examples=("hroof ceilings", "hroof ceilings --refresh", "hroof ceilings --json > machine.json"),
    arguments=_arguments,
    run=run,
)
