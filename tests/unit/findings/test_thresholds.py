"""Thresholds are data: a number, what it decides, and where it comes from."""

from __future__ import annotations

import copy
import pickle

import pytest

from hroof.findings.thresholds import NOTICEABLE, Threshold, thresholds


@pytest.mark.parametrize("name", thresholds())
def test_each_says_what_it_decides_and_where_it_comes_from(name: str) -> None:
    threshold = thresholds()[name]
    assert threshold > 0
    assert threshold.meaning and not threshold.meaning.endswith(".")
    assert threshold.source.endswith(".")


def test_there_are_some() -> None:
    assert thresholds()["NOTICEABLE"] is NOTICEABLE
    assert len(thresholds()) > 10


def test_a_threshold_is_a_number() -> None:
    assert Threshold(0.5, "share", "Own choice.") * 2 == 1.0


def test_copies_keep_their_words() -> None:
    for other in (copy.copy(NOTICEABLE), pickle.loads(pickle.dumps(NOTICEABLE))):
        assert (other, other.meaning, other.source) == (
            NOTICEABLE,
            NOTICEABLE.meaning,
            NOTICEABLE.source,
        )
