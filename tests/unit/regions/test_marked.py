"""What there is to say of a region that only marked."""

from __future__ import annotations

from typing import Any

import pytest

from hroof.profile import Profile
from hroof.regions import MARKS_ONLY, only_marked, what_was_marked

HOW = {"time": f"{MARKS_ONLY}: a tool outside measures"}
ROWS = [{"op": "aten::mm"}]


@pytest.mark.parametrize(
    ("rows", "how", "marked"),
    [
        ([], HOW, True),
        (ROWS, HOW, False),
        ([], {"time": "the framework's profiler, op by op"}, False),
        ([], {}, False),
        ([], None, False),
        ([], "synthetic", False),
    ],
)
def test_which_profiles_are_of_marks(rows: list[dict[str, Any]], how: object, marked: bool) -> None:
    assert only_marked(Profile.from_rows(rows, {"how": how})) is marked
    assert not only_marked(Profile.from_rows(rows))


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([5, 6, 7], "marked steps 5 to 7 for"),
        ([4], "marked step 4 for"),
        ([], "marked a part of one step for"),
    ],
)
def test_the_sentence(numbers: list[int], said: str) -> None:
    steps = [{"step": index, "number": number} for index, number in enumerate(numbers)]
    profile = Profile.from_rows([], {"how": HOW, "name": "train", "steps": steps})
    sentence = what_was_marked(profile)
    assert sentence.startswith("Region 'train' only ") and said in sentence
    assert sentence.count(". ") == 0
    assert what_was_marked(profile, "a.html") == f"{sentence} a.html was not written."


def test_without_steps_at_all() -> None:
    assert "a part of one step" in what_was_marked(Profile.from_rows([], {"how": HOW}))
