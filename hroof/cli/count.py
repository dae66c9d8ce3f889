"""``hroof count``: the work of one training step on paper, by layer and phase."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hroof import integration
from hroof.cli import frameworks
from hroof.cli.command import Arguments, Command, print_json, progress
from hroof.cli.frameworks import TORCH
from hroof.errors import CaptureError, HroofError, MissingError, UsageError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.results import known_machine
from hroof.roofline import Point, points
from hroof.units import MemoryLevel, Phase, Pipe, si

COUNT_SCHEMA = 1
BY = ("layer", "phase")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="FILE.py:FUNCTION",
        help="or MODULE:FUNCTION; builds model, data and optimizer, returns a function "
        "without arguments that does one step",
    )  # fmt: skip
    parser.add_argument(
        "--machine", type=Path, metavar="FILE", help="ceilings for the least time of the step"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="say nothing on standard error")


def run(arguments: Arguments) -> int:
    """Count and print.

    Raises:
        UsageError: There is no such function, or its file cannot be imported.
        CaptureError: The step cannot run on paper.
        MissingError: The framework is not there.
        ProfileError: The file given as machine is none.
    """
    _need_torch()
    build = find(arguments.target)
    given = None if arguments.machine is None else Machine.load(arguments.machine)
    profile = _count(build, arguments.target)
    machine = given or known_machine(profile)
    if machine is None:
        progress(arguments.quiet)(
            "hroof: no ceilings are known, so no least time: run hroof ceilings, or give --machine."
        )
    rows = _in_order(points(profile, machine, BY), profile)
    if not rows:
        raise CaptureError("The step computed nothing with PyTorch.", _remedy())
    if arguments.json:
        print_json(_object(profile, machine, rows))
    else:
        _print(profile, machine, rows)
    return 0


def _remedy() -> str:
    """Why a step may have computed nothing."""
    backend = getattr(getattr(sys.modules.get("keras"), "backend", None), "backend", None)
    if backend is not None and backend() != "torch":
        return f"Keras computes with {backend()} here: set KERAS_BACKEND=torch."
    return "Return the function, uncalled."


def _need_torch() -> None:
    """Only PyTorch has tensors without data on which a whole step can run.

    Raises:
        MissingError: It is not there.
    """
    if not TORCH.installed:
        raise MissingError(
            "hroof count runs a step of a PyTorch model on paper, and PyTorch is not installed.",
            f"Install it with: {TORCH.remedy}. The work of a Keras model is in the report of a run: "
            "hroof run -- python train.py.",
        )
    frameworks.load(TORCH.name)


def find(target: str) -> Callable[[], Any]:
    """The function that ``FILE.py:FUNCTION`` or ``MODULE:FUNCTION`` names.

    Raises:
        UsageError: There is none, or its module cannot be imported.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise UsageError(f"{target!r} names no function.", "Write FILE.py:FUNCTION.")
    with _told(UsageError, f"{place!r} cannot be imported"):
        module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    function = getattr(module, name, None)
    if not callable(function):
        known = sorted(
            key for key, value in vars(module).items() if callable(value) and key[0] != "_"
        )
        raise UsageError(
            f"{place!r} has no function {name!r}.", f"It has: {', '.join(known) or 'none'}."
        )
    return function  # type: ignore[no-any-return]


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"There is no file {str(path)!r}.", "Check the path.")
    sys.path.insert(0, str(path.parent.absolute()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _import_module(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def _count(build: Callable[[], Any], target: str) -> Profile:
    paper = importlib.import_module(f"{integration.known()[TORCH.name].module}.capturing.paper")
    remedy = "On paper tensors hold no values: no .item(), no printing of a loss, no data loading."
    with _told(CaptureError, f"{target!r} cannot run on paper", remedy):
        profile: Profile = paper.count(build)
    return profile


@contextlib.contextmanager
def _told(kind: type[HroofError], fact: str, remedy: str = "") -> Iterator[None]:
    """Code of the user fails: where it did, then what that means here."""
    try:
        yield
    except HroofError:
        raise
    except Exception as error:
        _print_trace(error)
        said = f"{type(error).__name__}: {error}".rstrip(". ")
        raise kind(f"{fact}: {said}.", remedy) from error


def _print_trace(error: Exception) -> None:
    """Where code of the user failed, from its own first frame on; nothing where it is not in there."""
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is not None or isinstance(error, SyntaxError):
        traceback.print_exception(type(error), error.with_traceback(trace), trace)


def _is_ours(file: str) -> bool:
    """Whether a file belongs to hroof or to what it imports the user's code with."""
    paper = integration.known()[TORCH.name].module
    packages = [Path(sys.modules[name].__file__ or "").parent for name in ("hroof", "importlib")]
    found = importlib.util.find_spec(paper)
    if found is not None and found.origin is not None:
        packages.append(Path(found.origin).parent)
    return file.startswith("<frozen importlib") or any(
        Path(file).is_relative_to(package) for package in packages
    )


def _in_order(rows: Sequence[Point], profile: Profile) -> list[Point]:
    """By layer as in the model, then by phase as in a step."""
    layers = [layer["name"] for layer in profile.run["layers"]]
    place = {name: at for at, name in enumerate(layers)}
    phases = {str(phase): at for at, phase in enumerate(Phase)}

    def key(row: Point) -> tuple[int, str, int]:
        layer = row.key["layer"]
        return place.get(layer, len(place)), layer, phases.get(row.key["phase"], len(phases))

    return sorted(rows, key=key)


def _flop(row: Point, pipe: Pipe) -> float:
    return sum(value for (unit, q), value in row.flop.items() if unit is pipe and q.is_float)


def _parameters(profile: Profile) -> dict[str, int]:
    return {layer["name"]: layer["parameters"] for layer in profile.run["layers"]}


def _values(row: Point) -> dict[str, Any]:
    return {
        "ops": row.launches,
        "flop_matrix": _flop(row, Pipe.MATRIX),
        "flop_elementwise": _flop(row, Pipe.VECTOR),
        "bytes_at_least": row.nbytes.get(MemoryLevel.L1),
        "attainable_time": row.attainable_time,
    }


def _object(profile: Profile, machine: Machine | None, rows: Sequence[Point]) -> dict[str, Any]:
    parameters = _parameters(profile)
    return {
        "schema": COUNT_SCHEMA,
        "run": profile.run,
        "machine": None if machine is None else machine.to_json(),
        "parameters": sum(parameters.values()),
        "totals": _totals(rows),
        "rows": [
            {**row.key, **_values(row), "parameters": parameters.get(row.key["layer"], 0)}
            for row in rows
        ],
    }


def _totals(rows: Sequence[Point]) -> dict[str, Any]:
    listed = [_values(row) for row in rows]
    return {
        name: None if all(row[name] is None for row in listed)
        else sum(row[name] or 0 for row in listed)
        for name in listed[0]
    }  # fmt: skip


def _print(profile: Profile, machine: Machine | None, rows: Sequence[Point]) -> None:
    from rich.console import Console

    from hroof.report.grid import Grid
    from hroof.report.grid import show as show_grid

    parameters = _parameters(profile)
    headers = ["layer", "phase", "params", "matrix FLOP", "other FLOP", "bytes ≥"]
    headers += ["time ≥"] if machine is not None else []
    lines = []
    before = ""
    for row in rows:
        layer = row.key["layer"]
        own = parameters.get(layer, 0) if layer != before else 0
        before = layer
        lines.append(_cells(layer, row.key["phase"], own, _values(row), machine))
    lines.append(_cells("total", "", sum(parameters.values()), _totals(rows), machine))
    show_grid(Console(highlight=False, soft_wrap=False), Grid(headers, lines, names=2))
    for warning in profile.run["warnings"]:
        print(f"! {warning}")
    if profile.run["ops_without_rule"]:
        print(f"! Not counted: {', '.join(profile.run['ops_without_rule'])}.")
    print(
        "Matrix and other: nominal FLOP, a fused multiply-add is 2; other is elementwise work.\n"
        "Bytes are those that must cross the level nearest to the cores; 1 M = 1e6."
    )


def _cells(
    layer: str, phase: str, parameters: int, values: dict[str, Any], machine: Machine | None
) -> list[str]:
    cells = [
        layer,
        phase,
        si(float(parameters), "").strip() if parameters else "",
        si(values["flop_matrix"], "").strip(),
        si(values["flop_elementwise"], "").strip(),
        si(values["bytes_at_least"], "").strip(),
    ]
    return cells if machine is None else [*cells, si(values["attainable_time"], "s")]


COMMAND = Command(
    name="count",
    help="the work of one training step on paper",
    description=(
        "Count FLOP and bytes of one training step of a model that need not fit into this machine.\n"
        "FUNCTION builds model, data and optimizer and returns the step, a function without\n"
        "arguments. It runs on tensors without data."
    ),
    examples=(
        "hroof count train.py:build",
        "hroof count mypackage.model:paper_step --json",
        "hroof count train.py:build --machine gpu.json",
    ),
    arguments=_arguments,
    run=run,
)
