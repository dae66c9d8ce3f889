"""The capture of a region that only marks, for a profiler outside the process (``HROOF=marks``).

Nothing is counted and nothing is timed: no profiler of TensorFlow's runs, which must not be in one process with a tool
that listens to NVTX. The captured steps are ranges, with the devices at rest on both sides; within them TensorFlow's
executor names its nodes, where it can be made to, and what runs eagerly has ranges of its layers and phases.
"""

from __future__ import annotations

from collections.abc import Sequence

from hroof.integration import Stage, StepSink
from hroof.profile import Profile
from hroof.regions import MARKS_ONLY
from hroof_keras import tsl
from hroof_keras.capturing.eager_marks import EagerMarks
from hroof_keras.capturing.spans import Spans
from hroof_keras.capturing.wall_capture import steps_of
from hroof_keras.description import described, how_found
from hroof_keras.executions import Execution
from hroof_keras.graph.node_places import NodePlaces
from hroof_keras.private import runtime as private
from hroof_keras.steps import StepFinder

_OUTSIDE = f"{MARKS_ONLY}: a tool outside the process measures what runs within them"
EAGER = (
    "The steps ran eagerly: in their backward pass only the phase is known, and no layer. With run_eagerly=False the "
    "layers of the backward pass are known as well."
)
HOW = {"time": _OUTSIDE, "flop": _OUTSIDE, "bytes": _OUTSIDE}


class MarksCapture:
    """Marks one region of a program on TensorFlow; fulfils ``hroof.integration.Capture``."""

    def __init__(self, steps: StepSink) -> None:
        self._region = steps
        self._finder = StepFinder(steps, self)
        self._spans = Spans(steps, private.sync_devices)
        self._unlock: tsl.Unlock | None = None
        self._why_not = ""
        self._nodes = NodePlaces()
        self._eager = EagerMarks(self._nodes.layers)
        self._finder.start()
        self._nodes.start()
        self._eager.start()

    def stage(self, stage: Stage) -> None:
        """The step that begins now is marked; ``DONE`` detaches everything."""
        if stage is Stage.TIME:
            self._begin()
        elif stage is Stage.DONE:
            self._end()

    def _begin(self) -> None:
        if self._unlock is None:
            self._why_not = tsl.why_not()
            self._unlock = tsl.unlock()
        self._spans.begin()
        self._unlock.start()
        self._eager.on = True

    def _end(self) -> None:
        try:
            self._spans.end()
        finally:
            if self._unlock is not None:
                self._unlock.stop()
            self._detach()

    def _detach(self) -> None:
        """Take off what was put on, the last first."""
        self._eager.stop()
        self._nodes.stop()
        self._finder.stop()

    def step_ended(self, number: int) -> None:
        """A captured step has just ended, and the next one begins."""
        self._spans.boundary()

    def execution_begins(self, execution: Execution) -> None:
        """A captured execution of Keras' own loops begins."""
        self._spans.execution_begins()

    def execution_ends(self, execution: Execution, steps: int) -> None:
        """It has ended."""
        self._spans.execution_ends(steps)

    def execution_fails(self, execution: Execution) -> None:
        """It ran nothing; the next one begins anew."""

    def flush(self) -> None:
        """Every boundary was told at once."""

    def release(self) -> None:
        """The region is over: leave nothing behind."""
        self._detach()

    def seen(self) -> str:
        """What was seen of steps, in words."""
        return self._finder.seen()

    def profile(self) -> Profile | None:
        """What is known of the run, with an empty launch table; None when no step was marked."""
        if self._unlock is None:
            return None
        from hroof_keras.ceilings.front import device

        model = self._finder.model
        known = self._nodes.run(model)
        layers = self._nodes.layers.described() if self._nodes.layers.layers else []
        return Profile.from_rows(
            [],
            {
                **described(self._region, layers, device(), model),
                "places": known.places,
                "steps": steps_of(self._spans.all, only_marked=True),
                "how": HOW,
                "warnings": self._warnings(known.warnings),
            },
        )

    def _warnings(self, of_nodes: Sequence[str]) -> list[str]:
        found, whole = [], sum(span.count for span in self._spans.all)
        if whole < self._region.steps:
            found.append(f"Only {whole} of {self._region.steps} steps were marked to their end.")
        if self._eager.seen:
            found.append(EAGER)
        elif self._why_not:
            found.append(tsl.without_ranges(self._why_not))
        else:
            found += of_nodes
        hint = tsl.memory_hint()
        found += [hint] if hint else []
        return found + how_found(self._region, self._finder.own_loop)
