"""Ceilings and launches at different clocks: scaling the roof, and saying so."""

from __future__ import annotations

import math
from dataclasses import replace

from hroof.machine import Ceiling, Machine
from hroof.units import MemoryLevel, percent, si

APART = 0.05
"""Clocks that differ by more than this share are told."""
CLOCK = "clock"
"""The fact of a machine that holds the SM clock of its compute ceilings, in hertz."""


def at_clock(machine: Machine, clock: float) -> Machine:
    """A machine whose SMs run at another clock.

    Compute peaks and L1 grow with the clock of the SM, of which L1 is a part. L2 and DRAM have clocks of their own,
    and stay.

    Args:
        machine: With the fact ``clock``; without it nothing can be scaled, and a warning says so.
        clock: Hertz of the SM.
    """
    own = _own_clock(machine)
    if not (own > 0 and clock > 0 and math.isfinite(clock)):
        doubt = "The SM clock of the ceilings or of the launches is not known, so the roof could not be scaled."
        return replace(machine, warnings=tuple(dict.fromkeys((*machine.warnings, doubt))))
    ratio = clock / own
    note = f"scaled from {si(own, 'Hz')} to {si(clock, 'Hz')}"
    return replace(
        machine,
        peaks={pair: _at(ceiling, ratio, note) for pair, ceiling in machine.peaks.items()},
        bandwidths={
            level: _at(ceiling, ratio, note) if level is MemoryLevel.L1 else ceiling
            for level, ceiling in machine.bandwidths.items()
        },
        facts={**machine.facts, CLOCK: clock, "clock_measured": own},
    )


def fitted(machine: Machine, clock: float) -> Machine:
    """The machine at the clock of the launches, with a warning, where theirs was another; else as it is.

    Args:
        machine: The ceilings, with the fact ``clock`` as it was measured.
        clock: Hertz of the SM while the launches were profiled.
    """
    warning = clock_warning(machine, clock)
    if not warning:
        return machine
    scaled = at_clock(machine, clock)
    return replace(scaled, warnings=(*scaled.warnings, warning))


def _at(ceiling: Ceiling, ratio: float, note: str) -> Ceiling:
    return replace(
        ceiling,
        rate=ceiling.rate * ratio,
        median=ceiling.median * ratio,
        note="; ".join(filter(None, (ceiling.note, note))),
    )


def _own_clock(machine: Machine) -> float:
    own = machine.facts.get(CLOCK)
    return float(own) if isinstance(own, (int, float)) else math.nan


def clock_warning(machine: Machine, clock: float) -> str:
    """What to tell where launches and ceilings ran at clocks that differ by more than 5 %; else an empty text.

    Args:
        machine: The ceilings, with the fact ``clock`` as it was measured.
        clock: Hertz of the SM while the launches were profiled.
    """
    own = _own_clock(machine)
    if not (own > 0 and clock > 0) or abs(clock - own) <= APART * max(own, clock):
        return ""
    apart = percent(abs(clock / own - 1), 0)
    return (
        f"The launches were profiled at an SM clock of {si(clock, 'Hz')}, {apart} "
        f"{'below' if clock < own else 'above'} the {si(own, 'Hz')} of the ceilings. The compute roof was scaled to "
        "the clock of the launches; ncu --clock-control none keeps the clocks alike."
    )
