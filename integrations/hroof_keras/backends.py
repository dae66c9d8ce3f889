"""Which capture measures: it depends on the framework that computes for Keras."""

from __future__ import annotations

import sys
from typing import Any

from hroof import integration
from hroof.integration import Capture, Stage, StepSink
from hroof.profile import Profile
from hroof.regions import marks_only
from hroof_keras.executions import Execution
from hroof_keras.private import jax as private_jax
from hroof_keras.private import steps as private_steps
from hroof_keras.steps import StepFinder

COMPILED = (
    "With jit_compile=True Keras lets PyTorch compile the whole training step, in which its layers cannot be told "
    "apart: compile(jit_compile=False) shows them."
)


def backend() -> str:
    """The framework that computes for Keras; TensorFlow where Keras itself was not imported."""
    keras = sys.modules.get("keras")
    return "tensorflow" if keras is None else str(keras.backend.backend())


def capture(steps: StepSink) -> Capture:
    """The capture for the backend in use."""
    chosen = backend()
    if chosen == "torch":
        return HandedOver(steps, integration.load("torch"))
    if chosen == "jax" and not marks_only() and private_jax.can_be_profiled():
        from hroof_keras.on_jax.capture import JaxCapture

        return JaxCapture(steps)
    if chosen != "tensorflow":
        from hroof_keras.capturing.wall_capture import WallCapture

        return WallCapture(steps)
    if marks_only():
        from hroof_keras.capturing.marks_capture import MarksCapture

        return MarksCapture(steps)
    from hroof_keras.capturing.keras_capture import KerasCapture

    return KerasCapture(steps)


def in_use() -> bool:
    """Whether the program trains, or could train, something with Keras or TensorFlow."""
    if backend() == "tensorflow":
        return private_steps.has_trainable_variables()
    return private_steps.has_trainable_keras_variables()


def measures_for() -> tuple[str, ...]:
    """On the backend torch its integration measures, but finds steps only with the help of this one."""
    return ("torch",) if backend() == "torch" else ()


def _nothing() -> None:
    """The other one takes steps as they follow each other."""


class HandedOver:
    """Another integration measures; the steps are those of Keras' own loops. Fulfils ``Capture``.

    Args:
        steps: The region.
        other: The integration of the backend.
    """

    def __init__(self, steps: StepSink, other: integration.Integration) -> None:
        self._capture = other.capture(steps)
        self._finder = StepFinder(steps, self)
        self._finder.start()

    def stage(self, stage: Stage) -> None:
        """The step that begins now is skipped, counted or timed; ``DONE`` detaches everything."""
        if stage is Stage.DONE:
            self._finder.stop()
        self._capture.stage(stage)

    def step_ended(self, number: int) -> None:
        """A timed step has just ended."""
        self._capture.step_ended(number)

    def execution_begins(self, execution: Execution) -> None:
        """What ran since the last one belongs to no step, if the other one can leave it out."""
        getattr(self._capture, "execution_begins", _nothing)()

    def execution_ends(self, execution: Execution, steps: int) -> None:
        """What runs until the next one belongs to no step, if the other one can leave it out."""
        getattr(self._capture, "execution_ends", _nothing)()

    def execution_fails(self, execution: Execution) -> None:
        """The other one hears of boundaries only."""

    def flush(self) -> None:
        """The region is about to end."""
        self._capture.flush()

    def release(self) -> None:
        """The region is over: leave nothing behind."""
        self._finder.stop()
        self._capture.release()

    def seen(self) -> str:
        """What was seen of steps by both."""
        return self._finder.seen() if self._finder.executions else self._both()

    def _both(self) -> str:
        return f"{self._finder.seen()} {self._capture.seen()}"

    def profile(self) -> Profile | None:
        """What the other one collected, with what Keras adds to it."""
        profile = self._capture.profile()
        if profile is None:
            return None
        from hroof_keras.description import settings, versions

        run: dict[str, Any] = {
            **profile.run,
            "versions": {**profile.run.get("versions", {}), **versions()},
            "facts": {**profile.run.get("facts", {}), **settings(self._finder.model)},
        }
        if run["facts"].get("jit_compile"):
            run["warnings"] = [*run.get("warnings", ()), COMPILED]
        return profile.replace(run=run)
