"""Profiles of regions that only marked for a tool outside: how they are known, and what there is to say of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hroof.profile import Profile

MARKS_ONLY = "marks only"
"""What ``how.time`` of such a profile begins with."""


def only_marked(profile: Profile) -> bool:
    """Whether a region only marked for a tool outside, so that its profile has no launches of its own."""
    how = profile.run.get("how")
    time = how.get("time") if isinstance(how, dict) else None
    return profile.launches.empty and str(time).startswith(MARKS_ONLY)


def what_was_marked(profile: Profile, path: str | Path | None = None) -> str:
    """The one sentence that there is to report of such a profile.

    Args:
        profile: One that ``only_marked`` knows.
        path: A file that was asked for; a second sentence says that there is none.
    """
    said = (
        f"Region {profile.name!r} only marked {_steps(profile)} for the tool that measures from outside "
        "(HROOF=marks): it has no times and counts of its own."
    )
    return said if path is None else f"{said} {path} was not written."


def _steps(profile: Profile) -> str:
    numbers = [step["number"] for step in profile.run.get("steps") or ()]
    if not numbers:
        return "a part of one step"
    first, last = numbers[0], numbers[-1]
    return f"step {first}" if first == last else f"steps {first} to {last}"
