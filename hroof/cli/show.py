"""Showing a run: its machine, its text or JSON, whichever verb asks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hroof import integration
from hroof.cli.command import Arguments, Say
from hroof.errors import HroofError, OutputError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.charts.choice import USUAL, Choice
from hroof.results import MACHINE, at_its_clock, known_machine, saved_machine
from hroof.run import ceilings_of


def framework_of(profile: Profile) -> str:
    """Name of the integration that collected a profile."""
    return str(profile.run.get("framework") or "")


def device_of(profile: Profile) -> str:
    """The device that a profile was collected on."""
    return str(profile.run.get("device") or "cpu")


def measured(profile: Profile, say: Say, *, quick: bool = False) -> Machine | None:
    """The ceilings of the device of a run that has just ended: cached, or measured now.

    Returns:
        The machine; None, with the reason said, where it cannot be measured here.
    """
    try:
        if framework_of(profile) in integration.known():
            integration.alone(integration.load(framework_of(profile)))
        return ceilings_of(profile, say, quick=quick)
    except HroofError as error:
        say(f"hroof: no ceilings: {error}")
        return None


def machine_of(folder: Path, profile: Profile, say: Say) -> Machine | None:
    """The ceilings of a saved run: those beside it; else those that were measured here before. Never measures.

    Raises:
        ProfileError: Those beside it are damaged.
    """
    beside = saved_machine(folder)
    if beside is not None:
        return beside
    found = known_machine(profile)
    if found is not None:
        say("hroof: the run holds no ceilings; using those that were measured here before.")
        return found
    from hroof.findings import no_ceilings_remedy

    say(f"hroof: no ceilings are known, so nothing is judged. {no_ceilings_remedy(profile)}")
    return None


def keep_machine(machine: Machine | None, folder: Path, say: Say) -> None:
    """Put the ceilings beside the profile, so that a report needs nothing else."""
    if machine is None:
        return
    try:
        machine.save(folder / MACHINE)
    except OutputError as error:
        say(f"hroof: {error}")


def keep_runs(outputs: Sequence[Path], *runs: Path | None) -> None:
    """Refuse to write over the files of a run, even with --force: the run would be lost.

    Args:
        outputs: The files that are asked for.
        runs: Folders of runs, or None.

    Raises:
        OutputError: One of them is a file of a run.
    """
    own = [file for run in runs if run for file in (*Profile.files(run), run / MACHINE)]
    kept = {file.resolve() for file in own}
    for path in outputs:
        if path.resolve() in kept:
            raise OutputError(f"{str(path)!r} is a file of the run itself.", "Choose another name.")


def keys(profile: Profile, by: Sequence[str] | None) -> tuple[str, ...]:
    """The grouping keys that were asked for; else layers, or kernels where a tool knew no layer."""
    if by is not None:
        return tuple(by)
    from hroof.roofline import usual_key

    return (usual_key(profile.launches),)


def print_text(
    profile: Profile,
    machine: Machine | None,
    *,
    by: Sequence[str] | None,
    top: int = 15,
    full: bool = False,
) -> None:
    """The report on standard output, coloured where that is a terminal."""
    from hroof.report import brief, text

    render = text.render if full else brief.render
    fitted, color = at_its_clock(profile, machine), sys.stdout.isatty()
    sys.stdout.write(render(profile, fitted, by=keys(profile, by), top=top, color=color))
    sys.stdout.flush()


def as_json(profile: Profile, machine: Machine | None, by: Sequence[str] | None) -> dict[str, Any]:
    """The report as plain values."""
    from hroof.report import export

    return export.to_json(profile, at_its_clock(profile, machine), keys(profile, by))


def write_file(
    profile: Profile,
    machine: Machine | None,
    path: Path,
    arguments: Arguments,
    say: Say,
    chart: Choice = USUAL,
) -> None:
    """The report as a file of the kind that its suffix names.

    Raises:
        OutputError: It is there already, or cannot be written.
        UsageError: The suffix stands for no kind of report.
    """
    from hroof.report import export

    fitted, by = at_its_clock(profile, machine), keys(profile, arguments.by)
    say(f"Wrote {export.write(profile, fitted, path, by, force=arguments.force, chart=chart)}")
