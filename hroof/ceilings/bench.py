"""The bench: measures kernels one after the other; a failing kernel becomes a warning."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hroof.ceilings.sampling import Clock, Samples, sample
from hroof.ceilings.selection import Result, target
from hroof.integration import CeilingKernel
from hroof.units import Precision

Progress = Callable[[str], None]
CoreClock = Callable[[], float | None]
Prepared = tuple[Callable[[], object], float]
_Prepare = Callable[[], Prepared]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure, and what.

    Attributes:
        seconds: For one kernel.
        spread_seconds: For one kernel whose samples are spread over the whole run (DRAM).
        budget: For all others together; where there are many, each has less than ``seconds``.
        limit: For everything but the sweep: kernels that come later have one sample each, since a machine on which
            the plan takes so much longer is busy.
        sweep: Seconds for the sweep over working sets; 0 for none.
        without: Precisions that are left out.
        variants: Whether rates beside the ceilings are measured.
    """

    seconds: float
    spread_seconds: float
    budget: float = math.inf
    limit: float = math.inf
    sweep: float = 0.0
    without: frozenset[Precision] = frozenset()
    variants: bool = True

    def each(self, count: int) -> float:
        """Seconds for each of so many kernels."""
        return min(self.seconds, self.budget / max(count, 1))


class Bench:
    """Kernels and what was measured of them.

    Kernels that share their ``prepare`` are one measurement: on a CPU, for example, vector and
    matrix work run in the same unit. One that fails once is not tried again.

    Args:
        kernels: Candidates for all ceilings.
        clock: Seconds, monotonic.
        own_clock: Seconds that this thread has had a core; without it ``own_share`` is unknown.
        core_clock: Measures the clock of the cores in Hz; asked right after each kernel.
        progress: Hears the name of each kernel before it runs.
    """

    def __init__(
        self,
        kernels: Iterable[CeilingKernel],
        *,
        clock: Clock,
        own_clock: Clock | None = None,
        core_clock: CoreClock | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.kernels: list[CeilingKernel] = []
        self._clock = clock
        self._own_clock = own_clock
        self._core_clock = core_clock
        self._wall = self._own = 0.0
        self._progress = progress
        self._samples: dict[_Prepare, Samples] = {}
        self._clocks: dict[_Prepare, float] = {}
        self._prepared: dict[_Prepare, Prepared] = {}
        self._failures: dict[_Prepare, str] = {}
        self._refused: list[str] = []
        for kernel in kernels:
            self._accept(kernel)

    def _accept(self, kernel: CeilingKernel) -> None:
        try:
            target(kernel)
        except ValueError as error:
            self._refused.append(f"{kernel.name} was left out: {error}.")
        else:
            self.kernels.append(kernel)

    def unique(self, kernels: Iterable[CeilingKernel]) -> list[CeilingKernel]:
        """The kernels without those that are the same measurement as an earlier one."""
        first: dict[_Prepare, CeilingKernel] = {}
        for kernel in kernels:
            first.setdefault(kernel.prepare, kernel)
        return list(first.values())

    def measure(
        self, kernel: CeilingKernel, seconds: float, *, keep: bool = False, place: str = ""
    ) -> None:
        """Add samples of one kernel.

        Args:
            kernel: The kernel.
            seconds: Time to spend.
            keep: Keep its operands for the next time.
            place: For the progress, e.g. ``3 of 40``.
        """
        key = kernel.prepare
        if key in self._failures:
            return
        if self._progress is not None:
            text = f"{target(kernel).label}: {kernel.name}"
            self._progress(f"{place}: {text}" if place else text)
        try:
            call, work = self._prepared[key] if key in self._prepared else kernel.prepare()
            if keep:
                self._prepared[key] = call, work
            samples = self._sample(call, work, seconds)
        except Exception as error:  # whatever a framework raises: the other kernels still count
            self._failures[key] = reason(error)
        else:
            before = self._samples.get(key)
            self._samples[key] = samples if before is None else before + samples
            self._note_clock(key)

    def _note_clock(self, key: _Prepare) -> None:
        """The highest clock of several visits: other programs can only make it look lower."""
        clock = None if self._core_clock is None else self._core_clock()
        if clock is not None:
            self._clocks[key] = max(clock, self._clocks.get(key, 0.0))

    def forget(self, kernel: CeilingKernel) -> None:
        """Drop the samples of a kernel that cannot be right."""
        self._samples.pop(kernel.prepare, None)

    def _sample(self, call: Callable[[], object], work: float, seconds: float) -> Samples:
        """Sample a kernel; note how long it took and how much of that this thread had a core."""
        own_clock = self._own_clock or self._clock
        wall, own = self._clock(), own_clock()
        samples = sample(call, work, seconds=seconds, clock=self._clock)
        self._wall += self._clock() - wall
        self._own += own_clock() - own
        return samples

    @property
    def own_share(self) -> float | None:
        """Share of the time of all samples in which this thread had a core; None where unknown.

        A kernel keeps its threads busy, so whatever is missing went to other programs.
        """
        return None if self._own_clock is None or not self._wall else self._own / self._wall

    def release(self) -> None:
        """Let go of all operands."""
        self._prepared.clear()

    @property
    def clock(self) -> float | None:
        """The highest clock of the cores that was seen, in Hz; None where it is not known."""
        return max(self._clocks.values(), default=None)

    @property
    def results(self) -> list[Result]:
        """Every kernel that has samples, in the order given."""
        return [
            Result(
                kernel,
                self._samples[kernel.prepare],
                self._clocks.get(kernel.prepare, math.nan),
            )
            for kernel in self.kernels
            if kernel.prepare in self._samples
        ]

    @property
    def warnings(self) -> list[str]:
        """A sentence for each kernel that failed or was refused."""
        failed = [
            f"{kernel.name} could not run, so it did not compete for {target(kernel).label}: "
            f"{self._failures[kernel.prepare]}."
            for kernel in self.unique(self.kernels)
            if kernel.prepare in self._failures
        ]
        return [*self._refused, *failed]


def reason(error: BaseException) -> str:
    """The first line of an error, with its kind, without a full stop."""
    lines = str(error).strip().splitlines()
    kind = type(error).__name__
    return f"{kind}: {lines[0].strip().rstrip('.')}" if lines else kind
