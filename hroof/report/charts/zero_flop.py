"""Launches without FLOP within groups that have FLOP: copies, casts and layout changes of a layer, for the strip."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hroof.machine import Machine
from hroof.report.scene import ZERO_FLOP, Spot, drawable, spot
from hroof.roofline import Point, captured, points
from hroof.roofline.bounds import flop_known, has_work

if TYPE_CHECKING:
    from hroof.profile import Profile

WITHOUT = " · without FLOP"


def zero_flop_spots(
    profile: Profile, machine: Machine | None, by: Sequence[str], shown: Sequence[Point]
) -> list[Spot]:
    """The part of each group that computes nothing; its time is in the group's own marker, too.

    Args:
        profile: What was collected.
        machine: Its ceilings, or None.
        by: Grouping keys.
        shown: The groups by these keys.

    Returns:
        Spots for the strip, of groups that have FLOP and launches that only move bytes; groups without any FLOP are in
        it themselves.
    """
    partly = {
        tuple(point.key.values())
        for point in shown
        if point.total_flop > 0 and point.zero_flop_launches > 0
    }
    if not partly:
        return []
    launches = captured(profile.launches)
    rows = launches[flop_known(launches) & ~has_work(launches)]
    found = points(dataclasses.replace(profile, launches=rows), machine, by)
    spots = [spot(point) for point in found if tuple(point.key.values()) in partly]
    return [
        dataclasses.replace(one, name=f"{one.name}{WITHOUT}", missing=ZERO_FLOP)
        for one in spots
        if any(map(drawable, one.byte_rate.values()))
    ]
