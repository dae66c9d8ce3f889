"""The suite: every candidate kernel of an integration, measured, chosen and checked → a Machine."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle, islice
from typing import Any

from hroof.ceilings import checks, host, limits, signs
from hroof.ceilings.bench import Bench, CoreClock, Plan, Progress, reason
from hroof.ceilings.clock import measured_clock
from hroof.ceilings.sampling import Clock
from hroof.ceilings.selection import Target, by_target, candidates, ceiling, target
from hroof.ceilings.signs import Signs
from hroof.ceilings.sweep import Swept, better, measure_sweep
from hroof.ceilings.sweep import ceilings as read_off
from hroof.errors import UsageError
from hroof.integration import CeilingKernel, Device, Integration
from hroof.machine import Ceiling, Machine, Sweep
from hroof.units import MemoryLevel, Precision

SWEEP = "sweep"
"""What the sweep is asked for by, beside the names of ceilings."""

FULL = Plan(seconds=0.2, spread_seconds=1.0, budget=20.0, limit=45.0, sweep=6.0)
QUICK = Plan(
    seconds=0.05,
    spread_seconds=0.2,
    budget=3.0,
    limit=7.0,
    without=frozenset(
        set(Precision) - {Precision(p) for p in ("fp64", "fp32", "tf32", "fp16", "bf16")}
    ),
    variants=False,
)
CLOCKS, DOUBTS = "clocks", "doubts"
"""What an integration may tell beside facts: the clock in Hz by name of the kernel, and sentences for the warnings."""
_LEAST_VISITS = 8
_AGAIN = 2


@dataclass(frozen=True, slots=True)
class Senses:
    """What the suite looks at while it measures.

    Attributes:
        clock: Seconds, monotonic.
        own_clock: Seconds that this thread has had a core; asked on a CPU only.
        core_clock: The clock of the cores in Hz; asked on a CPU only.
        look: Sees load, heat and throttling.
        now: Date and time.
    """

    clock: Clock = time.perf_counter
    own_clock: Clock = time.thread_time
    core_clock: CoreClock = measured_clock
    look: Callable[[], Signs] = signs.look
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


_SENSES = Senses()


def measure(
    integration: Integration,
    device: str | None = None,
    *,
    quick: bool = False,
    only: Collection[str] = (),
    progress: Progress | None = None,
    plan: Plan | None = None,
    senses: Senses = _SENSES,
) -> Machine:
    """Measure the ceilings of one device with the kernels of one framework.

    Per ceiling the best sample of the best candidate counts: interference only lowers a rate. DRAM
    is visited again and again between the other kernels, since its rate drifts. What cannot be is
    measured again, at most twice: a nearer level that is slower than the next one, more than the
    hardware can do, a sweep without plateaus.

    Args:
        integration: Whose kernels.
        device: ``cpu`` or ``cuda:0``; without it the framework's default.
        quick: Less time per kernel, so a little less certain, fewer precisions and no sweep.
        only: Names of the ceilings to measure (see ``Target.names``), or ``sweep``; without any, all.
        progress: Hears what is measured now.
        plan: Times per kernel, instead of the two usual plans.
        senses: Clocks and the like, instead of those of this computer.

    Returns:
        The machine. A kernel that fails and every doubt about a number are in its ``warnings``.

    Raises:
        MissingError: There is no such device.
        UsageError: It has no kernel for a name in ``only``.
    """
    begun, before = senses.clock(), senses.look()
    found = integration.device(device)
    if progress is not None:
        progress("looking for kernels")
    plan = plan or (QUICK if quick else FULL)
    kernels, doubts = _collect(integration, found, plan, quick, frozenset(only))
    bench = _bench(kernels, found, senses, progress)
    run(bench, plan, senses.clock)
    swept = _sweep(integration, found, _sweep_seconds(plan, only), senses.clock, progress)
    told = _told(integration, found)
    machine = again(bench, plan, lambda: _machine(found, bench, swept.sweep, told()))
    bench.release()
    facts = dict(machine.facts)
    doubts += facts.pop(DOUBTS, [])
    facts |= {
        **signs.facts(before, senses.look()),
        **({"only": sorted(only)} if only else {}),
        "framework": integration.FRAMEWORK,
        "measured_at": senses.now().isoformat(timespec="seconds"),
        "quick": quick,
        "seconds": round(senses.clock() - begun, 3),
    }
    machine = dataclasses.replace(machine, facts=facts)
    said = (*doubts, *bench.warnings, *swept.warnings, *checks.warnings(machine))
    return dataclasses.replace(machine, warnings=said)


def _told(integration: Integration, device: Device) -> Callable[[], Mapping[str, Any]]:
    """What the integration has seen of the device so far, each time it is asked."""
    tell = getattr(integration, "ceiling_facts", None)
    return lambda: {} if tell is None else tell(device)


def _bench(
    kernels: Iterable[CeilingKernel], device: Device, senses: Senses, progress: Progress | None
) -> Bench:
    on_cores = device.device == "cpu"
    return Bench(
        kernels,
        clock=senses.clock,
        own_clock=senses.own_clock if on_cores else None,
        core_clock=senses.core_clock if on_cores else None,
        progress=progress,
    )


def _collect(
    integration: Integration, device: Device, plan: Plan, quick: bool, only: frozenset[str]
) -> tuple[list[CeilingKernel], list[str]]:
    """The kernels of a device that are wanted; what an integration offered before it broke still counts.

    Raises:
        UsageError: There is none for a name that was asked for.
    """
    kernels: list[CeilingKernel] = []
    doubts: list[str] = []
    asked = dataclasses.replace(device, facts={**device.facts, "quick": quick})
    try:
        for kernel in integration.ceiling_kernels(asked):
            kernels.append(kernel)
    except Exception as error:  # whatever a framework raises
        doubts = [f"The search for kernels ended early: {reason(error)}."]
    offered = frozenset[str]().union(*(_names(kernel) for kernel in kernels))
    absent = sorted(only - offered - {SWEEP})
    if absent:
        raise UsageError(
            f"{device.name} ({device.device}) has no kernel for {', '.join(absent)}.",
            f"Choose among: {', '.join(sorted(offered | {SWEEP}))}.",
        )
    return [kernel for kernel in kernels if _is_wanted(kernel, plan, only)], doubts


def _names(kernel: CeilingKernel) -> frozenset[str]:
    try:
        return target(kernel).names
    except ValueError:  # the bench refuses it, and says why
        return frozenset()


def _is_wanted(kernel: CeilingKernel, plan: Plan, only: frozenset[str]) -> bool:
    if only:
        return bool(_names(kernel) & only)
    return kernel.precision not in plan.without and (plan.variants or not kernel.variant)


def run(bench: Bench, plan: Plan, clock: Clock) -> None:
    """Measure every kernel once, and DRAM in small parts between them."""
    latest = clock() + plan.limit
    kernels = bench.unique(bench.kernels)
    spread = [k for k in kernels if k.level is MemoryLevel.DRAM and not k.variant]
    planned = list(schedule(kernels, spread, plan))
    for number, (kernel, seconds, keep) in enumerate(planned, 1):
        allowed = seconds if clock() < latest else 0.0
        bench.measure(kernel, allowed, keep=keep, place=f"{number} of {len(planned)}")


def schedule(
    kernels: Iterable[CeilingKernel], spread: list[CeilingKernel], plan: Plan
) -> Iterable[tuple[CeilingKernel, float, bool]]:
    """What to measure one after the other: kernel, seconds, and whether it will come again.

    After each ordinary kernel one of ``spread`` has its turn, until every one has had its time.
    """
    ordinary = [kernel for kernel in kernels if kernel not in spread]
    visits = max(len(ordinary), _LEAST_VISITS * len(spread)) if spread else 0
    part = plan.spread_seconds * len(spread) / visits if visits else 0.0
    turns = islice(cycle(spread), visits)
    for kernel in ordinary:
        yield kernel, plan.each(len(ordinary)), False
        for turn in islice(turns, visits // len(ordinary)):
            yield turn, part, True
    for turn in turns:
        yield turn, part, True


def again(bench: Bench, plan: Plan, build: Callable[[], Machine]) -> Machine:
    """Measure again, at most twice, what cannot be; samples that are too high are forgotten before."""
    machine = build()
    for _ in range(_AGAIN):
        slow, fast = checks.too_slow(machine), set(checks.too_fast(machine))
        if not slow | fast:
            break
        doubtful = [kernel for kernel in bench.kernels if target(kernel).key in slow | fast]
        for kernel in bench.unique(doubtful):
            if target(kernel).key in fast:
                bench.forget(kernel)
            bench.measure(kernel, plan.seconds, place="again")
        machine = build()
    return machine


def _sweep_seconds(plan: Plan, only: Collection[str]) -> float:
    """Seconds for the sweep; 0 for none."""
    if only:
        return (plan.sweep or FULL.sweep) if SWEEP in only else 0.0
    return plan.sweep


def _sweep(
    integration: Integration,
    device: Device,
    seconds: float,
    clock: Clock,
    progress: Progress | None,
) -> Swept:
    """The sweep over working sets, and what is doubtful about it; again where it shows no plateau."""
    swept = Swept()
    for _ in range(1 + _AGAIN if seconds else 0):
        swept = measure_sweep(integration, device, clock=clock, progress=progress, seconds=seconds)
        if swept.sweep is None or swept.sweep.plateaus:
            break
    return swept


def _limits(device: Device) -> dict[str, Any]:
    """What a core can do in a cycle, unless the integration has said it."""
    if device.device != "cpu" or limits.PER_CYCLE in device.facts:
        return {}
    known = limits.per_cycle(host.cpu_flags())
    return {limits.PER_CYCLE: known} if known else {}


def _with_clocks(machine: Machine, clocks: Mapping[str, float]) -> Machine:
    """The ceilings with the clock that the integration saw during the kernel that won."""

    def clocked(ceiling: Ceiling) -> Ceiling:
        return dataclasses.replace(ceiling, clock=clocks.get(ceiling.kernel, ceiling.clock))

    return dataclasses.replace(
        machine,
        peaks={pair: clocked(ceiling) for pair, ceiling in machine.peaks.items()},
        bandwidths={level: clocked(ceiling) for level, ceiling in machine.bandwidths.items()},
        launch_cost=None if machine.launch_cost is None else clocked(machine.launch_cost),
        others={name: clocked(ceiling) for name, ceiling in machine.others.items()},
    )


def _machine(device: Device, bench: Bench, sweep: Sweep | None, told: Mapping[str, Any]) -> Machine:
    """The machine as far as it is measured.

    Args:
        device: The device.
        bench: What was measured of its kernels.
        sweep: Its sweep, or None.
        told: What the integration saw meanwhile.
    """
    groups = by_target(bench.results)
    found = {key: ceiling(group) for key, group in groups.items()}
    ceilings = {key: value for key, value in found.items() if not key.variant}
    bandwidths = {key.level: value for key, value in ceilings.items() if key.level is not None}
    machine = Machine(
        name=device.name,
        device=device.device,
        peaks={key.pair: value for key, value in ceilings.items() if key.pair is not None},
        bandwidths=_read_off(device, sweep) | bandwidths,
        launch_cost=ceilings.get(Target()),
        caches=device.caches,
        shared_pipes=device.shared_pipes,
        facts={
            **device.facts,
            **_limits(device),
            "candidates": candidates(groups),
            "own_share": bench.own_share,
            **_clock(bench),
            **told,
        },
        others={key.key: value for key, value in found.items() if key.variant},
        sweep=sweep,
    )
    faster = better(machine)
    machine = dataclasses.replace(machine, bandwidths={**machine.bandwidths, **faster})
    return _with_clocks(machine, told.get(CLOCKS, {}))


def _read_off(device: Device, sweep: Sweep | None) -> dict[MemoryLevel, Ceiling]:
    """Levels of the sweep, where the system tells no cache sizes, so that no kernel was made for a level."""
    if device.caches or sweep is None:
        return {}
    return read_off(sweep, {})


def _clock(bench: Bench) -> dict[str, Any]:
    if bench.clock is None:
        return {}
    return {"clock": bench.clock, "clock_source": "timed additions right after each kernel"}
