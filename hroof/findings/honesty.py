"""Honesty: warnings about a run, and whether it can support a verdict at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hroof.ceilings import differences
from hroof.counters.clock import APART
from hroof.findings.finding import COLLECT_FLOP, Finding, Verdict, titled
from hroof.machine import Machine
from hroof.profile.schema import SCHEMA
from hroof.roofline import (
    Point,
    captured,
    computes,
    coverage,
    points,
    select,
    undisturbed_step,
    usual_key,
    wall_time,
)
from hroof.roofline.flags import COMPUTE_TOLERANCE
from hroof.units import Source, number, percent

if TYPE_CHECKING:
    from hroof.profile import Profile

MIN_STEPS = 3
"""Fewer steps cannot tell noise from signal."""
LARGE_SPREAD = 0.2
NO_VERDICT_SPREAD = 1.0
LOW_COVERAGE = 0.9
NO_VERDICT_COVERAGE = 0.5
MIN_GAIN = 0.001
OVERHEAD = 1.2
CONTENDED = 20.0
"""A step on a CPU that takes this many times what the ceilings allow shares it with others."""
DISTURBED_SPREAD = 0.5
ROUNDING = 1e-9
_NAMED = 5
_COMPARED = (
    "threads",
    "affinity",
    "clock_limits",
    "float32",
    "reductions",
    "denormals",
    "driver",
)
"""Facts of run and ceilings that decide how fast kernels are, or what they compute in."""


def warnings(profile: Profile, machine: Machine | None) -> list[str]:
    """What a reader of the report has to know, one or two sentences each, in fixed order.

    Args:
        profile: The run. Beside the keys that ``Profile`` names, ``run`` may hold ``nan_loss``
            (true where a loss was not finite) and ``clock`` (Hz).
        machine: Its ceilings, or None.
    """
    found = [
        *_status(profile.run),
        *_steps(profile, machine),
        *_overhead(profile),
        *_negative(profile),
        *_unreal(profile),
        *_coverage(profile),
        *_machine(profile, machine),
        *_above_roof(points(profile, machine)),
        *(str(text) for text in profile.run.get("warnings") or ()),
    ]
    return list(dict.fromkeys(found))


def _status(run: Mapping[str, Any]) -> list[str]:
    found = []
    if run.get("status", "complete") != "complete":
        reason = f": {run['status_reason']}" if run.get("status_reason") else ""
        found.append(f"The run is {run['status']}{reason.rstrip('.')}.")
    if run.get("nan_loss"):
        found.append("The loss was not finite: a healthy run may compute something else.")
    return found


def _steps(profile: Profile, machine: Machine | None) -> list[str]:
    count = profile.step_count
    found = []
    if count == 0:
        found.append("The launches belong to no step: numbers are sums over the whole run.")
    elif count < MIN_STEPS:
        found.append(f"Only {_plural(count, 'step was', 'steps were')} captured: noise is unknown.")
    spread = _spread(profile, machine)
    if spread > LARGE_SPREAD:
        share = percent(spread, 0)
        found.append(f"Steps differ by {share} of their median: other load, or shapes that vary.")
    return found


def _overhead(profile: Profile) -> list[str]:
    """What collecting costs, where a step without it was timed as well."""
    wall, undisturbed = wall_time(profile), undisturbed_step(profile)
    if wall is None or undisturbed is None or wall <= OVERHEAD * undisturbed:
        return []
    times = number(wall / undisturbed, 2)
    return [
        f"Timed steps took {times} times an undisturbed one: times of short ops include the "
        "profiler's own cost."
    ]


def _negative(profile: Profile) -> list[str]:
    count = int((profile.launches["duration"].to_numpy() < 0).sum())
    rows = _plural(count, "row has", "rows have")
    return [f"{rows} a negative time: it counts as not known."] if count else []


def _unreal(profile: Profile) -> list[str]:
    """Numbers that no source gives: a fault of it, or of who edited the file."""
    wrong = np.zeros(len(profile.launches), dtype=bool)
    columns = [name for name, column in SCHEMA.items() if column.dtype == "float"]
    for name in columns:
        numbers = profile.launches[name].to_numpy()
        signed = name in ("start", "duration")  # a negative time has its own sentence
        wrong |= np.isinf(numbers) if signed else (numbers < 0) | np.isinf(numbers)
    rows = _plural(int(wrong.sum()), "row has", "rows have")
    said = f"{rows} infinite numbers, or work below 0: nothing computed from them can be trusted."
    return [said] if wrong.any() else []


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _spread(profile: Profile, machine: Machine | None) -> float:
    """How far the steps lie apart; any machine will do, and this one is asked for elsewhere too."""
    whole = select(profile, machine, np.ones(len(captured(profile.launches)), dtype=bool))
    return float("nan") if whole is None else whole.time_spread


def _coverage(profile: Profile) -> list[str]:
    known = coverage(profile)
    found = []
    if known.time_attributed < LOW_COVERAGE:
        found.append(f"Only {percent(known.time_attributed)} of the launch time has a layer.")
    if known.time_with_flop < LOW_COVERAGE:
        beside = " beside data loading" if known.time_loading > 0 else ""
        share = percent(known.time_with_flop)
        found.append(f"Only {share} of the launch time{beside} has known FLOP.")
    if known.time_outside_steps > 1 - LOW_COVERAGE:
        share = percent(known.time_outside_steps)
        found.append(f"Work outside the captured steps is left out; it is {share} of their time.")
    return found


def _machine(profile: Profile, machine: Machine | None) -> list[str]:
    if machine is None:
        return ["There are no ceilings: bounds, headroom and savings are unknown."]
    mismatch = machine_mismatch(profile, machine)
    clock = _clock(profile, machine)
    return [
        *([mismatch] if mismatch else []),
        *clock,
        *_settings(profile, machine),
        *(f"Ceilings: {w}" for w in machine.warnings),
    ]


def machine_mismatch(profile: Profile, machine: Machine) -> str | None:
    """A sentence where run and ceilings come from different devices; None where nothing says so.

    ``run["device"]`` is a device (``cuda:0``) or the name of a chip, or an object with ``name`` and
    ``device``.
    """
    stated = profile.run.get("device")
    facts: Mapping[str, Any] = stated if isinstance(stated, Mapping) else {"device": stated}
    chip, device = facts.get("name") or profile.run.get("device_name"), facts.get("device")
    if chip:
        same = _folded(chip) == _folded(machine.name)
        found = str(chip)
    elif device:
        kind = _folded(device).split(":")[0]
        same = kind == _folded(machine.device).split(":")[0]
        same = same or _folded(device) == _folded(machine.name)
        found = str(device)
    else:
        return None
    if same:
        return None
    return f"The run is from {found!r}, the ceilings are from {machine.name!r} ({machine.device})."


def _folded(name: object) -> str:
    return " ".join(str(name).casefold().split())


def _clock(profile: Profile, machine: Machine) -> list[str]:
    run, ceilings = profile.run.get("clock"), machine.facts.get("clock")
    if not isinstance(run, int | float) or not isinstance(ceilings, int | float):
        return []
    ratio = run / ceilings if ceilings > 0 else 1.0
    if abs(ratio - 1) <= APART:
        return []
    times = number(ratio)
    return [f"The run's clock is {times} times the one that the ceilings were measured at."]


def _settings(profile: Profile, machine: Machine) -> list[str]:
    """Settings under which run and ceilings were measured, where they differ."""
    facts = profile.run.get("facts")
    run: Mapping[str, Any] = facts if isinstance(facts, Mapping) else {}
    return [
        f"Settings differ: {name} was {_said(here)} in the run and {_said(there)} for the ceilings."
        for name, here, there in differences(run, machine.facts, _COMPARED)
    ]


def _said(value: object) -> str:
    return "unset" if value is None else str(value)


def _above_roof(found: list[Point]) -> list[str]:
    """Groups that look too fast: counted, named, and never taken for a success."""
    low = [p.headroom is not None and p.headroom < 1 - ROUNDING for p in found]
    over = [any(note.startswith("Above") for note in p.notes) for p in found]
    above = [p for p, is_low in zip(found, low, strict=True) if is_low]
    above += [p for p, is_low, is_over in zip(found, low, over, strict=True) if is_over > is_low]
    if not above:
        return []
    names = ", ".join("/".join(p.key.values()) for p in above[:_NAMED])
    more = f" and {len(above) - _NAMED} more" if len(above) > _NAMED else ""
    return [f"Faster than the ceilings allow: {names}{more}. {above[0].notes[0]}"]


def verdict(profile: Profile, machine: Machine | None, ranked: list[Finding]) -> Verdict:
    """What the run says as a whole, or that it cannot say anything.

    Args:
        profile: The run.
        machine: Its ceilings, or None.
        ranked: The run's findings, best first.
    """
    launches = captured(profile.launches)
    whole = select(profile, machine, np.ones(len(launches), dtype=bool))
    against = _objections(profile, machine, whole)
    if against or whole is None:
        text = "No verdict: this run cannot support one."
        return Verdict(text, " ".join(why for why, _ in against), against[0][1], False)
    text = (
        f"{whole.bound} bounds {percent(whole.bound_share, 0)} of the attainable time; the "
        f"launches{' of a step' if profile.step_count else ''} take "
        f"{number(whole.headroom, 2)} times what the ceilings allow."
    )
    doubt = None if machine is None else disturbed(machine, whole.headroom)
    text += f" {doubt}" if doubt else ""
    first = next((finding for finding in ranked if finding.saves > 0), None)
    subject = usual_key(launches)
    held = _why(points(profile, machine, (subject,)), subject)
    if first is None:
        fine = "Nothing stands out: change the model or its precision."
        return Verdict(text, held, fine, True, doubt is not None)
    return Verdict(text, f"{first.title} {held}", first.action, True, doubt is not None)


def no_ceilings_remedy(profile: Profile) -> str:
    """What to do where a run has no ceilings."""
    if profile.counters is None:
        return "Measure them once with: hroof ceilings"
    return (
        "Measure them with hroof ceilings on the device of the run and name the file with --machine, or collect with "
        "hroof run --counters: its counters carry the peaks of the chip."
    )


def disturbed(machine: Machine, headroom: float | None) -> str | None:
    """A sentence where other programs probably disturbed run or ceilings; None where not.

    Args:
        machine: The ceilings.
        headroom: Time of a whole step ÷ what the ceilings allow, or None.
    """
    again = "measure again on an idle machine"
    if machine.device.startswith("cpu") and headroom is not None and headroom > CONTENDED:
        return (
            f"Doubtful: more than {CONTENDED:.0f} times is nearly always other programs on the "
            f"same processor; {again}."
        )
    rates = [*machine.peaks.values(), *machine.bandwidths.values()]
    rates = [ceiling for ceiling in rates if ceiling.how in ("measured", "framework-reachable")]
    rates += [machine.launch_cost] if machine.launch_cost is not None else []
    if any("other programs" in text for text in machine.warnings) or any(
        ceiling.spread > DISTURBED_SPREAD for ceiling in rates
    ):
        return f"Doubtful: other programs probably disturbed the ceilings; {again}."
    return None


def _objections(
    profile: Profile, machine: Machine | None, whole: Point | None
) -> list[tuple[str, str]]:
    """Why there is no verdict, each with its remedy."""
    if whole is None or not whole.time > 0:
        return [("No launch with a time was captured.", "Collect again with a full step or more.")]
    found = []
    if machine is None:
        found.append(("There are no ceilings to compare with.", no_ceilings_remedy(profile)))
    elif mismatch := machine_mismatch(profile, machine):
        found.append((mismatch, "Measure the ceilings on the device of the run."))
    if profile.step_count < MIN_STEPS and whole.sources["time"] is not Source.COUNTER:
        steps = _plural(profile.step_count, "step was", "steps were")
        remedy = f"Capture {MIN_STEPS} steps or more."
        found.append((f"{steps} captured, {MIN_STEPS} are needed.", remedy))
    if whole.time_spread > NO_VERDICT_SPREAD:
        share = percent(whole.time_spread, 0)
        why = f"Steps differ by {share} of their median."
        found.append((why, "Collect again on an idle machine."))
    return found + (_uncovered(profile, machine, whole) or _impossible(whole))


def _uncovered(profile: Profile, machine: Machine | None, whole: Point) -> list[tuple[str, str]]:
    """Why too little is known of the launches, those that load data apart where there are others."""
    remedy = "Register FLOP rules for the ops that the coverage names."
    if profile.counters is not None:
        remedy = COLLECT_FLOP
    rows = computes(captured(profile.launches))
    judged = None if rows.all() else select(profile, machine, rows)
    beside = ""
    if judged is not None and judged.time > 0:
        whole, beside = judged, " beside data loading"
    counted = 1 - whole.uncounted_time / whole.time
    if counted < NO_VERDICT_COVERAGE:
        why = f"Only {percent(counted)} of the launch time{beside} has known FLOP."
        return [(why, remedy)]
    if profile.counters is not None and whole.sized_time < NO_VERDICT_COVERAGE * whole.time:
        sized = percent(whole.sized_time / whole.time)
        why = f"Only {sized} of the launch time{beside} has known bytes."
        return [(why, "Collect bytes as well: without them memory may be the bound all the same.")]
    bounded = whole.bounded_time / whole.time
    if machine is not None and bounded < NO_VERDICT_COVERAGE:
        why = f"Only {percent(bounded)} of the launch time{beside} has a bound."
        return [(why, "Measure the missing ceilings, or collect bytes.")]
    return []


def _impossible(whole: Point) -> list[tuple[str, str]]:
    headroom = whole.headroom
    if headroom is not None and headroom * COMPUTE_TOLERANCE < 1:
        why = f"The step is faster than its ceilings allow (headroom {number(headroom)})."
        return [(why, "Check ceilings, clock and counts; the caveats name likely causes.")]
    return []


def _why(found: list[Point], subject: str) -> str:
    """How few layers (or kernels) hold most of the recoverable time."""
    total = sum(p.recoverable_time for p in found)
    if not total > MIN_GAIN * sum(p.bounded_time for p in found):
        return f"No {subject} has recoverable time."
    ranked = sorted(found, key=lambda p: (-p.recoverable_time, tuple(p.key.values())))
    held = 0.0
    names: list[str] = []
    for point in ranked:
        if held >= 0.8 * total or len(names) == _NAMED:
            break
        held += point.recoverable_time
        names.append(titled(point.key[subject], subject))
    kind = subject.capitalize()
    who = f"{kind} {names[0]} holds" if len(names) == 1 else f"{kind}s {', '.join(names)} hold"
    return f"{who} {percent(held / total, 0)} of the recoverable time."
