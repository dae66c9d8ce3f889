"""Driving Nsight Compute: finding it, asking it, understanding what it says. Collecting was not run on a GPU so far."""

from hroof.collect.nsight.access import Permission, permission
from hroof.collect.nsight.command import (
    REPLAY,
    Request,
    collecting,
    printing,
    several_processes,
)
from hroof.collect.nsight.device import Gpu, first_gpu, has_driver
from hroof.collect.nsight.execute import Streams, Watch, ask, overheard
from hroof.collect.nsight.filters import STEPS, Filter, escape, matches, parse, started
from hroof.collect.nsight.outcome import PERMISSION_REMEDY, Condition, Outcome, judge, no_driver
from hroof.collect.nsight.program import OLDEST, VARIABLE, NoProgramError, Program, find

__all__ = [
    "OLDEST",
    "PERMISSION_REMEDY",
    "REPLAY",
    "STEPS",
    "VARIABLE",
    "Condition",
    "Filter",
    "Gpu",
    "NoProgramError",
    "Outcome",
    "Permission",
    "Program",
    "Request",
    "Streams",
    "Watch",
    "ask",
    "collecting",
    "escape",
    "find",
    "first_gpu",
    "has_driver",
    "judge",
    "matches",
    "no_driver",
    "overheard",
    "parse",
    "permission",
    "printing",
    "several_processes",
    "started",
]
