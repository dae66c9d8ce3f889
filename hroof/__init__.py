"""hroof: the hierarchical Roofline of a training program, layer by layer."""

from hroof.errors import (
    CaptureError,
    HroofError,
    MissingError,
    OutputError,
    ProfileError,
    UsageError,
)
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.regions import HroofWarning, step
from hroof.results import Saved, load
from hroof.run import Run, region

__version__ = "0.1.0"

__all__ = [
    "CaptureError",
    "Ceiling",
    "HroofError",
    "HroofWarning",
    "Machine",
    "MissingError",
    "OutputError",
    "Profile",
    "ProfileError",
    "Run",
    "Saved",
    "UsageError",
    "__version__",
    "load",
    "region",
    "step",
]
