"""The suite: every candidate kernel of an integration, measured, chosen and checked → a Machine."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain, cycle, islice
from typing import Any

from hroof.ceilings import checks
from hroof.ceilings.bench import Bench, Plan, Progress, reason
from hroof.ceilings.sampling import Clock
from hroof.ceilings.selection import Target, by_target, candidates, ceiling
from hroof.integration import CeilingKernel, Device, Integration
from hroof.machine import Ceiling, Machine
from hroof.units import MemoryLevel

FULL = Plan(seconds=0.2, spread_seconds=1.0)
QUICK = Plan(seconds=0.05, spread_seconds=0.2)
_LEAST_VISITS = 8


def measure(
    integration: Integration,
    device: str | None = None,
    *,
    quick: bool = False,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
    own_clock: Clock = time.thread_time,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    plan: Plan | None = None,
) -> Machine:
    """Measure the ceilings of one device with the kernels of one framework.

    Per ceiling the best sample of the best candidate counts: interference only lowers a rate. DRAM
    is visited again and again between the other kernels, since its rate drifts. Where a nearer
    level comes out slower than the next one, both are measured again once.

    Args:
        integration: Whose kernels.
        device: ``cpu`` or ``cuda:0``; without it the framework's default.
        quick: Less time per kernel, so a little less certain.
        progress: Hears what is measured now.
        clock: Seconds, monotonic.
        own_clock: Seconds that this thread has had a core; asked on a CPU only.
        now: Date and time of the measurement.
        plan: Times per kernel, instead of the two usual plans.

    Returns:
        The machine. A kernel that fails and every doubt about a number are in its ``warnings``.

    Raises:
        MissingError: There is no such device.
    """
    begun = clock()
    found = integration.device(device)
    kernels, broken = _collect(integration, found)
    own = own_clock if found.device == "cpu" else None
    bench = Bench(kernels, clock=clock, own_clock=own, progress=progress)
    plan = plan or (QUICK if quick else FULL)
    run(bench, plan)
    again(bench, plan)
    bench.release()
    groups = by_target(bench.results)
    facts = {
        **found.facts,
        "measured_at": now().isoformat(timespec="seconds"),
        "quick": quick,
        "candidates": candidates(groups),
        "own_share": bench.own_share,
        "seconds": round(clock() - begun, 3),
    }
    machine = _machine(found, {key: ceiling(group) for key, group in groups.items()}, facts)
    doubts = (*broken, *bench.warnings, *checks.warnings(machine))
    return dataclasses.replace(machine, warnings=doubts)


def _collect(integration: Integration, device: Device) -> tuple[list[CeilingKernel], list[str]]:
    """The kernels of a device; what an integration offered before it broke still counts."""
    kernels: list[CeilingKernel] = []
    try:
        for kernel in integration.ceiling_kernels(device):
            kernels.append(kernel)
    except Exception as error:  # whatever a framework raises
        return kernels, [f"The search for kernels ended early: {reason(error)}."]
    return kernels, []


def run(bench: Bench, plan: Plan) -> None:
    """Measure every kernel once, and DRAM in small parts between them."""
    kernels = bench.unique(bench.kernels)
    spread = [kernel for kernel in kernels if kernel.level is MemoryLevel.DRAM]
    for kernel, seconds, keep in schedule(kernels, spread, plan):
        bench.measure(kernel, seconds, keep=keep)


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
        yield kernel, plan.seconds, False
        for turn in islice(turns, visits // len(ordinary)):
            yield turn, part, True
    for turn in turns:
        yield turn, part, True


def again(bench: Bench, plan: Plan) -> None:
    """Measure both levels once more where the nearer one came out slower."""
    groups = by_target(bench.results)
    bandwidths = {
        key.level: ceiling(group) for key, group in groups.items() if key.level is not None
    }
    disturbed = set(chain.from_iterable(checks.inverted(bandwidths)))
    for kernel in bench.unique(bench.kernels):
        if kernel.level in disturbed:
            bench.measure(kernel, plan.seconds)


def _machine(
    device: Device, ceilings: Mapping[Target, Ceiling], facts: Mapping[str, Any]
) -> Machine:
    return Machine(
        name=device.name,
        device=device.device,
        peaks={key.pair: value for key, value in ceilings.items() if key.pair is not None},
        bandwidths={key.level: value for key, value in ceilings.items() if key.level is not None},
        launch_cost=ceilings.get(Target()),
        caches=device.caches,
        shared_pipes=device.shared_pipes,
        facts=facts,
    )
