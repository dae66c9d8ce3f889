"""Which framework a region measures where the program has imported several: the one whose steps it sees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hroof.integration import Capture, Integration, Stage, StepSink, uses

if TYPE_CHECKING:
    from hroof.profile import Profile


class Choosing:
    """Lets every framework look for steps until one has found some; fulfils ``hroof.integration.Capture``.

    A region often begins before there is a model, so that what is in use cannot be known then. Where a step has to be
    captured before any was seen, the framework is taken that is in use, else the first.

    Args:
        region: Hears of the steps.
        candidates: At least two, in order of preference.
    """

    def __init__(self, region: StepSink, candidates: Sequence[Integration]) -> None:
        self._integrations = list(candidates)
        self._captures = [
            one.capture(_Sink(region, functools.partial(self._choose, place)))
            for place, one in enumerate(candidates)
        ]
        self._chosen: int | None = None
        self._told = False
        self._rivals: list[str] = []

    def _choose(self, place: int, *, told: bool = True) -> None:
        """From now on one measures; the others leave nothing behind."""
        if self._chosen is not None:
            return
        self._chosen, self._told = place, told
        for other, capture in enumerate(self._captures):
            if other != place:
                if uses(self._integrations[other]):
                    self._rivals.append(self._integrations[other].FRAMEWORK)
                capture.stage(Stage.DONE)
                capture.release()

    def _capture(self) -> Capture:
        if self._chosen is None:
            used = [place for place, one in enumerate(self._integrations) if uses(one)]
            self._choose((used or [0])[0], told=False)
        assert self._chosen is not None
        return self._captures[self._chosen]

    def stage(self, stage: Stage) -> None:
        """The step that begins now is skipped, counted or timed; ``DONE`` detaches everything."""
        if stage is not Stage.DONE:
            self._capture().stage(stage)
            return
        for capture in self._left():
            capture.stage(stage)

    def step_ended(self, number: int) -> None:
        """A timed step has just ended."""
        self._capture().step_ended(number)

    def profile(self) -> Profile | None:
        """What was collected, with a word on the choice where it was not clear."""
        profile = None if self._chosen is None else self._captures[self._chosen].profile()
        said = self._said()
        if profile is None or not said:
            return profile
        warnings = [*profile.run.get("warnings", ()), said]
        return profile.replace(run={**profile.run, "warnings": warnings})

    def _said(self) -> str:
        if not self._rivals:
            return ""
        assert self._chosen is not None
        name = self._integrations[self._chosen].FRAMEWORK
        why = "steps of it were seen first" if self._told else "no step of either was seen before"
        return (
            f"{' and '.join([name, *self._rivals])} are in use; {name} was measured alone, since {why}. "
            f"hroof.region(framework={self._rivals[0]!r}) measures the other."
        )

    def flush(self) -> None:
        """The region is about to end."""
        for capture in self._left():
            capture.flush()

    def release(self) -> None:
        """The region is over: leave nothing behind."""
        for capture in self._captures:
            capture.release()

    def seen(self) -> str:
        """What was seen of steps, by every framework that still looks."""
        return " ".join(dict.fromkeys(capture.seen() for capture in self._left()))

    def _left(self) -> list[Capture]:
        return self._captures if self._chosen is None else [self._captures[self._chosen]]


class _Sink:
    """The region, as one of several frameworks sees it; who tells of a step first is the one that measures."""

    def __init__(self, region: StepSink, tells: Callable[[], None]) -> None:
        self._region = region
        self._tells = tells

    def __getattr__(self, name: str) -> Any:
        return getattr(self._region, name)

    def boundary(self, **told: Any) -> None:
        self._tells()
        self._region.boundary(**told)

    def let_pass(self) -> bool:
        return self._region.let_pass()
