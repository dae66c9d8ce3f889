"""Writing: the numbers of a run as a budget to begin with."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from hroof.budgets.budget import Kind
from hroof.budgets.judging import ROUNDING
from hroof.budgets.quantities import QUANTITIES, SHARE, Quantity, Reading
from hroof.budgets.subjects import Facts, Scope
from hroof.errors import UsageError
from hroof.units import parse, parse_share, percent, si

if TYPE_CHECKING:
    from hroof.machine import Machine
    from hroof.profile import Profile

WRITTEN = (
    "time", "wall", "headroom", "launches", "flop", "bytes_l1", "bytes_l2", "bytes_l3", "bytes_dram", "peak_memory",
    "peak_device_memory", "share_zero_flop", "share_unattributed", "share_with_flop",
)  # fmt: skip
"""What a first budget is about; what the run does not know is left out."""
_DIGITS = 4
_HALF, _HALF_POINT = 5e-4, 5e-5
"""Half of the last digit at most: of a number with so many digits (as a share of it); of a percentage."""


def first_budget(profile: Profile, machine: Machine | None, tolerance: float) -> str:
    """A budget file that the run itself keeps.

    Args:
        profile: The run.
        machine: Its ceilings; without them nothing is said of headroom.
        tolerance: What each limit has to spare, as a share of it; counts that are the same in every run have none.

    Raises:
        UsageError: The run holds no launch.
    """
    subjects = Facts(profile, machine).subjects(Scope())
    if not subjects:
        raise UsageError("The run holds no launch.", "Collect it again, with at least one step.")
    readings = [(QUANTITIES[name], QUANTITIES[name].read(subjects[0])) for name in WRITTEN]
    lines = [_line(*one, tolerance) for one in readings if _can_be_missed(*one)]
    steps = profile.step_count
    about = (
        f"The numbers of run {json.dumps(profile.name)} ({steps} step{'' if steps == 1 else 's'})"
    )
    return f"# {about}, with {100 * tolerance:.4g} % to spare.\n\n[step]\n" + "".join(lines)


def _can_be_missed(quantity: Quantity, reading: Reading) -> bool:
    """Whether the run has a number, and there could be a worse one: not of a share that is all or nothing already."""
    if quantity.unit == SHARE:
        worst = 1.0 if quantity.more == "worse" else 0.0
        return not math.isnan(reading.value) and not math.isclose(
            reading.value, worst, abs_tol=1e-9
        )
    return not math.isnan(reading.value)


def _line(quantity: Quantity, reading: Reading, tolerance: float) -> str:
    if _counted_whole(quantity, reading):
        kind = Kind.EQUALS if quantity.unit == "FLOP" and not reading.lower else Kind.MAX
        return f"{quantity.name}.{kind} = {reading.value:_.0f}\n"
    kind = Kind.MAX if quantity.more == "worse" else Kind.MIN
    spare = f', tolerance = "{100 * tolerance:.4g} %"' if tolerance else ""
    return f'{quantity.name} = {{ {kind} = "{_text(quantity, reading.value, kind)}"{spare} }}\n'


def _counted_whole(quantity: Quantity, reading: Reading) -> bool:
    """Whether a number is a count that is the same in every run of the program."""
    return quantity.unit in ("", "FLOP") and not quantity.timed and reading.value.is_integer()


def _text(quantity: Quantity, value: float, kind: Kind) -> str:
    """A number in few digits, rounded to the side of the limit on which it is kept."""
    sign = 1 if kind is Kind.MAX else -1
    text, read = _rounded(quantity, value)
    if (value - read) * sign <= ROUNDING * value:
        return text
    by = _HALF_POINT if quantity.unit == SHARE else _HALF * value
    return _rounded(quantity, value + sign * by)[0]


def _rounded(quantity: Quantity, value: float) -> tuple[str, float]:
    """A number as text, and what the text stands for."""
    if quantity.unit == SHARE:
        text = percent(value, 2)
        return text, parse_share(text)
    text = si(value, quantity.unit, _DIGITS)
    return text, parse(text, quantity.unit)
