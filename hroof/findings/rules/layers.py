"""Layers with the largest recoverable time, and large ones that have nothing to gain."""

from __future__ import annotations

import numpy as np

from hroof.findings import advice
from hroof.findings.context import LEVELS, Context
from hroof.findings.finding import Finding, launches_text, titled
from hroof.findings.rules.precision import lower_precision
from hroof.findings.thresholds import (
    FAR_FROM_ROOFS,
    MAX_LAYERS,
    MIN_SHARE,
    NEAR_ROOF,
    NO_RULE_SHARE,
)
from hroof.roofline import Point, missing_name, points
from hroof.units import Phase, Pipe, Precision, Source, number, percent, si


def layer_findings(run: Context) -> list[Finding]:
    """The layers with the largest recoverable time, and large ones that have nothing to gain."""
    work, subject = run.launches[run.model_work], run.subject
    found = points(run.profile.replace(launches=work), run.machine, (subject,))
    named = [p for p in found if p.key[subject] != missing_name(subject) and _judgeable(run, p)]
    worth = [p for p in named if p.recoverable_time >= MIN_SHARE * run.step and not _near_roof(p)]
    ranked = sorted(worth, key=lambda p: (-p.recoverable_time, p.key[subject]))
    done = [p for p in named if _near_roof(p) and run.share(p.time) >= NO_RULE_SHARE]
    return [_layer(run, p) for p in ranked[:MAX_LAYERS]] + [_at_roof(run, p) for p in done]


def _judgeable(run: Context, point: Point) -> bool:
    """Most of the time has a bound, known FLOP and, where hardware counts apart, known bytes."""
    known = point.bounded_time >= 0.5 * point.time and point.uncounted_time <= 0.5 * point.time
    sized = run.profile.counters is None or point.sized_time >= 0.5 * point.time
    return point.bound is not None and known and sized


def _near_roof(point: Point) -> bool:
    headroom = point.headroom
    return _is_compute(point.bound) and headroom is not None and 1 <= headroom < NEAR_ROOF


def _is_compute(bound: str | None) -> bool:
    return bound is not None and " " in bound


def _layer(run: Context, point: Point) -> Finding:
    kind = _kind(point)
    title = (
        f"{_named(run, point)} takes {si(point.time, 's')}{run.per}, "
        f"{number(point.headroom, 2)} times what its ceilings allow; {point.bound} bounds "
        f"{percent(point.bound_share, 0)} of the attainable."
    )
    assumption = f"Every launch of the {run.subject} reaches the ceiling that bounds it."
    saves = point.recoverable_time
    if kind == "launch" and point.fused_time is not None:
        assumption = f"All launches of the {run.subject} become one."
        saves = point.bounded_time - point.fused_time
    return run.finding(
        kind, title, saves, run.share(point.time),
        advice.advice(advice.LAYER[kind], run.profile.run).format(bound=point.bound),
        assumption, _layers(run, point),
        cause=_CAUSE[kind].format(bound=point.bound, launches=launches_text(point.launches)),
        evidence=run.explained(point),
    )  # fmt: skip


_CAUSE = {
    "launch": "Its {launches} cost more than the work that they do.",
    "memory": "Of all that is known of its ops, their bytes at {bound} take longest.",
    "compute": "Of all that is known of its ops, their arithmetic takes longest, and the unit could do more.",
    "latency": (
        "It keeps neither arithmetic nor memory busy: too little runs in parallel, each step waits for the one before, "
        "or its accesses use little of what they fetch."
    ),
}


def _kind(point: Point) -> str:
    if point.bound == "launch":
        return "launch"
    # A function such as exp counts as one FLOP by convention: then the unit may be busy all the same.
    exact = point.sources.get("flop") in (Source.COUNTER, Source.COUNTED)
    if exact and point.headroom is not None and point.headroom >= FAR_FROM_ROOFS:
        return "latency"
    return "memory" if point.bound in LEVELS else "compute"


def _named(run: Context, point: Point) -> str:
    """The layer or kernel in words."""
    name = point.key[run.subject]
    left_out = _left_out(run, name) if run.subject == "layer" else ""
    return f"{run.subject.capitalize()} {titled(name, run.subject)}{left_out}"


def _layers(run: Context, point: Point) -> tuple[str, ...]:
    return (point.key["layer"],) if run.subject == "layer" else ()


def _left_out(run: Context, layer: str) -> str:
    """What of the layer's time this finding leaves to others, in words."""
    rows = np.asarray(run.launches["layer"] == layer) & ~run.model_work
    phases = set(run.launches["phase"][rows].dropna().astype(str))
    named = [phase.value for phase in (Phase.OPTIMIZER, Phase.DATA) if phase.value in phases]
    return f", without its {' and '.join(named)} work," if named else ""


def _at_roof(run: Context, point: Point) -> Finding:
    name = point.bound or ""
    pipe, precision = name.split(" ")
    lower = lower_precision(run.machine, Precision(precision)) if pipe == Pipe.MATRIX else None
    action = "Leave it as it is, or compute less."
    if lower:
        ratio = number(lower[1], 2)
        action = f"Only another format helps: the peak of {lower[0]} is {ratio} times higher."
    near = percent((point.headroom or 1) - 1, 0)
    title = f"{_named(run, point)} runs within {near} of its {name} roof."
    title += " There is nothing to gain at this precision."
    ceiling = run.machine.peaks.get((Pipe(pipe), Precision(precision)))
    reached = ceiling is not None and ceiling.how == "framework-reachable"
    return run.finding(
        "at-roof", title, 0.0, run.share(point.time), action, "The ceilings hold.",
        _layers(run, point),
        cause=_REACHED if reached else "", evidence=run.explained(point),
    )  # fmt: skip


_REACHED = (
    "The roof is what the framework's own kernels reach (framework-reachable): "
    "a kernel of another make could do more."
)
