"""What a reader has to know of the steps of a report before trusting its numbers."""

from __future__ import annotations

from hroof_keras.profiling.reading import Read

TOGETHER = (
    "Steps that were executed at once could not be told apart: a step of this report is one execution of "
    "steps_per_execution steps."
)
NO_SHAPES = (
    "TensorFlow's profiler noted no shapes, so the ops of graphs have no work, and cheap ops are left out. hroof was "
    "tested with TensorFlow 2.19 to 2.21."
)


def about_steps(found: Read) -> list[str]:
    """What a reader of the numbers has to know of the steps."""
    warnings = []
    if any(step.count > 1 for step in found.steps):
        warnings.append(TOGETHER)
    ops = [event for step in found.steps for event in step.events if event.kind == "op"]
    if ops and not any(event.shapes for event in ops):
        warnings.append(NO_SHAPES)
    return warnings


def short_of(found: Read, timed: bool, wanted: int, foreign: str) -> str:
    """Which steps were not timed though the region saw them; empty where none is missing.

    Args:
        found: The steps that were read.
        timed: They are those to be timed, not the counted one.
        wanted: How many there should be.
        foreign: That another profiler ran; empty where none did.
    """
    steps = sum(step.count for step in found.steps) if timed else 0
    if steps >= wanted:
        return ""
    return f"Only {steps} of {wanted} steps were timed.{f' {foreign}.' if foreign else ''}"
