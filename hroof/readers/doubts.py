"""What cannot be right in the launches of a file, and what a reader of them has to know."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hroof.errors import ProfileError
from hroof.readers.raw import Facts, Raw

if TYPE_CHECKING:
    import pandas as pd

_MAY_BE_NEGATIVE = ("device__", "launch__", "profiler__")
"""Settings and attributes; every other metric counts or measures something."""
_MANY = 3
"""The most names in one sentence."""


def doubted(raw: Raw) -> Raw:
    """The launches without impossible values, and the sentences about them and about their devices."""
    counters, negative = _without_negative(raw.counters)
    problems = (*raw.problems, *negative, *_kinds(raw))
    return dataclasses.replace(raw, counters=counters, problems=problems)


def check_same_devices(
    first: Sequence[Facts], other: Sequence[Facts], names: tuple[str, str]
) -> None:
    """Check that two files are of the same kinds of devices, as far as they tell.

    Args:
        first: Facts of the devices of one file.
        other: Facts of the devices of the other.
        names: The files.

    Raises:
        ProfileError: Each has a device of a kind that the other has not.
    """
    if _all_in(first, other) or _all_in(other, first):
        return
    mine, theirs = (
        next(facts for facts in own if not any(_alike(facts, known) for known in others))
        for own, others in ((first, other), (other, first))
    )
    raise ProfileError(
        f"{names[0]} is of {_name(mine)} and {names[1]} of {_name(theirs)}.",
        "Import them one by one.",
    )


def _all_in(some: Sequence[Facts], others: Sequence[Facts]) -> bool:
    return all(any(_alike(facts, known) for known in others) for facts in some) or not others


def _alike(one: Facts, other: Facts) -> bool:
    """Whether two devices can be of the same kind; what is not told differs from nothing."""
    pairs = ((one.get(key), other.get(key)) for key in ("name", "capability"))
    return all(not mine or not theirs or mine == theirs for mine, theirs in pairs)


def _name(facts: Facts) -> str:
    """What to call a kind of device."""
    capability = facts.get("capability")
    if not facts.get("name"):
        return f"a device of compute capability {capability}"
    return f"{facts['name']} ({capability})" if capability else str(facts["name"])


def _kinds(raw: Raw) -> Iterator[str]:
    """A sentence where the launches ran on devices of different kinds."""
    pairs = raw.launches[["device", "capability"]].drop_duplicates()
    found: dict[str, None] = {}
    kinds = set()
    for device, capability in pairs.itertuples(index=False):
        name = raw.devices.get(device, {}).get("name", "")
        kinds.add((str(capability), name))
        what = name or (f"compute capability {capability}" if capability else "unknown")
        found[f"{device} ({what})"] = None
    if len(kinds) > 1:
        yield (
            f"The launches ran on devices of different kinds: {', '.join(found)}. Ceilings are those of one of "
            "them; see each device by itself with: hroof report RUN --by device"
        )


def _without_negative(counters: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The counters with nothing in the place of negative values, and a sentence about these."""
    found = counters.columns[np.flatnonzero((counters.to_numpy() < 0).any(axis=0))]
    names = [str(name) for name in found if not str(name).startswith(_MAY_BE_NEGATIVE)]
    if not names:
        return counters, ()
    below = counters[names] < 0
    count = int(below.to_numpy().sum())
    some = ", ".join(names[:_MANY]) + (", …" if len(names) > _MANY else "")
    values = f"{count} values of {some} are" if count > 1 else f"A value of {some} is"
    told = "they are" if count > 1 else "it is"
    kept = counters.assign(**counters[names].mask(below))
    return kept, (f"{values} negative, which no count can be; {told} taken as missing.",)
