"""Budget: limits for numbers of a run, read from TOML or from a mapping of the same form."""

from __future__ import annotations

import contextlib
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any

from hroof.budgets.quantities import QUANTITIES, SHARE, Quantity
from hroof.budgets.subjects import KEYS, Scope, matches
from hroof.errors import UsageError
from hroof.units import Phase, parse, parse_share

STEP = "step"
TOGETHER = "together"
TOLERANCE = "tolerance"
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Kind(StrEnum):
    """What a limit asks for."""

    MAX = "max"
    MIN = "min"
    EQUALS = "equals"
    RISE = "rise"
    FALL = "fall"

    @property
    def relative(self) -> bool:
        """Whether it is held against a baseline run."""
        return self in (Kind.RISE, Kind.FALL)


@dataclass(frozen=True)
class Limit:
    """What one number may be.

    Attributes:
        scope: Which launches it is about.
        quantity: Which number of them.
        kind: ``max``, ``min`` or ``equals``; with a baseline run ``rise`` and ``fall``.
        value: In base units; of ``rise`` and ``fall`` the share of the baseline's value, of shares of one the
            difference to it.
        tolerance: Share of the value by which it may be missed.
        where_known: It counts only where the baseline knows the number.
    """

    scope: Scope
    quantity: Quantity
    kind: Kind
    value: float
    tolerance: float = 0.0
    where_known: bool = False


@dataclass(frozen=True)
class Budget:
    """Limits.

    Attributes:
        limits: In the order of the file.
        name: Of the file, for messages.
    """

    limits: tuple[Limit, ...]
    name: str = "budget"

    @property
    def relative(self) -> bool:
        """Whether a limit needs a baseline run."""
        return any(limit.kind.relative for limit in self.limits)

    @property
    def ceilings(self) -> bool:
        """Whether a limit needs the ceilings of the machine."""
        return any(limit.quantity.ceilings and not limit.where_known for limit in self.limits)

    @classmethod
    def load(cls, path: str | Path) -> Budget:
        """Read a TOML file.

        Raises:
            UsageError: It is absent, no TOML, or holds something else than limits.
        """
        path = Path(path)
        try:
            # Editors may put a byte order mark in front.
            data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise UsageError(f"{str(path)!r} does not exist.", "Give a budget file.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{str(path)!r} cannot be read: {error}.", "Give a TOML file."
            ) from error
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise UsageError(
                f"{str(path)!r} is no TOML: {str(error).rstrip('.')}.",
                "See https://toml.io for its form.",
            ) from error
        return cls.read(data, name=str(path))

    @classmethod
    def read(cls, data: Mapping[str, Any], *, name: str = "budget") -> Budget:
        """Read a mapping such as ``{"step": {"time": {"max": "20 ms"}}}``.

        Args:
            data: What a budget file holds.
            name: For messages.

        Raises:
            UsageError: It holds something else than limits, or none at all.
        """
        limits = tuple(_Reader(name).limits(data))
        if not limits:
            raise UsageError(
                f"{name} holds no limit.", 'Write e.g. [step] and time = { max = "20 ms" }.'
            )
        return cls(limits, name)


def losses(tolerance: float) -> Budget:
    """What may not become worse than in a baseline run: what both know of the step as a whole.

    Args:
        tolerance: Share of the baseline's value; of shares of one the difference.
    """
    names = (
        "time", "wall", "headroom", "launches", "flop", "bytes_l1", "bytes_l2", "bytes_l3", "bytes_dram",
        "peak_memory", "peak_device_memory", "share_zero_flop", "share_unattributed", "share_with_flop",
    )  # fmt: skip
    limits = [
        Limit(
            Scope(),
            QUANTITIES[name],
            Kind.RISE if QUANTITIES[name].more == "worse" else Kind.FALL,
            tolerance,
            where_known=True,
        )
        for name in names
    ]
    return Budget(tuple(limits), f"baseline ± {100 * tolerance:.4g} %")


class _Reader:
    """Reads the tables of one budget; errors say in which table, and what would fit."""

    def __init__(self, name: str) -> None:
        self._name = name

    def limits(self, data: Mapping[str, Any]) -> Iterator[Limit]:
        for key, table in data.items():
            if key == STEP:
                yield from self._scope(Scope(), self._table(table, (key,)), (key,))
            elif key in KEYS:
                for pattern, inner in self._table(table, (key,)).items():
                    place = (key, pattern)
                    self._check_phase(Scope(key, pattern))
                    yield from self._scope(Scope(key, pattern), self._table(inner, place), place)
            else:
                raise self._unknown("table", key, (STEP, *KEYS), ())

    def _check_phase(self, scope: Scope) -> None:
        """Of phases all names are known: one that can match none is a typing error."""
        if scope.key == "phase" and not any(matches(str(phase), scope) for phase in Phase):
            raise self._unknown("phase", scope.pattern, [*map(str, Phase)], (scope.key,))

    def _scope(
        self, scope: Scope, table: Mapping[str, Any], place: tuple[str, ...]
    ) -> Iterator[Limit]:
        together = self._together(scope, table, place)
        scope = Scope(scope.key, scope.pattern, scope.phase, together or scope.together)
        phases = () if scope.phase or scope.key in ("", "phase") else tuple(map(str, Phase))
        for key, value in table.items():
            if key == TOGETHER:
                continue
            inside = (*place, key)
            if key in phases:
                part = Scope(scope.key, scope.pattern, key, scope.together)
                yield from self._scope(part, self._table(value, inside), inside)
            else:
                quantity = self._quantity(scope, key, value, place)
                yield from self._quantity_limits(scope, quantity, value, inside)

    def _together(self, scope: Scope, table: Mapping[str, Any], place: tuple[str, ...]) -> bool:
        value = table.get(TOGETHER, False)
        if not isinstance(value, bool):
            raise self._wrong(place, f"{TOGETHER} is {value!r}.", "Write true or false.")
        if value and not scope.key:
            raise self._wrong(place, "a step is one thing already.", f"Leave {TOGETHER} out.")
        return value

    def _quantity(self, scope: Scope, name: str, value: Any, place: tuple[str, ...]) -> Quantity:
        quantity = QUANTITIES.get(name)
        if quantity is None:
            known = [one.name for one in QUANTITIES.values() if not (one.whole and scope.key)]
            if scope.key and isinstance(value, Mapping) and not _is_limit(value):
                dotted = f'[{scope.key}."{scope.pattern}.{name}"]'
                raise self._wrong(
                    place,
                    f"there is no quantity {name!r}.",
                    f"Names with dots need quotes: {dotted}.",
                )
            raise self._unknown("quantity", name, known, place)
        if quantity.whole and scope.key:
            remedy = f"Move it to [{STEP}]."
            raise self._wrong(place, f"{name} is known of the whole step only.", remedy)
        return quantity

    def _quantity_limits(
        self, scope: Scope, quantity: Quantity, value: Any, place: tuple[str, ...]
    ) -> Iterator[Limit]:
        if not isinstance(value, Mapping):
            raise self._wrong(
                place, f"{value!r} is no limit.", f"Write e.g. {quantity.name} = {{ max = … }}."
            )
        kinds = [key for key in value if key != TOLERANCE]
        tolerance = self._tolerance(value, place)
        for key in kinds:
            if key not in [*Kind]:
                raise self._unknown("limit", key, (*map(str, Kind), TOLERANCE), place)
            kind = Kind(key)
            number = self._value(quantity, kind, value[key], (*place, key))
            yield Limit(scope, quantity, kind, number, 0.0 if kind.relative else tolerance)
        self._check_kinds(kinds, value, place)

    def _check_kinds(
        self, kinds: list[str], value: Mapping[str, Any], place: tuple[str, ...]
    ) -> None:
        known = ", ".join(map(str, Kind))
        if not kinds:
            raise self._wrong(place, "there is no limit in it.", f"Give one of {known}.")
        if Kind.EQUALS in kinds and len(kinds) > 1:
            raise self._wrong(
                place, "equals stands beside another limit.", "Leave one of them out."
            )
        if TOLERANCE in value and all(Kind(kind).relative for kind in kinds):
            raise self._wrong(
                place,
                f"{TOLERANCE} stands beside {kinds[0]}.",
                f"{kinds[0]} is a tolerance itself.",
            )

    def _tolerance(self, value: Mapping[str, Any], place: tuple[str, ...]) -> float:
        if TOLERANCE not in value:
            return 0.0
        return self._share(value[TOLERANCE], (*place, TOLERANCE))

    def _value(self, quantity: Quantity, kind: Kind, value: Any, place: tuple[str, ...]) -> float:
        if kind.relative or quantity.unit == SHARE:
            return self._share(value, place)
        return self._number(value, quantity.unit, place)

    def _share(self, value: Any, place: tuple[str, ...]) -> float:
        """A share of one, 0 or more."""
        if not isinstance(value, str):
            value = f"{self._plain(value, place):.17g}"
        try:
            share = parse_share(value)
        except UsageError as error:
            raise self._wrong(place, error.fact, error.remedy) from None
        return self._not_negative(share, place)

    def _number(self, value: Any, unit: str, place: tuple[str, ...]) -> float:
        """A quantity in base units, 0 or more."""
        if not isinstance(value, str):
            return self._not_negative(self._plain(value, place), place)
        try:
            number = parse(value, unit)
        except UsageError as error:
            raise self._wrong(place, error.fact, error.remedy) from None
        return self._not_negative(number, place)

    def _plain(self, value: Any, place: tuple[str, ...]) -> float:
        number = math.nan
        if isinstance(value, int | float) and not isinstance(value, bool):
            with contextlib.suppress(OverflowError):  # a whole number with hundreds of digits
                number = float(value)
        if not math.isfinite(number):
            remedy = "Write a finite number, or a number with its unit in quotes."
            raise self._wrong(place, f"{str(value)[:40]!r} is no number.", remedy)
        return number

    def _not_negative(self, value: float, place: tuple[str, ...]) -> float:
        if value < 0:
            raise self._wrong(place, f"{value!r} is below 0.", "No such number can be.")
        return value

    def _table(self, value: Any, place: tuple[str, ...]) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        remedy = f"Write [{_path(place)}] and the limits below it."
        raise self._wrong(place, f"{value!r} is no table.", remedy)

    def _unknown(
        self, what: str, name: str, known: tuple[str, ...] | list[str], place: tuple[str, ...]
    ) -> UsageError:
        close = get_close_matches(name, known, 1)
        remedy = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(known)}."
        return self._wrong(place, f"there is no {what} {name!r}.", remedy)

    def _wrong(self, place: tuple[str, ...], fact: str, remedy: str) -> UsageError:
        where = f"{self._name}, [{_path(place)}]" if place else self._name
        return UsageError(f"{where}: {fact}", remedy)


def _is_limit(value: Mapping[str, Any]) -> bool:
    """Whether a table holds limits, so that its key was meant as a quantity."""
    return any(key in [*Kind, TOLERANCE] for key in value)


def _path(place: tuple[str, ...]) -> str:
    """The header of a table, harmless whatever the names hold."""
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part) for part in place)
