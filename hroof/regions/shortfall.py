"""A region that saw too few steps: what its schedule takes, and the one that would have fitted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shortfall:
    """What was asked for, and what was seen.

    Attributes:
        skip: Steps that were to pass first.
        steps: Steps that were to be timed, or marked.
        seen: Steps that ended.
        only_marks: No step is counted.
        at_once: Most steps that the program did at once, so that they could not be told apart.
    """

    skip: int
    steps: int
    seen: int
    only_marks: bool = False
    at_once: int = 1

    @property
    def counted(self) -> int:
        """Steps that are counted before any is timed."""
        return 0 if self.only_marks else 1

    def needs(self) -> str:
        """How many steps the schedule takes, and what for."""
        need = self.skip + self.counted + self.steps
        last = f"{self.steps} marked" if self.only_marks else f"1 counted, {self.steps} timed"
        text = f"{need} ({self.skip} skipped, {last})"
        if self.at_once == 1:
            return text
        return (
            f"{text}; up to {self.at_once} ran at once and can only be skipped, counted or timed "
            f"together, so that it takes {self.whole()}"
        )

    def whole(self) -> int:
        """Steps that the schedule takes where only executions of ``at_once`` steps can be told apart."""
        lots = (-(-self.skip // self.at_once), self.counted, -(-self.steps // self.at_once))
        return sum(lots) * self.at_once

    def fitting(self, least: int = 0) -> tuple[int, int] | None:
        """The ``skip`` (at least ``least``) and ``steps`` that fit the steps seen; None with too few of them."""
        lots = self.seen // self.at_once
        room = lots - self.counted
        if room < least + 1:
            return None
        wanted = -(-self.steps // self.at_once)
        skip = max(min(-(-self.skip // self.at_once), room - wanted), least)
        if self.at_once == 1:
            return skip, min(self.steps, room - skip)
        return skip * self.at_once, min(self.steps, (room - skip) * self.at_once)

    def why(self, seen: str, call: str) -> str:
        """In words, with the call that would fit.

        Args:
            seen: What the capture says that it saw.
            call: What opens such a region, e.g. ``hroof.region``.
        """
        saw = f"The region saw {steps_in_words(self.seen)} and needs {self.needs()}. {seen}"
        fitting = self.fitting()
        if fitting is not None:
            return f"{saw} This call would fit: {call}(skip={fitting[0]}, steps={fitting[1]})."
        least = steps_in_words(self.at_once * (self.counted + 1))
        mark = "Call hroof.step() at the end of each step, and let" if self.at_once == 1 else "Let"
        return f"{saw} {mark} the region see at least {least}."


def steps_in_words(number: int) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} step" if number == 1 else f"{number} steps"
