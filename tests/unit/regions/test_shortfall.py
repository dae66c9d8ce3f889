"""What a region that saw too few steps says: the arithmetic of the schedule that would have fitted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.regions.shortfall import Shortfall, steps_in_words

numbers = st.integers(0, 40)


@pytest.mark.parametrize(
    ("skip", "steps", "seen", "fitting"),
    [(5, 3, 8, (4, 3)), (5, 3, 3, (0, 2)), (5, 3, 2, (0, 1)), (5, 3, 1, None), (2, 3, 5, (1, 3))],
)
def test_the_schedule_that_fits(
    skip: int, steps: int, seen: int, fitting: tuple[int, int] | None
) -> None:
    assert Shortfall(skip, steps, seen).fitting() == fitting


def test_steps_that_are_only_marked_need_no_counted_one() -> None:
    short = Shortfall(5, 3, 7, only_marks=True)
    assert short.needs() == "8 (5 skipped, 3 marked)"
    assert short.fitting() == (4, 3)


def test_executions_of_several_steps_are_skipped_counted_and_timed_as_a_whole() -> None:
    short = Shortfall(5, 3, 24, at_once=8)
    assert short.whole() == 24
    assert Shortfall(5, 3, 16, at_once=8).fitting() == (0, 3)
    assert "up to 8 ran at once" in short.needs()
    assert "takes 24" in short.needs()


def test_too_few_executions_are_no_case_for_a_mark() -> None:
    said = Shortfall(5, 3, 8, at_once=8).why("It saw 1.", "hroof.region")
    assert said.endswith("It saw 1. Let the region see at least 16 steps.")
    alone = Shortfall(5, 3, 1).why("It saw 1.", "hroof.region")
    assert alone.endswith(
        "Call hroof.step() at the end of each step, and let the region see at least 2 steps."
    )


def test_the_call_that_fits_is_the_one_that_was_made() -> None:
    said = Shortfall(5, 3, 6).why("Seen.", "hroof_keras.RooflineCallback")
    assert said == (
        "The region saw 6 steps and needs 9 (5 skipped, 1 counted, 3 timed). Seen. "
        "This call would fit: hroof_keras.RooflineCallback(skip=2, steps=3)."
    )


@given(numbers, st.integers(1, 20), numbers, st.booleans(), st.integers(1, 9), st.integers(0, 1))
def test_what_fits_takes_no_more_than_was_seen(
    skip: int, steps: int, seen: int, marks: bool, at_once: int, least: int
) -> None:
    short = Shortfall(skip, steps, seen, marks, at_once)
    found = short.fitting(least)
    if found is None:
        assert seen // at_once < short.counted + least + 1
        return
    fitted = Shortfall(*found, seen, marks, at_once)
    assert fitted.whole() <= seen
    assert found[0] >= least
    assert 1 <= found[1] <= steps


def test_words() -> None:
    assert [steps_in_words(number) for number in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]
