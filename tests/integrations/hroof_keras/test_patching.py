"""Methods that are replaced for a while come back, whoever wrapped them meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("keras")

from hroof_keras.patching import Patches


class Kind:
    """A class with a method."""

    def say(self) -> str:
        """What it says of itself."""
        return "said"


def loudly(original: Callable[[Kind], str]) -> Callable[[Kind], str]:
    return lambda kind: original(kind).upper()


def test_a_method_is_replaced_and_put_back() -> None:
    before, patches = vars(Kind)["say"], Patches()
    assert not patches
    patches.replace(Kind, "say", loudly)
    assert patches and Kind().say() == "SAID"
    patches.undo()
    patches.undo()
    assert not patches and vars(Kind)["say"] is before


def test_a_method_that_somebody_else_wrapped_stays_theirs() -> None:
    before, patches = vars(Kind)["say"], Patches()
    patches.replace(Kind, "say", loudly)
    ours = vars(Kind)["say"]
    theirs = lambda kind: ours(kind) + "!"  # noqa: E731
    Kind.say = theirs  # type: ignore[method-assign]
    try:
        patches.undo()
        assert Kind().say() == "SAID!"
    finally:
        Kind.say = before  # type: ignore[method-assign]


def test_what_was_replaced_in_another_way_comes_back_in_turn() -> None:
    told: list[str] = []
    patches = Patches()
    patches.add(lambda: told.append("first"))
    patches.replace(Kind, "say", loudly)
    patches.add(lambda: told.append(Kind().say()))
    patches.undo()
    patches.undo()
    assert told == ["SAID", "first"] and Kind().say() == "said"
