"""GPU chips: which there are, by compute capability or name, and what is certain about each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from hroof.errors import UsageError
from hroof.units import Pipe, Precision

_EVERY = "all"
_CUT_FP64 = 2.0
_NO_FP64 = re.compile(r"(?<!\w)(H800|H20)(?!\d)", re.IGNORECASE)

Pair = tuple[Pipe, Precision]


class Answer(StrEnum):
    """What the counters of a chip can say about the work in one (pipe, precision)."""

    EXACT = "exact"
    UPPER_BOUND = "upper bound"
    LOWER_BOUND = "lower bound"
    UNKNOWN = "unknown"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Chip:
    """One GPU chip, or a family of chips that have the same counters.

    Attributes:
        name: Name of the chip, e.g. ``GA100``; of a family that of its largest chip.
        capability: Compute capability, e.g. ``8.0``; empty where it is not known yet.
        matrix: It has matrix units (Tensor Cores).
        dram: It has DRAM counters; a chip that shares the memory of a CPU has none.
        constant_loads: Loads of constants are counted as half-precision FMAs (and run in the matrix unit), so that
            these counts are upper bounds.
        uniform: Part of the FP32 work may run in the uniform data path, which the counts leave out.
        ffma: FP32 FMA instructions per SM and clock; NaN where not known.
        dfma: FP64 FMA instructions per SM and clock; NaN where not known.
        l1: Bytes of L1 per SM and clock; NaN where not known.
        dense: FP16 matrix FLOP per SM and clock without structured sparsity; NaN where not known.
        full_rate: Every product with this chip reaches ``dense``, and the usual multiples of it in other formats.
    """

    name: str
    capability: str
    matrix: bool = True
    dram: bool = True
    constant_loads: bool = False
    uniform: bool = False
    ffma: float = float("nan")
    dfma: float = float("nan")
    l1: float = float("nan")
    dense: float = float("nan")
    full_rate: bool = False


@cache
def table() -> dict[str, Any]:
    """The data file ``metrics.toml``."""
    return tomllib.loads(files("hroof.counters").joinpath("metrics.toml").read_text("utf-8"))


@cache
def _all() -> dict[str, Chip]:
    return {name: _chip(name, facts) for name, facts in table()["chips"].items()}


def _chip(name: str, facts: Mapping[str, Any]) -> Chip:
    known = {key: value for key, value in facts.items() if key not in ("capabilities", "names")}
    return Chip(name, next(iter(facts["capabilities"]), ""), **known)


def chips() -> tuple[Chip, ...]:
    """Every chip that the table knows, oldest first."""
    return tuple(_all().values())


def chip(capability: str, name: str = "") -> Chip | None:
    """The chip of a device.

    Args:
        capability: Compute capability, e.g. ``8.0``.
        name: Name of the device, e.g. ``NVIDIA GeForce GTX 1660 SUPER``. Capability 7.5 has chips with and without
            matrix units, and some products of 9.0 have less FP64: only the name tells them apart.

    Returns:
        None where the capability is not in the table.
    """
    found = [one for one in chips() if capability in table()["chips"][one.name]["capabilities"]]
    if not found:
        return None
    named = _named(name)
    one = named if named in found else found[0]
    one = replace(one, capability=capability)
    if one.dfma > _CUT_FP64 and _NO_FP64.search(name) is not None:
        return replace(one, dfma=_CUT_FP64, full_rate=False)
    return one


def by_name(name: str) -> Chip:
    """The chip that a person names: a chip (``GA104``), a product (``V100``) or a device's whole name.

    Raises:
        UsageError: No chip or product of the table is in the name.
    """
    found = _named(name)
    if found is None:
        known = ", ".join(one.name for one in chips())
        raise UsageError(
            f"No chip is known by the name {name!r}.",
            f"Name a product such as V100 or RTX 3090, or one of the chips {known}.",
        )
    return chip(found.capability, name) or found


def _named(name: str) -> Chip | None:
    """The chip whose longest known name is in this one."""
    best, length = None, 0
    for one, facts in table()["chips"].items():
        for known in (one, *facts["names"]):
            if len(known) > length and _contains(name, known):
                best, length = one, len(known)
    return None if best is None else _all()[best]


def _contains(name: str, known: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(known)}(?!\d)", name, re.IGNORECASE) is not None


@cache
def work_metrics(one: Chip | None) -> dict[Pair, dict[str, float]]:
    """FLOP per count of each metric of a chip, by (pipe, precision).

    Without a chip, the metrics that every chip has.
    """
    found: dict[Pair, dict[str, float]] = {}
    for group in table()["work"]:
        if group["chips"] == _EVERY or (one is not None and one.name in group["chips"].split()):
            pair = Pipe(group["pipe"]), Precision(group["precision"])
            found.setdefault(pair, {}).update(group["metrics"])
    return found


def is_listed(where: str, one: Chip | None) -> bool:
    """Whether a list of chips, or ``all``, holds this one."""
    return where == _EVERY or (one is not None and one.name in where.split())


def answers(one: Chip) -> dict[Pair, Answer]:
    """What the counters of a chip can say about each (pipe, precision)."""
    counted = work_metrics(one)
    return {
        (pipe, precision): _answer(one, (pipe, precision), counted)
        for pipe in Pipe
        for precision in Precision
    }


_VECTOR_UNKNOWN = {
    Precision.BF16: 8.0,
    Precision.FP8: 8.9,
    Precision.FP4: 10.0,
    Precision.INT32: 0.0,
    Precision.INT8: 0.0,
}
"""Formats that vector units compute in without a count of operations, and the capability from which they do.

BF16 is counted together with FP16; of FP8 and FP4 only instructions are counted.
"""


def _answer(one: Chip, pair: Pair, counted: Mapping[Pair, object]) -> Answer:
    if pair == (Pipe.VECTOR, Precision.FP16) and one.constant_loads:
        return Answer.UPPER_BOUND
    if pair == (Pipe.VECTOR, Precision.FP32) and one.uniform:
        return Answer.LOWER_BOUND
    if pair in counted:
        return Answer.EXACT
    since = _VECTOR_UNKNOWN.get(pair[1]) if pair[0] is Pipe.VECTOR else None
    newest = not one.capability
    if since is not None and (newest or float(one.capability) >= since):
        return Answer.UNKNOWN
    return Answer.ABSENT
