"""The front door for programs: regions that measure, save and report themselves."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hroof.errors import CaptureError, HroofError, MissingError
from hroof.integration import Stage
from hroof.regions import (
    Outcome,
    Region,
    Status,
    listen,
    marks_only,
    only_marked,
    unknown_value,
)
from hroof.results import Results, framework_and_device, known_ceilings

if TYPE_CHECKING:
    from types import TracebackType

    from hroof.machine import Machine
    from hroof.profile import Profile

RUNS = "hroof-runs"
OUT_VARIABLE = "HROOF_OUT"
_NOBODY_LISTENED = "No tool listened to NVTX in this process: no range was emitted."


@dataclass(eq=False)
class Run(Region, Results):
    """A region that a program measures itself with.

    Attributes:
        out: Folder for the result; by default a new one under ``hroof-runs``.
        show: Print the report to standard error when the block ends.
        folder: Where the result was saved, once it was.
    """

    out: str | Path | None = None
    show: bool = True
    folder: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.on_end = _save

    def __enter__(self) -> Run:
        _listen_for_tools()
        _warn_of_unknown_value()
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._tell_once()

    _reported: bool = False

    def _set(self, stage: Stage) -> None:
        _note_progress(self, stage)
        super()._set(stage)

    def _open(self) -> None:
        first = self._capture is None
        super()._open()
        if first and self._capture is not None and self.stage is Stage.SKIP:
            _note_progress(self, Stage.SKIP)

    def _end(self, error: BaseException | None) -> None:
        super()._end(error)
        if not self._handles:  # else __exit__ tells, once the mark of the region has ended
            self._tell_once()

    def _tell_once(self) -> None:
        wanted = self.show and not os.environ.get(OUT_VARIABLE)
        if wanted and self._entered == 0 and not self._reported:
            self._tell()

    @property
    def profile(self) -> Profile:
        """What was collected.

        Raises:
            CaptureError: Nothing was.
        """
        if self.outcome.profile is None:
            raise CaptureError(
                f"Region {self.name!r} has no profile ({self.outcome.status}).", self.outcome.reason
            )
        return self.outcome.profile

    def machine(self) -> Machine | None:
        """The ceilings of the device that the region ran on: measured once, then cached.

        Where the region only marks, they are not measured: the tool outside would profile that too.
        """
        from hroof.report import say

        return known_ceilings(self.profile) if self.only_marks else ceilings_of(self.profile, say)

    def save(self, folder: str | Path | None = None, *, force: bool = False) -> Path:
        """Write what was collected; needed only where a region was not saved by itself.

        That is one that only marks for a tool outside the process, without ``out`` and without ``hroof run``.

        Args:
            folder: By default the ``out`` of the region, or a new one under ``hroof-runs``.
            force: Replace a profile that is there already.

        Returns:
            The folder.

        Raises:
            CaptureError: Nothing was collected.
            OutputError: The folder holds a profile already, or cannot be written.
        """
        place = free_folder(self) if folder is None else folder
        self.folder = _with_range_names(self.profile).save(place, force=force)
        return self.folder

    def _tell(self) -> None:
        """Say on standard error what came out; never raises into the program."""
        from hroof.report import say

        self._reported = self.outcome.status not in (Status.WAITING, Status.MARKS)
        try:
            if self.outcome.status in (Status.COMPLETE, Status.PARTIAL):
                if not self.only_marks and self.folder is not None:
                    with contextlib.suppress(MissingError):  # the report says so
                        if (machine := self.machine()) is not None:
                            machine.save(self.folder / "machine.json")
                say(self.report())
                if self.folder is not None:
                    again = f"hroof report {shlex.quote(str(self.folder))}"
                    say(f"Saved in {self.folder}. See it again with: {again}")
            if self.outcome.reason and self.outcome.status not in (Status.OFF, Status.MARKS):
                say(f"hroof: {self.outcome.reason}")
        except HroofError as error:
            say(f"hroof: {error}")


def region(
    name: str | None = None,
    *,
    skip: int = 5,
    steps: int = 3,
    out: str | Path | None = None,
    show: bool = True,
    framework: str | None = None,
) -> Run:
    """Measure a part of a program: a context manager and a decorator.

    Layers, phases and steps are found by themselves. After ``skip`` steps one step is counted and ``steps``
    are timed; then everything is detached again. The environment variable ``HROOF=off`` disables it. With
    ``HROOF=marks`` nothing is counted or timed: the ``steps`` right after ``skip`` become NVTX ranges for a tool
    outside the process, such as Nsight Compute, and nothing is saved without ``out`` or ``hroof run``.

    Args:
        name: Shown in reports.
        skip: Steps to let pass first (warm-up, compilation).
        steps: Steps to time.
        out: Folder for the result; by default a new one under ``hroof-runs``.
        show: Print the report to standard error when the block ends.
        framework: ``torch`` or ``keras``: which one is measured, where a program uses both; by default the one whose
            steps are seen first.

    Returns:
        The run; ``run.report()`` gives the report as text.

    Raises:
        UsageError: ``skip`` or ``steps`` cannot be.
    """
    called = "region" if name is None else name
    return Run(called, skip, steps, out=out, show=show, framework=framework)


def _listen_for_tools() -> None:
    """Turn marks into NVTX ranges where a tool listens."""
    from hroof.collect import nvtx

    if marks_only() or nvtx.active():
        listen(nvtx.shared_listener())


@functools.cache
def _warn_of_unknown_value() -> None:
    """Once per process; ``hroof run`` has said it before it started this one."""
    text = unknown_value()
    if text and not os.environ.get(OUT_VARIABLE):
        from hroof.report import say

        say(f"hroof: {text}")


def _save(region: Region, outcome: Outcome) -> None:
    """Write what a region collected at once: a later crash cannot take it away."""
    assert isinstance(region, Run)
    forget_progress()
    if outcome.profile is None:
        _note_empty(outcome)
        return
    if region.only_marks and region.out is None and not _is_for_the_command(region):
        return  # whoever started the tool outside has its report
    try:
        region.folder = _with_range_names(outcome.profile).save(free_folder(region))
    except HroofError as error:
        from hroof.report import say

        say(
            f"hroof: {error.fact} The result is kept in memory only. "
            f"Choose a folder that is writable and has room, with {_how_to_choose(region)}."
        )


def _how_to_choose(region: Region) -> str:
    return "--out DIR" if os.environ.get(OUT_VARIABLE) else f"{region._call}(out=...)"


def ceilings_of(profile: Profile, say: Callable[[str], None], *, quick: bool = False) -> Machine:
    """The ceilings of the device of a run that has just ended: those known, or measured now.

    Args:
        profile: The run.
        say: Told before a measurement, which takes a while.
        quick: Ceilings that were measured roughly, in some ten seconds, are good enough.

    Raises:
        HroofError: They cannot be measured here.
    """
    from hroof import ceilings

    found = known_ceilings(profile)
    if found is not None and (quick or not found.facts.get("quick")):
        return found
    how = "roughly; hroof ceilings takes its time" if quick else "once"
    say(f"hroof: measuring this machine's ceilings ({how}) …")
    return ceilings.cached(*framework_and_device(profile), quick=quick)


def _with_range_names(profile: Profile) -> Profile:
    """The profile with the true names of the NVTX ranges, where a tool listened."""
    from hroof.collect import nvtx

    names = nvtx.names()
    if names:
        return profile.replace(run={**profile.run, "nvtx": names})
    if not only_marked(profile):
        return profile
    warnings = [*profile.run.get("warnings", ()), _NOBODY_LISTENED]
    return profile.replace(run={**profile.run, "nvtx": {}, "warnings": warnings})


def _note_progress(region: Region, stage: Stage) -> None:
    """Under ``hroof run``: how far the region is, in case the program is killed before its end.

    Not flushed to the disk, which would take time beside the steps; a reader sees all or nothing.
    """
    path = _progress_file()
    if path is None:
        return
    timing = "marking" if region.only_marks else "timing"
    doing = {Stage.COUNT: "counting a step", Stage.TIME: f"{timing} {region.steps} steps"}
    text = json.dumps({"doing": doing.get(stage, f"skipping {region.skip} steps")})
    with contextlib.suppress(OSError):
        temporary = path.with_name(f".{path.name}")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)


def forget_progress() -> None:
    """The region has an outcome: that says more."""
    path = _progress_file()
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _progress_file() -> Path | None:
    out = os.environ.get(OUT_VARIABLE)
    return Path(out) / f"progress-{os.getpid()}.json" if out else None


def _note_empty(outcome: Outcome) -> None:
    """Under ``hroof run``: leave the reason where the command finds it."""
    out = os.environ.get(OUT_VARIABLE)
    if out:
        from hroof.files import write_json

        write_json(
            Path(out) / "empty.json", {"reason": outcome.reason, "status": str(outcome.status)}
        )


def free_folder(region: Run) -> Path:
    """The folder for a run: as asked, as ``hroof run`` asked, or a new one; other ranks beside it."""
    rank = os.environ.get("RANK", "0")
    out = None if _is_for_the_command(region) else region.out
    asked = out or os.environ.get(OUT_VARIABLE)
    base = Path(asked) if asked else Path(RUNS) / _file_name(region.name)
    if rank not in ("", "0"):
        base = base.with_name(f"{base.name}-rank{rank}")
    if out is not None:
        return base
    return next_free(base)


def _is_for_the_command(region: Run) -> bool:
    """What a region knows of its marks: ``hroof run`` joins it with the counters, wherever the region's own out is."""
    return region.only_marks and bool(os.environ.get(OUT_VARIABLE))


def next_free(base: Path) -> Path:
    """``base``, or the first of ``base-2``, ``base-3``, … that holds no profile."""
    candidate, number = base, 1
    while (candidate / "run.json").exists():
        number += 1
        candidate = base.with_name(f"{base.name}-{number}")
    return candidate


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.=-]+", "_", name).strip("._")[:80] or "region"


def program_name() -> str:
    """Name of the running script, for regions that nobody named."""
    return Path(sys.argv[0]).stem or "program" if sys.argv else "program"
