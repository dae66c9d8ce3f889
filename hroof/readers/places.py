"""Places: which step, phase and layer the NVTX ranges around a launch stand for."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hroof.collect import nvtx, tsl
from hroof.readers.raw import Ranges
from hroof.regions import Kind, Mark
from hroof.units import Phase

_OP = re.compile(r"^(?:[a-z_]\w*::\w[\w.]*|autograd::engine::evaluate_function: \S+)(?=$|,)")
_STEP = re.compile(r"^step[\W_]*(\d*)$", re.IGNORECASE)
_AT_ONCE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_PHASES = {str(phase): phase for phase in Phase} | {
    "fwd": Phase.FORWARD,
    "bwd": Phase.BACKWARD,
    "optim": Phase.OPTIMIZER,
    "optimizer_step": Phase.OPTIMIZER,
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a launch belongs, as far as its ranges tell.

    Attributes:
        step: Number of the step as the program counts; None outside every step.
        steps: How many steps ran at once, of which ``step`` is the first.
        phase: What the launch serves.
        layer: Qualified name; None outside every layer.
        recompute: Forward work that checkpointing runs again.
        op: Framework op, where the framework marked its ops.
        region: Name of the region; None where no range says so.
        parts: Phases and layers by share, where it serves several; ``phase`` and ``layer`` are then the first of the
            largest.
    """

    step: int | None = None
    phase: Phase = Phase.OTHER
    layer: str | None = None
    recompute: bool = False
    op: str | None = None
    region: str | None = None
    parts: tuple[tsl.Share, ...] = ()
    steps: int = 1


def place(
    ranges: Ranges,
    names: Mapping[str, Mapping[str, Any]] | None = None,
    nodes: tsl.Places | None = None,
) -> Place:
    """Read the ranges of one launch.

    Ranges of the domain ``hroof`` are hroof's own marks and decide. Where there are none, ranges that a program
    marked itself are taken at their word: one named as a phase is the phase, one like ``step 3`` the step, one like
    ``aten::addmm`` an op, and the innermost of the others is the layer. Ranges of TensorFlow's own (``TSL``) say which
    node of a graph runs, and so the op, and the phase and the layer where the others leave the layer open.

    Args:
        ranges: What was open at the launch.
        names: The table of true names of the run that emitted them.
        nodes: The places of nodes of that run; without it a layer is called as the scope of its node is.
    """
    marks = _marks(ranges, names)
    found = _of_marks(marks) if marks else _of_names(_foreign(ranges))
    node = tsl.running(name for domain, name in ranges.pushed if domain == tsl.DOMAIN)
    return found if node is None else _at_node(found, node, nodes)


def _at_node(found: Place, node: tsl.Running, nodes: tsl.Places | None) -> Place:
    """What the other ranges say, and where they leave it open what the node says."""
    found = dataclasses.replace(found, op=found.op or node.op)
    if found.layer is not None:
        return found
    parts = tsl.by_scope(node) if nodes is None else nodes.of(node)
    if not parts:
        return found
    known = tuple(
        part._replace(phase=found.phase) if part.phase is Phase.OTHER else part for part in parts
    )
    most = max(known, key=lambda part: part.share)
    more = known if len(known) > 1 else ()
    return dataclasses.replace(
        found, phase=most.phase, layer=most.layer, recompute=most.recompute, parts=more
    )


def _marks(ranges: Ranges, names: Mapping[str, Mapping[str, Any]] | None) -> list[Mark]:
    """hroof's marks, process-wide ones first, outermost first."""
    own = (name for domain, name in (*ranges.started, *ranges.pushed) if domain == nvtx.DOMAIN)
    found = (nvtx.parse(name, names) for name in own)
    return [mark for mark in found if mark is not None]


def _of_marks(marks: list[Mark]) -> Place:
    by_kind = {kind: [mark for mark in marks if mark.kind is kind] for kind in Kind}
    layer = by_kind[Kind.LAYER][-1] if by_kind[Kind.LAYER] else None
    phases = [mark.name for mark in by_kind[Kind.PHASE]]
    phase = layer.phase if layer is not None and layer.phase else (phases or [""])[-1]
    regions = by_kind[Kind.REGION]
    step, steps = _steps(by_kind[Kind.STEP][-1].name) if by_kind[Kind.STEP] else (None, 1)
    return Place(
        step=step,
        steps=steps,
        phase=_PHASES.get(phase, Phase.OTHER),
        layer=layer.name if layer is not None else None,
        recompute=layer is not None and layer.recompute,
        region=regions[-1].name if regions else None,
    )


def _steps(name: str) -> tuple[int | None, int]:
    """The first step that a mark names, and how many: ``6``, or ``6-9``."""
    found = _AT_ONCE.fullmatch(name)
    if found is None:
        return None, 1
    first, last = int(found[1]), int(found[2] or found[1])
    return first, max(last - first + 1, 1)


def _foreign(ranges: Ranges) -> Iterable[str]:
    """Names that a program gave, process-wide ones first, outermost first."""
    both = (*ranges.started, *ranges.pushed)
    return [name for domain, name in both if domain not in (nvtx.DOMAIN, tsl.DOMAIN)]


def _of_names(names: Iterable[str]) -> Place:
    found: dict[str, Any] = {}
    for name in names:
        step, op = _STEP.match(name), _OP.match(name)
        if name.lower() in _PHASES:
            found["phase"] = _PHASES[name.lower()]
        elif step is not None:
            found["step"] = int(step[1]) if step[1] else found.get("step")
        elif op is not None:
            found["op"] = op[0]
        elif name:
            found["layer"] = name
    return Place(**found)
