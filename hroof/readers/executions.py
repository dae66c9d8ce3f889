"""Steps of launches, where several steps ran in one execution (Keras: ``steps_per_execution``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hroof.readers.places import Place

if TYPE_CHECKING:
    import pandas as pd


def steps_of(launches: pd.DataFrame, places: Sequence[Place]) -> list[int | None]:
    """The number of each launch's step, as the program counts; None outside every step.

    The steps of one execution run one after the other, and each launches the same: of the launches of one kernel from
    one place, each step has as many, in their order. What cannot be shared out so, because it runs before the loop of
    the steps, is the first one's.

    Args:
        launches: As ``Raw.launches`` has them, in order.
        places: Of each launch.
    """
    first = [place.step for place in places]
    counts = np.array([place.steps for place in places], dtype=np.int64)
    if not (counts > 1).any():
        return first
    alike = launches.groupby(["process", "ranges", "kernel"], sort=False)["kernel"]
    at, many = alike.cumcount().to_numpy(), alike.transform("size").to_numpy()
    later = np.where(many % counts == 0, at * counts // many, 0)
    return [
        None if step is None else step + int(more) for step, more in zip(first, later, strict=True)
    ]
