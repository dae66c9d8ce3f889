"""Files that hold different metrics of one program, run once per metric or set of metrics.

Where every file has the same kernels in the same order, the rows are launches and are joined by their
order. Where only the number of launches of each kernel agrees, a row of one file cannot be matched to
one of another: what is left are sums per kernel. Rates are means then, of which a time is made as the
authors of arXiv 2009.05257 do: the sum of cycles over the mean of the clock.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hroof.errors import ProfileError
from hroof.readers.doubts import check_same_devices
from hroof.readers.ncu_csv import values
from hroof.readers.ncu_csv.launches import Part, Places, alike, is_text
from hroof.readers.ncu_csv.summed import is_additive
from hroof.readers.raw import IDENTITY, Ranges

if TYPE_CHECKING:
    import pandas as pd

Key = tuple[str, int]
"""A kernel and the place of an NVTX state, -1 where launches are not kept apart by it."""

_SHAPE = ("grid", "block")


def joined(parts: Sequence[Part]) -> Part:
    """One part of several that hold different metrics.

    Raises:
        ProfileError: They are no parts of one whole: the same metrics, no kernel in common, or devices of
            different kinds.
    """
    if len(parts) == 1:
        return parts[0]
    for part in parts[1:]:
        kinds = [list(one.devices.values()) for one in (parts[0], part)]
        check_same_devices(kinds[0], kinds[1], (parts[0].names[0], part.names[0]))
    parts, doubled = _without_doubles([_with_categories(part) for part in parts])
    parts = _shared_ranges(parts)
    if len(parts) == 1:
        whole = parts[0]
    elif _same_order(parts):
        whole = _by_order(parts)
    else:
        whole = _by_name(parts)
    problems = [
        *doubled,
        *(problem for part in parts for problem in part.problems),
        *whole.problems,
    ]
    return dataclasses.replace(
        whole,
        names=tuple(name for part in parts for name in part.names),
        problems=tuple(dict.fromkeys(problems)),
        incomplete=any(part.incomplete for part in parts),
    )


# --- what belongs together ----------------------------------------------------------------------


def _with_categories(part: Part) -> Part:
    """The part with its texts as categories, which tables below one another have not kept."""
    texts = [
        name
        for name in ("kernel", "capability", *_SHAPE)
        if part.launches[name].dtype != "category"
    ]
    if not texts:
        return part
    return dataclasses.replace(
        part, launches=part.launches.astype(dict.fromkeys(texts, "category"))
    )


def _without_doubles(parts: Sequence[Part]) -> tuple[list[Part], list[str]]:
    """The parts, a metric only in the first that has it; a sentence where values differ."""
    kept: list[Part] = []
    seen: dict[str, Part] = {}
    said = []
    for part in parts:
        twice = [name for name in part.counters if name in seen]
        if twice and len(twice) == part.counters.shape[1]:
            raise ProfileError(
                f"{part.names[0]} has no metric that {seen[twice[0]].names[0]} has not.",
                "These are runs of their own, not parts of one; import each by itself.",
            )
        if twice:
            what = f"{len(twice)} metrics ({twice[0]}, …) are" if twice[1:] else f"{twice[0]} is"
            said.append(
                f"{what} in several files; the values of {seen[twice[0]].names[0]} are used."
            )
            part = dataclasses.replace(part, counters=part.counters.drop(columns=twice))
        kept.append(part)
        seen |= dict.fromkeys(map(str, part.counters), part)
    return kept, said


def _shared_ranges(parts: Sequence[Part]) -> list[Part]:
    """The parts, with the places of NVTX states in one list for all."""
    places: dict[Ranges, int] = {}
    maps = [[places.setdefault(state, len(places)) for state in part.ranges] for part in parts]
    states = tuple(places)
    if not states:
        return list(parts)
    return [
        dataclasses.replace(
            part,
            ranges=states,
            launches=part.launches.assign(ranges=_mapped(part.launches["ranges"], places)),
        )
        for part, places in zip(parts, maps, strict=True)
    ]


def _mapped(column: pd.Series[int], places: Sequence[int]) -> Any:
    return np.array([*places, -1])[column.to_numpy()]


# --- by order -----------------------------------------------------------------------------------


def _same_order(parts: Sequence[Part]) -> bool:
    """Whether all parts have the same kernels in the same order, and the same shapes where they say them."""
    first = parts[0].launches
    if any(part.launches["aggregate"].any() for part in parts):
        return False
    for part in parts[1:]:
        other = part.launches
        if len(other) != len(first) or not alike(first["kernel"], other["kernel"]).all():
            return False
        mine, theirs = first["ranges"].to_numpy(), other["ranges"].to_numpy()
        if ((mine >= 0) & (theirs >= 0) & (mine != theirs)).any():
            return False
        if any(_differs(first[name], other[name]) for name in _SHAPE):
            return False
    return True


def _differs(one: pd.Series[Any], other: pd.Series[Any]) -> bool:
    same = alike(one, other)
    return not bool(same.all() or (same | is_text(one, "") | is_text(other, "")).all())


def _by_order(parts: Sequence[Part]) -> Part:
    import pandas as pd

    told = next((p for p in parts if (p.launches["ranges"] >= 0).any()), parts[0])
    launches = parts[0].launches.assign(ranges=told.launches["ranges"])
    for name in (*_SHAPE, "capability"):
        full = (p.launches[name] for p in parts if not is_text(p.launches[name], "").any())
        launches[name] = next(full, launches[name])
    counters = pd.concat([part.counters for part in parts], axis=1)
    sentence: tuple[str, ...] = ()
    numbers = [part.launches["id"].to_numpy() for part in parts]
    if not all(np.array_equal(own, numbers[0]) for own in numbers):
        sentence = (
            "The numbers of launches differ between the files; they were joined by their order.",
        )
    return dataclasses.replace(
        parts[0],
        launches=launches,
        counters=counters,
        devices=next((part.devices for part in parts if part.devices), {}),
        problems=sentence,
    )


# --- by name ------------------------------------------------------------------------------------


def _by_name(parts: Sequence[Part]) -> Part:
    """Sums per kernel, and per NVTX state where every file has them."""
    import pandas as pd

    by_range = all((part.launches["ranges"] >= 0).all() for part in parts)
    groups: dict[Key, int] = {}
    codes = [_codes(part.launches, by_range, groups) for part in parts]
    weights = [part.launches["launches"].to_numpy() for part in parts]
    size = len(groups)
    counts = np.array([np.bincount(c, w, size) for c, w in zip(codes, weights, strict=True)])
    _check_common(parts, counts)
    usual = np.array([Counter(own[own > 0].tolist()).most_common(1)[0][0] for own in counts.T])
    counters = {}
    for part, code, weight, count in zip(parts, codes, weights, counts, strict=True):
        for name in map(str, part.counters):
            column, adds = part.counters[name].to_numpy(), is_additive(name)
            total = np.bincount(code, column if adds else column * weight, size)
            counters[name] = np.where(count == usual, total if adds else total / usual, np.nan)
    odd = [
        key for key, own, most in zip(groups, counts.T, usual, strict=True) if (own != most).any()
    ]
    launches = _described(parts, codes, list(groups))
    return dataclasses.replace(
        parts[0],
        launches=launches.assign(launches=usual, aggregate=True, id=-1),
        counters=pd.DataFrame(counters),
        problems=(_sentence(parts, odd),),
    )


def _codes(frame: pd.DataFrame, by_range: bool, groups: dict[Key, int]) -> Places:
    """The group of each row; new groups are added in order of appearance."""
    kernels: list[str] = frame["kernel"].cat.categories.tolist()
    own = frame["kernel"].cat.codes.to_numpy().astype(np.intp)
    ranges = frame["ranges"].to_numpy() if by_range else np.zeros(len(frame), np.int64)
    whole = own * (int(ranges.max(initial=0)) + 1) + ranges
    _, firsts, inverse = np.unique(whole, return_index=True, return_inverse=True)
    places = np.zeros(len(firsts), np.intp)
    for at in np.argsort(firsts):
        row = firsts[at]
        key = (kernels[own[row]], int(ranges[row]) if by_range else -1)
        places[at] = groups.setdefault(key, len(groups))
    return places[inverse]


def _described(
    parts: Sequence[Part], codes: Sequence[Places], groups: Sequence[Key]
) -> pd.DataFrame:
    """What the launches of each group have in common, by the first part that has the group."""
    import pandas as pd

    names = [name for name in IDENTITY if name not in ("kernel", "ranges", "launches", "aggregate")]
    kinds = {name: object if isinstance(IDENTITY[name], str) else np.int64 for name in names}
    found: dict[str, NDArray[Any]] = {
        name: np.full(len(groups), IDENTITY[name], kind) for name, kind in kinds.items()
    }
    missing = np.ones(len(groups), bool)
    for part, code in zip(parts, codes, strict=True):
        first = np.zeros(len(groups), np.intp)
        first[code[::-1]] = np.arange(len(code))[::-1]
        new = missing & (np.bincount(code, minlength=len(groups)) > 0)
        for name in names if new.any() else ():
            own, values = pd.factorize(part.launches[name])
            shared = np.bincount(code, own != own[first][code], len(groups)) == 0
            take = new & shared
            found[name][take] = np.asarray(values)[own[first[take]]]
        missing &= ~new
    kernels, ranges = zip(*groups, strict=True)
    return pd.DataFrame({"kernel": kernels, **found, "ranges": ranges})


def _check_common(parts: Sequence[Part], counts: values.Floats) -> None:
    for part, own in zip(parts[1:], counts[1:], strict=True):
        if not ((own > 0) & (counts[0] > 0)).any():
            raise ProfileError(
                f"{parts[0].names[0]} and {part.names[0]} have no kernel in common.",
                "They are of different programs; import each by itself.",
            )


def _sentence(parts: Sequence[Part], odd: Sequence[Key]) -> str:
    """What a reader of sums has to know."""
    count = len(parts)
    if not odd:
        return (
            f"The order of launches differs between the {count} files, so that only sums per kernel are right: "
            "no order, no steps, no bound of one launch."
        )
    named = [kernel for kernel, _ in odd]
    some = ", ".join(name[:60] for name in list(Counter(named))[:3])
    kernels = f"{len(named)} kernels are" if len(named) > 1 else "1 kernel is"
    return (
        f"The {count} files do not have the same launches: {kernels} in some more or less often "
        f"({some}{', …' if len(named) > 3 else ''}). Only sums per kernel are given, and where the files do not "
        "agree only the metrics of those that do."
    )
