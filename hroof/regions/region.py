"""Region: a marked part of a program, its capture schedule and where its steps end."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hroof import integration
from hroof.errors import HroofError, UsageError
from hroof.integration import Capture, Stage
from hroof.regions import marks
from hroof.regions.choosing import Choosing
from hroof.regions.interrupts import uninterrupted
from hroof.regions.marks import Kind, Mark
from hroof.regions.memory import peak_memory
from hroof.regions.outcome import Outcome, Status, tell
from hroof.regions.pace import Pace
from hroof.regions.shortfall import Shortfall, steps_in_words
from hroof.regions.switches import marks_only, switched_off
from hroof.regions.whole import whole_number
from hroof.regions.wrapping import inside

if TYPE_CHECKING:
    from hroof.profile import Profile

Function = TypeVar("Function", bound=Callable[..., Any])


_collecting = threading.Lock()
_current_lock = threading.Lock()
_current: list[Region] = []
"""Regions that are open, in order of entry."""
_opening: list[Callable[[Region], None]] = []


def when_opening(call: Callable[[Region], None]) -> None:
    """From now on ``call`` hears of each region just before it begins; it must not raise."""
    _opening.append(call)


def open_regions() -> tuple[Region, ...]:
    """The regions that are open now, oldest first."""
    return tuple(_current)


def step() -> None:
    """Say that a training step ends here, for every open region.

    Needed where optimizer steps and Keras' loops do not tell: inference, a step that a gradient scaler skips, closures
    that call the model several times, a loop around a tf.function. From the first call on only these calls count.
    """
    with _current_lock:
        regions = tuple(_current)
    for region in regions:
        region.boundary(explicit=True)


@dataclass(eq=False)
class Region:
    """A part of the program that hroof measures; a context manager and a decorator.

    Attributes:
        name: Shown in reports and in the NVTX range.
        skip: Steps to let pass first (warm-up, compilation).
        steps: Steps to time after one step that is counted.
        on_end: Called with the outcome when the region's capture is over.
        framework: Which integration measures, by name; by default the one whose framework the program uses.
        only_marks: A tool outside the process measures (``HROOF=marks``): no step is counted, and ``steps`` are
            marked right after ``skip``. Known once the region is entered.
    """

    name: str = "region"
    skip: int = 5
    steps: int = 3
    on_end: Callable[[Region, Outcome], None] | None = None
    outcome: Outcome = field(default_factory=lambda: Outcome(Status.WAITING))
    finished_steps: int = 0
    explicit: bool = False
    stage: Stage = Stage.SKIP
    only_marks: bool = False
    framework: str | None = None
    _at_once: int = 1
    _gap: bool = False
    _capture: Capture | None = None
    _entered: int = 0
    _owns: bool = False
    _decorates: bool = False
    _timed: int = 0
    _blurred: bool = False
    _patience: int = 0
    _memory: int | None = None
    _pace: Pace = field(default_factory=Pace)
    _lock: Any = field(default_factory=threading.RLock)
    _handles: list[marks.Handles] = field(default_factory=list)
    _step_handles: marks.Handles = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise UsageError(
                f"A region's name is text, not {self.name!r}.", "Write hroof.region('train')."
            )
        self.skip = whole_number("skip", self.skip, least=0)
        self.steps = whole_number("steps", self.steps, least=1)

    def __enter__(self) -> Self:
        if switched_off():
            self.outcome = Outcome(Status.OFF, reason="HROOF=off.")
            return self
        with self._lock:
            self._entered += 1
            self._handles.append(marks.start(Mark(Kind.REGION, self.name)))
            if self._entered == 1:
                self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            if self._entered == 0:
                return
            self._entered -= 1
            if self._entered == 0:
                # A generator that is closed early has not failed.
                self._close(None if isinstance(error, GeneratorExit) else error)
            marks.end(self._handles.pop())

    def __call__(self, function: Function) -> Function:
        """Decorate a function: every call runs inside the region, and steps add up over the calls."""
        self._decorates = True
        return inside(self, function)  # type: ignore[return-value]

    def _open(self) -> None:
        """The first entry: become the collecting region if nobody else is."""
        for call in tuple(_opening):
            call(self)
        with _current_lock:
            if self not in _current:
                _current.append(self)
        if self.stage is Stage.DONE or self._owns:
            return
        if not _collecting.acquire(blocking=False):
            self.outcome = Outcome(
                Status.MARKS, reason="Another region was collecting; this one only marked."
            )
            return
        self._owns = True
        try:
            if self._capture is None:
                self.only_marks = marks_only()
                self._capture = self._begin_capture()
            self._switch()
        except BaseException as error:
            self._fail(error)

    def _begin_capture(self) -> Capture | None:
        found = integration.candidates(self.framework)
        if len(found) > 1:
            return Choosing(self, found)
        return found[0].capture(self) if found else None

    def _close(self, error: BaseException | None) -> None:
        """The last exit: end the capture, unless a decorated function may still be called again."""
        if self._decorates and error is None and self._owns and self.stage is not Stage.DONE:
            atexit.register(self._end, None)
            return
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        with self._lock, uninterrupted():
            with _current_lock:
                if self in _current:
                    _current.remove(self)
            if self._capture is not None and self._owns and self.stage is not Stage.DONE:
                self._capture.flush()
            if self._owns and self.stage is not Stage.DONE:
                self._finish(error)
            self._end_step_mark()
            self._release()
            atexit.unregister(self._end)

    def _release(self) -> None:
        if self._capture is not None:
            self._capture.release()
        if self._owns:
            self._owns = False
            _collecting.release()

    def boundary(
        self, *, count: int = 1, clean: bool = True, explicit: bool = False, at_once: bool = False
    ) -> None:
        """Steps have ended; see ``hroof.integration.StepSink``. Never raises into the program."""
        with self._lock:
            if self.explicit and not explicit:
                return
            first_word = explicit and not self.explicit
            self.explicit = self.explicit or explicit
            self._gap = self._gap and not explicit
            self._patience = 0
            self._at_once = max(self._at_once, count if at_once else 1)
            if first_word and self.finished_steps:
                return  # the optimizer step of this same step has been counted already
            self.finished_steps += count
            if self.stage is Stage.SKIP:
                self._pace.step_ended(count)
                if not self.explicit:
                    self._patience = self.skip - self.finished_steps - 1
            if self._capture is None or not self._owns or self.stage is Stage.DONE:
                return
            try:
                self._advance(count, clean, at_once)
            except BaseException as error:
                self._fail(error)

    def let_pass(self) -> bool:
        """One step has ended cleanly, as the last did; see ``hroof.integration.StepSink``."""
        if self._patience <= 0 or self.stage is not Stage.SKIP:
            return False
        self._patience -= 1
        self.finished_steps += 1
        self._pace.step_ended(1)
        return True

    def pause(self) -> None:
        """What comes now belongs to no step; see ``hroof.integration.StepSink``."""
        with self._lock:
            self._gap = not self.explicit
            if self._gap:
                self._end_step_mark()

    def resume(self, count: int = 1) -> None:
        """The next steps begin, ``count`` of them at once; see ``hroof.integration.StepSink``."""
        with self._lock:
            if self._gap:
                self._gap = False
                self._begin_step_mark(count)

    def forget_steps(self) -> None:
        """What was told was no step of what the region is about; only before one is captured."""
        with self._lock:
            if self.stage is Stage.SKIP:
                self.finished_steps, self._patience, self._at_once = 0, 0, 1
                self._pace = Pace()

    def _advance(self, count: int, clean: bool, at_once: bool) -> None:
        """Move along skip → count → time → done; without count where only marks are made."""
        assert self._capture is not None
        if not clean:
            self._blurred = True
            return
        mixed = self._blurred or (count > 1 and not at_once)
        if mixed and self.stage in (Stage.COUNT, Stage.TIME):
            self._timed = 0
            self._set(self.stage)  # several steps were taken for one: once more
        elif self.stage is Stage.COUNT:
            self._set(Stage.TIME)
        elif self.stage is Stage.TIME:
            self._timed += count
            if self._timed >= self.steps:
                with uninterrupted():
                    self._finish(None)
            else:
                self._capture.step_ended(self._timed)
                self._begin_step_mark()
        elif self.finished_steps >= self.skip:
            self._set(self._first_captured())

    def _switch(self) -> None:
        if self.stage is Stage.SKIP and self.skip == 0 and self._capture is not None:
            self._set(self._first_captured())

    def _first_captured(self) -> Stage:
        return Stage.TIME if self.only_marks else Stage.COUNT

    def _set(self, stage: Stage) -> None:
        assert self._capture is not None
        self.stage = stage
        self._blurred = False
        self._capture.stage(stage)
        self._begin_step_mark()

    def _begin_step_mark(self, count: int = 1) -> None:
        self._end_step_mark()
        if self.stage in (Stage.COUNT, Stage.TIME) and not self._gap:
            last = f"-{self.finished_steps + count - 1}" if count > 1 else ""
            self._step_handles = marks.start(Mark(Kind.STEP, f"{self.finished_steps}{last}"))

    def _end_step_mark(self) -> None:
        handles, self._step_handles = self._step_handles, ()
        marks.end(handles)

    def _finish(self, error: BaseException | None) -> None:
        """Detach, and keep what there is."""
        enough = self._timed >= self.steps
        self.stage = Stage.DONE
        profile = None
        try:
            if self._capture is not None:
                self._detach(self._capture)
                profile = self._capture.profile()
        except Exception as problem:
            self._fail(problem)
            return
        self._settle(profile, error, enough)

    def _detach(self, capture: Capture) -> None:
        """End the capture, then the mark of the last step: the capture waits for a device that is behind."""
        self._memory = peak_memory()  # before hroof makes tables of what it has
        try:
            capture.stage(Stage.DONE)
        finally:
            self._end_step_mark()

    def drop(self) -> None:
        """End without a result: nothing is told to ``on_end``. Another region may collect then."""
        with self._lock:
            self.on_end = None
            if self._capture is not None and self.stage is not Stage.DONE:
                self._capture.stage(Stage.DONE)
            self.stage = Stage.DONE
            self._entered = 0
            while self._handles:
                marks.end(self._handles.pop())
            self._end(None)

    def abandon(self) -> None:
        """In a forked child: take part no more. Takes no lock, since another thread may have held it."""
        self.on_end = None
        self.stage = Stage.DONE

    def _settle(self, profile: Profile | None, error: BaseException | None, enough: bool) -> None:
        # A capture may have less than the steps that it was given; it then says why itself.
        said = profile.run.get("status_reason", "") if profile is not None else ""
        reason = str(said) if enough else self._why(error)
        status = Status.PARTIAL if profile is not None else Status.EMPTY
        if enough and not reason:
            status = Status.COMPLETE
        if profile is not None:
            known = {"name": self.name, "status": str(status), "status_reason": reason}
            cost = {"undisturbed_step": self._pace.median(), "peak_memory": self._memory}
            profile = profile.replace(run={**profile.run, **known, **cost})
        self.outcome = Outcome(status, profile, reason)
        if self.on_end is not None:
            self.on_end(self, self.outcome)

    def _why(self, error: BaseException | None) -> str:
        """Why the region has less than was asked for, and the call that would fit."""
        if error is not None:
            return f"The region ended with {type(error).__name__} after {steps_in_words(self.finished_steps)}."
        if self._capture is None:
            return "No framework was imported when the region began: import it before the region."
        return self._shortfall().why(self._capture.seen(), self._call)

    _call = "hroof.region"
    """What opens such a region, for the call that would fit."""

    def _shortfall(self) -> Shortfall:
        seen = self.finished_steps
        return Shortfall(self.skip, self.steps, seen, self.only_marks, self._at_once)

    def _fail(self, error: BaseException) -> None:
        """hroof itself failed: the program goes on, the reader is told."""
        self.stage = Stage.DONE
        if self._capture is not None:
            try:
                self._capture.stage(Stage.DONE)
            except Exception:  # the first error is the one to tell
                self._capture = None
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise error
        reason = str(error) if isinstance(error, HroofError) else f"hroof failed: {error!r}."
        tell(f"Region {self.name!r} collects nothing. {reason}")
        self.outcome = Outcome(Status.EMPTY, reason=reason)
        if self.on_end is not None:
            self.on_end(self, self.outcome)


def _forget_in_child() -> None:
    """A forked child (a data worker) captures nothing: its regions are over, its locks are new."""
    global _collecting, _current_lock
    _collecting, _current_lock = threading.Lock(), threading.Lock()
    for region in _current:
        region.stage, region._owns, region._lock = Stage.DONE, False, threading.RLock()
        atexit.unregister(region._end)
    _current.clear()
    marks.unlisten_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
