"""Marks as NVTX ranges in the domain ``hroof``: what a tool outside the process sees of a program.

Regions, steps and phases are process-wide ranges, because backward launches from threads of its
own; layers are ranges of the launching thread. A message has the fields ``id|p=phase|r=1|name``, of
which the middle ones are left out when they say nothing:

    S2|6    P3|backward    L12|p=backward|blocks.3.attn.qkv    L12|p=forward|r=1|blocks.3.attn.qkv

The id is the kind's letter and a number that belongs to the name. Characters that an NVTX filter
or a CSV table would trip over are written as the bytes of their UTF-8 form, ``=2F`` for a slash. A
name that is too long is cut at its front and begins with a digest of the whole, ``=.1a2b3c4d.``.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import os
import re
import threading
import warnings
from collections.abc import Mapping
from typing import Any

from hroof.errors import ProfileError
from hroof.regions import HroofWarning, Kind, Mark

DOMAIN = "hroof"
LETTERS = {Kind.REGION: "R", Kind.STEP: "S", Kind.PHASE: "P", Kind.LAYER: "L"}
"""What the id of a kind begins with."""
LONGEST = 120
"""The most characters that a message has."""
INJECTION = "NVTX_INJECTION64_PATH"
"""The environment variable by which a tool hands its library to NVTX."""

_LONGEST_PHASE = 32
_PLAIN = re.compile(r"[A-Za-z0-9_.\-]")
_CUT = re.compile(r"=\.([0-9a-f]{8})\.(.*)")
_MESSAGE = re.compile(
    r"(?P<letter>[RSPL])[1-9][0-9]{0,8}(?:\|p=(?P<phase>[\w.=\-]+))?(?P<recompute>\|r=1)?\|(?P<name>[\w.=\-]*)",
    re.ASCII,
)
_NO_INJECTION = ("", "./.")  # set, but on purpose to nothing

_log = logging.getLogger("hroof")


# --- messages -----------------------------------------------------------------------------------


def _escape(character: str) -> str:
    if _PLAIN.fullmatch(character):
        return character
    return "".join(f"={byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _encode(text: str, room: int) -> str:
    """Text in the allowed characters; where it is too long, its end behind a digest."""
    pieces = [_escape(character) for character in text]
    if sum(map(len, pieces)) <= room:
        return "".join(pieces)
    digest = hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    head = f"=.{digest}."
    lengths = itertools.accumulate(map(len, reversed(pieces)))
    kept = sum(length <= room - len(head) for length in lengths)
    return head + "".join(pieces[len(pieces) - kept :])


def _decode(field: str) -> str:
    """The text again; of a cut one what is left of it, and its digest to keep it apart from others.

    Raises:
        ValueError: ``_encode`` never made this.
    """
    cut = _CUT.fullmatch(field)
    if cut is not None:
        return f"…{_decode(cut[2])} ({cut[1]})"
    plain = re.sub(rb"=([0-9A-F]{2})", lambda code: bytes.fromhex(code[1].decode()), field.encode())
    if b"=" in re.sub(rb"=[0-9A-F]{2}", b"", field.encode()):
        raise ValueError(field)
    return plain.decode("utf-8", "surrogatepass")


class Names:
    """The ids of one run and the true names behind its messages.

    Marks may arrive from any thread and at any moment, also while another one is being named, so
    there is no lock: every change is one atomic operation on a dictionary.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[Kind, str], str] = {}
        self._numbers = {kind: itertools.count(1) for kind in Kind}
        self._marks: dict[str, Mark] = {}

    def message(self, mark: Mark) -> str:
        """The message of a mark: at most 120 letters, digits or ``_.|-=``."""
        head = self._id(mark)
        if mark.phase:
            head += f"|p={_encode(mark.phase, _LONGEST_PHASE)}"
        if mark.recompute:
            head += "|r=1"
        message = f"{head}|{_encode(mark.name, LONGEST - len(head) - 1)}"
        self._marks.setdefault(message, mark)
        return message

    def _id(self, mark: Mark) -> str:
        key = (mark.kind, mark.name)
        known = self._ids.get(key)
        if known is not None:
            return known
        return self._ids.setdefault(key, f"{LETTERS[mark.kind]}{next(self._numbers[mark.kind])}")

    def mark(self, message: str) -> Mark | None:
        """What a message of this run stands for."""
        return self._marks.get(message)

    def table(self) -> dict[str, dict[str, Any]]:
        """``message → {id, kind, name, phase, recompute}``, plain JSON values, by first use."""
        return {
            message: {
                "id": message.partition("|")[0],
                "kind": str(mark.kind),
                "name": mark.name,
                "phase": mark.phase,
                "recompute": mark.recompute,
            }
            for message, mark in list(self._marks.items())
        }


_names = Names()


def names() -> dict[str, dict[str, Any]]:
    """The true names behind every message that this process emitted, for ``run.json``.

    Returns:
        ``message → {id, kind, name, phase, recompute}``.
    """
    return _names.table()


def parse(message: str, names: Mapping[str, Mapping[str, Any]] | None = None) -> Mark | None:
    """What a range of the domain ``hroof`` stands for.

    Args:
        message: The name of the range, as a tool reports it.
        names: The table of the run that emitted it, as ``names()`` gave it; by default this
            process's own.

    Returns:
        The mark; None for a message that is not hroof's. The name of a cut message that no table
        knows ends in a digest: never the true name, but the same for one layer in every process.

    Raises:
        ProfileError: The table has no proper entry for the message.
    """
    known = _names.mark(message) if names is None else _entry(message, names)
    return known or _read(message)


def _entry(message: str, names: Mapping[str, Mapping[str, Any]]) -> Mark | None:
    if message not in names:
        return None
    try:
        entry = names[message]
        return Mark(
            Kind(entry["kind"]), str(entry["name"]), str(entry["phase"]), bool(entry["recompute"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProfileError(
            f"The table of names has a damaged entry for {message!r}: {error!r}.",
            "Collect the run again, or take the entry out: the message then speaks for itself.",
        ) from error


def _read(message: str) -> Mark | None:
    fields = _MESSAGE.fullmatch(message)
    if fields is None:
        return None
    kind = next(kind for kind, letter in LETTERS.items() if letter == fields["letter"])
    try:
        return Mark(
            kind, _decode(fields["name"]), _decode(fields["phase"] or ""), bool(fields["recompute"])
        )
    except ValueError:
        return None


# --- ranges -------------------------------------------------------------------------------------


def active() -> bool:
    """Whether a tool listens to NVTX in this process.

    NVTX looks for a tool once, at the first NVTX call of the process; to set the variable later
    has no effect.
    """
    if os.environ.get("NVTX_DISABLE"):
        return False
    path = os.environ.get(INJECTION)
    if path is not None:
        return path not in _NO_INJECTION
    try:
        return _find_domain() is not None
    except Exception:  # without the package, or with a broken one, nobody can listen
        return False


def _find_domain() -> Any:
    """The domain of the nvtx package, or None when no tool listens.

    Raises:
        Exception: The package is missing, broken or too old.
    """
    import nvtx

    if not nvtx.enabled():  # NVTX_DISABLE switches off the package's functions, but not its domains
        return None
    domain = nvtx.get_domain(DOMAIN)
    if not hasattr(domain, "push_range"):
        raise ImportError("nvtx is older than 0.2.13")
    return domain if isinstance(domain, nvtx.Domain) else None


class _Open(threading.local):
    """The layers that are open on a thread: for each, whether it was emitted."""

    def __init__(self) -> None:
        self.emitted: list[bool] = []


class NvtxListener:
    """Turns marks into NVTX ranges; a ``Listener``.

    It never raises. Where nvtx is missing or fails it falls silent, and says so once per process;
    ranges that are open then are still ended.

    Args:
        domain: What to emit to; by default the domain ``hroof`` of nvtx, 0.2.13 or newer.
        names: Where ids and true names are kept; by default the table of this process.
    """

    def __init__(self, domain: Any = None, names: Names | None = None) -> None:
        self._names = _names if names is None else names
        self._attributes: dict[Mark, Any] = {}
        self._open = _Open()
        self._silent = False
        self._domain = domain
        if domain is None:
            self._attach()

    def _attach(self) -> None:
        try:
            self._domain = _find_domain()
        except Exception as error:
            self._fail(error)

    def start(self, mark: Mark) -> Any:
        """Begin a process-wide range; what NVTX returns is kept for ``end`` and never judged."""
        if self._domain is None or self._silent:
            return None
        try:
            return (self._domain.start_range(self._attributes_of(mark)),)
        except Exception as error:
            self._fail(error)
            return None

    def end(self, handle: Any) -> None:
        """End a process-wide range, on whichever thread."""
        if handle is None:
            return
        try:
            self._domain.end_range(handle[0])
        except Exception as error:
            self._fail(error)

    def push(self, mark: Mark) -> None:
        """Begin a layer on this thread."""
        if self._domain is None:
            return
        emitted = False
        if not self._silent:
            try:
                self._domain.push_range(self._attributes_of(mark))
                emitted = True
            except Exception as error:
                self._fail(error)
        self._open.emitted.append(emitted)

    def pop(self) -> None:
        """End the innermost layer of this thread; nothing when this listener began none here."""
        emitted = self._open.emitted
        if not emitted or not emitted.pop():
            return
        try:
            self._domain.pop_range()
        except Exception as error:
            self._fail(error)

    def names(self) -> dict[str, dict[str, Any]]:
        """The true names behind its messages, as ``names()`` of this module."""
        return self._names.table()

    def _attributes_of(self, mark: Mark) -> Any:
        try:
            return self._attributes[mark]
        except KeyError:
            attributes = self._domain.get_event_attributes(message=self._names.message(mark))
            return self._attributes.setdefault(mark, attributes)

    def _fail(self, error: Exception) -> None:
        self._silent = True
        missing = isinstance(error, ImportError)
        remedy = "Run: pip install 'nvtx>=0.2.13'." if missing else "The program itself goes on."
        _warn_once(f"No NVTX ranges from here on: {type(error).__name__}: {error}. {remedy}")


_warnings_left = [1]


def _warn_once(text: str) -> None:
    """Warn, once in this process and without raising even where warnings are errors."""
    try:
        _warnings_left.pop()
    except IndexError:
        return
    try:
        warnings.warn(text, HroofWarning, stacklevel=4)
    except Exception:
        _log.warning(text)


@functools.cache
def shared_listener() -> NvtxListener:
    """The one listener of this process, made at the first call."""
    return NvtxListener()
