"""The command lines of ``ncu``: collecting counters under a program, and printing a report as CSV."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hroof.collect.nsight.filters import STEPS
from hroof.collect.nsight.program import Program
from hroof.kernels import WITHOUT_COMMUNICATION

_LAUNCHERS = frozenset(
    [
        "torchrun",
        "deepspeed",
        "horovodrun",
        "mpirun",
        "mpiexec",
        "mpiexec.hydra",
        "orterun",
        "prterun",
        "srun",
    ]
)
_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch", "deepspeed"})
_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")


@dataclass(frozen=True)
class Request:
    """What to collect.

    Attributes:
        metrics: Full names, with suffix.
        report: The file that ncu writes.
        log: The file for what ncu has to say.
        cold: Flush caches and lock the clock to its base before every pass; otherwise both stay as they are.
        include: NVTX filters; a launch is kept by any of them.
        collectives: Also profile kernels that wait for other processes; they hang when they are replayed alone.
    """

    metrics: tuple[str, ...]
    report: Path
    log: Path
    cold: bool = False
    include: tuple[str, ...] = (STEPS,)
    collectives: bool = True

    @property
    def cache(self) -> str:
        """What ncu does with the caches before a pass."""
        return "all" if self.cold else "none"

    @property
    def clock(self) -> str:
        """What ncu does with the clocks."""
        return "base" if self.cold else "none"


REPLAY = "kernel"
"""How ncu repeats a launch when one pass is not enough for all metrics."""


def collecting(program: Program, request: Request, command: Sequence[str]) -> list[str]:
    """The command line that collects counters while a program runs.

    Whatever has changed its default between versions is said explicitly, as far as the version knows it.

    Args:
        program: The ncu.
        request: What to collect.
        command: The program and its arguments; they come last, byte for byte.
    """
    return [
        program.path,
        *_known(program, "--config-file=off", "--rename-kernels=off"),
        "--target-processes", "all",
        "--replay-mode", REPLAY,
        "--cache-control", request.cache,
        "--clock-control", request.clock,
        *_known(program, "--pipeline-boost-state=stable") * request.cold,
        "--profile-from-start", "on",
        *_known(program, "--graph-profiling=node"),
        "--nvtx",
        *(word for one in request.include for word in ("--nvtx-include", one)),
        *_without_collectives(request),
        "--metrics", ",".join(request.metrics),
        *_known(program, "--disable-extra-suffixes"),
        "--apply-rules=no",
        "--log-file", _literal(request.log),
        "-f", "-o", _literal(request.report),
        *command,
    ]  # fmt: skip


def _known(program: Program, *options: str) -> list[str]:
    """Those that this version has."""
    return [option for option in options if option[2:].partition("=")[0] in program.options]


def _without_collectives(request: Request) -> Iterator[str]:
    if not request.collectives:
        # With its namespaces, by which some of them are known.
        yield from ("--kernel-name-base", "demangled")
        yield from ("--kernel-name", f"regex:{WITHOUT_COMMUNICATION}")


def _literal(path: Path) -> str:
    """A path in which ncu replaces nothing: it knows ``%p``, ``%h``, ``%q{NAME}`` and more."""
    return str(path.absolute()).replace("%", "%%")


def printing(program: Program, report: Path) -> list[str]:
    """The command line that prints a report as CSV, one row per launch, in base units.

    Its standard output is the table. ``--nvtx`` must not be given here; ranges are printed anyway.
    """
    return [
        program.path,
        *_known(program, "--config-file=off", "--rename-kernels=off"),
        "--import", str(report),
        "--csv",
        "--page", "raw",
        "--print-units", "base",
        "--print-kernel-base", "demangled",
    ]  # fmt: skip


def several_processes(command: Sequence[str], env: Mapping[str, str] | None = None) -> bool:
    """Whether a program is one of several processes that may wait for each other, or starts such.

    Args:
        command: The program and its arguments.
        env: Its environment; by default that of this process.
    """
    found = os.environ if env is None else env
    if any(_number(found.get(name)) > 1 for name in _SIZES):
        return True
    names = [Path(word).name for word in command[:1]]
    if names == ["accelerate"]:
        return "launch" in command
    modules = {after for word, after in itertools.pairwise(command) if word == "-m"}
    return bool(_LAUNCHERS & {*names}) or bool(_MODULES & modules)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
