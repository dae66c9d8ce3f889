"""What a capture says of every op of a program, in one small form for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hroof.attribution import Counted, Part, Timed, join
from hroof.launches import LOSS, LOSS_NAME
from hroof.profile import Profile
from hroof.regions import Outcome, Region
from hroof_torch.capturing.counted import mark_cut_short

Step = Callable[[], object]


@dataclass(frozen=True)
class Op:
    """One op of the counted step or of a timed one.

    Attributes:
        op: Name, e.g. ``aten::mm``.
        shapes: Of its tensor arguments.
        phase: What it serves.
        parts: Layer name (None: no layer) to share; one layer of share 1 in most cases.
        recompute: Forward work run again.
        is_sum: Adds gradients that meet.
        composite: It only calls others.
        duration: Seconds; 0 in the counted step.
        start: Seconds; 0 in the counted step.
        matrix: Nominal FLOP of matrix units.
        ran_in: Name of the layer in whose range or node it ran.
    """

    op: str
    shapes: tuple[tuple[int, ...], ...]
    phase: str
    parts: dict[str | None, float]
    recompute: bool = False
    is_sum: bool = False
    composite: bool = False
    duration: float = 0.0
    start: float = 0.0
    matrix: float = 0.0
    ran_in: str | None = None

    @property
    def layer(self) -> str | None:
        """Its only layer; None without one."""
        (layer,) = self.parts
        return layer


@dataclass
class Seen:
    """Everything a capture says.

    Attributes:
        counted: Ops of the counted step.
        timed: Ops of the timed steps, joined with the counted ones as the capture does it.
        profile: The profile.
        names: Layer names by number.
        error: What the program raised.
        outcome: What the region ended with.
    """

    counted: list[Op] = field(default_factory=list)
    timed: list[Op] = field(default_factory=list)
    profile: Profile | None = None
    names: list[str] = field(default_factory=list)
    error: BaseException | None = None
    outcome: Outcome | None = None

    @property
    def launches(self) -> Any:
        """The launch table."""
        assert self.profile is not None, self.outcome
        return self.profile.launches

    def ops(self, phase: str, *names: str, counted: bool = True) -> list[Op]:
        """Ops of a phase (with one of these names), composite ones apart."""
        return [
            op
            for op in (self.counted if counted else self.timed)
            if op.phase == phase and not op.composite and (not names or op.op in names)
        ]

    def places(self, op: str, phase: str, *, counted: bool = True) -> list[str | None]:
        """Layers of the ops of one name in a phase, in order."""
        return [found.layer for found in self.ops(phase, op, counted=counted)]


def see(
    step: Step, *, skip: int = 2, steps: int = 1, raises: type[BaseException] | None = None
) -> Seen:
    """Run a training step often enough under a region and read the capture.

    Args:
        step: One step.
        skip: Steps to let pass; from 2 on, optimizers that other tests left alive are not waited for.
        steps: Steps to time.
        raises: What the program is expected to raise.
    """
    with seeing(skip=skip, steps=steps, raises=raises) as seen:
        for _ in range(skip + 1 + steps):
            step()
    return seen


@contextlib.contextmanager
def seeing(
    *, skip: int = 2, steps: int = 1, raises: type[BaseException] | None = None
) -> Iterator[Seen]:
    """A region around the block; what it saw is there when the block ends."""
    seen = Seen()
    region = Region("test", skip=skip, steps=steps)
    try:
        with region:
            yield seen
    except BaseException as error:
        if raises is None or not isinstance(error, raises):
            raise
        seen.error = error
    _read(region, seen)


def _read(region: Region, seen: Seen) -> None:
    capture: Any = region._capture
    seen.profile, seen.outcome = region.outcome.profile, region.outcome
    seen.names = capture._layers.names()
    counted: list[Counted] = capture._counted
    seen.counted = [_counted(op, seen.names) for op in counted]
    trace = capture._timed.trace()
    for number in range(len(trace.steps) if trace is not None else 0):
        ops = [op for op in trace.ops if op.step == number]
        join(ops, counted)
        mark_cut_short(ops, counted)
        seen.timed += [_timed(op, seen.names) for op in ops]


def _counted(op: Counted, names: list[str]) -> Op:
    parts = op.parts or (Part(op.owner, 1.0),)
    return Op(
        op.op,
        _shapes(op.signature),
        str(op.phase),
        {_name(part.layer, names): part.share for part in parts},
        op.recompute,
        op.is_sum,
        matrix=_matrix(op),
        ran_in=_name(op.layer, names),
    )


def _timed(op: Timed, names: list[str]) -> Op:
    twin = op.counted
    owner = twin.owner if twin is not None else None
    parts = twin.parts if twin is not None else ()
    parts = parts or (Part(op.layer if owner is None else owner, 1.0),)
    return Op(
        op.op,
        _shapes(op.signature),
        str(op.phase),
        {_name(part.layer, names): part.share for part in parts},
        op.recompute,
        op.is_sum,
        op.composite,
        op.duration,
        op.start,
        _matrix(twin) if twin is not None else 0.0,
        _name(op.layer, names),
    )


def _matrix(op: Counted) -> float:
    return float(
        sum(flop for (pipe, _), flop in (op.work.nominal or {}).items() if str(pipe) == "matrix")
    )


def _name(layer: int | None, names: list[str]) -> str | None:
    return None if layer is None else LOSS_NAME if layer == LOSS else names[layer]


def _shapes(signature: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(shape for shape, _ in signature)
