"""Labels of kernels, short where that is enough to tell them apart; labels and groups of points on a chart."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hroof.kernels import display_name, family, op_family, operation_name
from hroof.roofline import Point

KERNEL = "kernel"
_OTHER = "other"


def labels(kernels: Iterable[str]) -> dict[str, str]:
    """A telling name of each kernel if no other of them has the same; else the whole name."""
    short = {name: telling(name) for name in kernels}
    times = Counter(short.values())
    return {name: text if times[text] == 1 else name for name, text in short.items()}


def telling(name: str) -> str:
    """``vectorized_elementwise_kernel (FillFunctor)``; without the bracket where the name says it all."""
    operation = operation_name(name)
    return f"{display_name(name)} ({operation})" if operation else display_name(name) or name


def labelled(points: Sequence[Point]) -> list[Point]:
    """Points whose kernels have labels instead of full names; others as they are."""
    short = labels(point.key[KERNEL] for point in points if KERNEL in point.key)
    return [
        dataclasses.replace(point, key={**point.key, KERNEL: short[point.key[KERNEL]]})
        if KERNEL in point.key
        else point
        for point in points
    ]


def label_of(key: Mapping[str, str]) -> str:
    """What a chart calls a point of these grouping keys: its layer, kernel or op, else its first key."""
    named = key.get("layer") or telling(key.get(KERNEL) or "") or key.get("op")
    return named or next((value for value in key.values() if value), "")


def group_of(key: Mapping[str, str]) -> str:
    """What gives a point its colour: its phase, else the outermost layer, else the kind of work."""
    if "phase" in key:
        return key["phase"] or _OTHER
    path = next((key[name] for name in key if name in ("layer", "block") or "depth" in name), None)
    if path is not None:
        return (path or _OTHER).split(".", 1)[0]
    if "family" in key:
        return key["family"] or _OTHER
    kinds = [family(key[KERNEL])] if key.get(KERNEL) else []
    kinds += [op_family(key["op"])] if key.get("op") else []
    return next((str(kind) for kind in kinds if kind != _OTHER), _OTHER)


def within(paths: Sequence[str], most: int) -> list[str]:
    """The groups of layers that all lie in one outermost layer: their components below what is common to all.

    Args:
        paths: Layer paths.
        most: How many groups can be told apart; with more of them all stay in one.

    Returns:
        For each path its group, e.g. ``model.encoder`` and ``model.head``.
    """
    parts = [path.split(".") for path in paths]
    depth = 0
    while len({tuple(part[: depth + 1]) for part in parts}) == 1 and depth < max(map(len, parts)):
        depth += 1
    groups = [".".join(part[: depth + 1]) for part in parts]
    return groups if len(set(groups)) <= most else [".".join(part[:1]) for part in parts]
