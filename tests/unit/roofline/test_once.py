"""Answers that are worked out once, as long as a report is written and no longer."""

from __future__ import annotations

import numpy as np
import pytest

from hroof.machine import Machine
from hroof.profile import Profile
from hroof.roofline import coverage, points, remembered, remembering, totals


class Counted:
    """A function that notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def __call__(self, *args: object, **kwargs: object) -> list[object]:
        self.asked.append((args, kwargs))
        if any(isinstance(arg, str) and arg == "wrong" for arg in args):
            raise ValueError("wrong")
        return [args]


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_outside_every_block_each_question_is_worked_out(counted: Counted) -> None:
    ask = remembered(counted)
    assert ask(1) == ask(1)
    assert len(counted.asked) == 2


def test_within_a_block_it_is_worked_out_once(counted: Counted) -> None:
    ask = remembered(counted)
    with remembering():
        assert ask(1, by="x") is ask(1, by="x")
        with remembering():  # a report that is part of another one
            ask(1, by="x")
        ask(1, by="x")
    assert len(counted.asked) == 1
    ask(1, by="x")
    assert len(counted.asked) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a",), ("b",)),
        ((1,), (1.0,)),
        ((1,), (True,)),
        ((("a", "b"),), (("ab",),)),
        ((("a",), "b"), (("a", "b"),)),
        ((None,), ("None",)),
        ((np.array([True, False]),), (np.array([True, True]),)),
        ((np.array([1, 0]),), (np.array([1.0, 0.0]),)),
        ((np.zeros((2, 1)),), (np.zeros((1, 2)),)),
    ],
)
def test_other_questions_have_their_own_answers(
    counted: Counted, one: tuple[object, ...], other: tuple[object, ...]
) -> None:
    ask = remembered(counted)
    with remembering():
        assert ask(*one) is not ask(*other)
        assert ask(*one) is ask(*one)


def test_arrays_are_known_by_content_and_lists_are_as_good_as_tuples(counted: Counted) -> None:
    ask = remembered(counted)
    with remembering():
        assert ask(np.array([True])) is ask(np.array([True]))
        assert ask(["a"]) is ask(("a",))
    assert len(counted.asked) == 2


def test_a_default_that_is_left_out_is_the_same_question() -> None:
    asked: list[str] = []

    @remembered
    def ask(one: str, by: str = "layer", *, most: int | None = None) -> str:
        asked.append(one)
        return f"{one} {by} {most}"

    with remembering():
        assert ask("a") == ask("a", "layer") == ask(by="layer", one="a", most=None)
        assert ask("a", most=3) == "a layer 3"
    assert asked == ["a", "a"]


def test_things_are_known_by_identity_and_kept_until_the_end(counted: Counted) -> None:
    """Else a new table at the address of one that is gone would get its answer."""
    ask = remembered(counted)
    with remembering():
        for _ in range(50):
            ask(object())
    assert len(counted.asked) == 50


def test_an_error_is_raised_each_time(counted: Counted) -> None:
    ask = remembered(counted)
    with remembering():
        for _ in range(2):
            with pytest.raises(ValueError, match="wrong"):
                ask("wrong")
    assert len(counted.asked) == 2


def test_an_error_ends_the_block(counted: Counted) -> None:
    ask = remembered(counted)
    with pytest.raises(KeyError), remembering():
        ask(1)
        raise KeyError
    ask(1)
    assert len(counted.asked) == 2


def test_what_was_remembered_is_what_would_have_been_worked_out(
    profile: Profile, machine: Machine
) -> None:
    alone = points(profile, machine), totals(profile, machine), coverage(profile)
    with remembering():
        for _ in range(2):
            assert points(profile, machine) == alone[0]
            assert totals(profile, machine) == alone[1]
            assert coverage(profile) == alone[2]
        assert points(profile, machine) is points(profile, machine)
        assert points(profile, None) != alone[0]


def test_a_table_that_changes_is_read_again(profile: Profile) -> None:
    before = totals(profile).time
    profile.launches["duration"] *= 2.0
    assert totals(profile).time == pytest.approx(2 * before)
