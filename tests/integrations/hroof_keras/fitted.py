"""Keras programs that are trained within a region, and what the region found."""

from __future__ import annotations

from typing import Any

import keras
import pandas as pd

from hroof.regions import Region
from tests.integrations.hroof_keras import models

STEPS = 2
MODES: dict[str, dict[str, Any]] = {
    "graph": {"jit_compile": False},
    "xla": {"jit_compile": True},
    "eager": {"jit_compile": False, "run_eagerly": True},
}


def fit(model: Any, x: Any, y: Any, **options: Any) -> list[float]:
    """Train an epoch quietly; the losses of its batches."""
    seen: list[float] = []
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda _, logs: seen.append(logs["loss"])
    )
    callbacks = [note, *options.pop("callbacks", [])]
    batch = options.pop("batch_size", models.BATCH.get(model.name, 8))
    model.fit(x, y, batch_size=batch, verbose=0, callbacks=callbacks, **options)
    return seen


def region(skip: int = 2, steps: int = STEPS) -> Region:
    return Region(skip=skip, steps=steps)


def table(of: Region) -> pd.DataFrame:
    """The launch table with the matrix FLOP of each row as ``matrix``."""
    profile = of.outcome.profile
    assert profile is not None, of.outcome
    frame = profile.launches
    columns = [name for name in map(str, frame) if name.startswith("flop_nominal_matrix")]
    return frame.assign(matrix=frame[columns].sum(axis=1, min_count=1))


def run_of(of: Region) -> dict[str, Any]:
    assert of.outcome.profile is not None, of.outcome
    return of.outcome.profile.run


def matrix_flop(frame: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Matrix FLOP of one step by layer and phase; a cell of an LSTM counts as the LSTM."""
    one = frame[frame["step"] == 0]
    found: dict[tuple[str, str], float] = {}
    rows = one[one["matrix"].notna() & one["layer"].notna()]
    for layer, phase, flop in zip(rows["layer"], rows["phase"], rows["matrix"], strict=True):
        key = (str(layer).removesuffix(".lstm_cell"), str(phase))
        found[key] = found.get(key, 0.0) + float(flop)
    return {key: flop for key, flop in found.items() if flop}
