"""Regions: what a program marks of itself, the capture schedule, and who listens."""

from hroof.regions.interrupts import still_interrupted
from hroof.regions.marked import MARKS_ONLY, only_marked, what_was_marked
from hroof.regions.marks import Kind, Listener, Mark, listen, listeners, unlisten
from hroof.regions.outcome import HroofWarning, Outcome, Status
from hroof.regions.region import Region, open_regions, step, when_opening
from hroof.regions.shortfall import steps_in_words
from hroof.regions.switches import marks_only, switched_off, unknown_value

__all__ = [
    "MARKS_ONLY",
    "HroofWarning",
    "Kind",
    "Listener",
    "Mark",
    "Outcome",
    "Region",
    "Status",
    "listen",
    "listeners",
    "marks_only",
    "only_marked",
    "open_regions",
    "step",
    "steps_in_words",
    "still_interrupted",
    "switched_off",
    "unknown_value",
    "unlisten",
    "what_was_marked",
    "when_opening",
]
