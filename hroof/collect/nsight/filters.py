"""NVTX filters of Nsight Compute: how names are escaped, and what an expression keeps.

The model is that of ``ncu --nvtx-include`` as versions 2022.3 and 2024.1 behave on reports, which is
more than their documentation says:

* without an unescaped ``/`` and without ``[`` in front or ``]`` behind, an expression names start/end
  ranges, several with commas between, all of which have to be open;
* otherwise it names push/pop ranges of the launching thread, outermost first: ``A/B`` directly inside one
  another, ``A/*/B`` with any number between, ``A/+/B`` with exactly one; ``[A`` is outermost, ``A]`` innermost;
* a name that is open twice in a stack counts once, at its first place;
* after ``regex:`` both the domain and the names are searched for, but every one of several push/pop
  names has to match as a whole; ``/[`` in front and ``/]`` behind are a plain ``[`` and ``]``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hroof.errors import UsageError

DEFAULT_DOMAIN = "<default domain>"
STEPS = "regex:^hroof$@^S"
"""Keeps what is launched within a captured step: process-wide start/end ranges of the domain ``hroof``."""

_REGEX = "regex:"
_SPECIAL = "@,[]/*+"
_QUANTIFIERS = ("*", "+")


class OpenRanges(Protocol):
    """The ranges that were open at a launch, each as (domain, name)."""

    @property
    def pushed(self) -> tuple[tuple[str, str], ...]:
        """Push/pop ranges of the launching thread, within each domain outermost first."""

    @property
    def started(self) -> tuple[tuple[str, str], ...]:
        """Start/end ranges of the process."""


def escape(name: str) -> str:
    """A name as a filter has to spell it.

    Raises:
        UsageError: It is empty; ncu cannot filter by ranges without a name.
    """
    if not name:
        raise UsageError(
            "An NVTX range without a name cannot be filtered.", "Give the range a name."
        )
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in name)


def started(name: str, domain: str = "") -> str:
    """The expression for one start/end range; several are several ``--nvtx-include``.

    Args:
        name: Of the range.
        domain: Its domain; by default the default domain.

    Raises:
        UsageError: The name is empty.
    """
    return f"{escape(domain)}@{escape(name)}" if domain else escape(name)


@dataclass(frozen=True)
class Filter:
    """What one expression keeps.

    Attributes:
        domain: Name of the domain, or what to search its name for.
        regex: Whether domain and names are regular expressions.
        names: The ranges, of a stack outermost first.
        between: For each name of a stack what may lie around it and within the one before: empty, ``*``, ``+``.
        inside: What has to lie within the last name of a stack: empty (anything), ``*``, ``+`` (exactly one).
        stack: Whether they are push/pop ranges.
        outermost: The first of them has nothing around it.
        innermost: The last of them has nothing inside.
    """

    domain: str
    regex: bool
    names: tuple[str, ...]
    between: tuple[str, ...] = ()
    inside: str = ""
    stack: bool = False
    outermost: bool = False
    innermost: bool = False

    def matches(self, ranges: OpenRanges) -> bool:
        """Whether a launch within these ranges is kept."""
        found = ranges.pushed if self.stack else ranges.started
        domains = {domain for domain, _ in found if self._same(self.domain, domain)}
        return any(
            self._holds([name for other, name in found if other == domain]) for domain in domains
        )

    def _holds(self, found: Sequence[str]) -> bool:
        """Whether the ranges of one domain are the wanted ones."""
        if self.stack:
            return self._in_stack(list(dict.fromkeys(found)))
        return all(any(self._same(name, other) for other in found) for name in self.names)

    def _in_stack(self, found: list[str]) -> bool:
        whole = len(self.names) > 1
        places = set(range(len(found)))
        for number, (name, between) in enumerate(zip(self.names, self.between, strict=True)):
            if number:
                places = _within(places, between, len(found))
            elif self.outermost:
                places = {0}
            places = {at for at in places if self._same(name, found[at], whole=whole)}
        last = len(found) - 1
        if self.innermost:
            return last in places
        return last - 1 in places if self.inside == "+" else bool(places)

    def _same(self, wanted: str, name: str, *, whole: bool = False) -> bool:
        if not self.regex:
            return wanted == name
        return (re.fullmatch if whole else re.search)(wanted, name) is not None


def _within(places: Iterable[int], between: str, length: int) -> set[int]:
    """Where a range may be that lies within one of those at the places."""
    if between == "*":
        return {inner for place in places for inner in range(place, length)}
    distance = 2 if between == "+" else 1
    return {place + distance for place in places if place + distance < length}


def matches(expression: str, ranges: OpenRanges) -> bool:
    """Whether ``ncu --nvtx-include EXPRESSION`` keeps a launch.

    Args:
        expression: As it is given to ncu.
        ranges: What was open at the launch.

    Raises:
        UsageError: ncu refuses the expression.
    """
    return parse(expression).matches(ranges)


def parse(expression: str) -> Filter:
    """What an expression keeps.

    Raises:
        UsageError: ncu refuses it.
    """
    body = expression.removeprefix(_REGEX)
    regex = body != expression
    *domain, names = _split(body, "@")
    if len(domain) > 1:
        raise _refused(expression, "an @ in a name needs a backslash")
    if not names or (domain == [""] and not regex):
        raise _refused(expression, "a domain or a name is empty")
    try:
        where = _plain(domain[0], regex) if domain else _default(regex)
        return _filter(expression, where, names, regex)
    except re.error as error:
        raise _refused(expression, f"{error.pattern!r} is no regular expression: {error}") from None


def _filter(expression: str, domain: str, text: str, regex: bool) -> Filter:
    text, outermost, innermost = _edges(text, regex)
    slashes = len(_split(text, "/")) > 1
    if not (slashes or outermost or innermost):
        names = tuple(_plain(name, regex) for name in _split(text, ","))
        return Filter(domain, regex, names)
    if len(_split(text, ",")) > 1:
        return _NOTHING
    names, between, inside = _steps(expression, text, regex)
    if inside and innermost:
        return _NOTHING
    return Filter(domain, regex, names, between, inside, True, outermost, innermost)


_NOTHING = Filter("", False, ("",))
"""For what ncu accepts without keeping anything: both kinds of ranges mixed, a quantifier that is to be innermost."""


def _edges(text: str, regex: bool) -> tuple[str, bool, bool]:
    """Take the marks of the outermost and the innermost range off."""
    if not regex:
        text = text.rstrip("/") + ("/" if text.endswith("/") else "")
        body = text.removesuffix("/")
        inner = body.endswith("]") and not body.endswith("\\]")
        outer = text.startswith("[")
        return (body[:-1] + "/" if inner else text)[outer:], outer, inner
    outer = text.startswith("[")
    inner = text.endswith("]") and not text.endswith(("/]", "\\]"))
    text = text[1:] if outer or text.startswith("/[") else text
    if text.endswith("/]"):
        text = f"{text[:-2]}]"
    return text.removesuffix("]") if inner else text, outer, inner


def _steps(expression: str, text: str, regex: bool) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """The names of a stack, what is allowed before each, and what within the last."""
    names: list[str] = []
    between: list[str] = []
    quantifier = ""  # of several in a row the last one counts
    for number, part in enumerate(_split(text, "/")):
        if not part and (number or not regex):
            continue
        if part in _QUANTIFIERS:
            if not names:
                raise _refused(expression, f"nothing is before the {part}")
            quantifier = part
            continue
        names.append(_plain(part, regex))
        between.append(quantifier)
        quantifier = ""
    if not names:
        raise _refused(expression, "it has no name")
    return tuple(names), tuple(between), quantifier


def _split(text: str, separator: str) -> list[str]:
    """Cut at a character wherever no backslash is before it."""
    return re.split(rf"(?<!\\){re.escape(separator)}", text)


def _plain(name: str, regex: bool) -> str:
    """A name without backslashes, or a regular expression that compiles.

    Raises:
        re.error: It does not.
    """
    if regex:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of Python's, about sets within sets
            re.compile(name)
        return name
    return re.sub(rf"\\([{re.escape(_SPECIAL)}])", r"\1", name)


def _default(regex: bool) -> str:
    return f"^{re.escape(DEFAULT_DOMAIN)}$" if regex else DEFAULT_DOMAIN


def _refused(expression: str, reason: str) -> UsageError:
    return UsageError(
        f"Nsight Compute refuses the NVTX filter {expression!r}: {reason}.",
        "A name is written with a backslash before each of @ , [ ] / * +.",
    )
