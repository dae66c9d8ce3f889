"""What the Keras callback costs: outside the captured steps, after them, in a timed and in the counted step.

All ratios come from one process: plain calls of ``fit`` and calls with the callback alternate; per round the fastest
step of one is divided by the fastest of the other, and the median over the rounds is given with its inner range. Plain
against plain is the noise floor. The whole table:

    python -m pytest -m perf tests/perf/test_keras_overhead.py -s
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import numpy as np

from hroof.regions import Status
from hroof_keras import executions
from hroof_keras.callback import RooflineCallback

pytestmark = pytest.mark.perf

ROUNDS = 7
NEVER = 10**9


class Ends(keras.callbacks.Callback):
    """Notes when each batch ended, so that a step contains whatever any callback does."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.times.append(time.perf_counter())

    @property
    def steps(self) -> list[float]:
        """Seconds of each step but the first."""
        return [after - before for before, after in itertools.pairwise(self.times)]


def dense(width: int, batch: int) -> Callable[..., list[float]]:
    """Two layers of a width; returns how to train it for some steps."""
    keras.utils.set_random_seed(0)
    made = keras.Sequential(
        [keras.Input((width,)), keras.layers.Dense(width, activation="relu"), keras.layers.Dense(1)]
    )
    made.compile(loss="mse", optimizer="sgd", jit_compile=False)
    return trainer(made, np.ones((batch, width), "float32"), np.ones((batch, 1), "float32"))


def convolution() -> Callable[..., list[float]]:
    """A small CNN on images of 32 by 32."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    made = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dropout(0.1),
            layers.Dense(10),
        ]
    )
    made.compile(loss="mse", optimizer="adam", jit_compile=False)
    return trainer(made, np.ones((16, 32, 32, 3), "float32"), np.ones((16, 10), "float32"))


def trainer(made: Any, x: Any, y: Any) -> Callable[..., list[float]]:
    """How to train a model for some steps; gives their seconds."""

    def train(steps: int, *callbacks: Any) -> list[float]:
        ends = Ends()
        many = [np.concatenate([part] * (steps + 1)) for part in (x, y)]
        made.fit(*many, batch_size=len(x), shuffle=False, verbose=0, callbacks=[*callbacks, ends])
        return ends.steps

    return train


PROGRAMS: dict[str, tuple[Callable[[], Callable[..., list[float]]], int]] = {
    "tiny": (lambda: dense(8, 4), 60),
    "dense": (lambda: dense(1024, 64), 20),
    "cnn": (convolution, 10),
}
COLUMNS = ("plain", "outside", "after", "timed", "counted")


@dataclass
class Cost:
    """The table's row of one program.

    Attributes:
        plain_step: Seconds of the fastest plain step.
        ratios: By what runs: plain again, outside the captured steps, after them, timed, counted; one per round.
    """

    plain_step: float = float("inf")
    ratios: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    def median(self, column: str) -> float:
        return statistics.median(self.ratios[column])

    def line(self, name: str) -> str:
        cells = []
        for column in COLUMNS:
            low, middle, high = statistics.quantiles(self.ratios[column], n=4)
            cells.append(f"{middle:6.3f} [{low:5.3f} {high:5.3f}]")
        return f"{name:>5} | {self.plain_step * 1e3:8.2f} ms | {' | '.join(cells)}"


def _round(train: Callable[..., list[float]], steps: int, cost: Cost) -> None:
    plain = min(train(steps))
    cost.plain_step = min(cost.plain_step, plain)
    cost.ratios["plain"].append(min(train(steps)) / plain)
    waits = RooflineCallback(skip=NEVER, steps=1, show=False)
    cost.ratios["outside"].append(min(train(steps, waits)) / plain)
    waits.run.drop()

    measured = RooflineCallback(skip=3, steps=steps, show=False)
    captured = train(3 + 1 + steps, measured)  # the first of the skipped steps is not among them
    assert measured.run.outcome.status is Status.COMPLETE
    counted, timed = captured[3], captured[4:-1]  # the last one ends with the profile
    cost.ratios["counted"].append(counted / plain)
    cost.ratios["timed"].append(min(timed) / plain)
    cost.ratios["after"].append(min(train(steps, measured)) / plain)


def measure(name: str) -> Cost:
    """The cost of one program, over all rounds."""
    make, steps = PROGRAMS[name]
    train = make()
    train(steps)
    _round(train, steps, Cost())  # imports and first calls
    cost = Cost()
    for _ in range(ROUNDS):
        _round(train, steps, cost)
    return cost


@pytest.fixture(scope="module")
def table() -> Iterator[dict[str, str]]:
    """Lines of the table, printed when all programs are through."""
    lines: dict[str, str] = {}
    yield lines
    print(f"\n{'':>5} | {'plain step':>11} | {' | '.join(f'{column:^20}' for column in COLUMNS)}")
    for line in lines.values():
        print(line)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Results go to a folder that nobody keeps."""
    monkeypatch.delenv("HROOF", raising=False)
    monkeypatch.delenv("HROOF_OUT", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_cost_little(name: str, table: dict[str, str]) -> None:
    cost = measure(name)
    table[name] = cost.line(name)
    floor = max(cost.median("plain"), 1.0)
    assert cost.median("outside") < 1.2 * floor
    assert cost.median("after") < 1.2 * floor
    assert cost.median("timed") < 5 * floor
    assert cost.median("counted") < 8 * floor


def test_after_the_last_captured_step_nothing_is_wrapped() -> None:
    before = dict(vars(keras.callbacks.CallbackList))
    train = dense(8, 4)
    train(9, RooflineCallback(skip=1, steps=1, show=False))
    assert dict(vars(keras.callbacks.CallbackList)) == before
    assert executions._listeners == ()
