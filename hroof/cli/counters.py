"""``hroof run --counters``: the program runs under Nsight Compute, and its report becomes the result."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hroof.cli import show
from hroof.cli.command import Arguments, Say
from hroof.cli.results import COUNTERS, Results, run_name
from hroof.cli.target import check_startable, environment, execute
from hroof.cli.uncounted import nothing_profiled
from hroof.collect import nsight
from hroof.collect.nsight import Condition, Outcome, Program, Request
from hroof.errors import CaptureError, HroofError, OutputError, ProfileError, UsageError
from hroof.profile import Profile
from hroof.regions import switched_off
from hroof.run import RUNS
from hroof.units import percent

REPORT, TABLE, LOG = COUNTERS
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


@dataclass(frozen=True)
class Collected:
    """How a run under ncu ended.

    Attributes:
        status: Exit status of the program.
        saved: There is a result. If not, the reason has been said.
        problem: Why the result is not whole, to be raised once it was reported.
    """

    status: int
    saved: bool = True
    problem: HroofError | None = None


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
    folder = arguments.out or Path(RUNS) / run_name(arguments.command)
    try:
        program = nsight.find(arguments.ncu)
    except nsight.NoProgramError as error:
        if arguments.ncu is not None:
            raise
        say(f"hroof: {error} This is the command for the oldest version that would do.")
        program = Program("ncu", nsight.OLDEST)
    print(_plan(program, arguments, folder, say).line())
    return 0


def collect(arguments: Arguments, results: Results, say: Say) -> Collected | None:
    """Run the program under ncu and save what was counted.

    Returns:
        None where counters cannot be had here at all and the program has not run: it can still run without.

    Raises:
        UsageError: The program cannot be started.
        MissingError: The ncu that was named cannot be used, or cannot profile here.
        CaptureError: Nothing was counted.
        OutputError: The report could not be written.
        ProfileError: It cannot be read.
    """
    if switched_off():
        return None
    try:
        program = nsight.find(arguments.ncu)
    except nsight.NoProgramError as error:
        if arguments.ncu is not None:
            raise
        say(f"hroof: no counters, running without: {error}")
        return None
    check_startable(arguments.command)
    plan = _plan(program, arguments, results.folder, say)
    _check_free(results.folder, force=arguments.force)
    if nsight.permission() is nsight.Permission.REFUSED:
        say("hroof: the counters of this machine are for administrators only: ncu will be refused.")
    outcome = _run(plan, arguments, results)
    if _never_ran(plan, outcome, results):
        _clean(results.folder)
        problem = nsight.no_driver()
        if arguments.ncu is not None:
            raise problem
        say(f"hroof: no counters, running without: {problem.fact}")
        return None
    return _finish(plan, outcome, arguments, results, say)


def _plan(program: Program, arguments: Arguments, folder: Path, say: Say) -> Plan:
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
    return Plan(program, request, words, _environment(arguments, folder) | {"HROOF": "marks"})


def _environment(arguments: Arguments, folder: Path) -> dict[str, str]:
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


def _check_free(folder: Path, *, force: bool) -> None:
    """Make sure that what lies there afterwards is new.

    Raises:
        OutputError: There are counters already.
    """
    there = [path for path in _files(folder) if path.exists()]
    if there and not force:
        raise OutputError(
            f"{str(there[0])!r} is there already.",
            "Choose another folder with --out, or replace it with --force.",
        )
    _clean(folder)


def _files(folder: Path) -> list[Path]:
    return [folder / name for name in (REPORT, TABLE, LOG)]


def _clean(folder: Path) -> None:
    for path in _files(folder):
        path.unlink(missing_ok=True)


def _run(plan: Plan, arguments: Arguments, results: Results) -> Outcome:
    watch = nsight.Watch(arguments.timeout)
    with nsight.overheard(2 if arguments.json else 1, 2) as streams:
        status = execute(
            plan.words, plan.env, stdout=streams.stdout, stderr=streams.stderr, wait=watch.wait
        )
    log = plan.request.log
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    report = plan.request.report.exists()
    return nsight.judge(status, [*lines, *streams.lines], report=report, late=watch.late)


def _never_ran(plan: Plan, outcome: Outcome, results: Results) -> bool:
    """Whether ncu found no driver, and so did not start the program.

    It says so on standard error only, which is not heard where that is a terminal.
    """
    if results.evidence() or plan.request.report.exists():
        return False
    silent = outcome.problem is None and outcome.status != 0 and not nsight.has_driver()
    return outcome.condition is Condition.NO_DRIVER or silent


def _finish(
    plan: Plan, outcome: Outcome, arguments: Arguments, results: Results, say: Say
) -> Collected | None:
    marks = results.found()
    run = _facts(marks, arguments)
    if not plan.request.report.exists():
        _clean(results.folder)
        _remove(marks)
        return _nothing(plan, outcome, run, arguments, results, say)
    run["counters_mode"] = _mode(plan, outcome)
    run["warnings"] = [*(run.get("warnings") or ()), *(f"ncu: {line}" for line in outcome.said[:5])]
    profile = _read(plan, run, results.folder, say)
    profile.save(results.folder, force=True)
    _remove(path for path in marks if path != results.folder)
    if arguments.times:
        _with_times(profile, arguments, results.folder, say).save(results.folder, force=True)
    return Collected(outcome.status, problem=_incomplete(outcome, arguments))


def _nothing(
    plan: Plan, outcome: Outcome, run: Mapping[str, Any], arguments: Arguments, results: Results, say: Say
) -> Collected | None:  # fmt: skip
    """There is no report: say why.

    Raises:
        HroofError: Always, unless the program itself has failed.
    """
    if outcome.problem is not None:
        raise outcome.problem
    late = _incomplete(outcome, arguments)
    if late is not None:
        raise late
    for line in outcome.said:
        say(f"ncu: {line}")
    problem = nothing_profiled(
        results, plan.request, run.get("nvtx") or {}, skip=arguments.skip, steps=arguments.steps
    )
    if outcome.status == 0:
        raise problem
    if outcome.condition is Condition.NOTHING_CAPTURED:
        say(f"hroof: {problem}")
    return Collected(outcome.status, saved=False)


def _incomplete(outcome: Outcome, arguments: Arguments) -> HroofError | None:
    if outcome.condition is not Condition.LATE:
        return outcome.problem
    return CaptureError(
        f"The program was ended after {arguments.timeout:g} s (--timeout).",
        "Where processes wait for each other: keep the kernels that communicate out, profile one process only, or "
        "let a newer ncu launch them in lockstep (--communicator, --lockstep-kernel-launch; not tried with hroof).",
    )  # fmt: skip


def _facts(marks: Iterable[Path], arguments: Arguments) -> dict[str, Any]:
    """What the regions of the program left: names, layers, schedule."""
    runs = []
    for folder in marks:
        with contextlib.suppress(ProfileError):
            runs.append(Profile.load(folder).run)
    if not runs:
        return {
            "name": arguments.name or run_name(arguments.command),
            "program": list(arguments.command),
            "warnings": ["The program left no names: layers are called as their ranges are."],
        }
    first = dict(runs[0])
    if not str(first.get("device") or "").startswith("cuda"):
        for name in ("device", "device_name"):  # that of the report is another one
            first.pop(name, None)
    first["nvtx"] = {k: v for run in reversed(runs) for k, v in (run.get("nvtx") or {}).items()}
    if len(runs) > 1:
        warning = (
            f"{len(runs)} regions or processes were captured; their steps are counted together."
        )
        first["warnings"] = [*(first.get("warnings") or ()), warning]
    return first


def _remove(marks: Iterable[Path]) -> None:
    """Take away what regions saved without any launches."""
    for folder in marks:
        for path in Profile.files(folder):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # other files are in it
            folder.rmdir()


def _mode(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    return {
        "cache": plan.request.cache,
        "clock": plan.request.clock,
        "replay": nsight.REPLAY,
        "passes": outcome.passes,
        "ncu": plan.program.release,
        "command": plan.words,
    }


def _read(plan: Plan, run: Mapping[str, Any], folder: Path, say: Say) -> Profile:
    """The report, as this same ncu prints it.

    Raises:
        ProfileError: It does not, or what it prints cannot be read.
        OutputError: The table cannot be written.
    """
    from hroof import readers

    table = _print(plan, folder / TABLE)
    profile, machine = readers.profile_of(readers.read([table]), run)
    show.keep_machine(machine, folder, say)
    return profile


def _print(plan: Plan, table: Path) -> Path:
    """Let ncu print its report into a file."""
    kept = f"The report is kept; with more room: hroof import {plan.request.report}"
    try:
        with table.open("wb") as file:
            done = subprocess.run(
                nsight.printing(plan.program, plan.request.report), check=False,
                stdout=file, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            )  # fmt: skip
    except OSError as error:
        raise OutputError(f"Cannot write {str(table)!r}: {error.strerror}.", kept) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip() or table.read_text(errors="replace")
        raise ProfileError(
            f"ncu cannot print its report: {' '.join(said.split())[:200]}",
            f"The report is kept; with another ncu: hroof import {plan.request.report}",
        )
    return table


def _with_times(profile: Profile, arguments: Arguments, folder: Path, say: Say) -> Profile:
    """Run the program once more without ncu, and take the times of that run."""
    from hroof.attribution import with_times

    say("hroof: running the program again, without counters, for its times …")
    aside = Path(tempfile.mkdtemp(prefix=".times-", dir=folder))
    plain = aside / "plain"
    plain.mkdir()
    try:
        stdout = 2 if arguments.json else None
        status = execute(arguments.command, _environment(arguments, plain), stdout=stdout)
        if status or not (plain / "run.json").exists():
            say(f"hroof: no times of their own: the second run left none (exit status {status}).")
            return profile
        joined, share = with_times(profile, Profile.load(plain))
        say(f"hroof: {percent(share)} of the time has times of the run without counters.")
        return joined
    except HroofError as error:
        say(f"hroof: no times of their own: {error}")
        return profile
    finally:
        shutil.rmtree(aside, ignore_errors=True)
