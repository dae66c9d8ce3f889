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

from hroof.errors import ProfileError
from hroof.readers.ncu_csv.launches import Part, Places
from hroof.readers.ncu_csv.summed import is_additive
from hroof.readers.raw import IDENTITY, Ranges

if TYPE_CHECKING:
    import pandas as pd

_SHAPE = ("grid", "block")


def joined(parts: Sequence[Part]) -> Part:
    """One part of several that hold different metrics.

    Raises:
        ProfileError: They are no parts of one whole: the same metrics, or no kernel in common.
    """
    if len(parts) == 1:
        return parts[0]
    parts, doubled = _without_doubles([_with_all_columns(part) for part in parts])
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


def _with_all_columns(part: Part) -> Part:
    missing = {name: value for name, value in IDENTITY.items() if name not in part.launches}
    return dataclasses.replace(part, launches=part.launches.assign(**missing))


def _without_doubles(parts: Sequence[Part]) -> tuple[list[Part], list[str]]:
    """The parts, a metric only in the first that has it; a sentence where values differ."""
    kept: list[Part] = []
    said = []
    for part in parts:
        seen = {name: earlier for earlier in kept for name in earlier.counters}
        twice = [name for name in part.counters if name in seen]
        if twice and len(twice) == part.counters.shape[1]:
            raise ProfileError(
                f"{part.names[0]} has no metric that {seen[twice[0]].names[0]} has not.",
                "These are runs of their own, not parts of one; import each by itself.",
            )
        if twice:
            said.append(
                f"{len(twice)} metrics ({twice[0]}, …) are in several files; those of "
                f"{seen[twice[0]].names[0]} are used."
            )
        kept.append(dataclasses.replace(part, counters=part.counters.drop(columns=twice)))
    return kept, said


def _shared_ranges(parts: Sequence[Part]) -> list[Part]:
    """The parts, with the places of NVTX states in one list for all."""
    places: dict[Ranges, int] = {}
    maps = [[places.setdefault(state, len(places)) for state in part.ranges] for part in parts]
    states = tuple(places)
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
        if len(other) != len(first) or bool((other["kernel"] != first["kernel"]).any()):
            return False
        if any(_differs(first[name], other[name]) for name in (*_SHAPE, "ranges")):
            return False
    return True


def _differs(one: pd.Series[Any], other: pd.Series[Any]) -> bool:
    known = ~one.isin(["", -1]) & ~other.isin(["", -1])
    return bool((one[known] != other[known]).any())


def _by_order(parts: Sequence[Part]) -> Part:
    import pandas as pd

    told = next((p for p in parts if (p.launches["ranges"] >= 0).any()), parts[0])
    launches = parts[0].launches.assign(ranges=told.launches["ranges"])
    for part in parts[1:]:
        for name in (*_SHAPE, "capability"):
            empty = launches[name] == ""
            launches.loc[empty, name] = part.launches.loc[empty, name]
    counters = pd.concat([part.counters for part in parts], axis=1)
    sentence: tuple[str, ...] = ()
    if any(part.launches["id"].tolist() != parts[0].launches["id"].tolist() for part in parts):
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

    keys = (
        ["kernel", "ranges"]
        if all((p.launches["ranges"] >= 0).all() for p in parts)
        else ["kernel"]
    )
    groups = [_grouped(part, keys) for part in parts]
    counts = pd.concat([group.launches["launches"] for group in groups], axis=1)
    _check_common(parts, counts)
    usual = counts.mode(axis=1)[0]
    odd = counts.ne(usual, axis=0)
    columns = []
    for at, group in enumerate(groups):
        column = group.counters.reindex(usual.index)
        column.loc[odd.iloc[:, at].to_numpy()] = np.nan
        columns.append(column)
    launches = _first_known([group.launches for group in groups], usual.index)
    launches = launches.assign(launches=usual.to_numpy(), aggregate=True, id=-1).reset_index()
    counters = pd.concat(columns, axis=1).reset_index(drop=True)
    problems = (_sentence(parts, odd.any(axis=1)),)
    return dataclasses.replace(parts[0], launches=launches, counters=counters, problems=problems)


@dataclasses.dataclass(frozen=True)
class _Group:
    launches: pd.DataFrame
    counters: pd.DataFrame


def _grouped(part: Part, keys: list[str]) -> _Group:
    """Sums and means of a part by kernel; the index is the keys."""
    import pandas as pd

    frame = part.launches
    codes, first = _codes(frame, keys)
    several = frame["launches"].to_numpy()
    weight = np.bincount(codes, several)
    counters = {}
    for name in map(str, part.counters):
        column = part.counters[name].to_numpy()
        adds = is_additive(name)
        total = np.bincount(codes, column if adds else column * several)
        counters[name] = total if adds else total / weight
    described = {}
    for name in frame.columns.difference([*keys, "launches", "aggregate", "id"]):
        own, values = pd.factorize(frame[name])
        alike = np.bincount(codes, own != own[first][codes]) == 0
        described[name] = np.where(alike, values[own[first]], IDENTITY[name])
    index = (
        pd.MultiIndex.from_frame(frame.loc[first, keys]) if len(keys) > 1 else frame[keys[0]][first]
    )
    launches = pd.DataFrame(described, index=index).assign(launches=weight)
    return _Group(launches, pd.DataFrame(counters, index=launches.index))


def _codes(frame: pd.DataFrame, keys: list[str]) -> tuple[Places, Places]:
    """The group of each row, in order of appearance; and the first row of each group."""
    import pandas as pd

    codes = np.zeros(len(frame), np.intp)
    for key in keys:
        own, values = pd.factorize(frame[key])
        codes, _ = pd.factorize(codes * len(values) + own)
    return codes, np.unique(codes, return_index=True)[1]


def _first_known(frames: Sequence[pd.DataFrame], index: pd.Index[Any]) -> pd.DataFrame:
    whole = frames[0].reindex(index)
    for frame in frames[1:]:
        whole = whole.fillna(frame.reindex(index))
    return whole.astype(frames[0].dtypes.to_dict())


def _check_common(parts: Sequence[Part], counts: pd.DataFrame) -> None:
    for part, column in zip(parts[1:], range(1, counts.shape[1]), strict=True):
        if not counts.iloc[:, [0, column]].notna().all(axis=1).any():
            raise ProfileError(
                f"{parts[0].names[0]} and {part.names[0]} have no kernel in common.",
                "They are of different programs; import each by itself.",
            )


def _sentence(parts: Sequence[Part], odd: pd.Series[bool]) -> str:
    """What a reader of sums has to know."""
    count = len(parts)
    if not odd.any():
        return (
            f"The order of launches differs between the {count} files, so that only sums per kernel are right: "
            "no order, no steps, no bound of one launch."
        )
    named = [key if isinstance(key, str) else key[0] for key in odd.index[odd]]
    some = ", ".join(name[:60] for name in list(Counter(named))[:3])
    return (
        f"The {count} files do not have the same launches: {len(named)} kernels are in some more or less often "
        f"({some}{', …' if len(named) > 3 else ''}). Only sums per kernel are given, and of these kernels only "
        "the metrics of the files that agree."
    )
