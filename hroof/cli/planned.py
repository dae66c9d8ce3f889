"""What ``hroof run --counters`` is going to start: the command line of ncu and its environment."""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from hroof.cli.command import Arguments, Say
from hroof.cli.results import LOG, REPORT, Results
from hroof.cli.target import environment
from hroof.collect import nsight
from hroof.collect.nsight import Program, Request
from hroof.errors import UsageError

_PATHS_SINCE = (2024, 1)
"""The first ncu that is known to list the operations of matrix units."""


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Attributes:
        program: The ncu.
        request: What it is asked for.
        words: The whole command line.
        env: Its environment.
    """

    program: Program
    request: Request
    words: list[str]
    env: dict[str, str]

    def line(self) -> str:
        """As a shell takes it, with the variables that differ from this process's."""
        changed = (f"{k}={v}" for k, v in self.env.items() if os.environ.get(k) != v)
        return shlex.join(["env", *changed, *self.words])


def check(arguments: Arguments) -> None:
    """Refuse options that contradict each other, before anything is started.

    Raises:
        UsageError: They do.
    """
    only_here = {
        "--cold": arguments.cold, "--dry-run": arguments.dry_run, "--times": arguments.times,
        "--ncu": arguments.ncu is not None, "--timeout": arguments.timeout is not None,
    }  # fmt: skip
    given = [name for name, value in only_here.items() if value]
    if given and not arguments.counters:
        raise UsageError(f"{given[0]} is about counters.", "Add --counters.")
    if arguments.cold and arguments.times:
        raise UsageError(
            "--cold and --times do not go together: bytes counted with flushed caches do not belong to times with warm "
            "ones.",
            "Leave one of them out.",
        )


def dry_run(arguments: Arguments, say: Say) -> int:
    """Print the command line; nothing of it is started, and nothing is written.

    Raises:
        NoProgramError: The ncu that was named cannot be used.
    """
    folder = arguments.out or Results.next_free(arguments.command)
    try:
        program = nsight.find(arguments.ncu, say)
    except nsight.NoProgramError as error:
        if arguments.ncu is not None:
            raise
        say(f"hroof: {error} This is the command for the oldest version that would do.")
        program = Program("ncu", nsight.OLDEST)
    print(plan(program, arguments, folder, say).line())
    return 0


def plan(program: Program, arguments: Arguments, folder: Path, say: Say) -> Plan:
    """What a run under this ncu starts, with its report in a folder."""
    several = nsight.several_processes(arguments.command)
    if several:
        say(
            "hroof: kernels that communicate between processes are left out, since they would wait for ever when they "
            "are replayed alone" + ("." if arguments.timeout else "; --timeout S ends a run that hangs all the same.")
        )  # fmt: skip
    request = Request(
        metrics=_metrics(program, say),
        report=folder / REPORT,
        log=folder / LOG,
        cold=arguments.cold,
        collectives=not several,
    )
    words = nsight.collecting(program, request, arguments.command)
    return Plan(program, request, words, environment_of(arguments, folder) | {"HROOF": "marks"})


def environment_of(arguments: Arguments, folder: Path) -> dict[str, str]:
    """The environment in which the program measures itself, with its result in a folder."""
    return environment(folder, skip=arguments.skip, steps=arguments.steps, name=arguments.name)


def _metrics(program: Program, say: Say) -> tuple[str, ...]:
    from hroof import counters

    gpu = nsight.first_gpu()
    chip = None
    if gpu is not None:
        with contextlib.suppress(UsageError):
            by_capability = counters.chip(gpu.capability, gpu.name) if gpu.capability else None
            chip = by_capability or counters.by_name(gpu.name)
        if chip is None:
            say(f"hroof: the chip of {gpu.name} is not known: no work of matrix units is counted.")
    return counters.metrics(chip, paths=program.since(*_PATHS_SINCE))
