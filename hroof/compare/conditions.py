"""Conditions: what differs between two runs beside their times, and what can therefore not be compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hroof.ceilings import differences
from hroof.compare.differences import Comparison, Difference, Part, Side
from hroof.units import MemoryLevel, Phase, Source, number, si

if TYPE_CHECKING:
    from hroof.machine import Ceiling, Machine

SETTINGS = (
    "threads", "affinity", "clock_limits", "float32", "reductions", "denormals", "driver", "backend", "dtype_policy",
    "jit_compile", "run_eagerly", "optimizer", "environment", "versions",
)  # fmt: skip
"""Facts of a run that decide how fast its kernels are, or what they compute in."""
CEILINGS_APART = 0.1
"""Ceilings of one machine that differ by more than this share are told; their own spread is about as large."""
CLOCKS_APART = 0.05
SAME_FACTOR = 0.8
"""Share of the layers with FLOP whose FLOP grow by one factor when batches or sequences are larger."""
_ALIKE = 0.01
_NAMED = 3
_ROUNDING = 1e-9
_FEW = 3


def conditions(found: Comparison) -> list[str]:
    """What a reader has to know before any number, one or two sentences each, in fixed order."""
    base, new = found.base, found.new
    return [
        *_machines(base, new),
        *_ceilings(base.machine, new.machine),
        *_frameworks(base, new),
        *_settings(base, new),
        *_clocks(base, new),
        *_steps(base, new),
        *_ranks(base, new),
        *_status(base, new),
        *_sources(found),
        *_sizes(found),
        *_above_roof(found),
    ]


def _run(side: Side) -> Mapping[str, Any]:
    return side.profile.run


def device_of(side: Side) -> str:
    """The device of a run by the name of its chip, or what is known of it; empty where nothing is."""
    stated = _run(side).get("device")
    facts = stated if isinstance(stated, Mapping) else {"device": stated}
    name = _run(side).get("device_name") or facts.get("name") or facts.get("device")
    return str(name or "")


def _machines(base: Side, new: Side) -> Iterator[str]:
    before, after = device_of(base), device_of(new)
    if before and after and before != after:
        yield (
            f"The machines differ: BASE ran on {before}, NEW on {after}. Times are compared as they are; headroom is "
            "against each machine's own ceilings."
        )


def _ceilings(base: Machine | None, new: Machine | None) -> Iterator[str]:
    without = [name for name, machine in (("BASE", base), ("NEW", new)) if machine is None]
    if without:
        yield (
            f"There are no ceilings for {' and '.join(without)}: no headroom there, and no difference of headrooms. "
            "Measure them with hroof ceilings on the device of the run."
        )
    if base is None or new is None or base.name != new.name:
        return
    before, after = dict(_rates(base)), dict(_rates(new))
    apart = [name for name in before if name in after and _apart(before[name], after[name])]
    if apart:
        said = ", ".join(
            f"{name} {si(before[name].rate, '')} → {si(after[name].rate, '')}"
            for name in apart[:_NAMED]
        )
        more = f" and {len(apart) - _NAMED} more" if len(apart) > _NAMED else ""
        yield (
            f"The ceilings of the same machine differ ({said}{more}): headroom is against each run's own. Another "
            "framework reaches others; otherwise measure again on an idle machine before trusting a change of headroom."
        )


def _rates(machine: Machine) -> Iterator[tuple[str, Ceiling]]:
    yield from ((f"{pipe} {precision}", one) for (pipe, precision), one in machine.peaks.items())
    yield from ((level.label, one) for level, one in machine.bandwidths.items())


def _apart(base: Ceiling, new: Ceiling) -> bool:
    return abs(math.log(new.rate / base.rate)) > math.log(1 + CEILINGS_APART)


def _frameworks(base: Side, new: Side) -> Iterator[str]:
    before, after = _run(base).get("framework"), _run(new).get("framework")
    if before and after and before != after:
        yield (
            f"The frameworks differ: {before} and {after}. Layers are matched by name, else by shape and order; ops "
            "have other names in each, so families of ops are compared."
        )


def _settings(base: Side, new: Side) -> Iterator[str]:
    before, after = ({**_facts(side), **_versions(side)} for side in (base, new))
    for name, old, now in differences(before, after, SETTINGS):
        if old is not None and now is not None:
            yield f"Settings differ: {name} was {old} in BASE and is {now} in NEW."


def _facts(side: Side) -> Mapping[str, Any]:
    facts = _run(side).get("facts")
    return facts if isinstance(facts, Mapping) else {}


def _versions(side: Side) -> Mapping[str, Any]:
    versions = _run(side).get("versions")
    return {"versions": versions} if isinstance(versions, Mapping) else {}


def _clocks(base: Side, new: Side) -> Iterator[str]:
    before, after = _run(base).get("clock"), _run(new).get("clock")
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return
    if before > 0 and abs(after / before - 1) > CLOCKS_APART:
        yield (
            f"The clocks differ: {si(before, 'Hz')} in BASE, {si(after, 'Hz')} in NEW. Compute-bound work follows the "
            "clock."
        )


def _steps(base: Side, new: Side) -> Iterator[str]:
    counts = [side.profile.step_count for side in (base, new)]
    if counts == [0, 0]:
        yield "The launches of both runs belong to no step: numbers are sums over the whole runs."
    for name, count in zip(("BASE", "NEW"), counts, strict=True):
        if 0 < count < 2:
            yield f"{name} has 1 step: nothing is known of its noise, so no time is called faster or slower."
        elif 0 < count < _FEW:
            yield f"{name} has {count} steps: its noise is a guess. Capture {_FEW} steps or more."


def _ranks(base: Side, new: Side) -> Iterator[str]:
    before, after = (int(side.profile.launches["rank"].nunique()) for side in (base, new))
    if before != after:
        yield f"BASE has {_plural(before, 'rank')}, NEW {after}: launch times, FLOP and bytes are sums over all ranks."


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _status(base: Side, new: Side) -> Iterator[str]:
    for name, side in (("BASE", base), ("NEW", new)):
        status, reason = _run(side).get("status", "complete"), _run(side).get("status_reason")
        if status != "complete":
            yield f"{name} is {status}{f': {reason}' if reason else ''}".rstrip(".") + "."


def _sources(found: Comparison) -> Iterator[str]:
    total = found.total
    times = [math.isnan(time) for time in total.times]
    if any(times):
        who = "Neither run has" if all(times) else f"{'BASE' if times[0] else 'NEW'} has no"
        yield f"{who} times: only FLOP, bytes and launches are compared."
    if not total.comparable("time"):
        yield f"Times come from other tools: {_from(total, 'time')}. Each has a cost of its own in short kernels."
    names = {"flop": "FLOP"} | {level.value: f"bytes at {level.label}" for level in MemoryLevel}
    apart = [name for name in names if not total.comparable(name)]
    for name in apart:
        yield f"No differences of {names[name]}: {_from(total, name)}; these do not mean the same."


def _from(total: Difference, quantity: str) -> str:
    sides = [
        part.point.sources.get(quantity, Source.MISSING) for part in (total.base, total.new) if part
    ]
    return f"{sides[0]} in BASE, {sides[1]} in NEW"


def _sizes(found: Comparison) -> Iterator[str]:
    factor = differ_in_size(found)
    if factor is not None:
        yield (
            f"NEW does {number(factor)} times the forward FLOP of BASE in nearly every layer: probably another batch, "
            f"image or sequence. Per FLOP of these, NEW is {number(factor * found.total.ratio)} times as fast."
        )


def _forward(part: Part | None) -> float:
    point = part.phases.get(Phase.FORWARD) if part else None
    return math.nan if point is None else point.total_flop


def _above_roof(found: Comparison) -> Iterator[str]:
    """Layers that look too fast: no success, and no headroom to compare."""
    for side, name in enumerate(("BASE", "NEW")):
        above = [row.name for row in found.layers if row.headrooms[side] < 1 - _ROUNDING]
        if above:
            more = f" and {len(above) - _NAMED} more" if len(above) > _NAMED else ""
            yield (
                f"Faster than the ceilings of {name} allow: {', '.join(above[:_NAMED])}{more}. A ceiling, a count or "
                "the clock is wrong there; hroof report names likely causes."
            )


def differ_in_size(found: Comparison) -> float | None:
    """The factor by which the forward FLOP of nearly all layers differ, where there is one (another batch); else None.

    Work of the optimizer does not grow with the batch, so that of a whole layer would not tell.
    """
    both = [row for row in found.layers if row.base and row.new and row.comparable("flop")]
    pairs = [(_forward(row.base), _forward(row.new)) for row in both]
    factors = sorted(new / base for base, new in pairs if base > 0 and new > 0)
    if len(factors) < 2:
        return None
    middle = factors[len(factors) // 2]
    alike = sum(abs(factor / middle - 1) < _ALIKE for factor in factors)
    return middle if alike >= SAME_FACTOR * len(factors) and abs(middle - 1) > _ALIKE else None
