"""``hroof run --counters``: the program runs under Nsight Compute, and its report becomes the result."""

from __future__ import annotations

import contextlib
import functools
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hroof.cli import show
from hroof.cli.command import Arguments, Say
from hroof.cli.planned import Plan, environment_of, plan
from hroof.cli.results import COUNTERS, TABLE, Results, run_name
from hroof.cli.target import check_startable, execute, notes_its_start
from hroof.cli.uncounted import nothing_profiled
from hroof.collect import nsight, tsl
from hroof.collect.nsight import Condition, Outcome
from hroof.errors import CaptureError, HroofError, MissingError, OutputError, ProfileError
from hroof.profile import Profile
from hroof.regions import switched_off
from hroof.units import percent

_LEAST_TO_PRINT = 60.0
"""Seconds that printing a report gets at least, however short a run is to be."""


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
        program = nsight.find(arguments.ncu, say)
    except nsight.NoProgramError as error:
        if arguments.ncu is not None:
            raise
        say(f"hroof: no counters, running without: {error}")
        return None
    check_startable(arguments.command)
    planned = plan(program, arguments, results.folder, say)
    _check_free(results.folder, force=arguments.force)
    if nsight.permission() is nsight.Permission.REFUSED:
        say("hroof: the counters of this machine are for administrators only: ncu will be refused.")
    outcome = _run(planned, arguments, results)
    noted = notes_its_start(arguments.command)
    if _has_no_driver(planned, outcome, results, noted=noted):
        _clean(results.folder)
        problem = nsight.no_driver()
        if arguments.ncu is not None:
            raise problem
        if not noted:
            raise _perhaps_run(problem)
        say(f"hroof: no counters, running without: {problem.fact}")
        return None
    return _finish(planned, outcome, arguments, results, say)


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
    return [folder / name for name in COUNTERS]


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


def _has_no_driver(plan: Plan, outcome: Outcome, results: Results, *, noted: bool) -> bool:
    """Whether ncu found no driver, and nothing shows that it started the program all the same.

    It says so on standard error only, which is not heard where that is a terminal: there, a program that notes its
    start and has not is the sign. A run that had to be ended was under way, with whatever it was.
    """
    if results.evidence() or plan.request.report.exists() or outcome.late:
        return False
    silent = outcome.problem is None and outcome.status != 0 and not nsight.has_driver()
    return outcome.condition is Condition.NO_DRIVER or (silent and noted)


def _perhaps_run(problem: HroofError) -> MissingError:
    """No driver, and a program that leaves no note when it starts: nobody wants it to run twice."""
    return MissingError(
        f"{problem.fact} Whether the program has run cannot be told, so it is not started again.",
        f"{problem.remedy} To run it without counters, leave --counters out.",
    )


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
    try:
        profile = _read(plan, run, arguments, results, say)
    except HroofError:
        if results.aside is not None:  # the profile that was there is better than names alone
            _remove(marks)
        raise
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
    unstarted = not results.evidence() and not nsight.has_driver()
    if unstarted:
        say(f"hroof: {nsight.no_driver()}")
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
    if outcome.condition is Condition.NOTHING_CAPTURED and not unstarted:
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
    tables = [tsl.read(run["places"]) for run in runs if run.get("places")]
    if tables:
        first["places"] = functools.reduce(tsl.Places.joined, tables).table()
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


def _read(
    plan: Plan, run: Mapping[str, Any], arguments: Arguments, results: Results, say: Say
) -> Profile:
    """The report, as this same ncu prints it.

    Raises:
        ProfileError: It does not, or what it prints cannot be read. The report is kept.
        OutputError: The table cannot be written. The report is kept.
    """
    from hroof import readers

    try:
        table = _print(plan, results.folder / TABLE, _time_to_print(arguments))
        profile, machine = readers.profile_of(readers.read([table]), run)
    except (ProfileError, OutputError) as error:
        report = results.rescued(plan.request.report)
        kept = f"The report is kept: hroof import {shlex.quote(str(report))}"
        raise type(error)(error.fact, f"{error.remedy} {kept}".strip()) from error
    show.keep_machine(machine, results.folder, say)
    return profile


def _time_to_print(arguments: Arguments) -> float | None:
    return None if arguments.timeout is None else max(arguments.timeout, _LEAST_TO_PRINT)


def _print(plan: Plan, table: Path, seconds: float | None) -> Path:
    """Let ncu print its report into a file."""
    words = nsight.printing(plan.program, plan.request.report)
    try:
        with table.open("wb") as file:
            status, said = nsight.ask(words, stdout=file, seconds=seconds)
    except TimeoutError as error:
        raise ProfileError(
            f"ncu was ended after {seconds:g} s (--timeout) while it printed its report.",
            "Raise --timeout, or leave it out.",
        ) from error
    except OSError as error:
        raise OutputError(
            f"Cannot write {str(table)!r}: {error.strerror}.", "Make room."
        ) from error
    if status != 0:
        said = said.strip() or table.read_text(errors="replace")
        raise ProfileError(
            f"ncu cannot print its report: {' '.join(said.split())[:200]}",
            "Another ncu may: name it with --ncu.",
        )
    if not table.stat().st_size:
        raise ProfileError(
            f"ncu printed nothing of its report into {str(table)!r}: the disk is full, or the report is empty.",
            "Make room.",
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
        status = execute(arguments.command, environment_of(arguments, plain), stdout=stdout)
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
