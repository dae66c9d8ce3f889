"""Whole numbers of any type, and what is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hroof
from hroof.errors import UsageError
from hroof.regions.whole import whole_number


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_what_stands_for_a_whole_number_becomes_one(value: Any) -> None:
    assert whole_number("steps", value, least=3) == 3
    assert type(whole_number("steps", value, least=3)) is int


@pytest.mark.parametrize(
    "value", [True, False, np.bool_(True), 3.0, "3", None, [3], np.array([3, 4])]
)
def test_what_does_not_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"^steps=.* is not a whole number of at least 0\."):
        whole_number("steps", value, least=0)


@pytest.mark.parametrize("value", [-1, np.int64(-1), 0])
def test_what_is_too_small_is_refused(value: Any) -> None:
    with pytest.raises(
        UsageError, match=r"is not a whole number of at least 1\. Give another one\."
    ):
        whole_number("skip", value, least=1)


def test_a_region_takes_those_of_numpy() -> None:
    region = hroof.region(skip=np.int64(2), steps=np.int32(4))  # type: ignore[arg-type]
    assert (region.skip, region.steps) == (2, 4)
    assert type(region.skip) is type(region.steps) is int
