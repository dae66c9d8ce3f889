"""Thresholds of the rules as data: the number, what it decides, and where it comes from."""

from __future__ import annotations


class Threshold(float):
    """A number that decides whether a rule speaks.

    Attributes:
        meaning: What the number is compared with, and its unit.
        source: Who gives it, or why hroof takes it.
    """

    meaning: str
    source: str

    def __new__(cls, value: float, meaning: str, source: str) -> Threshold:
        """Make the number with its words."""
        made = super().__new__(cls, value)
        made.meaning, made.source = meaning, source
        return made

    def __getnewargs__(self) -> tuple[float, str, str]:  # type: ignore[override]
        """What a copy is made from."""
        return float(self), self.meaning, self.source


_READER = "Own choice: a reader has time for few findings."
_OVERHEAD = "Own choice: well above what collecting costs and what differs from step to step."

MAX_LAYERS = 10
"""Own choice: as many layers as a reader goes through."""

MIN_SHARE = Threshold(
    0.01, "share of the step that a layer could save, or that recomputed work takes", _READER
)
NOTICEABLE = Threshold(0.03, "share of the launch time that the launches concerned take", _READER)
NO_RULE_SHARE = Threshold(
    0.05, "share of the launch time of one op of unknown work, or of a layer at its roof", _READER
)
IDLE_SHARE = Threshold(0.10, "share of the step in which no launch runs", _OVERHEAD)
LOADING_SHARE = Threshold(0.05, "share of the step that the loader keeps waiting", _OVERHEAD)
NEAR_ROOF = Threshold(
    1.25,
    "headroom below which a layer counts as being at its roof",
    "Own choice: from shape to shape the best kernels differ by as much (products reach 70–87 % of data sheets).",
)
FAR_FROM_ROOFS = Threshold(
    8.0,
    "headroom from which a layer counts as far under every roof",
    "Nsight Compute (rule SOLBottleneck) calls a kernel latency-bound where compute and memory both stay below 60 %; "
    "12.5 % leaves room for predicted traffic and for ceilings that only the best shapes reach.",
)
FEW_LAUNCHES = Threshold(
    4, "launches of an optimizer step that count as fused", "A fused AdamW of PyTorch launches 2."
)
WORTH_RATIO = Threshold(
    1.2, "ratio of two peaks from which another number format is worth a try", _OVERHEAD
)
NO_REUSE = Threshold(
    1.5,
    "bytes at the nearer level ÷ bytes at the level that bounds, below which the nearer one serves nothing twice",
    "arXiv 2009.05257: points of two levels that lie close to each other show streaming and poor cache locality.",
)
PADDING_WASTE = Threshold(
    0.2,
    "share of the nominal FLOP of convolutions that meet padding only",
    "Own choice: a 3×3 kernel with padding 1 wastes 16 % on maps of 8×8, 2.4 % on 56×56; below that it is usual.",
)
IMBALANCE = Threshold(
    0.05, "(slowest rank − mean of the ranks) ÷ mean, from their compute time a step", _OVERHEAD
)
MOST_STEPS = Threshold(
    0.75,
    "share of the steps in which the slowest rank is the same one",
    "Own choice: chance alone gives 1 ÷ ranks in each step.",
)


def thresholds() -> dict[str, Threshold]:
    """Every threshold by name."""
    return {name: each for name, each in globals().items() if isinstance(each, Threshold)}
