"""Several steps in one execution are told apart by what each of them launches."""

from __future__ import annotations

import pandas as pd
import pytest

from hroof.readers.executions import steps_of
from hroof.readers.places import Place

TWO = Place(step=4, steps=2)
ONE = Place(step=9)
OUTSIDE = Place()


def launches(*rows: tuple[str, int], process: int = 1) -> pd.DataFrame:
    """Kernels, each with the place of its ranges among the different ones."""
    return pd.DataFrame(
        {
            "kernel": [kernel for kernel, _ in rows],
            "ranges": [at for _, at in rows],
            "process": process,
        }
    )


def test_each_step_has_its_share_of_what_is_repeated() -> None:
    frame = launches(("gemm", 0), ("relu", 1), ("relu", 1), ("gemm", 0), ("relu", 1), ("relu", 1))
    assert steps_of(frame, [TWO] * 6) == [4, 4, 4, 5, 5, 5]


def test_what_runs_once_belongs_to_the_first() -> None:
    frame = launches(("copy", 0), ("gemm", 0), ("gemm", 0), ("odd", 0), ("odd", 0), ("odd", 0))
    assert steps_of(frame, [TWO] * 6) == [4, 4, 5, 4, 4, 4]


def test_a_kernel_that_two_nodes_launch_is_followed_for_each() -> None:
    frame = launches(("gemm", 0), ("gemm", 1), ("gemm", 0), ("gemm", 1))
    assert steps_of(frame, [TWO] * 4) == [4, 4, 5, 5]


def test_processes_are_followed_apart() -> None:
    frame = pd.concat([launches(("k", 0), ("k", 0)), launches(("k", 0), ("k", 0), process=2)])
    assert steps_of(frame.reset_index(drop=True), [TWO] * 4) == [4, 5, 4, 5]


@pytest.mark.parametrize("place", [ONE, OUTSIDE])
def test_single_steps_stay_as_they_are(place: Place) -> None:
    assert steps_of(launches(("k", 0), ("k", 0)), [place] * 2) == [place.step] * 2
    mixed = steps_of(launches(("k", 0), ("k", 0), ("k", 1), ("k", 1)), [TWO] * 2 + [place] * 2)
    assert mixed == [4, 5, place.step, place.step]


def test_no_launches() -> None:
    assert steps_of(launches(), []) == []
