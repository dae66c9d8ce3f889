"""The rules: each looks at one run for one kind of recoverable time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hroof.findings import advice
from hroof.findings.finding import COLLECT_FLOP, Finding, launches_text, severity_of, titled
from hroof.findings.honesty import disturbed
from hroof.machine import Machine
from hroof.roofline import (
    Point,
    Totals,
    bounds,
    captured,
    coverage,
    missing_name,
    points,
    select,
    totals,
    usual_key,
)
from hroof.units import MemoryLevel, Phase, Pipe, Precision, number, percent, si

if TYPE_CHECKING:
    import pandas as pd

    from hroof.profile import Profile

Flags = NDArray[np.bool_]

MAX_LAYERS = 10
MIN_SHARE = 0.01
"""A layer whose recoverable time is a smaller share of the step is not worth a finding."""
NOTICEABLE = 0.03
NO_RULE_SHARE = 0.05
IDLE_SHARE = 0.10
NEAR_ROOF = 1.25
FEW_LAUNCHES = 4
WORTH_RATIO = 1.2
_LOWER = (Precision.TF32, Precision.FP16, Precision.BF16)
_LEVELS = tuple(level.label for level in MemoryLevel)


@dataclass(frozen=True)
class Context:
    """What every rule needs of a run.

    Attributes:
        profile: The run.
        machine: Its ceilings.
        totals: Its sums.
        launches: Rows of captured steps.
        bound: Rows: name of the bound, or None.
        step: Seconds of a step: undisturbed where known, else wall time, else the sum of its
            launches.
        doubtful: Other programs disturbed the run or its ceilings, see ``honesty.disturbed``.
    """

    profile: Profile
    machine: Machine
    totals: Totals
    launches: pd.DataFrame
    bound: NDArray[np.object_]
    step: float
    doubtful: bool = False

    @classmethod
    def of(cls, profile: Profile, machine: Machine) -> Context:
        """Prepare the numbers that the rules share."""
        sums, launches = totals(profile, machine), captured(profile.launches)
        bound = bounds(launches, machine)["bound"].to_numpy(dtype=object)
        step = sums.undisturbed or sums.wall or sums.time
        doubtful = disturbed(machine, sums.headroom) is not None
        return cls(profile, machine, sums, launches, bound, step, doubtful)

    @property
    def per(self) -> str:
        """What sums are about: `` a step``, or `` in all`` where there are no steps."""
        return " a step" if self.totals.steps else " in all"

    @property
    def subject(self) -> str:
        """What findings are about: ``layer``, or ``kernel`` where no layer is known."""
        return usual_key(self.launches)

    def rows(self, bound: tuple[str, ...], *, work: bool = True) -> Flags:
        """Rows with one of the bounds; ``work`` leaves optimizer and data loading out."""
        found = np.isin(self.bound.astype(str), bound)
        return found & _model_work(self.launches) if work else found

    def phase(self, phase: Phase) -> Flags:
        """Rows of one phase."""
        return np.asarray(self.launches["phase"] == phase)

    def point(self, rows: Flags) -> Point | None:
        """The work of some rows, or None where they take no time."""
        point = select(self.profile, self.machine, rows)
        return point if point is not None and point.time > 0 else None

    def share(self, seconds: float) -> float:
        """Share of the time of a step's launches."""
        return seconds / self.totals.time if self.totals.time > 0 else 0.0

    def layers(self, rows: Flags) -> tuple[str, ...]:
        """Layers of some rows by falling time, then by name."""
        chosen = self.launches[rows]
        times = chosen.groupby("layer", observed=True, sort=True)["duration"].sum()
        return tuple(sorted(map(str, times.index), key=lambda name: (-times[name], name)))

    def finding(
        self, kind: str, title: str, saves: float, share: float, action: str, assumption: str,
        layers: tuple[str, ...] = (),
    ) -> Finding:  # fmt: skip
        """A finding whose saving is capped by the step."""
        saves = min(max(saves, 0.0), self.step)
        severity = severity_of(saves, self.step, doubtful=self.doubtful)
        return Finding(kind, title, layers, saves, share, action, assumption, severity)


def _model_work(launches: pd.DataFrame) -> Flags:
    return ~np.isin(
        launches["phase"].to_numpy(dtype=str), [Phase.OPTIMIZER.value, Phase.DATA.value]
    )


def layer_findings(run: Context) -> list[Finding]:
    """The layers with the largest recoverable time, and large ones that have nothing to gain."""
    work, subject = run.launches[_model_work(run.launches)], run.subject
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
    kind, action = _advice(point.bound or "")
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
    share = run.share(point.time)
    return run.finding(kind, title, saves, share, action, assumption, _layers(run, point))


def _named(run: Context, point: Point) -> str:
    """The layer or kernel in words."""
    name = point.key[run.subject]
    left_out = _left_out(run, name) if run.subject == "layer" else ""
    return f"{run.subject.capitalize()} {titled(name, run.subject)}{left_out}"


def _layers(run: Context, point: Point) -> tuple[str, ...]:
    return (point.key["layer"],) if run.subject == "layer" else ()


def _left_out(run: Context, layer: str) -> str:
    """What of the layer's time this finding leaves to others, in words."""
    rows = np.asarray(run.launches["layer"] == layer) & ~_model_work(run.launches)
    phases = set(run.launches["phase"][rows].dropna().astype(str))
    named = [phase.value for phase in (Phase.OPTIMIZER, Phase.DATA) if phase.value in phases]
    return f", without its {' and '.join(named)} work," if named else ""


def _advice(bound: str) -> tuple[str, str]:
    if bound == "launch":
        return "launch", (
            "Launch fewer, larger ops: fuse small ones (compile the model), or use a larger batch."
        )
    if bound in _LEVELS:
        return "memory", (
            f"Move fewer bytes through {bound}: fuse neighbouring ops, avoid copies and layout "
            "changes, or use a smaller number format."
        )
    return "compute", (
        f"Use the {bound} unit better: larger or rounder shapes, another memory layout, or a "
        "faster implementation of the op."
    )


def _at_roof(run: Context, point: Point) -> Finding:
    name = point.bound or ""
    lower = (
        _lower_precision(run.machine, Precision(name.split(" ")[1])) if "matrix" in name else None
    )
    action = "Leave it as it is, or compute less."
    if lower:
        ratio = number(lower[1], 2)
        action = f"Only another format helps: the peak of {lower[0]} is {ratio} times higher."
    near = percent((point.headroom or 1) - 1, 0)
    title = f"{_named(run, point)} runs within {near} of its {name} roof."
    title += " There is nothing to gain at this precision."
    share = run.share(point.time)
    layers = _layers(run, point)
    return run.finding("at-roof", title, 0.0, share, action, "The ceilings hold.", layers)


def _lower_precision(machine: Machine, precision: Precision) -> tuple[Precision, float] | None:
    """The format with the highest matrix peak below fp32, and how many times higher it is."""
    base = machine.peaks.get((Pipe.MATRIX, precision))
    if precision not in (Precision.FP32, Precision.TF32) or base is None or not base.rate > 0:
        return None
    known = [(q, machine.peaks.get((Pipe.MATRIX, q))) for q in _LOWER if q is not precision]
    ratios = [(q, ceiling.rate / base.rate) for q, ceiling in known if ceiling is not None]
    best = max(ratios, key=lambda pair: pair[1], default=None)
    return best if best is not None and best[1] >= WORTH_RATIO else None


def precision(run: Context) -> list[Finding]:
    """Matrix work in fp32 where a lower precision has a higher peak."""
    found = []
    for used in (Precision.FP32, Precision.TF32):
        lower, rows = _lower_precision(run.machine, used), run.rows((f"matrix {used}",))
        point = run.point(rows)
        if lower is None or point is None or run.share(point.time) < NOTICEABLE:
            continue
        share = run.share(point.time)
        title = (
            f"Matrix work in {used} takes {percent(share)} of the launch time; the peak of "
            f"{lower[0]} is {number(lower[1], 2)} times higher."
        )
        found.append(run.finding(
            "precision", title, point.time * (1 - 1 / lower[1]), share,
            f"Train in mixed precision with {lower[0]} where the model tolerates it.",
            "The time of this work falls as the peak rises, and casts cost nothing.",
            run.layers(rows),
        ))  # fmt: skip
    return found


def small_launches(run: Context) -> list[Finding]:
    """Launches that cost more than their work, all layers together."""
    rows = run.rows(("launch",))
    point = run.point(rows)
    if point is None or run.share(point.time) < NOTICEABLE:
        return []
    share = run.share(point.time)
    title = (
        f"{launches_text(point.launches)}{run.per} bound by the launch itself take "
        f"{percent(share)} of the launch time."
    )
    return [run.finding(
        "small-launches", title, point.time - (point.fused_time or 0.0), share,
        "Fuse them: compile the model, batch small ops together, or replay the step as a graph.",
        "All of them become one launch.", run.layers(rows),
    )]  # fmt: skip


def elementwise(run: Context) -> list[Finding]:
    """Chains of memory-bound work without matrix FLOP."""
    matrix = np.zeros(len(run.launches), dtype=bool)
    for q in Precision:
        matrix |= run.launches[f"flop_least_matrix_{q}"].to_numpy() > 0
    rows = run.rows(_LEVELS) & ~matrix
    point = run.point(rows)
    if point is None or run.share(point.time) < NOTICEABLE or point.launches < 2:
        return []
    share = run.share(point.time)
    title = (
        f"Memory-bound elementwise work, {launches_text(point.launches)}{run.per}, takes "
        f"{percent(share)} of the launch time."
    )
    return [run.finding(
        "elementwise", title, point.recoverable_time, share,
        "Fuse neighbouring elementwise ops, so that intermediate results stay in registers.",
        "Each launch reaches its bandwidth; traffic that fusing removes would come on top.",
        run.layers(rows),
    )]  # fmt: skip


def optimizer(run: Context) -> list[Finding]:
    """An optimizer that launches many ops or stays below its bandwidth."""
    point = run.point(run.phase(Phase.OPTIMIZER))
    if point is None or run.share(point.time) < NOTICEABLE:
        return []
    headroom = point.headroom
    if point.fused_time is None or headroom is None or headroom < NEAR_ROOF:
        return []
    share = run.share(point.time)
    title = (
        f"The optimizer takes {percent(share)} of the launch time in "
        f"{launches_text(point.launches)}{run.per}, {number(headroom, 2)} times what its ceilings "
        "allow."
    )
    action = advice.advice(advice.OPTIMIZER, run.profile.run)
    if point.launches <= FEW_LAUNCHES:
        action = "Its launches are few already: keep its state in a smaller format, or update less."
    return [run.finding(
        "optimizer", title, point.bounded_time - point.fused_time, share, action,
        "One launch does the whole update at full bandwidth.",
    )]  # fmt: skip


def no_rule(run: Context) -> list[Finding]:
    """Ops of unknown FLOP that take a noticeable share of the time."""
    known = coverage(run.profile)
    reasons: tuple[tuple[Mapping[str, float], str, str], ...] = (
        (known.ops_without_rule, "has no FLOP rule", "Register a FLOP rule for it."),
        (known.ops_unjoined, "found no count", "Collect again with constant shapes."),
    )
    if run.profile.counters is not None:
        everything = {**known.ops_without_rule, **known.ops_unjoined}
        reasons = ((everything, "has unknown FLOP", COLLECT_FLOP),)
    return [
        run.finding(
            "no-rule", f"{titled(op, run.subject)} {fact} and takes {percent(share)} of the launch time.", 0.0, share,
            f"{remedy} Until then its layers have no verdict.", "Nothing: its bound is unknown.",
        )
        for shares, fact, remedy in reasons
        for op, share in shares.items()
        if share > NO_RULE_SHARE
    ]  # fmt: skip


def data(run: Context) -> list[Finding]:
    """Work that loads data inside the step."""
    point = run.point(run.phase(Phase.DATA))
    if point is None or run.share(point.time) < NOTICEABLE:
        return []
    share = run.share(point.time)
    time = f"{si(point.time, 's')}{run.per}, {percent(share)} of the launch time"
    title = f"Loading data takes {time}."
    return [run.finding(
        "data", title, point.time, share,
        advice.advice(advice.LOADING, run.profile.run),
        "All loading overlaps with the step before.",
    )]  # fmt: skip


def idle(run: Context) -> list[Finding]:
    """Wall time in which no launch ran."""
    undisturbed, union = run.totals.undisturbed, run.totals.union_time
    wall = undisturbed or run.totals.wall
    if wall is None or union is None or wall - union < IDLE_SHARE * wall:
        return []
    gap = wall - union
    if undisturbed is None:
        whose = "the wall time"
        cost = "Collecting costs nothing"
    else:
        whose, cost = "an undisturbed step", "Collecting does not change the launches"
    title = f"No launch runs in {percent(gap / wall)} of {whose} ({si(gap, 's')} a step)."
    if undisturbed is None:
        title += " The profiler's own cost is in it."
    return [run.finding(
        "idle", title, gap, gap / wall,
        "Look for waiting on data, synchronisation and slow Python between the ops, or compile.",
        f"{cost}, and launches follow one another without a gap.",
    )]  # fmt: skip


def recompute(run: Context) -> list[Finding]:
    """Forward work that checkpointing runs again."""
    rows = run.launches["recompute"].to_numpy(dtype=bool)
    point = run.point(rows)
    if point is None or run.share(point.time) < MIN_SHARE:
        return []
    share = run.share(point.time)
    return [run.finding(
        "recompute", f"Checkpointing runs {percent(share)} of the launch time again.",
        point.time, share, "Checkpoint fewer layers, or keep the cheap-to-store results.",
        "The activations fit in memory.", run.layers(rows),
    )]  # fmt: skip


RULES = (
    layer_findings, precision, small_launches, elementwise, optimizer, no_rule, data, idle,
    recompute,
)  # fmt: skip
