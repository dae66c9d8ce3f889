"""Regions: what a program marks of itself, the capture schedule, and who listens."""

from hroof.regions.marks import Kind, Listener, Mark, listen, listeners, unlisten
from hroof.regions.region import HroofWarning, Outcome, Region, Status, step, switched_off

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
    "step",
    "switched_off",
    "unlisten",
]
