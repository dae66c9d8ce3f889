"""The capture where nothing is known of what runs within a step: its time on the clock, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hroof.integration import Device, Stage, StepSink
from hroof.profile import Profile
from hroof.regions import MARKS_ONLY, marks_only
from hroof.units import Phase, Source
from hroof_keras.capturing.spans import Span, Spans
from hroof_keras.description import described, how_found
from hroof_keras.executions import Execution
from hroof_keras.private import steps as private_steps
from hroof_keras.steps import StepFinder

OP = "whole step"
HOW = {"time": "wall time of whole steps", "flop": "not counted", "bytes": "not counted"}

MARKED = dict.fromkeys(
    HOW, f"{MARKS_ONLY}: a tool outside the process measures what runs within them"
)


class WallCapture:
    """Times whole steps of a region; fulfils ``hroof.integration.Capture``."""

    def __init__(self, steps: StepSink) -> None:
        self._region = steps
        self._only_marks = marks_only()
        self._finder = StepFinder(steps, self)
        self._spans = Spans(steps, private_steps.synchronize)
        self._finder.start()

    def stage(self, stage: Stage) -> None:
        """The step that begins now is timed, if any is; nothing is counted."""
        if stage is Stage.TIME:
            self._spans.begin()
        elif stage is Stage.DONE:
            self._finder.stop()
            self._spans.end()

    def step_ended(self, number: int) -> None:
        """A timed step has just ended."""
        self._spans.boundary()

    def execution_begins(self, execution: Execution) -> None:
        """A captured execution of Keras' own loops begins."""
        if self._spans.begun:
            self._spans.execution_begins()

    def execution_ends(self, execution: Execution, steps: int) -> None:
        """It has ended."""
        if self._spans.begun:
            self._spans.execution_ends(steps)

    def execution_fails(self, execution: Execution) -> None:
        """It ran nothing; the next one begins anew."""

    def flush(self) -> None:
        """Every boundary was told at once."""

    def release(self) -> None:
        """The region is over: leave nothing behind."""
        self._finder.stop()

    def seen(self) -> str:
        """What was seen of steps, in words."""
        return self._finder.seen()

    def profile(self) -> Profile | None:
        """One row for each execution, none where a tool outside measures them; None when no step was captured."""
        if not self._spans.all:
            return None
        if self._only_marks:
            return Profile.from_rows([], self._describe())
        rows = rows_of(self._spans.all)
        return Profile.from_rows(rows, self._describe())

    def _describe(self) -> dict[str, Any]:
        known = described(self._region, [], Device("cpu", "unknown"), self._finder.model)
        backend = known["facts"]["backend"]
        missing = (
            f"Keras runs on {backend}: steps and their times are known, but not what runs within them. "
            "Layers, phases and work need the backend tensorflow or torch (KERAS_BACKEND)."
        )
        found = how_found(self._region, self._finder.own_loop)
        return {
            **known,
            "steps": steps_of(self._spans.all, only_marked=self._only_marks),
            "how": MARKED if self._only_marks else HOW,
            "warnings": [missing, *found],
            "ops_without_rule": [] if self._only_marks else [OP],
        }


def rows_of(spans: Sequence[Span]) -> list[dict[str, Any]]:
    """Rows of whole steps, for the launch table."""
    return [
        {
            "step": index,
            "phase": str(Phase.OTHER),
            "op": OP,
            "device": "cpu",
            "start": (span.begin - spans[0].begin) / 1e9,
            "duration": span.seconds,
            "source_time": str(Source.MEASURED),
        }
        for index, span in enumerate(spans)
    ]


def steps_of(spans: Sequence[Span], *, only_marked: bool = False) -> list[dict[str, Any]]:
    """The steps for ``Profile.run``: ``number`` is that of the mark, ``wall`` the seconds.

    With a tool attached they are no time of the program, as one that replays kernels makes a step many times longer:
    then they are ``marked_wall``.
    """
    wall = "marked_wall" if only_marked else "wall"
    return [
        {
            "step": index,
            "number": span.first,
            "count": span.count,
            "wall": None,
            wall: span.seconds,
        }
        for index, span in enumerate(spans)
    ]
