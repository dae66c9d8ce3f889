"""Labels of kernels: short where that is enough to tell them apart."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from hroof.kernels import display_name, operation_name
from hroof.roofline import Point

KERNEL = "kernel"


def labels(kernels: Iterable[str]) -> dict[str, str]:
    """A telling name of each kernel if no other of them has the same; else the whole name."""
    short = {name: _label(name) for name in kernels}
    times = Counter(short.values())
    return {name: text if times[text] == 1 else name for name, text in short.items()}


def _label(name: str) -> str:
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
