"""Regions: what a program marks of itself, the capture schedule, and who listens."""

from hroof.regions.marks import Kind, Listener, Mark, listen, listeners, unlisten
from hroof.regions.region import (
    HroofWarning,
    Outcome,
    Region,
    Status,
    open_regions,
    step,
    switched_off,
    when_opening,
)

__all__ = [
    "HroofWarning",
    "Kind",
    "Listener",
    "Mark",
    "Outcome",
    "Region",
    "Status",
    "listen",
    "listeners",
    "open_regions",
    "step",
    "switched_off",
    "unlisten",
    "when_opening",
]
