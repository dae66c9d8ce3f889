"""A model of one layer, for tests of what happens around steps rather than in them; data of any number of batches."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from hroof.integration import Stage, StepSink
from hroof.profile import Profile
from hroof_keras.executions import Execution
from hroof_keras.steps import StepFinder

BATCH = 4


def model(**options: Any) -> Any:
    """Four features to one, SGD, mean squared error."""
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, name="only")], name="tiny")
    made.compile(loss="mse", optimizer="sgd", **options)
    return made


def data(batches: int) -> tuple[Any, Any]:
    """Features and targets."""
    x = np.ones((BATCH * batches, 4), "float32")
    return x, np.ones((BATCH * batches, 1), "float32")


def fit(made: Any, batches: int, **options: Any) -> Any:
    """Train; quietly."""
    x, y = data(batches)
    return made.fit(x, y, batch_size=BATCH, verbose=0, **options)


def generator(batches: int) -> Any:
    """Batches of a number that is not known before."""
    x, y = data(1)
    return ((x, y) for _ in range(batches))


class Sink:
    """A region that writes down what it hears of steps.

    Attributes:
        log: ``+n`` where n steps begin, ``-`` where they have ended, ``n`` for a boundary of n steps.
    """

    name, skip, steps = "sink", 5, 3

    def __init__(self, stage: Stage = Stage.TIME) -> None:
        self.stage = stage
        self.log: list[str] = []
        self.finished_steps = 0
        self.forgotten = 0
        self.passing = False

    def boundary(
        self, *, count: int = 1, clean: bool = True, explicit: bool = False, at_once: bool = False
    ) -> None:
        assert clean
        assert at_once == (count > 1)
        self.finished_steps += count
        self.log.append(str(count))

    def let_pass(self) -> bool:
        self.finished_steps += self.passing
        return self.passing

    def pause(self) -> None:
        self.log.append("-")

    def resume(self, count: int = 1) -> None:
        self.log.append(f"+{count}")

    def forget_steps(self) -> None:
        self.forgotten = self.finished_steps
        self.finished_steps = 0


class Capture:
    """Fulfils ``Capture``: finds steps as every capture of Keras does, and writes down what it is told."""

    made: list[Capture]

    def __init__(self, steps: StepSink) -> None:
        self.log: list[str] = []
        self.released = False
        self.finder = StepFinder(steps, self)
        self.finder.start()

    def stage(self, stage: Stage) -> None:
        self.log.append(str(stage))
        if stage is Stage.DONE:
            self.finder.stop()

    def step_ended(self, number: int) -> None:
        self.log.append(f"step {number}")

    def execution_begins(self, execution: Execution) -> None:
        self.log.append(f"begins {execution.kind} {execution.planned}")

    def execution_ends(self, execution: Execution, steps: int) -> None:
        self.log.append(f"ends {execution.kind} {steps}")

    def execution_fails(self, execution: Execution) -> None:
        self.log.append(f"fails {execution.kind}")

    def flush(self) -> None:
        self.log.append("flush")

    def release(self) -> None:
        self.finder.stop()
        self.released = True

    def seen(self) -> str:
        return self.finder.seen()

    def profile(self) -> Profile | None:
        if "time" not in self.log:
            return None
        run = {"framework": "keras", "device": "cpu", "versions": {"keras": "3"}}
        return Profile.from_rows([{"op": "MatMul", "step": 0, "duration": 1e-3}], run)
