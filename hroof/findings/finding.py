"""Finding: one thing to change, with the time it could save at most."""

from __future__ import annotations

from dataclasses import dataclass

from hroof.kernels import display_name
from hroof.units import number

COLLECT_FLOP = "Collect with hroof run --counters, which asks for every FLOP counter of the chip."
"""What to do where hardware was to count and did not count FLOP."""

KINDS = {
    "launch": "a layer whose launches cost more than its work",
    "memory": "a layer that waits for a level of memory",
    "compute": "a layer that stays below the peak of its unit",
    "latency": "a layer that keeps neither arithmetic nor memory busy",
    "at-roof": "a layer with nothing to gain",
    "precision": "work in a wider number format than it needs",
    "small-launches": "all launches that cost more than their work",
    "elementwise": "neighbouring elementwise ops that could be one",
    "reuse": "matrix work that fetches the same bytes again from a far level",
    "conversion": "copies, conversions and layout changes, which compute nothing",
    "padding": "convolutions that multiply zeros",
    "recompute": "forward work that checkpointing runs again",
    "optimizer": "an optimizer of many launches",
    "data": "a step that waits for its data",
    "idle": "wall time in which nothing runs",
    "imbalance": "ranks that wait for the slowest",
    "no-rule": "ops of unknown work",
}
"""What each kind of finding is about."""


@dataclass(frozen=True)
class Finding:
    """One thing to change, or one thing that needs no change.

    Attributes:
        kind: One of ``KINDS``.
        title: The insight, with its number.
        layers: The layers concerned, by falling time; empty where it is not about layers.
        saves: Seconds per step that acting on it could save at most; never more than the step has
            (Amdahl). Savings of several findings overlap and do not add up.
        share_of_step: Share of the time of a step's launches (for ``idle``: of the wall time) that
            the launches concerned take now.
        action: What to do.
        assumption: What ``saves`` takes for granted.
        severity: ``high``, ``medium``, ``low`` or ``info``, by the share of a step it could save.
        cause: Why it is so, one sentence; empty where the title says it.
        evidence: The numbers that it rests on and where they come from, one sentence each.
    """

    kind: str
    title: str
    layers: tuple[str, ...]
    saves: float
    share_of_step: float
    action: str
    assumption: str
    severity: str
    cause: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What the run says as a whole.

    Attributes:
        text: The verdict, or that there is none.
        why: What it rests on, or why there is none.
        next: What to do first.
        supported: Whether the run can support a verdict.
        doubtful: Whether other programs probably disturbed what it rests on; the text says so.
    """

    text: str
    why: str
    next: str
    supported: bool
    doubtful: bool = False

    @property
    def sound(self) -> bool:
        """Whether it may look like something to rely on."""
        return self.supported and not self.doubtful


def titled(name: str, subject: str) -> str:
    """The name of a layer or kernel in a sentence: of a kernel without arguments and template."""
    return display_name(name) or name if subject == "kernel" else name


def count(value: float) -> str:
    """A number of launches as people write it: ``1,234``, or ``0.25`` for a part of one."""
    return f"{value:,.0f}" if value == round(value) or value >= 100 else number(value)


def launches_text(value: float) -> str:
    """``1 launch``, ``1,234 launches``."""
    return f"{count(value)} {'launch' if value == 1 else 'launches'}"


def severity_of(saves: float, step: float, *, doubtful: bool = False) -> str:
    """``high`` from 10 % of the step, ``medium`` from 3 %, ``low`` above nothing, else ``info``.

    Doubtful numbers are never ``high``.
    """
    share = saves / step if step > 0 else 0.0
    if share >= 0.10 and not doubtful:
        return "high"
    if share >= 0.03:
        return "medium"
    return "low" if share > 0 else "info"
