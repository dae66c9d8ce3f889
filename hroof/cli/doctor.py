"""``hroof doctor``: what works here and what does not, each with its remedy."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import os
import platform
import sys
import tempfile
from dataclasses import dataclass
from typing import Literal

import hroof
from hroof import integration
from hroof.cli.command import Arguments, Command, print_json
from hroof.cli.frameworks import KERAS, KNOWN, Framework
from hroof.errors import HroofError, MissingError
from hroof.integration import Device, Integration

State = Literal["ok", "note", "missing"]
_MARKS: dict[State, str] = {"ok": "ok  ", "note": "note", "missing": "MISS"}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What.
        state: ``ok``; ``note`` (something optional is absent); ``missing`` (nothing works without).
        fact: What was found.
        remedy: What to do about it; empty when ok.
    """

    name: str
    state: State
    fact: str
    remedy: str = ""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: Arguments) -> int:
    """Look at everything and print it; 6 when hroof run cannot work here."""
    checks = examine()
    works = all(check.state != "missing" for check in checks)
    if arguments.json:
        listed = [dataclasses.asdict(check) for check in checks]
        print_json({"works": works, "checks": listed})
    else:
        for check in checks:
            print(f"{_MARKS[check.state]}  {check.name}: {check.fact}")
            if check.remedy:
                print("      → " + check.remedy.replace("\n", "\n        "))
    return 0 if works else MissingError.exit_code


def examine() -> list[Check]:
    """Everything that is worth a look, in the order in which it matters."""
    installed = [one for one in KNOWN if one.installed]
    chosen = _integration(installed)
    device = _device(chosen)
    return [
        Check("Python", "ok", f"{platform.python_version()} ({sys.executable})"),
        Check("hroof", "ok", hroof.__version__),
        *_switch(),
        *_frameworks(installed),
        *_devices(chosen),
        _cores(),
        _caches(device),
        _cache_folder(),
        _ceilings(chosen, device),
        _charts(),
        _tool(),
        _package(),
        *_counters(),
    ]


def _switch() -> list[Check]:
    value = os.environ.get("HROOF")
    if not value:
        return []
    return [Check("HROOF", "note", f"is set to {value!r}", "Unset it to let regions measure.")]


def _frameworks(installed: list[Framework]) -> list[Check]:
    """One of them is enough; the other is only needed for programs that use it."""
    checks = [_framework(one, one in installed) for one in KNOWN]
    works = any(check.state == "ok" for check in checks)
    return [*(_optional(check) if works else check for check in checks), *_keras(installed)]


def _framework(one: Framework, installed: bool) -> Check:
    if not installed:
        return Check(one.title, "missing", "is not installed", f"Install it with: {one.remedy}.")
    try:
        integration.load(one.name)
    except HroofError as error:
        return Check(one.title, "missing", error.fact, error.remedy)
    return Check(one.title, "ok", one.version)


def _optional(check: Check) -> Check:
    if check.state == "ok":
        return check
    remedy = f"Only needed for programs that use it. {check.remedy}"
    return dataclasses.replace(check, state="note", remedy=remedy)


def _keras(installed: list[Framework]) -> list[Check]:
    """Keras computes with another framework, which must be one of those that are there."""
    try:
        version = importlib.metadata.version("keras")
    except importlib.metadata.PackageNotFoundError:
        return []
    if KERAS in installed:
        return [Check("Keras", "ok", version)]
    remedy = f"Programs need KERAS_BACKEND=torch, or install TensorFlow: {KERAS.remedy}."
    return [Check("Keras", "note", f"{version}, without TensorFlow", remedy)]


def _integration(installed: list[Framework]) -> Integration | None:
    """The one whose devices and ceilings are looked at: importing both would take long."""
    try:
        return integration.load(installed[0].name) if installed else None
    except HroofError:
        return None


def _device(chosen: Integration | None, name: str = "cpu") -> Device | None:
    try:
        return None if chosen is None else chosen.device(name)
    except HroofError:
        return None


def _devices(chosen: Integration | None) -> list[Check]:
    if chosen is None:
        return []
    gpu = _device(chosen, "cuda:0")
    if gpu is None:
        title = next((one.title for one in KNOWN if one.name == chosen.FRAMEWORK), "the framework")
        remedy = (
            f"For a GPU install its driver and a CUDA build of {title}. The CPU works as it is."
        )
        return [Check("CUDA", "note", f"{title} sees no CUDA device", remedy)]
    return [Check("CUDA", "ok", gpu.name)]


def _cores() -> Check:
    total = os.cpu_count() or 0
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    name = platform.processor() or platform.machine()
    if usable < total:
        fact = f"{name}, {usable} of {total} cores usable by this process"
        return Check("CPU", "note", fact, "Ceilings hold for these cores; taskset can change it.")
    return Check("CPU", "ok", f"{name}, {total} cores")


def _caches(device: Device | None) -> Check:
    from hroof.units import si

    sizes = device.caches if device is not None else {}
    if not sizes:
        return Check("caches", "note", "sizes unknown", "Bytes of L2, L3 and DRAM stay unknown.")
    listed = ", ".join(f"{level.label} {si(size, 'B')}" for level, size in sizes.items())
    return Check("caches", "ok", listed)


def _cache_folder() -> Check:
    from hroof.ceilings import cache_folder

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return Check("cache folder", "ok", str(folder))
    except OSError as error:
        fact = f"cannot write to {folder}: {error.strerror}"
        remedy = "Name another folder in HROOF_CACHE; without one, ceilings are measured each time."
        return Check("cache folder", "note", fact, remedy)


def _ceilings(chosen: Integration | None, device: Device | None) -> Check:
    from hroof.ceilings.cache import cache_path
    from hroof.ceilings.stale import stale
    from hroof.machine import Machine

    remedy = "Run: hroof ceilings (hroof run does it by itself, once)."
    if chosen is None or device is None:
        return Check("ceilings", "note", "not measured", remedy)
    path = cache_path(chosen, device)
    if not path.exists():
        return Check("ceilings", "note", f"not measured yet for {device.name}", remedy)
    try:
        machine = Machine.load(path)
    except HroofError as error:
        return Check("ceilings", "note", error.fact, "Run: hroof ceilings --refresh")
    when = machine.facts.get("measured_at") or "at an unknown time"
    how = ", quickly" if machine.facts.get("quick") else ""
    fact = f"measured {when}{how}, for {machine.name}"
    doubts = stale(machine, device)
    if doubts:
        return Check(
            "ceilings", "note", f"{fact}. {' '.join(doubts)}", "Run: hroof ceilings --refresh"
        )
    return Check("ceilings", "ok", fact)


def _charts() -> Check:
    try:
        return Check("matplotlib", "ok", importlib.metadata.version("matplotlib"))
    except importlib.metadata.PackageNotFoundError:
        remedy = "For charts: pip install matplotlib. Text, CSV and JSON work without."
        return Check("matplotlib", "note", "not installed", remedy)


def _tool() -> Check:
    from hroof.collect import nvtx

    if nvtx.active():
        return Check("NVTX", "ok", "a tool listens: regions also emit ranges")
    return Check("NVTX", "ok", "no tool listens, so regions emit nothing")


def _package() -> Check:
    name = "nvtx"
    try:
        return Check("nvtx package", "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        remedy = "For counters by layer: pip install 'nvtx>=0.2.13'."
        return Check("nvtx package", "note", "not installed", remedy)


def _counters() -> list[Check]:
    """Nsight Compute, and whether its counters are open to everybody; it is asked for its version only."""
    from hroof.collect import nsight

    try:
        program = nsight.find()
    except HroofError as error:
        remedy = f"Only needed for counters of NVIDIA GPUs (hroof run --counters). {error.remedy}"
        return [Check("Nsight Compute", "note", error.fact, remedy)]
    found = Check("Nsight Compute", "ok", f"{program.release} ({program.path})")
    return [found, *_permission()]


def _permission() -> list[Check]:
    """Whether this process may read counters; nothing where no driver says it."""
    from hroof.collect.nsight import PERMISSION_REMEDY, Permission, permission

    found = permission()
    if found is Permission.UNKNOWN:
        return []
    if found is Permission.REFUSED:
        return [Check("GPU counters", "note", str(found), PERMISSION_REMEDY)]
    return [Check("GPU counters", "ok", str(found))]


COMMAND = Command(
    name="doctor",
    help="what works here, what does not, and the remedy",
    description="Look at this machine. Exit status 6 means that hroof run cannot work here.",
    examples=("hroof doctor", "hroof doctor --json"),
    arguments=_arguments,
    run=run,
)
