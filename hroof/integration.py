"""The protocol that a framework integration fulfils, and its discovery by entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from hroof.errors import MissingError, UsageError
from hroof.units import MemoryLevel, Pipe, Precision

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from hroof.profile import Profile

GROUP = "hroof.integrations"


@dataclass(frozen=True)
class CeilingKernel:
    """A framework kernel that may reach one ceiling.

    Attributes:
        name: What runs, e.g. ``torch.mm 1024`` or ``expand.sum``.
        what: ``bandwidth``, ``peak`` or ``launch``.
        prepare: Builds operands and returns ``(call, work)``: ``call()`` runs the kernel once to
            the end (a device is synchronised) and ``work`` is the bytes, FLOP or launches of
            one call.
        level: For a bandwidth.
        pipe: For a peak.
        precision: For a peak.
        threads: Threads that the kernel uses.
        note: What traffic or arithmetic is counted.
        variant: Not the ceiling itself but a rate beside it, e.g. ``copy`` or ``triad`` of a level, ``no fma`` of a
            peak, ``burst``; kept under its own name.
        size: Bytes that each thread touches, for a kernel of a sweep over sizes.
        how: What kind of evidence the kernel gives: ``measured`` where it is known to use the whole unit or level,
            else ``framework-reachable``.
    """

    name: str
    what: Literal["bandwidth", "peak", "launch"]
    prepare: Callable[[], tuple[Callable[[], object], float]]
    level: MemoryLevel | None = None
    pipe: Pipe | None = None
    precision: Precision | None = None
    threads: int = 1
    note: str = ""
    variant: str = ""
    size: int | None = None
    how: Literal["measured", "framework-reachable"] = "framework-reachable"


@dataclass(frozen=True)
class Device:
    """A device as a framework sees it.

    Attributes:
        device: ``cpu`` or ``cuda:0``.
        name: Name of the chip.
        caches: Capacity in bytes per level, all cores together.
        shared_pipes: Vector and matrix work run in the same unit.
        facts: Threads, versions, settings that matter; plain JSON values.
    """

    device: str
    name: str
    caches: Mapping[MemoryLevel, int] = field(default_factory=dict)
    shared_pipes: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


class Stage(StrEnum):
    """What a region wants of the step that begins."""

    SKIP = "skip"
    COUNT = "count"
    TIME = "time"
    DONE = "done"


class StepSink(Protocol):
    """The part of a region that a capture tells about steps."""

    name: str
    skip: int
    steps: int

    def boundary(
        self, *, count: int = 1, clean: bool = True, explicit: bool = False, at_once: bool = False
    ) -> None:
        """Steps have ended.

        Args:
            count: How many, since the last call.
            clean: The last of them ends just now, so that another may begin; otherwise it was noticed late.
            explicit: The program said so itself.
            at_once: They were one execution, as the program wants it: they are skipped, counted or timed together.
        """

    def pause(self) -> None:
        """What comes now, up to ``resume()``, belongs to no step; ignored where the program tells steps itself."""

    def resume(self, count: int = 1) -> None:
        """After ``pause()``: the next step begins now, or ``count`` of them at once."""

    def forget_steps(self) -> None:
        """The steps told so far were others than those that the region is about; while they are skipped."""

    def let_pass(self) -> bool:
        """The short way of ``boundary()``, for the thread that said the last one.

        Returns:
            Whether the step was taken note of; otherwise the region wants to hear it the long way.
        """


class Capture(Protocol):
    """The measuring of one region by one framework."""

    def stage(self, stage: Stage) -> None:
        """The step that begins now is skipped, counted or timed; ``DONE`` detaches everything."""

    def step_ended(self, number: int) -> None:
        """A timed step has just ended, another is to be timed."""

    def profile(self) -> Profile | None:
        """What was collected, or None when nothing was; valid after ``DONE``."""

    def flush(self) -> None:
        """The region is about to end: tell it of steps that ended and were not told yet."""

    def release(self) -> None:
        """The region is over: leave nothing behind."""

    def seen(self) -> str:
        """What was seen while waiting, in words, for a region that got too few steps."""


class Integration(Protocol):
    """What a module under the entry point group ``hroof.integrations`` offers.

    It may also offer ``in_use() -> bool``, whether the program computes with the framework, which it may only have
    imported, and ``measures_for() -> Sequence[str]``, other integrations whose framework it measures just now.
    """

    FRAMEWORK: str
    """Top-level module of the framework, e.g. ``torch``."""

    def capture(self, steps: StepSink) -> Capture:
        """Get ready to measure a region; from now on ``steps`` hears where steps end."""

    def device(self, name: str | None = None) -> Device:
        """Describe a device (the default one without a name).

        Raises:
            MissingError: There is no such device.
        """

    def ceiling_kernels(self, device: Device) -> Iterator[CeilingKernel]:
        """Candidate kernels for every ceiling that the device has.

        Args:
            device: As ``device()`` gave it, with one more fact: ``quick`` is true where nothing that takes long, like
                compiling, is worth while.
        """

    def ceiling_facts(self, device: Device) -> Mapping[str, Any]:
        """What was seen of the device since its kernels were asked for; an integration may do without.

        Returns:
            Facts of the machine, such as ``clock`` (Hz). Two have a meaning of their own: ``clocks`` is the clock in Hz
            by name of the kernel, and ``doubts`` are sentences for the warnings.
        """

    def sweep_kernels(self, device: Device, sizes: Sequence[int]) -> Iterator[CeilingKernel]:
        """One kernel per working set, all of the same kind: the bandwidth over the size; none where there is no way.

        Args:
            device: As ``device()`` gave it.
            sizes: Bytes that each thread is to touch.
        """

    def watch_program(self, begin: Callable[[], object]) -> None:
        """Call ``begin`` at the first sign of work in a program that has no region of its own."""


def known() -> dict[str, EntryPoint]:
    """The installed integrations by name."""
    # Imported late: it costs a third of the time of importing hroof.
    from importlib import metadata

    return {point.name: point for point in metadata.entry_points(group=GROUP)}


def load(name: str) -> Integration:
    """Import one integration.

    Raises:
        UsageError: No integration has this name.
        MissingError: Its framework is not installed, or broken.
    """
    points = known()
    if name not in points:
        raise UsageError(
            f"There is no integration {name!r}.", f"Known: {', '.join(sorted(points)) or 'none'}."
        )
    try:
        return points[name].load()  # type: ignore[no-any-return]
    except (ImportError, OSError) as error:  # OSError: a shared library of the framework is broken
        raise MissingError(
            f"The {name} integration cannot be imported: {error.__cause__ or error}.",
            f"Install it with: pip install 'hroof[{name}]'.",
        ) from error


def active() -> list[Integration]:
    """The integrations whose framework this program has imported already, each once.

    Where several are, one that cannot be imported is left out.

    Raises:
        MissingError: The only ones that there are cannot be imported.
    """
    points = sorted((name, point) for name, point in known().items() if name in sys.modules)
    names = {point.module: name for name, point in reversed(points)}
    found, problem = [], None
    for name in sorted(names.values()):
        try:
            found.append(load(name))
        except MissingError as error:
            problem = error
    if problem is not None and not found:
        raise problem
    return found


def candidates(name: str | None = None) -> list[Integration]:
    """The integrations that may measure this program: more than one where several frameworks are imported.

    Args:
        name: The one that was asked for.

    Raises:
        UsageError: No integration has this name.
        MissingError: Its framework is not installed, or broken.
    """
    if name is not None:
        return [load(name)]
    found = active()
    covered = {other for one in found for other in _asked(one, "measures_for", ())}
    return [one for one in found if getattr(one, "FRAMEWORK", "") not in covered]


def uses(one: Integration) -> bool:
    """Whether the program computes with the framework of an integration, as far as that can tell."""
    return bool(_asked(one, "in_use", True))


def alone(one: Integration) -> Integration:
    """The integration, told that no program runs in this process but hroof.

    It may have a function ``own_process()`` that makes settings which would change a program.
    """
    _asked(one, "own_process", None)
    return one


def _asked(one: Integration, question: str, default: Any) -> Any:
    """What an integration says of itself, if it has an answer."""
    return getattr(one, question, lambda: default)()
